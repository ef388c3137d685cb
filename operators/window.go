package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// WindowConfig configures the operator window.
type WindowConfig struct {
	// Tumbling is the width of the windows, which follow one another without a
	// gap from 1970-01-01T00:00:00Z on; at least 1us, no default.
	Tumbling component.Duration `yaml:"tumbling,required"`
	// By names the columns of the group: each window gives one row per
	// combination of their values, null being a value. Empty: one row per
	// window.
	By []string `yaml:"by"`
	// Aggregate maps result columns to aggregates, in the order of the result:
	// count(*), count(x), sum(x), avg(x), min(x), max(x), each with
	// filter (where ...) behind it if wanted.
	Aggregate component.NamedExprs `yaml:"aggregate,required"`
	// AllowedLateness keeps a window open for this long after the watermark has
	// passed its end: rows that arrive meanwhile count, and the result waits for
	// them. Default 0s.
	AllowedLateness component.Duration `yaml:"allowed_lateness"`
}

const windowDoc = `Groups rows by windows of event time and by columns, and gives one row per
window and group: the "by" columns, window_start, window_end, the aggregates.

Time: a row belongs to the window that holds its event time. A window gives its
result when the watermark reaches its end plus the allowed lateness, and not
before; the clock has no part in it. A window without rows gives nothing. The
event time of a result is window_end less 1us.

Late rows: a row is late if the watermark that its own split had just before it
had already reached the end of its window plus the allowed lateness. It leaves
by "late": its columns, then window_start, window_end, watermark (its stamp,
null if there was none), lateness (microseconds between the moment the window
closed and the stamp) and its system columns. Names that the row already has
get the prefix late_.

Bad rows: a row for which an argument or a filter cannot be computed leaves by
"bad" and counts in no aggregate; an argument is computed only where the filter
is true. A result that does not fit its type leaves by "bad" as well.

Order: results of one task come by window_end, then by group.

State: one row of accumulators per group and open window, in memory, written at
each checkpoint where changed.`

func init() {
	component.RegisterOperator(component.Operator[WindowConfig]{
		Name:    "window",
		Summary: "Aggregates rows by windows of event time and by columns.",
		Doc:     windowDoc,
		Default: func() WindowConfig { return WindowConfig{} },
		Plan:    planWindow,
		New: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg WindowConfig) (dataflow.Operator, error) {
			shape, err := newWindowShape(in, cfg)
			if err != nil {
				return nil, err
			}
			return newWindowKeyed(env, shape)
		},
		NewBefore: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg WindowConfig) (dataflow.Operator, error) {
			shape, err := newWindowShape(in, cfg)
			if err != nil {
				return nil, err
			}
			return newWindowBefore(env, shape)
		},
	})
}

// Ports of a window, by index.
const (
	windowOut = iota
	windowLate
	windowBad
)

// Columns of the exchange between the two halves: the hash of the key, the key,
// the start of the window, encoded accumulators.
const (
	windowHash  = "_hash"
	windowKey   = "_key"
	windowStart = "_start"
	windowAcc   = "_acc"
)

var windowExchange = arrow.NewSchema([]arrow.Field{
	{Name: windowHash, Type: arrow.PrimitiveTypes.Uint64},
	{Name: windowKey, Type: dataflow.TypeBinary},
	{Name: windowStart, Type: dataflow.TypeInt64},
	{Name: windowAcc, Type: dataflow.TypeBinary},
}, nil)

// windowShape is a checked configuration on its input: what both halves and the
// plan have in common.
type windowShape struct {
	input    *arrow.Schema
	by       []int // columns of input
	windows  tumblingWindows
	lateness int64 // microseconds
	aggs     []windowAggregate
	// exprs are the different arguments and filters of aggs.
	exprs     []*expr.Expr
	funcs     []aggregateFunc
	out, late *arrow.Schema
}

// windowAggregate is one result column; arg and filter are indexes into exprs,
// -1 without one.
type windowAggregate struct {
	name        string
	text        string // canonical, for the fingerprint
	arg, filter int
}

// due is when the window from start on closes.
func (s *windowShape) due(start int64) int64 { return s.windows.end(start) + s.lateness }

