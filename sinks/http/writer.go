package http

import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"

	"github.com/apache/arrow-go/v18/arrow"
)

// writer spools rows until their commit.
type writer struct {
	rows  *rows
	spool *spool.Writer
}

func newWriter(_ context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (_ dataflow.Writer, err error) {
	l, problems := newLayout(in.Input, cfg)
	if problems = append(check(cfg), problems...); len(problems) > 0 {
		return nil, problems
	}
	w := &writer{rows: newRows(env, in.Input, l)}
	if w.spool, err = spool.NewWriter(env); err != nil {
		return nil, err
	}
	return w, nil
}

// Write implements dataflow.Writer.
func (w *writer) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	return w.rows.each(b, w.spool.Append)
}

// Prepare implements dataflow.Writer.
func (w *writer) Prepare(_ context.Context, e dataflow.Epoch) (dataflow.Pending, error) {
	return w.spool.Cut(e)
}

// Close implements dataflow.Writer.
func (w *writer) Close() error {
	w.rows.bad.Release()
	return w.spool.Close()
}

var _ dataflow.Writer = (*writer)(nil)
