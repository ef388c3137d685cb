package expr

import (
	"fmt"

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

// Rows evaluates all over b and calls row for each of its rows, with its first failure
// (nil: there is none). Those for which it gives a reason are returned by refused.
func (g *Group) Rows(b arrow.RecordBatch, refused *dataflow.BadRows, row func(i int, failed *dataflow.Bad) (*dataflow.Bad, error)) (arrow.RecordBatch, error) {
	defer g.Done()
	if err := g.Eval(b); err != nil {
		return nil, err
	}
	for i := range int(b.NumRows()) {
		bad, err := row(i, g.Bad(i))
		if err != nil {
			return nil, err
		}
		if bad != nil {
			refused.AddRow(bad, b, i)
		}
	}
	return refused.Flush(), nil
}

// Values are those of expression n, nil for none; they are the group's.
func (g *Group) Values(n int) arrow.Array { return g.made[n] }

// From are the values of expression n and all behind it; they are the group's.
func (g *Group) From(n int) []arrow.Array { return g.made[n:] }

// AppendTemplate appends t's text of a row to dst, which is called what; first is the
// number of t's first expression. A value that is null is a reason why there is none.
// escape, if there is any, is what becomes of the value of each expression.
func (g *Group) AppendTemplate(dst []byte, what string, t *Template, first, row int, escape []func(string) string) ([]byte, *dataflow.Bad) {
	dst = append(dst, t.Texts[0]...)
	for j := range t.Exprs {
		a := g.Values(first + j)
		if a.IsNull(row) {
			return dst, &dataflow.Bad{Reason: "invalid_" + what, Detail: fmt.Sprintf("%s is null, and the %s is made of it", t.Exprs[j], what)}
		}
		from := len(dst)
		dst = dataflow.AppendPlain(dst, a, row)
		if escape != nil {
			dst = append(dst[:from], escape[j](string(dst[from:]))...)
		}
		dst = append(dst, t.Texts[j+1]...)
	}
	return dst, nil
}

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
