package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// edgeStage sends into another task's inbox.
type edgeStage struct {
	in   *inbox
	edge int
	port int
}

func (s *edgeStage) process(_ context.Context, b arrow.RecordBatch) error {
	b.Retain()
	return s.in.put(s.edge, message{kind: msgBatch, port: s.port, batch: b})
}

func (s *edgeStage) watermark(_ context.Context, wm dataflow.Time) error {
	return s.in.put(s.edge, message{kind: msgWatermark, wm: wm})
}

func (s *edgeStage) barrier(_ context.Context, b barrier) error {
	return s.in.put(s.edge, message{kind: msgBarrier, bar: b})
}

func (s *edgeStage) end(context.Context) error {
	return s.in.put(s.edge, message{kind: msgEnd})
}

// outPort is one port of a step's instance in one task.
type outPort struct {
	readers []stage
	sent    atomic.Int64
	name    string // "step" or "step.port"; "" for an exchange
	// bad logs what leaves by a port "bad" of step; nil for other ports.
	bad  *badLog
	step string
}

// emit hands b to every reader and gives up the reference it took over.
func (p *outPort) emit(ctx context.Context, b arrow.RecordBatch) error {
	defer b.Release()
	if b.NumRows() == 0 {
		return nil
	}
	p.sent.Add(b.NumRows())
	if p.bad != nil {
		p.bad.note(p.step, b)
	}
	for _, r := range p.readers {
		if err := r.process(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// outPorts is the fan-out behind one instance.
type outPorts []*outPort

func (o outPorts) each(f func(stage) error) error {
	for _, p := range o {
		for _, r := range p.readers {
			if err := f(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o outPorts) watermark(ctx context.Context, wm dataflow.Time) error {
	return o.each(func(s stage) error { return s.watermark(ctx, wm) })
}

func (o outPorts) barrier(ctx context.Context, b barrier) error {
	return o.each(func(s stage) error { return s.barrier(ctx, b) })
}

func (o outPorts) end(ctx context.Context) error {
	return o.each(func(s stage) error { return s.end(ctx) })
}

// opStage is an operator's instance with what stands behind it. It is the
// Emitter its operator gets.
type opStage struct {
	step  string
	op    dataflow.Operator
	port  int
	fates *dataflow.Fates
	outs  outPorts
	delay time.Duration
	// counts is false for the half behind an exchange: its rows were counted in
	// front of it.
	counts bool
}

// Emit implements dataflow.Emitter.
func (s *opStage) Emit(ctx context.Context, port int, b arrow.RecordBatch) error {
	if port < 0 || port >= len(s.outs) {
		b.Release()
		return fmt.Errorf("step %s: emit to port %d of %d", s.step, port, len(s.outs))
	}
	return s.outs[port].emit(ctx, b)
}

func (s *opStage) process(ctx context.Context, b arrow.RecordBatch) error {
	if s.counts {
		s.fates.In.Add(b.NumRows())
	}
	return s.wrap(s.op.Process(ctx, s.port, b, s))
}

func (s *opStage) watermark(ctx context.Context, wm dataflow.Time) error {
	if h, ok := s.op.(dataflow.WatermarkHandler); ok {
		if err := h.OnWatermark(ctx, wm, s); err != nil {
			return s.wrap(err)
		}
	}
	return s.outs.watermark(ctx, wm.Sub(s.delay))
}

func (s *opStage) barrier(ctx context.Context, b barrier) error {
	if h, ok := s.op.(dataflow.BarrierHandler); ok {
		if err := h.OnBarrier(ctx, b.epoch, s); err != nil {
			return s.wrap(err)
		}
	}
	return s.outs.barrier(ctx, b)
}

func (s *opStage) end(ctx context.Context) error { return s.outs.end(ctx) }

func (s *opStage) wrap(err error) error {
	if err == nil || errors.Is(err, errStopped) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("step %s: %w", s.step, err)
}

func wrapSink(step string, err error) error {
	if err == nil || errors.Is(err, errStopped) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("sink %s: %w", step, err)
}
