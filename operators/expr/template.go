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
	texts, parts, bad := splitTemplate(text)
	if bad != nil {
		bad.Path = path
		return nil, component.Problems{*bad}
	}
	t := &Template{Texts: texts}
	for _, part := range parts {
		e, err := Compile(part.text, schema)
		if err != nil {
			p := Problem(path, err)
			p.Offset += part.at
			return nil, component.Problems{p}
		}
		t.Exprs = append(t.Exprs, e)
	}
	return t, nil
}

// TemplateTexts are the texts before, between and behind the expressions of a template,
// one more than it has expressions; nil if it is none.
func TemplateTexts(text string) []string {
	texts, _, bad := splitTemplate(text)
	if bad != nil {
		return nil
	}
	return texts
}

// templatePart is an expression of a template and where it begins there.
type templatePart struct {
	text string
	at   int
}

func splitTemplate(text string) (texts []string, parts []templatePart, bad *component.Problem) {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			plain.WriteByte(c)
			i++
		case c == '}':
			return nil, nil, &component.Problem{Offset: i, Msg: "a } that closes nothing: write }} for the character"}
		case c == '{':
			end := closing(text[i+1:])
			if end < 0 {
				return nil, nil, &component.Problem{Offset: i, Msg: "the expression that begins here is not closed by }: write {{ for the character"}
			}
			texts = append(texts, plain.String())
			parts = append(parts, templatePart{text[i+1 : i+1+end], i + 1})
			plain.Reset()
			i += end + 1
		default:
			plain.WriteByte(c)
		}
	}
	return append(texts, plain.String()), parts, nil
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

// Constant is the text of a template without expressions.
func (t *Template) Constant() (text string, ok bool) { return t.Texts[0], len(t.Exprs) == 0 }
