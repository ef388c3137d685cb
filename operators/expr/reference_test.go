package expr

import (
	"slices"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// undescribed are names that have no description yet. The list only shrinks.
var undescribed = []string{}

func TestEveryFunctionIsDescribed(t *testing.T) {
	described := map[string]bool{}
	for _, d := range descriptions {
		described[d.name] = true
		if d.syntax == "" && len(functions[d.name]) == 0 {
			t.Errorf("%s is described, but not registered", d.name)
		}
	}
	var names []string
	for n := range functions {
		names = append(names, n)
	}
	for n := range specialForms {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if known := slices.Contains(undescribed, n); described[n] == known {
			t.Errorf("%s: described %t, in the list of undescribed names %t", n, described[n], known)
		}
	}
}

func TestExamplesOfFunctions(t *testing.T) {
	b := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1)
	defer b.Release()
	for _, f := range Functions() {
		if len(f.Signatures) == 0 {
			t.Errorf("%s has no signature", f.Name)
		}
		for _, ex := range f.Examples {
			e, err := Compile(ex.Expr, b.Schema())
			if err != nil {
				t.Errorf("%s: %s: %v", f.Name, ex.Expr, err)
				continue
			}
			a, errs, err := e.NewEvaluator(memory.DefaultAllocator).Eval(b)
			if err != nil || len(errs) > 0 {
				t.Errorf("%s: %s: %v %v", f.Name, ex.Expr, errs, err)
				continue
			}
			if got := oracleText(a, e.root.typ); got != ex.Value {
				t.Errorf("%s: %s is %s, described as %s", f.Name, ex.Expr, got, ex.Value)
			}
			a.Release()
		}
	}
}
