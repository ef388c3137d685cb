package operators

import (
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// A group over a changelog keeps the aggregates of the table that its input makes
// when it is folded. Aggregates that can be taken back (sums) are counted up and
// down; of a group with others the rows are kept, and they are computed again from
// them at each barrier at which the group changed.
//
// A step that forgets rows (see dataflow.Stream) may put a row in the place of one
// without taking that away. The rows are kept then, by the key of the input, so
// that it is known what a row takes the place of. The old row may be of another
// group, unless "by" is part of the key: one task has all rows then.

// invertibleAggregate is an aggregateFunc whose accumulators are a group: what was
// added can be taken back.
type invertibleAggregate interface {
	aggregateFunc
	// negate makes acc what takes its rows back when merged.
	negate(acc []uint64)
}

// negateWords negates a number in two's complement, lowest word first.
func negateWords(w []uint64) {
	carry := true
	for i := range w {
		w[i] = ^w[i]
		if carry {
			w[i]++
			carry = w[i] == 0
		}
	}
}

func (countFunc) negate(acc []uint64) { negateWords(acc[:1]) }

func (intSumFunc) negate(acc []uint64) {
	negateWords(acc[:2])
	negateWords(acc[2:3])
}

func (decimalSumFunc) negate(acc []uint64) {
	negateWords(acc[:3])
	negateWords(acc[3:4])
}

func (intSpreadFunc) negate(acc []uint64) {
	negateWords(acc[:2])
	negateWords(acc[2:5])
	negateWords(acc[5:6])
}

func (decimalSpreadFunc) negate(acc []uint64) {
	negateWords(acc[:3])
	negateWords(acc[3:8])
	negateWords(acc[8:9])
}

// groupRetractShape is a checked configuration on a changelog.
type groupRetractShape struct {
	*groupShape
	id      []int         // the columns of the input's key
	sums    *aggregateSet // what can be taken back
	kept    *aggregateSet // the others
	places  []retractPlace
	rowKept bool // the state holds the input's rows
	oneTask bool // a row may take the place of one of any group
	forgets bool // as the input
}

// retractPlace says where the aggregate of a result is.
type retractPlace struct {
	kept bool
	at   int
}

// sumLayout is that of the sums, with the number of rows behind them.
func (s *groupRetractShape) sumLayout() *accLayout {
	return newAccLayout(append(slices.Clone(s.sums.funcs), countFunc{}))
}

func newGroupRetractShape(in component.OperatorIn, cfg GroupConfig) (*groupRetractShape, error) {
	input := in.Inputs[0]
	g := &groupShape{input: input.Schema}
	var problems component.Problems
	if cfg.ExpireAfter != 0 {
		problems = append(problems, component.Problem{Path: "expire_after", Msg: fmt.Sprintf("%q gives changes: a group goes when its last row is taken away, so leave expire_after out", in.Names[0])})
	}
	problems = append(problems, g.init(arrow.NewSchema(dataflow.UserFields(input.Schema), nil), cfg)...)
	if len(problems) > 0 {
		return nil, problems
	}
	s := &groupRetractShape{groupShape: g, forgets: input.Forgets}
	for _, k := range input.Key {
		s.id = append(s.id, dataflow.Column(input.Schema, k))
	}
	s.split()
	s.rowKept = s.forgets || len(s.kept.aggs) > 0
	s.oneTask = s.forgets && slices.ContainsFunc(s.by.cols, func(c int) bool { return !slices.Contains(s.id, c) })
	return s, nil
}

// split divides the aggregates.
func (s *groupRetractShape) split() {
	s.sums, s.kept = &aggregateSet{schema: s.set.schema, exprs: s.set.exprs}, &aggregateSet{schema: s.set.schema, exprs: s.set.exprs}
	for i, a := range s.set.aggs {
		to := s.kept
		if _, ok := s.set.funcs[i].(invertibleAggregate); ok && !a.distinct {
			to = s.sums
		}
		s.places = append(s.places, retractPlace{to == s.kept, len(to.aggs)})
		to.aggs, to.funcs, to.results = append(to.aggs, a), append(to.funcs, s.set.funcs[i]), append(to.results, s.set.results[i])
	}
	for _, d := range s.set.distinct {
		d.aggs = slices.Clone(d.aggs)
		for i, agg := range d.aggs {
			d.aggs[i] = s.places[agg].at
		}
		s.kept.distinct = append(s.kept.distinct, d)
	}
}

// Columns of the exchange.
const (
	retractHash = iota
	retractKey
	retractID
	retractOp
	retractRow
)

// retractExchange is the schema between the halves: the hash of the key, the key of
// the group, that of the input, what the change does, and the row: the values that
// the aggregates read (see rowEncoder).
var retractExchange = arrow.NewSchema([]arrow.Field{
	{Name: groupHash, Type: arrow.PrimitiveTypes.Uint64},
	{Name: "_key", Type: dataflow.TypeBinary},
	{Name: "_id", Type: dataflow.TypeBinary},
	dataflow.OpField(),
	{Name: "_row", Type: dataflow.TypeBinary},
}, nil)

// retractBad is the port of bad rows: there are no late ones.
const retractBad = 1

func planGroupRetract(in component.OperatorIn, cfg GroupConfig) (component.OperatorPlan, error) {
	s, err := newGroupRetractShape(in, cfg)
	if err != nil {
		return component.OperatorPlan{}, err
	}
	keyText := s.by.keyText()
	if s.oneTask {
		keyText = fmt.Sprintf("nothing, so one task has all rows: %q forgets rows, and only \"by\" with columns of its key (%s) tells where a forgotten one is", in.Names[0], strings.Join(in.Inputs[0].Key, ", "))
	}
	return component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: dataflow.Stream{Schema: s.out, Changelog: true, Key: s.by.names()}},
			dataflow.BadPort(),
		},
		Keyed: true, Exchange: retractExchange, RouteBy: groupHash, KeyText: keyText,
		State:       s.stateText(in.Names[0]),
		Fingerprint: s.fingerprint(in.Inputs[0]),
	}, nil
}

func (s *groupRetractShape) stateText(input string) string {
	text := fmt.Sprintf("%d bytes of accumulators and the key per group that has rows in the table of %q", 8*(s.sumLayout().stride+newAccLayout(s.kept.funcs).stride), input)
	if s.rowKept {
		text += ", and of each row of that table its key and what the aggregates read"
	}
	return text
}

func (s *groupRetractShape) fingerprint(in dataflow.Stream) string {
	id := ""
	for i, c := range s.id {
		id += fmt.Sprintf(" %q %s,", in.Key[i], dataflow.TypeName(in.Schema.Field(c).Type))
	}
	return fmt.Sprintf("group changes/1 rows %t one task %t id%s", s.rowKept, s.oneTask, id) + s.by.fingerprint() + s.set.fingerprint()
}