func planWindow(in component.OperatorIn, cfg WindowConfig) (component.OperatorPlan, error) {
	s, err := newWindowShape(in, cfg)
	if err != nil {
		return component.OperatorPlan{}, err
	}
	return component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: dataflow.Stream{Schema: s.out}},
			{Name: dataflow.PortLate, Stream: dataflow.Stream{Schema: s.late}},
			dataflow.BadPort(),
		},
		Keyed:    true,
		Exchange: windowExchange,
		RouteBy:  windowHash,
		KeyText:  windowKeyText(cfg.By),
		Delay:    cfg.AllowedLateness.D(),
		State: fmt.Sprintf("%d bytes of accumulators and the key per group and open window; a window is dropped when the watermark is %s past its start",
			8*newAccLayout(s.funcs).stride, component.Duration(cfg.Tumbling.D()+cfg.AllowedLateness.D())),
		Fingerprint: s.fingerprint(),
	}, nil
}

// windowKeyText says what rows go by to the tasks.
func windowKeyText(by []string) string {
	if len(by) == 0 {
		return "nothing, so one task has all rows"
	}
	return strings.Join(by, ", ")
}

// fingerprint covers what the state's bytes mean: not the names of results.
func (s *windowShape) fingerprint() string {
	var b strings.Builder
	fmt.Fprintf(&b, "window/1 tumbling %dus lateness %dus by", s.windows.width, s.lateness)
	for _, c := range s.by {
		f := s.input.Field(c)
		fmt.Fprintf(&b, " %q %s,", f.Name, dataflow.TypeName(f.Type))
	}
	b.WriteString(" aggregate")
	for _, a := range s.aggs {
		fmt.Fprintf(&b, " %s;", a.text)
	}
	return b.String()
}

func newWindowShape(in component.OperatorIn, cfg WindowConfig) (*windowShape, error) {
	if len(in.Inputs) != 1 {
		return nil, component.Badf("", "window takes one input, not %d", len(in.Inputs))
	}
	input := in.Inputs[0]
	s := &windowShape{input: input.Schema, lateness: cfg.AllowedLateness.D().Microseconds()}
	var problems component.Problems
	if input.Changelog {
		problems = append(problems, component.Problem{Msg: fmt.Sprintf("%q is a changelog, and window takes facts only: use its final results", in.Names[0])})
	}
	if !dataflow.Timed(input.Schema) {
		problems = append(problems, component.Problem{Msg: fmt.Sprintf("rows of %q have no event time, so they belong to no window: give %s event_time: {column: ..., out_of_orderness: ...}", in.Names[0], windowSources(in.Sources))})
	}
	problems = append(problems, s.checkWidths(cfg)...)
	problems = append(problems, s.resolveBy(cfg.By)...)
	problems = append(problems, s.compile(cfg.Aggregate)...)
	if len(problems) == 0 {
		problems = s.makeSchemas(cfg.Aggregate)
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// windowSources names the sources that rows come from.
func windowSources(names []string) string {
	switch len(names) {
	case 0:
		return "the source"
	case 1:
		return fmt.Sprintf("the source %q", names[0])
	}
	return fmt.Sprintf("each of the sources %s", strings.Join(names, ", "))
}

func (s *windowShape) checkWidths(cfg WindowConfig) (problems component.Problems) {
	width := cfg.Tumbling.D()
	if width <= 0 || width%time.Microsecond != 0 {
		problems = append(problems, component.Problem{Path: "tumbling", Msg: fmt.Sprintf("a window needs a width of whole microseconds, as 1m, not %s", cfg.Tumbling)})
	}
	if late := cfg.AllowedLateness.D(); late < 0 || late%time.Microsecond != 0 {
		problems = append(problems, component.Problem{Path: "allowed_lateness", Msg: fmt.Sprintf("expected whole microseconds, not %s", cfg.AllowedLateness)})
	}
	s.windows = tumblingWindows{width: width.Microseconds()}
	return problems
}

// userNames lists the columns of s that users see.
func windowUserNames(s *arrow.Schema) []string {
	var names []string
	for _, f := range dataflow.UserFields(s) {
		names = append(names, f.Name)
	}
	return names
}

func (s *windowShape) resolveBy(by []string) (problems component.Problems) {
	known := windowUserNames(s.input)
	for i, name := range by {
		path := fmt.Sprintf("by[%d]", i)
		c := slices.Index(known, name)
		switch {
		case c < 0:
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("unknown column %q%s; columns: %s", name, component.DidYouMean(name, known), component.Names(known))})
		case slices.Contains(s.by, c):
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("column %q stands twice", name)})
		default:
			if _, err := keyKindOf(s.input.Field(c)); err != nil {
				problems = append(problems, component.Problem{Path: path, Msg: err.Error()})
			}
			s.by = append(s.by, c)
		}
	}
	return problems
}

