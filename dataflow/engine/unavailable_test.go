package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// A store that fails more often than a component may is waited for, as long as
// --max-retry says.
func TestAnUnavailableStoreIsWaitedFor(t *testing.T) {
	down := errors.New("slow down")
	graph := func(target *memTarget, err error, times int64) *Graph {
		var polls atomic.Int64
		fail := func() error {
			if polls.Add(1)%2 == 0 && polls.Load() <= 2*times {
				return err
			}
			return nil
		}
		return &Graph{Name: "p", Parallelism: 2, Sources: []*Source{seqStep(1, 3000, 1, fail)}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
	}
	target := &memTarget{}
	if _, err := runJob(t, graph(target, dataflow.Unavailable(down), maxRestarts+2), t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	want, _ := wantRows(1, 3000)
	if d := diff(target.sorted(), want); d != "" {
		t.Fatal(d)
	}
	if _, err := runJob(t, graph(&memTarget{}, down, maxRestarts+2), t.TempDir(), nil); !errors.Is(err, ErrTooManyRestarts) {
		t.Fatalf("the same failure of a component: %v, want %v", err, ErrTooManyRestarts)
	}
	_, err := runJob(t, graph(&memTarget{}, dataflow.Unavailable(down), 1<<40), t.TempDir(), func(o *Options) { o.MaxRetry = 200 * time.Millisecond })
	if !errors.Is(err, down) || errors.Is(err, ErrTooManyRestarts) {
		t.Fatalf("with a bound: %v, want %v", err, down)
	}
}

// laggingTarget answers, when it is looked at, with what it held long ago, for so many
// times.
type laggingTarget struct {
	*memTarget
	lags atomic.Int64
}

type laggingCommitter struct {
	memCommitter
	t *laggingTarget
}

func (c laggingCommitter) Committed(ctx context.Context) (dataflow.Committed, error) {
	if c.t.lags.Add(-1) >= 0 {
		return dataflow.Committed{Positions: dataflow.Positions{"src": {"0": seqPos(1)}}, ClockComplete: true}, nil
	}
	return c.memCommitter.Committed(ctx)
}

// A target that answers with an older state, as a cache before it does, is looked at
// again before the run ends for it; one that stays there was put back.
func TestATargetThatLagsIsLookedAtAgain(t *testing.T) {
	target := &laggingTarget{memTarget: &memTarget{}}
	sink := target.sink("out", PortRef{"src", 0})
	sink.NewCommitter = func(context.Context, *dataflow.Env) (dataflow.Committer, error) {
		return laggingCommitter{memCommitter{target.memTarget}, target}, nil
	}
	dir := t.TempDir()
	run := func() error {
		_, err := runJob(t, &Graph{Name: "p", Parallelism: 2, Sources: []*Source{seqStep(2, 1000, 1, nil)}, Sinks: []*Sink{sink}}, dir, nil)
		return err
	}
	for _, lags := range []int64{0, 2, 0} {
		target.lags.Store(lags)
		if err := run(); err != nil {
			t.Fatalf("%d old answers: %v", lags, err)
		}
	}
	want, _ := wantRows(2, 1000)
	if d := diff(target.sorted(), want); d != "" {
		t.Fatal(d)
	}
	target.lags.Store(1000)
	if err := run(); !errors.Is(err, checkpoint.ErrCannotResume) {
		t.Fatalf("%v, want %v", err, checkpoint.ErrCannotResume)
	}
}
