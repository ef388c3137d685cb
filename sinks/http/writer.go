package http

import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"
)

func newWriter(_ context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Writer, error) {
	l, problems := newLayout(in.Input, cfg)
	if problems = append(check(cfg), problems...); len(problems) > 0 {
		return nil, problems
	}
	return spool.NewRowsWriter(env, newRows(env, in.Input, l))
}