func (s *windowShape) compile(aggs component.NamedExprs) (problems component.Problems) {
	if len(aggs) == 0 {
		problems = append(problems, component.Problem{Path: "aggregate", Msg: "expected at least one aggregate, as {n: count(*)}"})
	}
	for _, a := range aggs {
		if p := s.compileOne(a); p != nil {
			p.Path = "aggregate." + a.Name
			problems = append(problems, *p)
		}
	}
	return problems
}

func (s *windowShape) compileOne(a component.NamedExpr) *component.Problem {
	parsed, err := expr.ParseAggregate(a.Expr, s.input)
	if err != nil {
		p := statelessProblem("", err)
		return &p
	}
	if parsed.Distinct {
		return &component.Problem{Msg: "distinct is not available in windows yet"}
	}
	w := windowAggregate{name: a.Name, arg: s.share(parsed.Arg), filter: s.share(parsed.Filter)}
	var arg arrow.DataType
	w.text = parsed.Func + "(*)"
	if parsed.Arg != nil {
		arg = parsed.Arg.Type()
		w.text = parsed.Func + "(" + parsed.Arg.String() + " " + dataflow.TypeName(arg) + ")"
	}
	if parsed.Filter != nil {
		w.text += " filter " + parsed.Filter.String()
	}
	fn, err := newAggregateFunc(parsed.Func, arg, parsed.Type)
	if err != nil {
		return &component.Problem{Msg: err.Error()}
	}
	s.aggs = append(s.aggs, w)
	s.funcs = append(s.funcs, fn)
	if s.out == nil {
		s.out = arrow.NewSchema(nil, nil)
	}
	// Aggregates of no value are null, but a count never is.
	_, isCount := fn.(countFunc)
	field := arrow.Field{Name: a.Name, Type: parsed.Type, Nullable: !isCount}
	s.out = arrow.NewSchema(append(s.out.Fields(), field), nil)
	return nil
}

// share returns the index of e in exprs, -1 for nil.
func (s *windowShape) share(e *expr.Expr) int {
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

// makeSchemas puts the outputs together; s.out holds the aggregates so far.
func (s *windowShape) makeSchemas(aggs component.NamedExprs) (problems component.Problems) {
	results := s.out.Fields()
	var fields []arrow.Field
	for _, c := range s.by {
		fields = append(fields, s.input.Field(c))
	}
	fields = append(fields,
		arrow.Field{Name: "window_start", Type: dataflow.TypeTimestampTZ},
		arrow.Field{Name: "window_end", Type: dataflow.TypeTimestampTZ})
	taken := map[string]bool{}
	for i, f := range fields {
		if i < len(s.by) && (f.Name == "window_start" || f.Name == "window_end") {
			problems = append(problems, component.Problem{Path: fmt.Sprintf("by[%d]", i), Msg: fmt.Sprintf("the result has a column %q of its own: rename this one first (project: {rename: ...})", f.Name)})
		}
		taken[f.Name] = true
	}
	for _, f := range results {
		switch {
		case dataflow.IsSystem(f.Name):
			problems = append(problems, component.Problem{Path: "aggregate." + f.Name, Msg: fmt.Sprintf("names that begin with %q are reserved", dataflow.SysPrefix)})
		case taken[f.Name]:
			problems = append(problems, component.Problem{Path: "aggregate." + f.Name, Msg: fmt.Sprintf("the result has another column %q: choose another name", f.Name)})
		}
		taken[f.Name] = true
	}
	if len(problems) > 0 {
		return problems
	}
	s.out = arrow.NewSchema(append(append(fields, results...), dataflow.TimeFields()...), nil)
	s.late = windowLateSchema(s.input)
	return nil
}

// windowLateSchema is the user's columns, what makes the row late, the system
// columns.
func windowLateSchema(input *arrow.Schema) *arrow.Schema {
	fields := slices.Clone(dataflow.UserFields(input))
	for _, f := range []arrow.Field{
		{Name: "window_start", Type: dataflow.TypeTimestampTZ},
		{Name: "window_end", Type: dataflow.TypeTimestampTZ},
		{Name: "watermark", Type: dataflow.TypeTimestampTZ, Nullable: true},
		{Name: "lateness", Type: dataflow.TypeInt64},
	} {
		for slices.ContainsFunc(fields, func(have arrow.Field) bool { return have.Name == f.Name }) {
			f.Name = "late_" + f.Name
		}
		fields = append(fields, f)
	}
	return arrow.NewSchema(append(fields, dataflow.SysFields(input)...), nil)
}
