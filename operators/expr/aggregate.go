package expr

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Aggregate is an aggregate call: what to compute of which rows. Package expr
// does not compute it; the steps that aggregate do.
type Aggregate struct {
	// Func is the name of a function of aggregateFuncs; names that mean the same
	// are given as one.
	Func string
	// Star: count(*), the rows themselves.
	Star bool
	// Arg is the value aggregated; nil for Star. Of a function with "within
	// group" it is what stands behind order by there.
	Arg *Expr
	// Filter keeps rows for which it is true; nil keeps all.
	Filter *Expr
	// Distinct: equal values count once.
	Distinct bool
	// Order is the order of the values where it matters; empty: of event time.
	// Of a function with "within group" it is empty, and Desc says the direction.
	Order []Order
	Desc  bool
	// Separator stands between the texts of string_agg.
	Separator string
	// Quantile is from 0 to 1, of percentile_cont, percentile_disc and
	// approx_percentile.
	Quantile float64
	// Type is the type of the result.
	Type arrow.DataType
}

// Order is one term of an order by.
type Order struct {
	By         *Expr
	Desc       bool
	NullsFirst bool
}

// Suffix writes the direction, nothing for ascending with nulls last.
func (o Order) Suffix() string { return orderSuffix(o.Desc, o.NullsFirst) }

// aggregateFunc is what may be called how.
type aggregateFunc struct {
	// name is what the function is called in an Aggregate, if not by its own
	// name.
	name string
	// result is the type for values of one type, or that there is none.
	result func(t typ) (typ, bool)
	// cast is the type that values are converted to first; tUnknown: none.
	cast typ
	// params counts the constants: a quantile, a separator.
	params int
	// ordered: the result depends on the order of the values.
	ordered bool
	// within: the value stands in within group (order by value).
	within bool
}

var aggregateFuncs = map[string]aggregateFunc{
	"count": {result: func(typ) (typ, bool) { return tInt64, true }},
	"sum":   {result: sumOf}, "avg": {result: avgOf}, "avg_int": {result: onlyOf(kInt16, kInt32, kInt64)},
	"min": {result: extremeOf}, "max": {result: extremeOf},
	"stddev": {name: "stddev_samp", result: spreadOf}, "stddev_samp": {result: spreadOf}, "stddev_pop": {result: spreadOf},
	"variance": {name: "var_samp", result: spreadOf}, "var_samp": {result: spreadOf}, "var_pop": {result: spreadOf},
	"bool_and": {result: onlyOf(kBool)}, "every": {name: "bool_and", result: onlyOf(kBool)}, "bool_or": {result: onlyOf(kBool)},
	"bit_and": {result: onlyOf(kInt16, kInt32, kInt64)}, "bit_or": {result: onlyOf(kInt16, kInt32, kInt64)}, "bit_xor": {result: onlyOf(kInt16, kInt32, kInt64)},
	"first": {result: sameOf, ordered: true}, "last": {result: sameOf, ordered: true},
	"array_agg":             {result: arrayOf, ordered: true},
	"string_agg":            {result: onlyOf(kString), ordered: true, params: 1},
	"approx_count_distinct": {result: func(t typ) (typ, bool) { _, ok := keyOf(t); return tInt64, ok }},
	"approx_percentile":     {result: onlyOf(kFloat64), cast: tFloat64, params: 1},
	"percentile_cont":       {result: onlyOf(kFloat64), cast: tFloat64, params: 1, within: true},
	"percentile_disc":       {result: keyOf, params: 1, within: true},
	"mode":                  {result: keyOf, within: true},
}

// aggregateNames are known as aggregates, also those that are not supported.
var aggregateNames = func() map[string]bool {
	names := map[string]bool{}
	for n := range aggregateFuncs {
		names[n] = true
	}
	for _, n := range []string{"corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg", "xmlagg", "any_value", "first_value", "last_value", "median"} {
		names[n] = true
	}
	return names
}()

// AggregateNames lists the aggregates, in the order of the alphabet.
func AggregateNames() []string { return slices.Sorted(maps.Keys(aggregateFuncs)) }

// aggregateHints say what to write instead of names known elsewhere.
var aggregateHints = map[string]string{
	"first_value": "first(x)", "last_value": "last(x)", "any_value": "min(x) or first(x)",
	"median": "percentile_cont(0.5) within group (order by x)",
}

func sumOf(t typ) (typ, bool) {
	switch t.k {
	case kInt16, kInt32:
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
	case kInt16, kInt32, kInt64:
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
	case kInt16, kInt32, kInt64, kDecimal, kFloat32, kFloat64, kString, kDate, kTime, kTimestamp, kTimestampTZ:
		t2 := t
		if t.k != kDecimal {
			t2.p = 0
		}
		return t2, true
	}
	return typ{}, false
}

// onlyOf gives values of the listed kinds their own type.
func onlyOf(kinds ...kind) func(t typ) (typ, bool) {
	return func(t typ) (typ, bool) {
		t.p = 0
		return t, slices.Contains(kinds, t.k)
	}
}

// spreadOf is the type of standard deviations and variances.
func spreadOf(t typ) (typ, bool) {
	if t.k == kFloat32 {
		return tFloat64, true
	}
	return avgOf(t)
}

// sameOf is any type that can be kept in a state.
func sameOf(t typ) (typ, bool) {
	if t.k == kJSON {
		return t, true
	}
	return keyOf(t)
}

// keyOf is any type with an order and an equality.
func keyOf(t typ) (typ, bool) {
	switch t.k {
	case kUnknown, kInterval, kJSON, kList, kNested, kAny:
		return typ{}, false
	}
	if t.k != kDecimal {
		t.p = 0
	}
	return t, true
}

