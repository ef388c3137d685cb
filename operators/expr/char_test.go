package expr

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestCharIgnoresTheBlanksAtItsEnd has PostgreSQL's answers.
func TestCharIgnoresTheBlanksAtItsEnd(t *testing.T) {
	b := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1)
	defer b.Release()
	for text, want := range map[string]string{
		"'ab'::char(4) = 'ab  '": "true", "'ab  '::text = 'ab'::char(4)": "false", "'ab'::char(4) in ('ab   ', 'c')": "true",
		"'abc'::char(2) || '|'": "ab|", "length('ab'::char(4))": "2", "'abc'::char": "a", "char 'ab'": "ab", "'ab '::bpchar = 'ab'": "true",
		"case 'ab'::char(4) when 'ab ' then 1 else 2 end": "1", "coalesce('ab'::char(4), 'y  ') || '|'": "ab|", "'abc'::char varying(2)": "ab",
		"nullif('ab'::char(4), 'ab  ')": "null", "'ab'::char(4) is distinct from 'ab '": "false",
	} {
		e, err := Compile(text, b.Schema())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		a, _, err := e.NewEvaluator(memory.DefaultAllocator).Eval(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := oracleText(a, e.root.typ); got != want {
			t.Errorf("%s is %s, expected %s", text, got, want)
		}
		a.Release()
	}
}
