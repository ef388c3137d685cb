package operators

import (
	"context"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// Windows whose results depend on the order of rows (see WindowConfig.ordered)
// are planned and made here: sessions, count windows, and all others with
// updates. They take rows in stamp order (D19).

func planWindowOrdered(in component.OperatorIn, cfg WindowConfig) (component.OperatorPlan, error) {
	s, err := newOrderedShape(in, cfg)
	if err != nil {
		return component.OperatorPlan{}, err
	}
	plan := component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: s.stream(cfg)},
			{Name: dataflow.PortLate, Stream: dataflow.Stream{Schema: s.late}},
			dataflow.BadPort(),
		},
		Keyed:       true,
		Exchange:    s.exchange,
		RouteBy:     windowHash,
		KeyText:     windowKeyText(cfg.By),
		Delay:       time.Duration(s.keep) * time.Microsecond,
		State:       s.bound(cfg),
		Spills:      "groups",
		Fingerprint: s.orderedFingerprint(cfg),
	}
	if s.earlyAfter > 0 {
		plan.NotReplayable = "early results come by the clock; use early: {rows: N}"
	}
	return plan, nil
}

func newWindowOrdered(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg WindowConfig) (dataflow.Operator, error) {
	s, err := newOrderedShape(in, cfg)
	if err != nil {
		return nil, err
	}
	w, err := newWindowOrderedKeyed(env, s)
	if err != nil {
		return nil, err
	}
	return inStampOrder(env, s.exchange, windowHash, w)
}

func newWindowOrderedBefore(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg WindowConfig) (dataflow.Operator, error) {
	s, err := newOrderedShape(in, cfg)
	if err != nil {
		return nil, err
	}
	return newOrderedBefore(env, s)
}
