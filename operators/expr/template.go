package expr

import (
	"strings"

	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Template is a text with expressions in it.
type Template struct {
	// Texts stand before the expressions of the same index; the last one behind all.
	Texts []string
	Exprs []*Expr
}

// ParseTemplate reads text, in which {EXPRESSION} stands for a value. {{ and }} are
// braces. Problems are of the text at path.
func ParseTemplate(path, text string, schema *arrow.Schema) (*Template, component.Problems) {
	t := &Template{}
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			plain.WriteByte(c)
			i++
		case c == '}':
			return nil, templateProblem(path, i, "a } that closes nothing: write }} for the character")
		case c == '{':
			end := closing(text[i+1:])
			if end < 0 {
				return nil, templateProblem(path, i, "the expression that begins here is not closed by }: write {{ for the character")
			}
			e, err := Compile(text[i+1:i+1+end], schema)
			if err != nil {
				p := Problem(path, err)
				p.Offset += i + 1
				return nil, component.Problems{p}
			}
			t.Texts = append(t.Texts, plain.String())
			t.Exprs = append(t.Exprs, e)
			plain.Reset()
			i += end + 1
		default:
			plain.WriteByte(c)
		}
	}
	t.Texts = append(t.Texts, plain.String())
	return t, nil
}

// closing finds the brace that closes an expression; those in quotes are text.
func closing(s string) int {
	var quote byte
	for i := range len(s) {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '}':
			return i
		}
	}
	return -1
}

func templateProblem(path string, at int, msg string) component.Problems {
	return component.Problems{{Path: path, Offset: at, Msg: msg}}
}

// Constant is the text of a template without expressions.
func (t *Template) Constant() (text string, ok bool) { return t.Texts[0], len(t.Exprs) == 0 }
