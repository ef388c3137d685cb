package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"

	"github.com/apache/arrow-go/v18/arrow"
)

// heavyCount holds much from its first row on, until a barrier.
type heavyCount struct {
	*countOp
	bytes, barriers atomic.Int64
}

func (o *heavyCount) Process(ctx context.Context, port int, b arrow.RecordBatch, out dataflow.Emitter) error {
	o.bytes.Store(1 << 30)
	return o.countOp.Process(ctx, port, b, out)
}

func (o *heavyCount) OnBarrier(ctx context.Context, e dataflow.Epoch, out dataflow.Emitter) error {
	o.bytes.Store(0)
	o.barriers.Add(1)
	return o.countOp.OnBarrier(ctx, e, out)
}

func (o *heavyCount) UnwrittenBytes() int64 { return o.bytes.Load() }

// TestUnwrittenBytesBringAnEpochEarly: a checkpoint comes long before its time, and
// gives the bytes back, though none of them were in a KV.
func TestUnwrittenBytesBringAnEpochEarly(t *testing.T) {
	var op *heavyCount
	src := seqStep(1, 1000, 1, nil)
	src.Bounded = false
	create := src.New
	src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		s, err := create(ctx, env)
		s.(*seqSource).open = true
		return s, err
	}
	count := countStep(PortRef{"src", 0})
	count.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error) {
		inner, err := newCountOp(ctx, env)
		if err != nil {
			return nil, err
		}
		op = &heavyCount{countOp: inner.(*countOp)}
		return op, nil
	}
	target := &memTarget{}
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Operators: []*Operator{count}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
	s := openStore(t, t.TempDir())
	defer s.Close()
	epoch := make(chan struct{}, 100)
	job := NewJob(g, Options{Store: s, Every: time.Hour, Log: testLog(t), OnManifest: func(m *checkpoint.Manifest) {
		if m.Epoch > 0 {
			epoch <- struct{}{}
		}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := job.Run(ctx)
		ended <- err
	}()
	select {
	case <-epoch:
	case err := <-ended:
		t.Fatalf("the run ended with %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("no epoch comes")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	if op.barriers.Load() == 0 {
		t.Error("the step had no barrier")
	}
}
