package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

const windowDoc = `Groups rows by windows of event time and by columns, and gives one row per
window and group: the "by" columns, window_start, window_end, the aggregates.

Windows: tumbling ones follow one another without a gap, hopping ones overlap,
cumulative ones begin together and end one step apart; global is one window. They
are aligned to 1970-01-01T00:00:00Z, moved by the offset; calendar units (1d, 1w,
1mo, 1y) begin at midnight in the zone. Session and count windows are made by
rows.

Time: a row belongs to the windows that hold its event time. A window gives its
result when the watermark reaches its end plus the allowed lateness, and not
before; the clock has no part in it. A window without rows gives nothing. The
event time of a result is window_end less 1us. A global window gives its result
at the end of the input, without window_start and window_end.

Late rows: a row is late for a window if the watermark that its own split had
just before it had already reached the window's end plus the allowed lateness. A
row that is late for all of its windows leaves by "late": its columns, then
window_start, window_end (of its last window), watermark (its stamp, null if
there was none), lateness (microseconds between the moment the window closed and
the stamp) and its system columns. Names that the row already has get the prefix
late_. A row that is late for some of its windows counts in the others.

Bad rows: a row for which a group, an argument or a filter cannot be computed
leaves by "bad" and counts in no aggregate; an argument is computed only where
the filter is true. A result that does not fit its type leaves by "bad" as well.

Sessions, count windows and all windows with emit: updates take rows in the order
of stamp, source, split and position; a row waits until the watermark is greater
than its stamp. A session ends one gap after its last row; rows exactly one gap
apart are in one session, and a row between two joins them. A row is late if no
open session takes it and one of its own would be over. A count window has the
event times of its first and last row as bounds, both inside; it gives what it has
when its group was quiet for expire_after and at the end of the input. With
updates a result comes early if asked for, on time, and for each late row; the
key of the changes is the group and window_start, of sessions and cumulative
windows also window_end.

Order: results of one task come by window_end, then by group.

State: one row of accumulators per group and open window, in memory, written at
each checkpoint where changed. Windows that overlap share panes, as long as the
greatest common divisor of their sizes; a row is counted once, in its pane. Of
windows in stamp order the groups with the newest rows are in memory, up to an
eighth of the pipeline's memory per task, the others in the state store alone.`

