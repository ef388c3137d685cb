package component

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Values says what stands behind ${...} in a file.
type Values struct {
	// Lookup gives the value of a variable.
	Lookup func(name string) (string, bool)
	// Unset gives a value for a variable that is not set and has no default, by the
	// path where it stands; nil, or false: that is a problem.
	Unset func(path, name string) (string, bool)
	// Secret gives the secret ${kind:name}, where kind is env or file; nil: it is
	// looked up and read.
	Secret func(kind, name string) (string, error)
}

// source is what all nodes of one file share.
type source struct {
	file  string
	dir   string
	vals  Values
	nodes int
	// at is the path of the scalar that is expanded.
	at string
}

var varName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expansion is the outcome of expanding one scalar.
type expansion struct {
	text    string
	changed bool // a variable or an escape was replaced
	secrets bool // secrets are left in place as written
	err     error
}

// expand replaces ${NAME} and ${NAME:-default} in text, and $${ by ${. The
// value of a variable is never looked at again. Secrets stay as written unless
// secret is given.
func (s *source) expand(text string, secret func(kind, name string) (string, error)) expansion {
	var out strings.Builder
	x := expansion{}
	rest := text
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			out.WriteString(rest)
			x.text = out.String()
			return x
		}
		if i > 0 && rest[i-1] == '$' {
			out.WriteString(rest[:i-1] + "${")
			rest, x.changed = rest[i+2:], true
			continue
		}
		out.WriteString(rest[:i])
		body, after, ok := strings.Cut(rest[i+2:], "}")
		if !ok {
			x.err = fmt.Errorf("%q is not closed: write ${NAME}, or $${ for the characters themselves", rest[i:])
			return x
		}
		rest, x.changed = after, true
		val, isSecret, err := s.variable(body, secret)
		if err != nil {
			x.err = err
			return x
		}
		if isSecret && secret == nil {
			x.secrets = true
			val = "${" + body + "}"
		}
		out.WriteString(val)
	}
}

func (s *source) variable(body string, secret func(kind, name string) (string, error)) (val string, isSecret bool, err error) {
	for _, kind := range []string{"env", "file"} {
		if name, ok := strings.CutPrefix(body, kind+":"); ok {
			if secret == nil {
				return "", true, nil
			}
			val, err = secret(kind, name)
			return val, true, err
		}
	}
	name, def, hasDefault := strings.Cut(body, ":-")
	if !varName.MatchString(name) {
		return "", false, fmt.Errorf("${%s}: expected ${NAME} or ${NAME:-default}, or $${ for the characters themselves", body)
	}
	if s.vals.Lookup != nil {
		if v, ok := s.vals.Lookup(name); ok && (v != "" || !hasDefault) {
			return v, false, nil
		}
	}
	if hasDefault {
		return def, false, nil
	}
	if s.vals.Unset != nil {
		if v, ok := s.vals.Unset(s.at, name); ok {
			return v, false, nil
		}
	}
	return "", false, fmt.Errorf("variable %s is not set: set it, or write ${%s:-default}", name, name)
}

// secret reads a secret. Its value never stands in an error.
func (s *source) secret(kind, name string) (string, error) {
	if s.vals.Secret != nil {
		return s.vals.Secret(kind, name)
	}
	if kind == "env" {
		if s.vals.Lookup != nil {
			if v, ok := s.vals.Lookup(name); ok {
				return v, nil
			}
		}
		return "", fmt.Errorf("variable %s of the secret ${env:%s} is not set", name, name)
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("file of the secret ${file:%s}: %w", name, err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
