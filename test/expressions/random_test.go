package expressions

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/rig"
	"frazil/operators/expr/exprtest"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	// expressions of a portion, each on up to rowsEach of manyRows.
	expressions = 5000
	rowsEach    = 6
	manyRows    = 200
)

// TestRandomExpressions: random expressions on random rows give PostgreSQL's values,
// types and failures, or differ as rules say.
func TestRandomExpressions(t *testing.T) {
	url := rig.Postgres(t)
	full.Suite{Name: "expressions", Total: 200, Short: 4}.Run(t, func(t *testing.T, portion int) full.Figures {
		return randomExpressions(t, url, portion)
	})
}

func randomExpressions(t *testing.T, url string, portion int) full.Figures {
	rng := rand.New(rand.NewPCG(uint64(portion), 8))
	rows := exprtest.NewRows(rng, manyRows)
	batch, err := rows.Batch(memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	s := sides{newServer(t, url, rows), here{batch}, rows}
	g := exprtest.NewGenerator(rng, rows)
	trees, qs := make([]*exprtest.Tree, expressions), make([]question, expressions)
	for i := range trees {
		trees[i] = g.Any(1 + rng.IntN(4))
		lo := rng.IntN(manyRows - rowsEach)
		qs[i] = question{trees[i].String(), lo, lo + 1 + rng.IntN(rowsEach)}
	}
	theirs, ours, err := s.ask(t.Context(), qs)
	if err != nil {
		t.Fatal(err)
	}
	f := full.Figures{"expressions": expressions}
	var odds []*odd
	for i, q := range qs {
		for k := range theirs[i].rows {
			a, b := theirs[i].rows[k], ours[i].rows[k]
			f["pairs"]++
			if a.reason != "" {
				f["failures"]++
			}
			if b.null {
				f["nulls"]++
			}
			if !sameType(theirs[i], ours[i]) || !sameAnswer(a, b) || b.reason == "panic" {
				odds = append(odds, &odd{original: trees[i], tree: trees[i], row: q.lo + k, theirs: a, ours: b})
			}
		}
	}
	if err := s.explain(t.Context(), odds); err != nil {
		t.Fatal(err)
	}
	report(t, odds, f)
	return f
}

// report counts what was explained and fails for what was not, once per kind.
func report(t *testing.T, odds []*odd, f full.Figures) {
	rules, faults := map[string]int64{}, map[string]int{}
	var texts []string
	for _, o := range odds {
		if o.fault != "" {
			if faults[o.kind]++; faults[o.kind] <= 3 {
				texts = append(texts, o.fault)
			}
			continue
		}
		f["on_purpose"]++
		for _, r := range o.rules {
			rules[r]++
		}
	}
	var counts []string
	for r, n := range rules {
		counts = append(counts, fmt.Sprintf("%6d  %s", n, r))
	}
	sort.Strings(counts)
	t.Logf("%d pairs, %d failing, %d null, %d different on purpose:\n%s", f["pairs"], f["failures"], f["nulls"], f["on_purpose"], strings.Join(counts, "\n"))
	for kind, n := range faults {
		t.Logf("%d faults of the kind %s", n, kind)
	}
	for i, text := range texts {
		if i == 100 {
			t.Errorf("and %d more", len(texts)-i)
			break
		}
		t.Error(text)
	}
}
