package operators

import (
	"context"
	"fmt"
	"slices"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// GroupConfig configures the operator group.
type GroupConfig struct {
	// By names the groups: the result has one row per combination of their
	// values, null being a value. An entry is a column, or {name: expression}.
	// Empty: one row for all.
	By []By `yaml:"by"`
	// Aggregate maps result columns to aggregates, in the order of the result:
	// {n: count(*), total: sum(price) filter (where paid)}. The guide Aggregates
	// lists all functions.
	Aggregate component.NamedExprs `yaml:"aggregate,required"`
	// ExpireAfter bounds the state: a group that has no row for longer than this,
	// in event time, begins anew with its next one, and a row that is older than
	// its stamp by this leaves by the port late. At least 1us, needed. Not for an
	// input of changes: there a group goes with its last row.
	ExpireAfter component.Duration `yaml:"expire_after"`
}

const groupDoc = `Groups rows by columns, without windows, and keeps a table of one row per
group up to date: the "by" columns, then the aggregates. What it gives is a
changelog of that table, with the "by" columns as its key.

Changes: at each checkpoint, and at the end of the input, every group whose row
differs from the one given before: an insert, or update_before with the row as it
was and update_after. A sink that takes rows only is refused; the sinks files,
console and drop write the changes themselves, with their kind in the column op.

State: one row of accumulators per group, written at each checkpoint where changed,
and in memory as long as there is room (always with distinct). It is bounded by expire_after. Rows of a group that follow one
another within it in event time, in whatever order they come, belong together;
where the gap is longer the group begins anew, and its row in the table is that of
the latest part. A part is dropped when the watermark has passed its last row by
twice expire_after. Nothing is given then: the row stays in the table until the
group comes again.

Late rows: a row whose event time plus expire_after is not above its stamp leaves
by "late": its columns, then watermark (its stamp), lateness (microseconds
between the moment it would have been in time and the stamp) and its system
columns. Names that the row already has get the prefix late_.

Bad rows: a row for which a group, an argument or a filter cannot be computed
leaves by "bad". A result that does not fit its type leaves by "bad" at each
checkpoint at which it changed, and the group has no row in the table then.

Over changes: where the input is a changelog (of another group, top, dedup with
keep: last, or a window with emit: updates), the aggregates are those of the table that
its changes make. A row that is taken back leaves its group; a group without rows is
deleted. There is no expire_after and no port "late" then, and a row that leaves by
"bad" does so as often as the step before gives it. count, sum and avg of whole numbers
and decimals, and their variances, are counted up and down; for all others (floats
among them, and everything with distinct) the rows are kept, and a group that changed
is computed again from all of its rows at each checkpoint. Aggregates that go by the
order of rows take them in the order of the input's key where they have no order by.

Where the step before forgets rows in time (group, dedup with keep: last), the table
still has them, and so has this step: it keeps all rows of the table, by their key. One
task does all the work then, unless "by" has only columns of that key, or is empty.

The result has no event time: windows do not take it.`

func init() {
	component.RegisterOperator(component.Operator[GroupConfig]{
		Name:    "group",
		Summary: "Aggregates rows by columns, without windows, and gives the changes of the result.",
		Doc:     groupDoc,
		Default: func() GroupConfig { return GroupConfig{} },
		Changes: true,
		Plan:    planGroup,
		New: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg GroupConfig) (dataflow.Operator, error) {
			if in.Inputs[0].Changelog {
				s, err := newGroupRetractShape(in, cfg)
				if err != nil {
					return nil, err
				}
				return newGroupRetract(env, s)
			}
			s, err := newGroupShape(in, cfg)
			if err != nil {
				return nil, err
			}
			return newGroupKeyed(env, s)
		},
		NewBefore: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg GroupConfig) (dataflow.Operator, error) {
			if in.Inputs[0].Changelog {
				s, err := newGroupRetractShape(in, cfg)
				if err != nil {
					return nil, err
				}
				return newGroupRetractBefore(env, s)
			}
			s, err := newGroupShape(in, cfg)
			if err != nil {
				return nil, err
			}
			return newGroupBefore(env, s)
		},
	})
}

// Ports of group and top, by index.
const (
	groupOut = iota
	groupLate
	groupBad
)

// groupHash is the column of the exchange with the hash of the key.
const groupHash = "_hash"

// exchange is the schema between the halves: the hash of the key, the key, encoded
// accumulators, and with distinct the different values (see distinct.go).
func (s *groupShape) exchange() *arrow.Schema {
	fields := []arrow.Field{
		{Name: groupHash, Type: arrow.PrimitiveTypes.Uint64},
		{Name: "_key", Type: dataflow.TypeBinary},
		{Name: "_acc", Type: dataflow.TypeBinary},
	}
	if len(s.set.distinct) > 0 {
		fields = append(fields, arrow.Field{Name: "_values", Type: dataflow.TypeBinary})
	}
	return arrow.NewSchema(fields, nil)
}

