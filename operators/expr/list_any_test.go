package expr

import (
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestAComparisonWithAListThatFails: the comparison fails its row, unless one before it has
// decided. More comparisons fail than there are rows.
func TestAComparisonWithAListThatFails(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "s", Type: dataflow.TypeString}, {Name: "patterns", Type: arrow.ListOf(dataflow.TypeString)},
	}, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(`[
		{"s": "ab", "patterns": ["x%", "a\\"]},
		{"s": "ab", "patterns": ["a%", "a\\"]},
		{"s": "ab", "patterns": ["x", "y", "z"]},
		{"s": "ab", "patterns": `+"[\"ab\""+strings.Repeat(`, "a\\"`, 100)+`]},
		{"s": "ab", "patterns": [null, "a\\"]},
		{"s": "ab", "patterns": []}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	for text, want := range map[string]string{
		"s like any(patterns)":     "[bad true false true bad false]",
		"s not like all(patterns)": "[bad false true false bad true]",
	} {
		e, err := Compile(text, schema)
		if err != nil {
			t.Fatal(err)
		}
		ev := e.NewEvaluator(memory.DefaultAllocator)
		for range 2 { // the memory of the first run is there in the second
			a, errs, err := ev.Eval(batch)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range a.Len() {
				got = append(got, string(AppendText(nil, a, i)))
			}
			a.Release()
			for _, e := range errs {
				got[e.Row] = "bad"
				if e.Bad.Reason != badArgument || !strings.HasSuffix(e.Bad.Detail, "the pattern must not end with the escape character") {
					t.Errorf("%s: row %d: %+v", text, e.Row, e.Bad)
				}
			}
			if s := fmt.Sprint(got); s != want {
				t.Errorf("%s: got %s, want %s", text, s, want)
			}
		}
	}
}

func TestNotLikeOfAList(t *testing.T) {
	for text, want := range map[string]string{
		"'a' not like any(array['a', 'b'])":  "true",
		"'a' not like all(array['a', 'b'])":  "false",
		"'a' not ilike all(array['B', 'c'])": "true",
		"'a' not ilike any(array['A'])":      "false",
		"'ab' ~ any(array['x', '^a'])":       "true",
		"'ab' !~ all(array['x', '^a'])":      "false",
		"not 'a' like any(array['a', 'b'])":  "false",
	} {
		e, err := Compile(text, arrow.NewSchema(nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Compile(e.String(), arrow.NewSchema(nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []*Expr{e, again} {
			if got := fmt.Sprint(e.root.konst.bits.get(0)); got != want {
				t.Errorf("%s: got %s, want %s", e, got, want)
			}
		}
	}
}