func arrayOf(t typ) (typ, bool) {
	e, ok := sameOf(t)
	if !ok {
		return typ{}, false
	}
	return listOf(e), true
}

// ParseAggregate parses text as one aggregate call over the user's columns of
// schema, with PostgreSQL's syntax: f(x), f(distinct x), f(x order by y desc),
// f(q) within group (order by x), each with an optional "filter (where
// condition)". The error is an *Error.
func ParseAggregate(text string, schema *arrow.Schema) (*Aggregate, error) {
	a, err := parse(text)
	if err != nil {
		return nil, err
	}
	if a.op != opCall {
		return nil, errAt(a.pos, "expected an aggregate, as count(*) or sum(x); for more, compute it in a project step behind")
	}
	f, ok := aggregateFuncs[a.text]
	if !ok {
		if hint := aggregateHints[a.text]; hint != "" {
			return nil, errAt(a.pos, "there is no aggregate %q here: write %s", a.text, hint)
		}
		return nil, errAt(a.pos, "unknown aggregate %q%s; known: %s", a.text, component.DidYouMean(a.text, aggregateList()), strings.Join(aggregateList(), ", "))
	}
	if a.names != nil {
		return nil, errAt(a.pos, "%s takes no operands by name", a.text)
	}
	out := &Aggregate{Func: a.text, Star: a.star, Distinct: a.distinct}
	if f.name != "" {
		out.Func = f.name
	}
	if a.filter != nil {
		cond := a.filter
		if cond.op == opNull {
			cond = &ast{op: opCast, pos: cond.pos, end: cond.end, args: []*ast{cond}, typ: tBool}
		}
		if out.Filter, err = compile(text, cond, schema); err != nil {
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
	if err := out.values(text, a, f, schema); err != nil {
		return nil, err
	}
	return out, nil
}

// values compiles what stands in the parentheses.
func (out *Aggregate) values(text string, a *ast, f aggregateFunc, schema *arrow.Schema) error {
	value, params, err := a.aggregateArgs(f)
	if err != nil {
		return err
	}
	if f.cast.k != kUnknown {
		value = &ast{op: opCast, pos: value.pos, end: value.end, args: []*ast{value}, typ: f.cast}
	}
	if out.Arg, err = compile(text, value, schema); err != nil {
		return err
	}
	t, ok := f.result(out.Arg.root.typ)
	if !ok {
		return errAt(value.pos, "%s of %s does not exist", a.text, out.Arg.root.typ)
	}
	out.Type = t.arrow()
	for _, p := range params {
		if err := out.param(text, a, p, schema); err != nil {
			return err
		}
	}
	if f.within {
		out.Desc = a.order[0].desc
		return nil
	}
	for _, o := range a.order {
		by, err := compile(text, o.by, schema)
		if err != nil {
			return err
		}
		if _, ok := keyOf(by.root.typ); !ok {
			return errAt(o.by.pos, "values of %s have no order", by.root.typ)
		}
		if a.distinct && by.String() != out.Arg.String() {
			return errAt(o.by.pos, "with distinct, order by can name the value only: %s", out.Arg)
		}
		if f.ordered {
			out.Order = append(out.Order, Order{By: by, Desc: o.desc, NullsFirst: o.nullsFirst})
		}
	}
	return nil
}

// aggregateArgs tells the value from the constants.
func (a *ast) aggregateArgs(f aggregateFunc) (value *ast, params []*ast, err error) {
	if f.within != a.within {
		if f.within {
			return nil, nil, errAt(a.pos, "%s needs its value in within group, as %s within group (order by x)", a.text, map[int]string{0: a.text + "()", 1: a.text + "(0.5)"}[f.params])
		}
		return nil, nil, errAt(a.pos, "%s takes no within group", a.text)
	}
	want := 1 + f.params
	if f.within {
		want = f.params
		if len(a.order) != 1 {
			return nil, nil, errAt(a.pos, "%s takes one value behind order by, found %d", a.text, len(a.order))
		}
	}
	if len(a.args) != want {
		return nil, nil, errAt(a.pos, "%s needs %s, found %d", a.text, map[int]string{0: "nothing in its parentheses", 1: "one value", 2: "two values"}[want], len(a.args))
	}
	if f.within {
		return a.order[0].by, a.args, nil
	}
	return a.args[0], a.args[1:], nil
}

// param takes a constant: the separator of string_agg, otherwise a quantile.
func (out *Aggregate) param(text string, a, p *ast, schema *arrow.Schema) error {
	if a.text == "string_agg" {
		e, err := compile(text, p, schema)
		if err != nil {
			return err
		}
		if e.root.konst == nil || e.root.typ.k != kString {
			return errAt(p.pos, "the separator needs to be a constant text")
		}
		if k := e.root.konst; !k.nulls || k.valid.get(0) {
			out.Separator = k.text(0)
		}
		return nil
	}
	e, err := compile(text, &ast{op: opCast, pos: p.pos, end: p.end, args: []*ast{p}, typ: tFloat64}, schema)
	if err != nil {
		return err
	}
	k := e.root.konst
	if k == nil || k.nulls && !k.valid.get(0) {
		return errAt(p.pos, "the quantile needs to be a constant from 0 to 1")
	}
	if out.Quantile = of[float64](k)[0]; !(out.Quantile >= 0 && out.Quantile <= 1) {
		return errAt(p.pos, "the quantile %v is not between 0 and 1", out.Quantile)
	}
	return nil
}

func aggregateList() []string {
	var out []string
	for n := range aggregateFuncs {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}
