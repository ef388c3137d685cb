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

// TestEqualPartsAreComputedOnce counts how often parts that occur twice are computed,
// and looks that only rows fail that ask for them.
func TestEqualPartsAreComputedOnce(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: dataflow.TypeInt32, Nullable: true}, {Name: "s", Type: dataflow.TypeString}, {Name: "b", Type: dataflow.TypeBool},
	}, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(
		`[{"i": 0, "s": "x1", "b": true}, {"i": 2, "s": "12", "b": true}, {"i": 0, "s": "y", "b": false}, {"i": 4, "s": "34", "b": false}, {"i": null, "s": "5", "b": true}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	for _, c := range []struct {
		expr           string
		common, counts int // parts that are common, and how often one is computed
		values, bad    string
	}{
		{"upper(s) || upper(s)", 1, 1, `["X1X1" "1212" "YY" "3434" "55"]`, ""},
		{"(i + 1) * (i + 1) + (i+1)", 1, 1, "[2 12 2 30 (null)]", ""},
		{"case when upper(s) = 'Y' then 'y' else upper(s) end", 1, 1, `["X1" "12" "y" "34" "5"]`, ""},
		// Each branch asks for its own rows: computed again, for both.
		{"case when b then s::int else s::int + 1 end", 1, 2, "[(null) 12 (null) 35 5]", "0 2"},
		{"case when b then 8 / i when i > 0 then 8 / i else 7 end", 1, 2, "[(null) 4 7 2 (null)]", "0"},
		{"i > 0 and 8 / i > 2 or b and 8 / i > 3", 1, 2, "[(null) true false false (null)]", "0"},
		{"coalesce(8 / nullif(i, 0), 0) + coalesce(8 / nullif(i, 0), 1)", 1, 1, "[1 8 1 4 1]", ""},
	} {
		e, err := Compile(c.expr, schema)
		if err != nil {
			t.Fatal(err)
		}
		common, counts := 0, 0
		seen := map[*node]bool{}
		var visit func(n *node)
		visit = func(n *node) {
			if seen[n] {
				return
			}
			seen[n] = true
			if once := n.once; once != nil {
				common++
				n.once = func(ev *Evaluator, n *node, sel bitset) *vec {
					counts++
					return once(ev, n, sel)
				}
			}
			for _, a := range n.args {
				visit(a)
			}
		}
		visit(e.root)
		ev := e.NewEvaluator(memory.DefaultAllocator)
		for range 2 {
			counts = 0
			a, bad, err := ev.Eval(batch)
			if err != nil {
				t.Fatal(err)
			}
			var rows []string
			for _, r := range bad {
				rows = append(rows, fmt.Sprint(r.Row))
			}
			if got := a.String(); got != c.values || strings.Join(rows, " ") != c.bad {
				t.Errorf("%s: got %s, failed rows %v, want %s, failed rows %s", c.expr, got, rows, c.values, c.bad)
			}
			if common < c.common || counts != c.counts*common {
				t.Errorf("%s: %d common parts computed %d times, want %d, each %d times", c.expr, common, counts, c.common, c.counts)
			}
			a.Release()
		}
	}
}
