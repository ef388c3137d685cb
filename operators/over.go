package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// OverConfig configures the operator over. Exactly one of rows_preceding,
// range_preceding and unbounded says which rows a row looks back on.
type OverConfig struct {
	// By names the columns of a partition: a row sees the rows with equal values
	// only, null being a value. An entry is a column, or {name: expression}. Empty:
	// all rows see each other.
	By []By `yaml:"by"`
	// Aggregate maps new columns to aggregates over the rows that a row sees, in
	// the order of the result: {n: count(*), avg10: avg(price)}. The guide
	// Aggregates lists all functions.
	Aggregate component.NamedExprs `yaml:"aggregate,required"`
	// RowsPreceding is how many rows before it a row sees, beside itself, at least
	// 1: 9 for an average of 10. Needs expire_after.
	RowsPreceding int64 `yaml:"rows_preceding" choose:"one"`
	// RangePreceding is how far back a row sees in event time, at least 1us: itself,
	// the rows of the same time, those before up to exactly this far.
	RangePreceding component.Duration `yaml:"range_preceding" choose:"one"`
	// Unbounded lets a row see all rows before it, those of the same time and
	// itself: running totals.
	Unbounded *OverUnbounded `yaml:"unbounded" choose:"one"`
	// ExpireAfter bounds the state of rows_preceding: a partition that has no row
	// for longer than this, in event time, begins anew with its next one. At least
	// 1us; no default.
	ExpireAfter component.Duration `yaml:"expire_after"`
}

// OverUnbounded describes running aggregates.
type OverUnbounded struct {
	// ExpireAfter bounds the state: a partition that has no row for longer than
	// this, in event time, begins anew with its next one. At least 1us, no default.
	ExpireAfter component.Duration `yaml:"expire_after,required"`
}

const overDoc = `Adds columns to each row: aggregates over the row itself and rows before it, as
OVER in SQL. Rows go by their event time. All rows leave as they came, with the
new columns behind their own.

Order: a row waits until the watermark is greater than its event time. Rows of a
partition are then taken by event time, source, split and position. With
range_preceding and unbounded, rows of the same time see each other and have the
same results; with rows_preceding each sees those in front of it.

Late rows: a row whose event time is below its stamp leaves by "late": its columns,
then watermark (its stamp), lateness (microseconds between the two) and its system
columns. Names that the row already has get the prefix late_. It counts nowhere.

Bad rows: a row for which a partition, an argument or a filter cannot be computed
leaves by "bad" and counts nowhere. A row whose result does not fit its type
leaves by "bad" as well, when its turn comes; rows behind it see it.

What leaves: each row keeps its event time and its origin; its stamp becomes its
event time, since that is the moment up to which the watermark had to come.

State: the rows that wait, as they are; per partition the accumulators of the rows
that rows to come may see, and with unbounded one accumulator. What is new is
written at each checkpoint. Partitions that have no room in the step's share of
state.memory are kept in the store alone until their next row. A partition is
dropped when the watermark has passed its last row by expire_after or
range_preceding.

Cost: a few merges of accumulators per row, however many rows it sees. Aggregates
that keep values (array_agg, string_agg, percentile_cont, percentile_disc, mode,
approx_count_distinct, approx_percentile, and distinct ones but count) look at
every row of a frame of rows_preceding or range_preceding for each result.`

func init() {
	component.RegisterOperator(component.Operator[OverConfig]{
		Name:    "over",
		Summary: "Adds aggregates over the rows before each row, in the order of event time.",
		Doc:     overDoc,
		Default: func() OverConfig { return OverConfig{} },
		Plan:    planOver,
		New: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg OverConfig) (dataflow.Operator, error) {
			s, err := newOverShape(in, cfg)
			if err != nil {
				return nil, err
			}
			o, err := newOverKeyed(env, s)
			if err != nil {
				return nil, err
			}
			return inTimeOrder(env, s.exchange, overHash, o)
		},
		NewBefore: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg OverConfig) (dataflow.Operator, error) {
			s, err := newOverShape(in, cfg)
			if err != nil {
				return nil, err
			}
			return newOverBefore(env, s)
		},
	})
}

// Columns of the exchange behind those of the input: the canonical key of the
// partition and its hash.
const (
	overKey  = "_key"
	overHash = "_hash"
)

// overKind is which rows a row sees.
type overKind int

const (
	overRows overKind = iota
	overRange
	overAll
)

// overShape is a checked configuration on its input.
type overShape struct {
	input *arrow.Schema
	by    *byKeys
	set   *aggregateSet
	kind  overKind
	// reach is how many rows, or microseconds, a row sees back.
	reach int64
	// keep is how long a partition may be quiet, in microseconds.
	keep                         int64
	results, out, late, exchange *arrow.Schema
}

