package kafka

import (
	"fmt"
	"strings"

	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// template is a text with expressions in it.
type template struct {
	// texts stand before the expressions of the same index; the last one behind all.
	texts []string
	exprs []*expr.Expr
}

// parseTemplate reads text, in which {EXPRESSION} stands for a value. {{ and }} are
// braces.
func parseTemplate(path, text string, schema *arrow.Schema) (template, component.Problems) {
	var t template
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			plain.WriteByte(c)
			i++
		case c == '}':
			return t, problem(path, i, "a } that closes nothing: write }} for the character")
		case c == '{':
			end := closing(text[i+1:])
			if end < 0 {
				return t, problem(path, i, "the expression that begins here is not closed by }: write {{ for the character")
			}
			e, err := expr.Compile(text[i+1:i+1+end], schema)
			if err != nil {
				p := expr.Problem(path, err)
				p.Offset += i + 1
				return t, component.Problems{p}
			}
			t.texts = append(t.texts, plain.String())
			t.exprs = append(t.exprs, e)
			plain.Reset()
			i += end + 1
		default:
			plain.WriteByte(c)
		}
	}
	t.texts = append(t.texts, plain.String())
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

// constant is the text of a template without expressions.
func (t template) constant() (string, bool) { return t.texts[0], len(t.exprs) == 0 }

func problem(path string, at int, format string, args ...any) component.Problems {
	return component.Problems{{Path: path, Offset: at, Msg: fmt.Sprintf(format, args...)}}
}