func init() {
	component.RegisterOperator(component.Operator[WindowConfig]{
		Name:    "window",
		Summary: "Aggregates rows by windows of event time and by columns.",
		Doc:     windowDoc,
		Default: func() WindowConfig { return WindowConfig{} },
		Plan:    planWindow,
		New: func(ctx context.Context, env *dataflow.Env, in component.OperatorIn, cfg WindowConfig) (dataflow.Operator, error) {
			if cfg.ordered() {
				return newWindowOrdered(ctx, env, in, cfg)
			}
			shape, err := newWindowShape(in, cfg)
			if err != nil {
				return nil, err
			}
			return newWindowKeyed(env, shape)
		},
		NewBefore: func(ctx context.Context, env *dataflow.Env, in component.OperatorIn, cfg WindowConfig) (dataflow.Operator, error) {
			if cfg.ordered() {
				return newWindowOrderedBefore(ctx, env, in, cfg)
			}
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
// the start of the pane, encoded accumulators; where windows share panes, the end
// of the first window that the rows count in.
const (
	windowHash  = "_hash"
	windowKey   = "_key"
	windowStart = "_start"
	windowAcc   = "_acc"
	windowFirst = "_first"
	// windowDistinct is there where an aggregate is distinct: see distinct.go.
	windowDistinct = "_distinct"
)

var (
	windowExchange = arrow.NewSchema([]arrow.Field{
		{Name: windowHash, Type: arrow.PrimitiveTypes.Uint64},
		{Name: windowKey, Type: dataflow.TypeBinary},
		{Name: windowStart, Type: dataflow.TypeInt64},
		{Name: windowAcc, Type: dataflow.TypeBinary},
	}, nil)
	windowPaneExchange = arrow.NewSchema(append(windowExchange.Fields(), arrow.Field{Name: windowFirst, Type: dataflow.TypeInt64}), nil)
)

// windowShape is a checked configuration on its input: what both halves and the
// plan have in common.
type windowShape struct {
	input  *arrow.Schema
	by     []int // columns of input, -1 for an expression
	groups *byKeys
	// windows is nil for sessions and windows of a number of rows; text is its
	// canonical form.
	windows alignedWindows
	text    string
	// single: each pane is one window.
	single bool
	// bounded: results have columns with the window's bounds.
	bounded  bool
	lateness int64 // microseconds
	*aggregateSet
	out, late *arrow.Schema
}

// due is when the window that ends at end closes.
func (s *windowShape) due(end int64) int64 { return end + s.lateness }

// exchange is the schema between the halves.
func (s *windowShape) exchange() *arrow.Schema {
	x := windowExchange
	if !s.single {
		x = windowPaneExchange
	}
	if len(s.distinct) > 0 {
		x = arrow.NewSchema(append(x.Fields(), arrow.Field{Name: windowDistinct, Type: dataflow.TypeBinary}), nil)
	}
	return x
}

func planWindow(in component.OperatorIn, cfg WindowConfig) (component.OperatorPlan, error) {
	if problems := cfg.checkShapes(); len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	if cfg.ordered() {
		return planWindowOrdered(in, cfg)
	}
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
		Keyed:       true,
		Exchange:    s.exchange(),
		RouteBy:     windowHash,
		KeyText:     windowKeyText(cfg.By),
		Delay:       cfg.AllowedLateness.D(),
		State:       s.bound(cfg),
		Fingerprint: s.fingerprint(),
	}, nil
}

// bound describes the state for people.
func (s *windowShape) bound(cfg WindowConfig) string {
	each := fmt.Sprintf("%d bytes of accumulators and the key per group and ", 8*newAccLayout(s.funcs).stride)
	if len(s.distinct) > 0 {
		each = "each distinct value of a group, " + each
	}
	switch {
	case cfg.Global != nil:
		return each + "nothing else: there is one window, to the end of the input"
	case s.single:
		return each + fmt.Sprintf("open window; a window is dropped when the watermark is %s past its end", cfg.AllowedLateness)
	}
	return each + fmt.Sprintf("pane that windows share, twice over; a pane is dropped when the watermark is %s past its last window", cfg.AllowedLateness)
}

// windowKeyText says what rows go by to the tasks.
func windowKeyText(by []By) string {
	if len(by) == 0 {
		return "nothing, so one task has all rows"
	}
	names := make([]string, len(by))
	for i, b := range by {
		names[i] = b.Name
	}
	return strings.Join(names, ", ")
}

// fingerprint covers what the state's bytes mean: not the names of results.
func (s *windowShape) fingerprint() string {
	return fmt.Sprintf("window/1 %s lateness %dus", s.text, s.lateness) + s.groups.fingerprint() + s.aggregateSet.fingerprint()
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
	problems = append(problems, s.checkWindows(cfg)...)
	var wrong component.Problems
	s.groups, wrong = newByKeys(input.Schema, cfg.By)
	s.by = s.groups.cols
	problems = append(problems, wrong...)
	s.aggregateSet, wrong = newAggregateSet(input.Schema, cfg.Aggregate)
	problems = append(problems, wrong...)
	if len(problems) == 0 {
		problems = s.makeSchemas()
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

func (s *windowShape) checkWindows(cfg WindowConfig) (problems component.Problems) {
	if problems := cfg.checkShapes(); len(problems) > 0 {
		return problems
	}
	s.bounded = cfg.Global == nil
	s.windows, s.text, s.single, problems = newAlignedWindows(cfg)
	if cfg.Global != nil && cfg.AllowedLateness != 0 {
		problems = append(problems, component.Problem{Path: "allowed_lateness", Msg: "no row is late for a global window before the input ends: leave it out"})
	}
	return problems
}

// windowUserNames lists the columns of s that users see.
func windowUserNames(s *arrow.Schema) []string {
	var names []string
	for _, f := range dataflow.UserFields(s) {
		names = append(names, f.Name)
	}
	return names
}

// makeSchemas puts the outputs together.
func (s *windowShape) makeSchemas() (problems component.Problems) {
	fields := slices.Clone(s.groups.schema.Fields())
	if s.bounded {
		fields = append(fields,
			arrow.Field{Name: "window_start", Type: dataflow.TypeTimestampTZ},
			arrow.Field{Name: "window_end", Type: dataflow.TypeTimestampTZ})
	}
	taken := map[string]bool{}
	for i, f := range fields {
		if s.bounded && i < len(s.by) && (f.Name == "window_start" || f.Name == "window_end") {
			problems = append(problems, component.Problem{Path: fmt.Sprintf("by[%d]", i), Msg: fmt.Sprintf("the result has a column %q of its own: rename this one first (project: {rename: ...})", f.Name)})
		}
		taken[f.Name] = true
	}
	for _, f := range s.results {
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
	s.out = arrow.NewSchema(append(append(fields, s.results...), dataflow.TimeFields()...), nil)
	s.late = windowLateSchema(s.input)
	return nil
}

// windowLateSchema is the user's columns, what makes the row late, the system
// columns. The bounds are null for a window without any.
func windowLateSchema(input *arrow.Schema) *arrow.Schema {
	fields := slices.Clone(dataflow.UserFields(input))
	for _, f := range []arrow.Field{
		{Name: "window_start", Type: dataflow.TypeTimestampTZ, Nullable: true},
		{Name: "window_end", Type: dataflow.TypeTimestampTZ, Nullable: true},
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
