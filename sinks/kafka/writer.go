package kafka

import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/franz-go/pkg/kgo"
)

// writer spools records until their commit.
type writer struct {
	rows   *rows
	spool  *spool.Writer
	client *kgo.Client
	// ctx of the Write under way.
	ctx context.Context
}

func newWriter(ctx context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Writer, error) {
	l, problems := newLayout(in.Input, cfg)
	if problems = append(check(cfg), problems...); len(problems) > 0 {
		return nil, problems
	}
	enc, problems := newEncoding(in, cfg)
	if len(problems) > 0 {
		return nil, problems
	}
	if enc != nil {
		if err := enc.open(ctx, in, l); err != nil {
			return nil, err
		}
	}
	if cfg.Delivery == atLeastOnce {
		return newThrough(env, in, l, enc, cfg)
	}
	cl, err := newClient(env, cfg)
	if err != nil {
		return nil, err
	}
	w := &writer{client: cl}
	t := newTopics(env, cfg, cl)
	w.rows = newRows(env, in.Input, l, cfg, func(name string) (bool, error) { return t.there(w.ctx, name) })
	w.rows.encode(enc, func() context.Context { return w.ctx })
	if w.spool, err = spool.NewWriter(env); err != nil {
		cl.Close()
		return nil, err
	}
	return w, nil
}

// Write implements dataflow.Writer.
func (w *writer) Write(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	w.ctx = ctx
	return w.rows.each(b, w.spool.Append)
}

// Prepare implements dataflow.Writer.
func (w *writer) Prepare(_ context.Context, e dataflow.Epoch) (dataflow.Pending, error) {
	return w.spool.Cut(e)
}

// Close implements dataflow.Writer.
func (w *writer) Close() error {
	w.rows.release()
	w.client.Close()
	return w.spool.Close()
}

var _ dataflow.Writer = (*writer)(nil)
