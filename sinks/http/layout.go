package http

import (
	"fmt"
	"net/textproto"
	"net/url"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"
)

// layout says where the parts of a request come from.
type layout struct {
	url, method *expr.Template
	// escape is how the value of each expression of url is written.
	escape    []func(string) string
	headers   []header
	body, key *expr.Expr // nil: there is none
}

type header struct {
	name string
	expr *expr.Expr
}

func newLayout(in dataflow.Stream, cfg Config) (*layout, component.Problems) {
	l := &layout{}
	var out component.Problems
	compile := func(path, text string) *expr.Expr {
		if text == "" {
			return nil
		}
		e, err := expr.Compile(text, in.Schema)
		if err != nil {
			out = append(out, expr.Problem(path, err))
		}
		return e
	}
	var problems component.Problems
	if l.url, problems = expr.ParseTemplate("url", cfg.URL, in.Schema); problems == nil {
		problems = l.escapes()
	}
	out = append(out, problems...)
	if l.method, problems = expr.ParseTemplate("method", cfg.Method, in.Schema); problems == nil {
		if name, ok := l.method.Constant(); ok && !methods[name] {
			problems = component.Problems{{Path: "method", Msg: fmt.Sprintf("%q: expected POST, PUT, PATCH or DELETE", name)}}
		}
	}
	out = append(out, problems...)
	for _, h := range cfg.Headers {
		l.headers = append(l.headers, header{textproto.CanonicalMIMEHeaderKey(h.Name), compile("headers."+h.Name, h.Expr)})
	}
	l.body, l.key = compile("body", cfg.Body), compile("key", cfg.Key)
	return l, out
}

var methods = map[string]bool{"POST": true, "PUT": true, "PATCH": true, "DELETE": true}

// escapes decides how the values in the URL are written, and checks what is known of it.
func (l *layout) escapes() component.Problems {
	problem := func(format string, args ...any) component.Problems {
		return component.Problems{{Path: "url", Msg: fmt.Sprintf(format, args...)}}
	}
	if text, ok := l.url.Constant(); ok {
		if err := checkURL(text); err != nil {
			return problem("%v", err)
		}
		return nil
	}
	before := ""
	for i, text := range l.url.Texts[:len(l.url.Exprs)] {
		before += text
		_, rest, _ := strings.Cut(before, "://")
		switch {
		case i == 0 && text == "":
			before = "http://x/" // Whatever it is, what follows stands in its path or query.
			l.escape = append(l.escape, func(s string) string { return s })
		case strings.Contains(before, "?"):
			l.escape = append(l.escape, url.QueryEscape)
		case strings.Contains(rest, "/"):
			l.escape = append(l.escape, url.PathEscape)
		default:
			return problem("a value may stand in the path and the query, or be the whole beginning: a row must not change a part of the server's name")
		}
	}
	if first := l.url.Texts[0]; first != "" {
		if err := checkURL(first); err != nil {
			return problem("%v", err)
		}
	}
	return nil
}

// checkURL says what is wrong with a URL.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return fmt.Errorf("this is no URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("URL %q: expected http:// or https://", text)
	case u.Host == "":
		return fmt.Errorf("URL %q names no server", text)
	case u.User != nil:
		return fmt.Errorf("a URL must not hold a password: use basic")
	}
	return nil
}