func newOverShape(in component.OperatorIn, cfg OverConfig) (*overShape, error) {
	input := in.Inputs[0].Schema
	s := &overShape{input: input}
	var problems component.Problems
	if !dataflow.Timed(input) {
		problems = append(problems, component.Problem{Msg: fmt.Sprintf("rows of %q have no event time, by which over orders them: give %s event_time: {column: ..., out_of_orderness: ...}", in.Names[0], windowSources(in.Sources))})
	}
	problems = append(problems, s.checkFrame(cfg)...)
	var more component.Problems
	s.by, more = newByKeys(input, cfg.By)
	problems = append(problems, more...)
	s.set, more = newAggregateSet(input, cfg.Aggregate)
	problems = append(problems, more...)
	known := windowUserNames(input)
	for _, f := range s.set.results {
		switch {
		case dataflow.IsSystem(f.Name):
			problems = append(problems, component.Problem{Path: "aggregate." + f.Name, Msg: fmt.Sprintf("names that begin with %q are reserved", dataflow.SysPrefix)})
		case slices.Contains(known, f.Name):
			problems = append(problems, component.Problem{Path: "aggregate." + f.Name, Msg: fmt.Sprintf("the rows have a column %q already: choose another name", f.Name)})
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	s.results = arrow.NewSchema(s.set.results, nil)
	s.out = arrow.NewSchema(slices.Concat(dataflow.UserFields(input), s.set.results, dataflow.SysFields(input)), nil)
	s.late = groupLateSchema(input)
	s.exchange = arrow.NewSchema(append(slices.Clone(input.Fields()),
		arrow.Field{Name: overKey, Type: dataflow.TypeBinary},
		arrow.Field{Name: overHash, Type: arrow.PrimitiveTypes.Uint64}), nil)
	return s, nil
}

// checkFrame reads which rows are seen, and the bound of the state.
func (s *overShape) checkFrame(cfg OverConfig) (problems component.Problems) {
	problem := func(path, msg string) { problems = append(problems, component.Problem{Path: path, Msg: msg}) }
	chosen := 0
	for _, set := range []bool{cfg.RowsPreceding != 0, cfg.RangePreceding != 0, cfg.Unbounded != nil} {
		if set {
			chosen++
		}
	}
	switch {
	case chosen != 1:
		problem("", "say which rows a row sees, by exactly one of rows_preceding: 9, range_preceding: 10s, unbounded: {expire_after: 24h}, each above 0")
	case cfg.RowsPreceding != 0:
		s.kind, s.reach, s.keep = overRows, cfg.RowsPreceding, cfg.ExpireAfter.D().Microseconds()
		if cfg.RowsPreceding < 0 {
			problem("rows_preceding", fmt.Sprintf("a row sees at least one row before it, not %d", cfg.RowsPreceding))
		}
		return append(problems, checkExpire("expire_after", cfg.ExpireAfter)...)
	case cfg.RangePreceding != 0:
		s.kind, s.reach = overRange, cfg.RangePreceding.D().Microseconds()
		s.keep = s.reach
		if cfg.RangePreceding.D()%time.Microsecond != 0 {
			problem("range_preceding", fmt.Sprintf("expected whole microseconds, not %s", cfg.RangePreceding))
		}
		if cfg.ExpireAfter != 0 {
			problem("expire_after", "range_preceding bounds the state itself: leave it out")
		}
	default:
		s.kind, s.keep = overAll, cfg.Unbounded.ExpireAfter.D().Microseconds()
		problems = append(problems, checkExpire("unbounded.expire_after", cfg.Unbounded.ExpireAfter)...)
		if cfg.ExpireAfter != 0 {
			problem("expire_after", "it belongs into unbounded: {expire_after: 24h}")
		}
	}
	return problems
}

func planOver(in component.OperatorIn, cfg OverConfig) (component.OperatorPlan, error) {
	s, err := newOverShape(in, cfg)
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
		Exchange:    s.exchange,
		RouteBy:     overHash,
		KeyText:     s.by.keyText(),
		State:       s.bound(cfg),
		Spills:      "partitions",
		Fingerprint: s.fingerprint(),
	}, nil
}

// bound describes the state for people.
func (s *overShape) bound(cfg OverConfig) string {
	bytes := 8 * newAccLayout(s.set.funcs).stride
	text := ""
	switch s.kind {
	case overRows:
		text = fmt.Sprintf("%d rows per partition, %d bytes of accumulators each, until the watermark is %s after the last of them", s.reach, bytes, cfg.ExpireAfter)
	case overRange:
		text = fmt.Sprintf("%d bytes of accumulators per row, until the watermark is %s after it", bytes, cfg.RangePreceding)
	default:
		text = fmt.Sprintf("%d bytes of accumulators per partition, until the watermark is %s after its last row", bytes, cfg.Unbounded.ExpireAfter)
	}
	if len(s.set.distinct) > 0 {
		text += ", and the values under distinct"
	}
	return text + "; and the rows that wait for the watermark to pass their event time"
}

// fingerprint covers what the state's bytes mean: the rows that wait are kept whole.
func (s *overShape) fingerprint() string {
	var b strings.Builder
	fmt.Fprintf(&b, "over/1 %s %d keep %dus", [...]string{"rows", "range", "unbounded"}[s.kind], s.reach, s.keep)
	b.WriteString(s.by.fingerprint() + s.set.fingerprint() + " rows")
	for _, f := range s.input.Fields() {
		fmt.Fprintf(&b, " %s:%s", f.Name, dataflow.TypeName(f.Type))
	}
	return b.String()
}
