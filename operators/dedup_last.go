package operators

import (
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// A dedup that keeps the last row of each key is a top without windows, with one
// row per group and the order of event times turned. Since the greatest row wins
// however far apart rows lie, forgetting one decides nothing: whatever still comes
// is later than it.

func planDedupLast(in component.OperatorIn, cfg DedupConfig) (component.OperatorPlan, error) {
	s, err := newDedupLastShape(in, cfg)
	if err != nil {
		return component.OperatorPlan{}, err
	}
	return component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: dataflow.Stream{Schema: s.out, Changelog: true, Key: cfg.Key, Forgets: true}},
			{Name: dataflow.PortLate, Stream: dataflow.Stream{Schema: s.late}},
		},
		Keyed: true, Exchange: topExchange, RouteBy: groupHash, KeyText: s.by.keyText(),
		State:       fmt.Sprintf("the last row per key, until the watermark is about %s after it (twice within)", 2*cfg.Within),
		Spills:      "keys and their rows",
		Fingerprint: "dedup last/1 " + s.fingerprint(),
	}, nil
}

func newDedupLastShape(in component.OperatorIn, cfg DedupConfig) (*topShape, error) {
	input := in.Inputs[0].Schema
	by, problems := newByKeys(input, byColumns(cfg.Key...))
	if len(problems) > 0 {
		return nil, problems
	}
	users := dataflow.UserFields(input)
	return &topShape{
		input: input, users: len(users), by: by, limit: 1, keep: cfg.Within.D().Microseconds(), last: true,
		rows: arrow.NewSchema(users, nil), out: arrow.NewSchema(append(slices.Clone(users), dataflow.OpField()), nil),
		late: groupLateSchema(input),
	}, nil
}

func newDedupLast(env *dataflow.Env, in component.OperatorIn, cfg DedupConfig) (dataflow.Operator, error) {
	s, err := newDedupLastShape(in, cfg)
	if err != nil {
		return nil, err
	}
	return newTopKeyed(env, s)
}

func newDedupLastBefore(env *dataflow.Env, in component.OperatorIn, cfg DedupConfig) (dataflow.Operator, error) {
	s, err := newDedupLastShape(in, cfg)
	if err != nil {
		return nil, err
	}
	return newTopBefore(env, s)
}
