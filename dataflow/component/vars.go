package component

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// source is what all nodes of one file share.
type source struct {
	file   string
	dir    string
	lookup func(string) (string, bool)
	nodes  int
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
	if s.lookup != nil {
		if v, ok := s.lookup(name); ok && (v != "" || !hasDefault) {
			return v, false, nil
		}
	}
	if hasDefault {
		return def, false, nil
	}
	return "", false, fmt.Errorf("variable %s is not set: set it, or write ${%s:-default}", name, name)
}

// secret reads a secret. Its value never stands in an error.
func (s *source) secret(kind, name string) (string, error) {
	if kind == "env" {
		if s.lookup != nil {
			if v, ok := s.lookup(name); ok {
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
