package engine

import (
	"context"
	"sync/atomic"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"
)

// keyedTask runs the half of a keyed operator behind its exchange, and the
// chain behind that.
type keyedTask struct {
	name   string
	plant  *plant
	in     *inbox
	stage  *opStage
	chain  *taskChain
	report func(report)
	// wmNow is the watermark that the step has worked up to, for who asks.
	wmNow atomic.Int64
	// unwritten is what the step holds beside its KV: see dataflow.Unwritten.
	unwritten atomic.Int64
}

// weigh asks the step what it holds beside its KV.
func (t *keyedTask) weigh() {
	if u, ok := t.stage.op.(dataflow.Unwritten); ok {
		t.unwritten.Store(u.UnwrittenBytes())
	}
	t.press()
}

func (t *keyedTask) run(ctx context.Context) error { return receive(ctx, t.in, t) }

func (t *keyedTask) batch(ctx context.Context, _ int, m message) error {
	defer m.batch.Release()
	defer t.weigh()
	t.stage.port = m.port
	return t.stage.process(ctx, m.batch)
}

func (t *keyedTask) watermark(ctx context.Context, wm dataflow.Time) error {
	t.wmNow.Store(int64(wm))
	defer t.weigh()
	return t.stage.watermark(ctx, wm)
}

func (t *keyedTask) barrier(ctx context.Context, b barrier, _ dataflow.Time) error {
	if err := failpoint.Hit(failpoint.TaskBarrier); err != nil {
		return err
	}
	if err := t.stage.barrier(ctx, b); err != nil {
		return err
	}
	t.weigh()
	r := t.chain.report(b.epoch)
	if err := failpoint.Hit(failpoint.TaskFrozen); err != nil {
		return err
	}
	t.report(r)
	return nil
}

func (t *keyedTask) end(ctx context.Context) error { return t.stage.end(ctx) }

// sinkTask runs one writer.
type sinkTask struct {
	name   string
	step   string
	in     *inbox
	writer dataflow.Writer
	fates  *dataflow.Fates
	bad    *outPort // rows the target can never take
	muted  bool
	chain  *taskChain
	report func(report)
}

func (t *sinkTask) run(ctx context.Context) error {
	return wrapSink(t.step, receive(ctx, t.in, t))
}

func (t *sinkTask) watermark(ctx context.Context, wm dataflow.Time) error {
	return outPorts{t.bad}.watermark(ctx, wm)
}

func (t *sinkTask) end(ctx context.Context) error { return outPorts{t.bad}.end(ctx) }

func (t *sinkTask) batch(ctx context.Context, _ int, msg message) error {
	defer msg.batch.Release()
	n := msg.batch.NumRows()
	t.fates.In.Add(n)
	if t.muted {
		t.fates.Muted.Add(n)
		return nil
	}
	bad, err := t.writer.Write(ctx, msg.batch)
	if err != nil {
		return err
	}
	if bad != nil {
		t.fates.Bad.Add(bad.NumRows())
		n -= bad.NumRows()
		if err := t.bad.emit(ctx, bad); err != nil {
			return err
		}
	}
	t.fates.Staged.Add(n)
	return nil
}

func (t *sinkTask) barrier(ctx context.Context, b barrier, wm dataflow.Time) error {
	p, err := t.writer.Prepare(ctx, b.epoch)
	if err != nil {
		return err
	}
	if err := (outPorts{t.bad}).barrier(ctx, b); err != nil {
		return err
	}
	for _, name := range b.unmute {
		t.muted = t.muted && name != t.step
	}
	r := t.chain.report(b.epoch)
	r.sink = &sinkReport{step: t.step, watermark: wm, pending: p}
	t.report(r)
	return nil
}
