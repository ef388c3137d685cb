package engine

import (
	"context"
	"errors"
	"math/rand"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// heldCount holds the first barrier in one task until the other has come to the end
// of time.
type heldCount struct {
	*countOp
	inBarrier, drained func()
	wait               <-chan struct{}
}

func (o *heldCount) OnBarrier(ctx context.Context, e dataflow.Epoch, out dataflow.Emitter) error {
	if o.env.Task == 1 && e == 1 {
		o.inBarrier()
		select {
		case <-o.wait:
		case <-ctx.Done():
		}
	}
	return o.countOp.OnBarrier(ctx, e, out)
}

func (o *heldCount) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	err := o.countOp.OnWatermark(ctx, wm, out)
	if o.env.Task == 0 && wm == dataflow.MaxTime {
		o.drained()
	}
	return err
}

// endingSource asks for an epoch behind its last row, and ends once that is under way.
type endingSource struct {
	*seqSource
	ask   func()
	begun <-chan struct{}
	ended bool
}

func (s *endingSource) Poll(ctx context.Context, max dataflow.PollLimit) (dataflow.Polled, error) {
	p, err := s.seqSource.Poll(ctx, max)
	if err != nil || p.Split != "" || s.ended {
		return p, err
	}
	select {
	case <-s.begun:
		s.ended = true
		return dataflow.Polled{Split: "0", Next: seqPos(s.rows), CaughtUp: true, Ended: true}, nil
	default:
		s.ask()
		return p, nil
	}
}

// A source that ends closes windows behind a barrier: the epoch of that barrier has
// them open, although its manifest is made later.
func TestClosedUpToIsThatOfTheBarrier(t *testing.T) {
	begun, drained := make(chan struct{}), make(chan struct{})
	var job *Job
	src := seqStep(1, 300, 1, nil)
	src.New = func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) {
		seq := &seqSource{splits: 1, rows: 300, open: true, rng: rand.New(rand.NewSource(1)), at: map[dataflow.Split]*seqAt{}}
		return &endingSource{seqSource: seq, ask: func() { job.Checkpoint() }, begun: begun}, nil
	}
	other := seqStep(1, 10, 1, nil)
	other.Name = "other"
	other.New = func(context.Context, *dataflow.Env) (dataflow.Source, error) {
		return &seqSource{splits: 1, rows: 10, open: true, rng: rand.New(rand.NewSource(1)), at: map[dataflow.Split]*seqAt{}}, nil
	}
	count := countStep(PortRef{"src", 0})
	create := count.New
	beginOnce, drainOnce := sync.OnceFunc(func() { close(begun) }), sync.OnceFunc(func() { close(drained) })
	count.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error) {
		op, err := create(ctx, env)
		return &heldCount{op.(*countOp), beginOnce, drainOnce, drained}, err
	}
	g := &Graph{
		Name: "closed", Parallelism: 2, Sources: []*Source{src, other}, Operators: []*Operator{count},
		Sinks: []*Sink{(&memTarget{}).sink("counts", PortRef{"count", 0}), (&memTarget{}).sink("late", PortRef{"count", 1}), (&memTarget{}).sink("others", PortRef{"other", 0})},
	}
	store := openStore(t, t.TempDir())
	defer store.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var first *checkpoint.Manifest
	job = NewJob(g, Options{Store: store, Every: time.Hour, Log: testLog(t), OnManifest: func(m *checkpoint.Manifest) {
		if first == nil {
			first = m
			cancel()
		}
	}})
	if _, err := job.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if first.Epoch != 1 || len(first.Closed) != 0 {
		t.Fatalf("%s has closed windows up to %v, and nothing had ended before its barrier", first.Epoch, first.Closed)
	}
	select {
	case <-drained:
	default:
		t.Fatal("no window was closed behind the barrier")
	}
}
