package expr

import (
	"sort"

	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Aggregate is an aggregate call: what to compute of which rows. Package expr
// does not compute it; the window does.
type Aggregate struct {
	// Func is count, sum, avg, min or max.
	Func string
	// Star: count(*), the rows themselves.
	Star bool
	// Arg is the value aggregated; nil for Star. Nulls do not count.
	Arg *Expr
	// Filter keeps rows for which it is true; nil keeps all.
	Filter *Expr
	// Distinct is reserved: distinct is refused today.
	Distinct bool
	// Type is the type of the result.
	Type arrow.DataType
}

var aggregates = map[string]func(t typ) (typ, bool){
	"count": func(typ) (typ, bool) { return tInt64, true },
	"sum":   sumOf,
	"avg":   avgOf,
	"min":   extremeOf,
	"max":   extremeOf,
}

// aggregateNames are known as aggregates, also where they are not supported yet.
var aggregateNames = map[string]bool{
	"count": true, "sum": true, "avg": true, "min": true, "max": true,
	"stddev": true, "stddev_pop": true, "stddev_samp": true, "variance": true, "var_pop": true, "var_samp": true,
	"array_agg": true, "string_agg": true, "bool_and": true, "bool_or": true, "every": true,
	"approx_count_distinct": true, "approx_percentile": true, "first": true, "last": true,
}

func sumOf(t typ) (typ, bool) {
	switch t.k {
	case kInt32:
		return tInt64, true
	case kInt64:
		return decimalType(38, 0), true
	case kDecimal:
		return decimalType(38, t.s), true
	case kFloat32, kFloat64:
		return t, true
	}
	return typ{}, false
}

func avgOf(t typ) (typ, bool) {
	switch t.k {
	case kInt32, kInt64:
		return decimalType(38, wideScale), true
	case kDecimal:
		return decimalType(38, max(wideScale, t.s)), true
	case kFloat32, kFloat64:
		return tFloat64, true
	}
	return typ{}, false
}

func extremeOf(t typ) (typ, bool) {
	switch t.k {
	case kInt32, kInt64, kDecimal, kFloat32, kFloat64, kString, kDate, kTime, kTimestamp, kTimestampTZ:
		t2 := t
		if t.k != kDecimal {
			t2.p = 0
		}
		return t2, true
	}
	return typ{}, false
}

// ParseAggregate parses text as one aggregate call over the user's columns of
// schema: count(*), count(x), sum(x), avg(x), min(x), max(x), each with an
// optional "filter (where condition)". The error is an *Error.
func ParseAggregate(text string, schema *arrow.Schema) (*Aggregate, error) {
	a, err := parse(text)
	if err != nil {
		return nil, err
	}
	if a.op != opCall {
		return nil, errAt(a.pos, "expected an aggregate, as count(*) or sum(x); for more, compute it in a project step behind")
	}
	result := aggregates[a.text]
	switch {
	case result == nil && aggregateNames[a.text]:
		return nil, errAt(a.pos, "aggregate %q is not supported yet; known: avg, count, max, min, sum", a.text)
	case result == nil:
		return nil, errAt(a.pos, "unknown aggregate %q%s; known: avg, count, max, min, sum", a.text, component.DidYouMean(a.text, aggregateList()))
	case a.distinct:
		return nil, errAt(a.pos, "%s(distinct ...) is not supported yet", a.text)
	}
	out := &Aggregate{Func: a.text, Star: a.star}
	if a.filter != nil {
		if out.Filter, err = compile(text, a.filter, schema); err != nil {
			return nil, err
		}
		if out.Filter.root.typ.k != kBool {
			return nil, errAt(a.filter.pos, "filter needs a boolean, this is %s", out.Filter.root.typ)
		}
	}
	if a.star {
		if a.text != "count" {
			return nil, errAt(a.pos, "%s(*) does not exist: name a value, as %s(x)", a.text, a.text)
		}
		out.Type = tInt64.arrow()
		return out, nil
	}
	if len(a.args) != 1 {
		return nil, errAt(a.pos, "%s needs one value, found %d", a.text, len(a.args))
	}
	if out.Arg, err = compile(text, a.args[0], schema); err != nil {
		return nil, err
	}
	t, ok := result(out.Arg.root.typ)
	if !ok {
		return nil, errAt(a.args[0].pos, "%s of %s does not exist", a.text, out.Arg.root.typ)
	}
	out.Type = t.arrow()
	return out, nil
}

func aggregateList() []string {
	var out []string
	for n := range aggregates {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