// groupShape is a checked configuration on its input.
type groupShape struct {
	input  *arrow.Schema
	by     *byKeys
	set    *aggregateSet
	expire int64 // microseconds
	// rows is the schema of the result's columns, out has the system column of
	// changes behind them.
	rows, out, late *arrow.Schema
}

// layout is that of the aggregates, with the least and the greatest event time
// behind them.
func (s *groupShape) layout() *accLayout {
	return newAccLayout(append(slices.Clone(s.set.funcs), wordExtremeFunc{^uint64(0)}, wordExtremeFunc{0}))
}

func planGroup(in component.OperatorIn, cfg GroupConfig) (component.OperatorPlan, error) {
	if in.Inputs[0].Changelog {
		return planGroupRetract(in, cfg)
	}
	s, err := newGroupShape(in, cfg)
	if err != nil {
		return component.OperatorPlan{}, err
	}
	spills := "groups"
	if len(s.set.distinct) > 0 {
		spills = ""
	}
	return component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: dataflow.Stream{Schema: s.out, Changelog: true, Key: s.by.names(), Forgets: true}},
			{Name: dataflow.PortLate, Stream: dataflow.Stream{Schema: s.late}},
			dataflow.BadPort(),
		},
		Keyed:       true,
		Exchange:    s.exchange(),
		RouteBy:     groupHash,
		KeyText:     s.by.keyText(),
		State:       s.stateText(cfg),
		Spills:      spills,
		Fingerprint: fmt.Sprintf("group/1 expire %dus", s.expire) + s.by.fingerprint() + s.set.fingerprint(),
	}, nil
}

func (s *groupShape) stateText(cfg GroupConfig) string {
	values := ""
	if len(s.set.distinct) > 0 {
		values = " and the different values under distinct"
	}
	return fmt.Sprintf("%d bytes of accumulators%s and the key per group, until the watermark is %s after its last row (twice expire_after)",
		8*s.layout().stride, values, 2*cfg.ExpireAfter)
}

func newGroupShape(in component.OperatorIn, cfg GroupConfig) (*groupShape, error) {
	input := in.Inputs[0].Schema
	s := &groupShape{input: input, expire: cfg.ExpireAfter.D().Microseconds()}
	var problems component.Problems
	if !dataflow.Timed(input) {
		problems = append(problems, component.Problem{Msg: fmt.Sprintf("rows of %q have no event time, by which groups expire: give %s event_time: {column: ..., out_of_orderness: ...}", in.Names[0], windowSources(in.Sources))})
	}
	problems = append(problems, checkExpire("expire_after", cfg.ExpireAfter)...)
	problems = append(problems, s.init(input, cfg)...)
	if len(problems) > 0 {
		return nil, problems
	}
	s.late = groupLateSchema(input)
	return s, nil
}

// init checks what does not depend on the kind of stream: groups, aggregates and
// the columns of the result.
func (s *groupShape) init(input *arrow.Schema, cfg GroupConfig) component.Problems {
	var problems, more component.Problems
	s.by, problems = newByKeys(input, cfg.By)
	s.set, more = newAggregateSet(input, cfg.Aggregate)
	problems = append(problems, more...)
	fields := slices.Clone(s.by.schema.Fields())
	for _, f := range s.set.results {
		switch {
		case dataflow.IsSystem(f.Name):
			problems = append(problems, component.Problem{Path: "aggregate." + f.Name, Msg: fmt.Sprintf("names that begin with %q are reserved", dataflow.SysPrefix)})
		case slices.ContainsFunc(fields, func(have arrow.Field) bool { return have.Name == f.Name }):
			problems = append(problems, component.Problem{Path: "aggregate." + f.Name, Msg: fmt.Sprintf("the result has another column %q: choose another name", f.Name)})
		}
		fields = append(fields, f)
	}
	s.rows = arrow.NewSchema(fields, nil)
	s.out = arrow.NewSchema(append(fields, dataflow.OpField()), nil)
	return problems
}

// checkExpire says what is wrong with a bound of the state.
func checkExpire(path string, d component.Duration) component.Problems {
	switch {
	case d.D() <= 0:
		return component.Problems{{Path: path, Msg: "the state needs a bound above 0: how long a key may be quiet, in event time, and still go on, as 24h"}}
	case d.D()%time.Microsecond != 0:
		return component.Problems{{Path: path, Msg: fmt.Sprintf("expected whole microseconds, not %s", d)}}
	}
	return nil
}

// groupLateSchema is the user's columns, what makes the row late, the system
// columns.
func groupLateSchema(input *arrow.Schema) *arrow.Schema {
	fields := slices.Clone(dataflow.UserFields(input))
	for _, f := range []arrow.Field{
		{Name: "watermark", Type: dataflow.TypeTimestampTZ},
		{Name: "lateness", Type: dataflow.TypeInt64},
	} {
		for slices.ContainsFunc(fields, func(have arrow.Field) bool { return have.Name == f.Name }) {
			f.Name = "late_" + f.Name
		}
		fields = append(fields, f)
	}
	return arrow.NewSchema(append(fields, dataflow.SysFields(input)...), nil)
}
