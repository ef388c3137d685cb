package engine

import (
	"context"
	"errors"
	"log/slog"
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

// onWaiting calls itself when the job says that it will try again.
type onWaiting struct {
	slog.Handler
	call func()
}

func (h onWaiting) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "will try again" {
		h.call()
	}
	return nil
}

func (h onWaiting) Enabled(context.Context, slog.Level) bool { return true }

func (h onWaiting) WithAttrs([]slog.Attr) slog.Handler { return h }

// A stop while the outside is waited for ends the run in good order, since nothing runs
// that could be checkpointed, and the next run goes on. A component that failed, and a
// bound for retries that is reached, are errors all the same.
func TestAStopWhileTheOutsideIsAwayIsFine(t *testing.T) {
	down := dataflow.Unavailable(errors.New("nobody answers"))
	broken := errors.New("broken")
	for _, c := range []struct {
		name          string
		connect, poll error
		want          error
	}{
		{name: "connecting", connect: down},
		{name: "running", poll: down},
		{name: "a component", poll: broken, want: broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			var away atomic.Bool
			away.Store(true)
			target := &memTarget{}
			graph := func() *Graph {
				sink := target.sink("out", PortRef{"src", 0})
				open := sink.NewCommitter
				sink.NewCommitter = func(ctx context.Context, env *dataflow.Env) (dataflow.Committer, error) {
					if c.connect != nil && away.Load() {
						return nil, c.connect
					}
					return open(ctx, env)
				}
				src := seqStep(1, 3000, 1, func() error {
					if c.poll != nil && away.Load() {
						return c.poll
					}
					return nil
				})
				return &Graph{Name: "p", Parallelism: 2, Sources: []*Source{src}, Sinks: []*Sink{sink}}
			}
			s := openStore(t, t.TempDir())
			defer s.Close()
			var job *Job
			waits := 0
			o := Options{Store: s, Every: 3 * time.Millisecond, Budget: 20 * time.Second, Log: slog.New(onWaiting{call: func() {
				if waits++; waits == 2 {
					job.Stop()
				}
			}})}
			job = NewJob(graph(), o)
			if _, err := job.Run(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Fatalf("stopped: %v, want %v", err, c.want)
			}
			if waits != 2 {
				t.Errorf("it waited %d times, want 2", waits)
			}
			away.Store(false)
			o.Log, o.UntilEnd = testLog(t), true
			if _, err := NewJob(graph(), o).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			want, _ := wantRows(1, 3000)
			if d := diff(target.sorted(), want); d != "" {
				t.Fatal(d)
			}
		})
	}
}
