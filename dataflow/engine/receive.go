package engine

import (
	"context"

	"frazil/dataflow"
)

// receiver is what one kind of task does with what comes into its inbox. All
// calls come from the task's goroutine.
type receiver interface {
	// batch takes over m.batch.
	batch(ctx context.Context, edge int, m message) error
	// watermark: the least over all edges has risen to wm.
	watermark(ctx context.Context, wm dataflow.Time) error
	// barrier has come on every edge (I2); wm is the task's watermark.
	barrier(ctx context.Context, b barrier, wm dataflow.Time) error
	// end: every edge has ended.
	end(ctx context.Context) error
}

// receive hands everything that comes into in to r, aligned, until the end, an
// error, or errStopped.
func receive(ctx context.Context, in *inbox, r receiver) error {
	m := newMerger(len(in.edges))
	for {
		edge, msg, err := in.take()
		if err != nil {
			return err
		}
		switch msg.kind {
		case msgBatch:
			err = r.batch(ctx, edge, msg)
		case msgWatermark:
			if wm, rose := m.watermark(edge, msg.wm); rose {
				err = r.watermark(ctx, wm)
			}
		case msgBarrier:
			in.block(edge)
			if m.barrier(edge) {
				err = r.barrier(ctx, msg.bar, m.current)
				in.unblock()
			}
		case msgAsk:
			msg.ask()
		case msgEnd:
			if m.end(edge) {
				return r.end(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

var (
	_ receiver = (*keyedTask)(nil)
	_ receiver = (*sinkTask)(nil)
)
