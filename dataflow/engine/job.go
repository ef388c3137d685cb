package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/failpoint"
)

// Job is one running pipeline. Make it with [NewJob]; Run it once.
type Job struct {
	g *Graph
	o *Options

	stop     chan struct{}
	stopOnce sync.Once
	ask      chan struct{}

	mu struct {
		sync.Mutex
		status   Status
		manifest *checkpoint.Manifest
		plant    *plant
		// served is what sources that are pushed to have opened, by step.
		served map[string]io.Closer
		// refused is what Health has seen of refusals.
		refused map[string]refusal
	}
	restarts atomic.Int64
	bads     *badLog
	// broken counts by operator; see dataflow.Env.
	broken map[string]*dataflow.Tally
	// fixed are the rows of the quarantine that were sent again, by source.
	fixed   map[string]*fixedStream
	control sync.Mutex // of the quarantine
	// claim is made once a process, by the attempt that first has something to
	// commit; zero: none, or the pipeline needs none.
	claim     dataflow.Claim
	durations durations
	// moved: another process has committed between this one's look and its claim.
	moved bool
	// again: an attempt has been connected before.
	again bool
}

// Result is how a run ended.
type Result struct {
	// Nothing: there was nothing to do, and nothing was changed.
	Nothing bool
	// Manifest is the last durable one.
	Manifest *checkpoint.Manifest
}

// NewJob prepares a run of g.
func NewJob(g *Graph, o Options) *Job {
	j := &Job{g: g, o: o.withDefaults(), stop: make(chan struct{}), ask: make(chan struct{}, 1)}
	j.mu.status.Targets = map[string]TargetStatus{}
	j.bads = newBadLog(j.o.Log, j.o.Now)
	j.broken = map[string]*dataflow.Tally{}
	for _, op := range g.Operators {
		j.broken[op.Name] = &dataflow.Tally{}
	}
	return j
}

// Stop asks for a last checkpoint without a drain; Run then returns. It may be
// called more than once and from any goroutine.
func (j *Job) Stop() { j.stopOnce.Do(func() { close(j.stop) }) }

// Checkpoint asks for an epoch now, beside those that Options.Every starts. It
// returns at once, and does nothing while an epoch is under way. Any goroutine
// may call it.
func (j *Job) Checkpoint() {
	select {
	case j.ask <- struct{}{}:
	default:
	}
}

// Run runs the pipeline until its sources have ended, Stop is called, it fails
// for good, or ctx is cancelled (at once, without a checkpoint). A component's
// error restarts it from the last epoch.
func (j *Job) Run(ctx context.Context) (res Result, err error) {
	j.note(func(s *Status) { s.Started = j.o.Now() })
	if err := j.openFixed(); err != nil {
		return Result{}, errors.Join(err, j.closeFixed())
	}
	defer func() { err = errors.Join(err, j.closeFixed()) }()
	if err := j.serve(ctx); err != nil {
		return Result{}, errors.Join(err, j.endServing())
	}
	defer func() { err = errors.Join(err, j.endServing()) }()
	return j.attempts(ctx)
}

// attempts runs the pipeline again and again, until it ends or fails for good.
func (j *Job) attempts(ctx context.Context) (Result, error) {
	var failures []time.Time
	retry, outside := newBackoff(j.o), newBackoff(j.o)
	var reached dataflow.Epoch
	for {
		res, phase, err := j.attempt(ctx, retry)
		if err == nil || ctx.Err() != nil || final(err) {
			return res, j.keepRefusal(err)
		}
		j.o.Store.Reset()
		if errors.Is(err, errAnew) {
			continue
		}
		if errors.Is(err, errMoved) {
			j.moved = true
			j.o.Log.Warn("starting again from what the targets hold now", "cause", err)
			continue
		}
		j.note(func(s *Status) { s.LastError = err.Error() })
		if phase == connecting || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			// Nothing here is wrong but the outside: it is tried for ever.
			if !retry.wait(ctx, j.stop, err) {
				return res, j.whileWaiting(ctx, retry.stopped || phase == connecting && j.stopping(), err)
			}
			continue
		}
		if errors.Is(err, dataflow.ErrUnavailable) {
			// So it is, but to connect is no sign that it has become better: an epoch is.
			if e := j.Status().Epoch; e > reached {
				reached = e
				outside.reset()
			}
			if !outside.wait(ctx, j.stop, err) {
				return res, j.whileWaiting(ctx, outside.stopped, err)
			}
			continue
		}
		now := j.o.Now()
		failures = slices.DeleteFunc(append(failures, now), func(t time.Time) bool { return now.Sub(t) > restartWindow })
		if len(failures) > maxRestarts {
			return res, fmt.Errorf("%w: %d in %s, the last by: %w", ErrTooManyRestarts, len(failures), restartWindow, err)
		}
		j.restarts.Add(1)
		j.o.Log.Error("a component failed; restarting from the last epoch", "error", err, "restart", len(failures))
		if !retry.wait(ctx, j.stop, err) {
			return res, err
		}
	}
}

