package engine

import (
	"context"

	"frazil/dataflow"
)

// keyedTask runs the half of a keyed operator behind its exchange, and the
// chain behind that.
type keyedTask struct {
	name   string
	in     *inbox
	stage  *opStage
	chain  *taskChain
	report func(report)
}

func (t *keyedTask) run(ctx context.Context) error {
	m := newMerger(len(t.in.edges))
	for {
		edge, msg, err := t.in.take()
		if err != nil {
			return err
		}
		switch msg.kind {
		case msgBatch:
			t.stage.port = msg.port
			err = t.stage.process(ctx, msg.batch)
			msg.batch.Release()
		case msgWatermark:
			if wm, rose := m.watermark(edge, msg.wm); rose {
				err = t.stage.watermark(ctx, wm)
			}
		case msgBarrier:
			t.in.block(edge)
			if m.barrier(edge) {
				if err = t.stage.barrier(ctx, msg.bar); err == nil {
					t.report(t.chain.report(msg.bar.epoch))
				}
				t.in.unblock()
			}
		case msgEnd:
			if m.end(edge) {
				return t.stage.end(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

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
	m := newMerger(len(t.in.edges))
	for {
		edge, msg, err := t.in.take()
		if err != nil {
			return err
		}
		switch msg.kind {
		case msgBatch:
			err = t.write(ctx, msg)
		case msgWatermark:
			if wm, rose := m.watermark(edge, msg.wm); rose {
				err = outPorts{t.bad}.watermark(ctx, wm)
			}
		case msgBarrier:
			t.in.block(edge)
			if m.barrier(edge) {
				err = t.barrier(ctx, msg.bar, m.current)
				t.in.unblock()
			}
		case msgEnd:
			if m.end(edge) {
				return outPorts{t.bad}.end(ctx)
			}
		}
		if err != nil {
			return wrapSink(t.step, err)
		}
	}
}

func (t *sinkTask) write(ctx context.Context, msg message) error {
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
