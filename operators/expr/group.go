package expr

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Group evaluates several expressions over one batch after the other. One goroutine
// uses it.
type Group struct {
	alloc memory.Allocator
	evs   []*Evaluator
	made  []arrow.Array
	bad   map[int]*dataflow.Bad
}

// NewGroup makes one without expressions.
func NewGroup(alloc memory.Allocator) *Group {
	return &Group{alloc: alloc, bad: map[int]*dataflow.Bad{}}
}

// Add adds an expression, nil for none, and returns its number.
func (g *Group) Add(e *Expr) int {
	var ev *Evaluator
	if e != nil {
		ev = e.NewEvaluator(g.alloc)
	}
	g.evs = append(g.evs, ev)
	return len(g.evs) - 1
}

// AddAll adds expressions and returns the number of the first.
func (g *Group) AddAll(es []*Expr) int {
	first := len(g.evs)
	for _, e := range es {
		g.Add(e)
	}
	return first
}

// Eval evaluates all over b. Call Done when the values are used.
func (g *Group) Eval(b arrow.RecordBatch) error {
	clear(g.bad)
	for _, ev := range g.evs {
		if ev == nil {
			g.made = append(g.made, nil)
			continue
		}
		a, errs, err := ev.Eval(b)
		if err != nil {
			return err
		}
		g.made = append(g.made, a)
		for _, e := range errs {
			if g.bad[e.Row] == nil {
				g.bad[e.Row] = &dataflow.Bad{Reason: e.Bad.Reason, Detail: e.Bad.Detail}
			}
		}
	}
	return nil
}

// Values are those of expression n, nil for none; they are the group's.
func (g *Group) Values(n int) arrow.Array { return g.made[n] }

// From are the values of expression n and all behind it; they are the group's.
func (g *Group) From(n int) []arrow.Array { return g.made[n:] }

// Bad is the first failure of a row; nil: there is none.
func (g *Group) Bad(row int) *dataflow.Bad { return g.bad[row] }

// Done releases the values.
func (g *Group) Done() {
	for _, a := range g.made {
		if a != nil {
			a.Release()
		}
	}
	g.made = g.made[:0]
}