// whileWaiting is how a run ends whose wait for the outside ended: fine if it was asked to
// stop meanwhile, since nothing runs that a last checkpoint would be of.
func (j *Job) whileWaiting(ctx context.Context, stopped bool, err error) error {
	if !stopped || ctx.Err() != nil {
		return err
	}
	j.o.Log.Warn("stopped while the outside was waited for; the last epoch stands, and the next run goes on from there", "cause", err)
	return nil
}

// stopping says whether Stop was called.
func (j *Job) stopping() bool { return closed(j.stop) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// errAnew ends an attempt behind the replay of a drain: every step stands at the
// end of time then, and rows may follow, so the tasks are made anew from the
// epoch just written.
var errAnew = errors.New("a drain was replayed")

// final says whether a restart cannot help.
func final(err error) bool {
	for _, e := range []error{dataflow.ErrPermanent, dataflow.ErrGap, dataflow.ErrFenced, checkpoint.ErrCannotResume, ErrChanged, ErrNotStopped} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// attemptPhase says how far an attempt came.
type attemptPhase int

const (
	connecting attemptPhase = iota
	running
)

// attempt runs once from the last manifest to an end or an error, a panic of what it
// does itself included.
func (j *Job) attempt(ctx context.Context, retry *backoff) (res Result, phase attemptPhase, err error) {
	err = guard("coordinator", func() (err error) {
		err = j.attemptIn(ctx, retry, &res, &phase)
		return err
	})
	return res, phase, err
}

func (j *Job) attemptIn(ctx context.Context, retry *backoff, res *Result, phase *attemptPhase) (err error) {
	raw, err := j.o.Store.Manifest()
	if err != nil {
		return dataflow.Permanent(err)
	}
	m, err := checkpoint.Decode(raw)
	if err != nil {
		return dataflow.Permanent(fmt.Errorf("state in %s: %w", j.o.Store.Dir(), err))
	}
	if err := failpoint.Hit(failpoint.ManifestRead); err != nil {
		return err
	}
	if err := j.checkSteps(m); err != nil {
		return err
	}
	c := newCoordinator(j, m)
	defer j.detachFixed()
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.connect(ctx); err != nil {
		res.Manifest = m
		return err
	}
	*phase = running
	if j.again {
		j.o.Log.Info("connected again")
	}
	j.again = true
	j.note(func(s *Status) { s.Connected = true })
	retry.reset()
	*res, err = c.run(ctx)
	res.Manifest = j.withRefused(res.Manifest)
	return err
}

// checkSteps compares the plan with the state it finds.
func (j *Job) checkSteps(m *checkpoint.Manifest) error {
	planned := map[string]string{}
	for _, op := range j.g.Operators {
		if op.Plan.Keyed {
			planned[op.Name] = op.Plan.Fingerprint
		}
	}
	for _, step := range j.o.Discard {
		if err := j.o.Store.Drop(step); err != nil {
			return fmt.Errorf("discard the state of %s: %w", step, err)
		}
		if m != nil {
			delete(m.Steps, step)
			delete(m.Closed, step)
		}
	}
	if len(j.o.Discard) > 0 && m != nil {
		raw, err := m.Encode()
		if err == nil {
			err = j.o.Store.Write(nil, raw)
		}
		if err != nil {
			return fmt.Errorf("discard state: %w", err)
		}
	}
	j.o.Discard = nil
	for _, step := range j.o.Store.Steps() {
		if step == QuarantineStep || m == nil {
			continue
		}
		now, used := planned[step]
		then, known := m.Steps[step]
		switch {
		case used && known && now != then:
			return fmt.Errorf("%w: step %s has other keys, bounds or a schema than its state was made with; run with --discard-state %s to start it afresh, or undo the change", ErrChanged, step, step)
		case used && !known:
			return fmt.Errorf("%w: step %s was removed from the pipeline and is back; its old state missed epochs: run with --discard-state %s to start it afresh", ErrChanged, step, step)
		}
	}
	return nil
}

// note changes the status under its lock.
func (j *Job) note(f func(*Status)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.mu.status)
}

// backoff waits longer after each failure, up to maxBackoff.
type backoff struct {
	o     *Options
	delay time.Duration
	since time.Time
	// stopped: it was asked to stop during a wait, not before.
	stopped bool
}

func newBackoff(o *Options) *backoff { return &backoff{o: o} }

func (b *backoff) reset() { b.delay, b.since = 0, time.Time{} }

// wait sleeps before the next try; false: give up (ctx, stop, or MaxRetry).
func (b *backoff) wait(ctx context.Context, stop <-chan struct{}, cause error) bool {
	now := b.o.Now()
	if b.since.IsZero() {
		b.since = now
	}
	if b.o.MaxRetry > 0 && now.Sub(b.since) >= b.o.MaxRetry {
		return false
	}
	b.delay = min(max(b.delay*2, 100*time.Millisecond), maxBackoff)
	if closed(stop) {
		return false // It was asked to stop before.
	}
	b.o.Log.Warn("will try again", "in", b.delay, "error", cause)
	t := time.NewTimer(b.delay)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-stop:
		b.stopped = true
		return false
	case <-t.C:
		return true
	}
}
