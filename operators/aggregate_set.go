package operators

import (
	"fmt"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// aggregateSet is the aggregates of a step, checked against its input: what both
// halves and the plan of every step that aggregates have in common. It is not
// changed once made.
type aggregateSet struct {
	schema *arrow.Schema // of the input
	aggs   []stepAggregate
	// exprs are the different expressions of aggs.
	exprs []*expr.Expr
	funcs []aggregateFunc
	// distinct are the expressions of aggregates with distinct.
	distinct []distinctArg
	// results are the result columns, in the order of aggs.
	results []arrow.Field
}

// stepAggregate is one result column; arg and filter are indexes into exprs, -1
// without one.
type stepAggregate struct {
	name        string
	text        string // canonical, for the fingerprint
	arg, filter int
	order       []orderTerm
	distinct    bool
}

// newAggregateSet compiles aggs over input. Paths of problems start with
// "aggregate". A step that takes distinct aggregates keeps their values (see
// distinct.go).
func newAggregateSet(input *arrow.Schema, aggs component.NamedExprs) (*aggregateSet, component.Problems) {
	s := &aggregateSet{schema: input}
	var problems component.Problems
	if len(aggs) == 0 {
		problems = append(problems, component.Problem{Path: "aggregate", Msg: "expected at least one aggregate, as {n: count(*)}"})
	}
	for _, a := range aggs {
		if p := s.add(a); p != nil {
			p.Path = "aggregate." + a.Name
			problems = append(problems, *p)
		}
	}
	return s, problems
}

func (s *aggregateSet) add(a component.NamedExpr) *component.Problem {
	parsed, err := expr.ParseAggregate(a.Expr, s.schema)
	if err != nil {
		p := expr.Problem("", err)
		return &p
	}
	w := stepAggregate{name: a.Name, arg: s.share(parsed.Arg), filter: s.share(parsed.Filter)}
	fn, err := newAggregateFunc(parsed)
	if err != nil {
		return &component.Problem{Msg: err.Error()}
	}
	for _, o := range parsed.Order {
		w.order = append(w.order, orderTerm{arg: s.share(o.By), order: o})
	}
	w.text = aggregateText(parsed)
	w.distinct = distinctMatters(parsed)
	s.aggs = append(s.aggs, w)
	s.funcs = append(s.funcs, fn)
	if w.distinct {
		if err := s.addDistinct(len(s.aggs)-1, w.arg); err != nil {
			return &component.Problem{Msg: err.Error()}
		}
	}
	// Aggregates of no value are null, but a count never is.
	isCount := parsed.Func == "count" || parsed.Func == "approx_count_distinct"
	s.results = append(s.results, arrow.Field{Name: a.Name, Type: parsed.Type, Nullable: !isCount})
	return nil
}

// aggregateText writes a so that equal texts mean equal accumulators.
func aggregateText(a *expr.Aggregate) string {
	var b strings.Builder
	b.WriteString(a.Func + "(")
	if distinctMatters(a) {
		b.WriteString("distinct ")
	}
	if a.Star {
		b.WriteString("*")
	} else {
		b.WriteString(a.Arg.String() + " " + dataflow.TypeName(a.Arg.Type()))
	}
	for i, o := range a.Order {
		if i == 0 {
			b.WriteString(" order by")
		}
		fmt.Fprintf(&b, " %s %s%s,", o.By, dataflow.TypeName(o.By.Type()), o.Suffix())
	}
	switch a.Func {
	case "string_agg":
		fmt.Fprintf(&b, " separator %q", a.Separator)
	case "percentile_cont", "percentile_disc", "mode", "approx_percentile":
		fmt.Fprintf(&b, " %v%s", a.Quantile, expr.Order{Desc: a.Desc, NullsFirst: a.Desc}.Suffix())
	}
	b.WriteString(")")
	if a.Filter != nil {
		b.WriteString(" filter " + a.Filter.String())
	}
	return b.String()
}

// share returns the index of e in exprs, -1 for nil.
func (s *aggregateSet) share(e *expr.Expr) int {
	if e == nil {
		return -1
	}
	for i, have := range s.exprs {
		if have.String() == e.String() && arrow.TypeEqual(have.Type(), e.Type()) {
			return i
		}
	}
	s.exprs = append(s.exprs, e)
	return len(s.exprs) - 1
}

// fingerprint covers what the accumulators' bytes mean: not the names of
// results.
func (s *aggregateSet) fingerprint() string {
	var b strings.Builder
	b.WriteString(" aggregate")
	for _, a := range s.aggs {
		fmt.Fprintf(&b, " %s;", a.text)
	}
	return b.String()
}
