package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"

	"github.com/apache/arrow-go/v18/arrow"
)

// Bounds of one Poll. A busy pipeline runs in batches of this size, an idle one
// passes on what is there at once (D2).
const (
	pollRows  = 8192
	pollBytes = 4 << 20
	pollWait  = 500 * time.Millisecond
)

// sourceTask reads some splits of a source and drives the chain behind it. Its
// goroutine owns everything but the mailbox.
type sourceTask struct {
	name    string
	src     *Source
	task    int
	source  dataflow.Source
	env     *dataflow.Env
	tracker *tracker
	stamper *stamper
	outs    outPorts // 0 rows, 1 bad
	chain   *taskChain
	report  func(report)
	status  func(sourceStatus)

	// fixed reads rows of the quarantine that were sent again; nil in all tasks but
	// the first, and where nothing can be sent again.
	fixed *fixedReader

	splits    map[dataflow.Split]*splitClock
	decisions []dataflow.ClockDecision
	// plain is the source's watermark as last sent; wm is what was really sent:
	// MaxTime once the source has ended for good.
	plain, wm dataflow.Time
	// limit caps the watermark while a replay has not reached its target.
	limit dataflow.Time
	// final: an ended source sends MaxTime, since others go on.
	final    bool
	open     bool // inside a transaction of the source
	held     *command
	lastDone bool
	stretch  int // of the last assignment to all tasks; 0: none yet
	skipped  map[string]int64
	extra    *extraFields
	// rows counts what was read; moves counts positions that moved without rows.
	rows, moves   atomic.Int64
	bytes         atomic.Int64
	wmNow, maxNow atomic.Int64
	views         splitViews
	// parked: the next Poll may wait for long, since the last one brought nothing or
	// no split has more now.
	parked atomic.Bool
	paused *atomic.Bool
	// full: there is no room for bad rows.
	full *atomic.Bool
	// backlogged: a target that the source feeds has too many commits waiting.
	backlogged *atomic.Bool

	mail struct {
		sync.Mutex
		queue  []command
		cancel context.CancelFunc
		// poked: to be looked at before the next Poll waits.
		poked bool
	}
}

// command is what the coordinator asks of a source task.
type command struct {
	barrier *barrier
	kind    checkpoint.Kind
	raise   map[string]dataflow.Time
	assign  []assignment
	// replaying: until the next assign clock decisions are repeated and the
	// watermark stays at or below limit, the one recorded with the commit that
	// is replayed up to: what was not fired then must not be fired muted.
	replaying bool
	limit     dataflow.Time
	// stretch numbers the assignments to all tasks; 0 adds to the one under way.
	stretch int
	// fixed is up to where rows that were sent again are read; "": to the end.
	fixed       string
	fixedReplay []dataflow.ClockDecision
	end         bool
}

// assignment adds a split with its clock and the decisions that it is to repeat, or
// continues a known one.
type assignment struct {
	dataflow.SplitAt
	state  checkpoint.SplitState
	replay []dataflow.ClockDecision
}

// sourceStatus tells the coordinator that a task has nothing more to read, or
// has again.
type sourceStatus struct {
	task    *sourceTask
	stretch int
	done    bool
}

func (t *sourceTask) send(c command) {
	t.mail.Lock()
	t.mail.queue = append(t.mail.queue, c)
	if t.mail.cancel != nil {
		t.mail.cancel()
	}
	t.mail.Unlock()
}

// poke ends a Poll that waits, or the next one, so that a risen watermark is sent
// on and splits that were held back go on.
func (t *sourceTask) poke() {
	if !t.parked.Load() {
		return
	}
	t.mail.Lock()
	t.mail.poked = true
	if t.mail.cancel != nil {
		t.mail.cancel()
	}
	t.mail.Unlock()
}

func (t *sourceTask) receive() []command {
	t.mail.Lock()
	defer t.mail.Unlock()
	q := t.mail.queue
	t.mail.queue = nil
	return q
}

// run reads until the end command or ctx.
func (t *sourceTask) run(ctx context.Context) error {
	defer t.stamper.release()
	defer t.views.release()
	defer t.fixed.release()
	for {
		for _, c := range t.receive() {
			if err := t.handle(ctx, c); err != nil {
				return t.wrap(err)
			}
			if c.end {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.mustWait() {
			t.rest(ctx)
			continue
		}
		if err := t.poll(ctx); err != nil {
			return t.wrap(err)
		}
	}
}

// mustWait says whether a target is too far behind, the quarantine is full, or
// memory at its ceiling. Of the last the task that holds the source's watermark
// back takes no notice: only it can let go what waits for that.
func (t *sourceTask) mustWait() bool {
	switch {
	case t.open:
		return false
	case t.backlogged.Load():
		return true
	case t.fixedReady():
		return false
	case t.full.Load():
		return true
	case !t.paused.Load():
		return false
	}
	w := t.tracker.get()
	for _, c := range t.splits {
		if c.status == checkpoint.Live && !c.atUntil && !c.ended && c.own() <= w {
			return false
		}
	}
	return true
}

// rest waits a little, or for a command.
func (t *sourceTask) rest(ctx context.Context) {
	rctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	t.mail.Lock()
	if len(t.mail.queue) > 0 {
		t.mail.Unlock()
		return
	}
	t.mail.cancel = cancel
	t.mail.Unlock()
	<-rctx.Done()
	t.mail.Lock()
	t.mail.cancel = nil
	t.mail.Unlock()
}

func (t *sourceTask) wrap(err error) error {
	if errors.Is(err, errStopped) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("source %s: %w", t.src.Name, err)
}

func (t *sourceTask) handle(ctx context.Context, c command) error {
	switch {
	case c.barrier != nil:
		if t.open {
			t.held = &c
			return nil
		}
		return t.barrier(ctx, c)
	case c.end:
		return t.outs.end(ctx)
	}
	return t.assign(ctx, c)
}

// assign takes on splits. Those that the task knows keep their clocks.
func (t *sourceTask) assign(ctx context.Context, c command) error {
	if c.stretch > 0 {
		t.stretch, t.stamper.replaying, t.limit = c.stretch, c.replaying, dataflow.MaxTime
		if c.replaying {
			t.limit = c.limit
		}
		if err := t.assignFixed(c); err != nil {
			return err
		}
	}
	at := make([]dataflow.SplitAt, 0, len(c.assign))
	for _, a := range c.assign {
		k := t.splits[a.Split]
		if k == nil {
			k = &splitClock{
				split: a.Split, id: t.env.Splits.ID(t.src.Name, a.Split), pos: a.From,
				maxTime: a.state.MaxTime, floor: a.state.Floor, status: a.state.Status, replay: a.replay,
			}
			if t.src.EventTime != nil {
				k.bound = t.src.EventTime.OutOfOrderness
			}
			if !c.replaying {
				k.goOnFrom(t.tracker.get())
			}
			t.splits[a.Split] = k
			if l, ok := t.source.(dataflow.Locator); ok {
				t.env.Splits.SetSplitLocator(k.id, l)
			}
		}
		if c.replaying {
			k.status = checkpoint.Live // decisions of the clock are repeated, not made
		}
		k.atUntil, k.ended, k.paused = false, false, false
		k.caught = time.Time{}
		a.From = k.pos
		at = append(at, a.SplitAt)
	}
	t.lastDone = false
	if err := t.source.Assign(ctx, at); err != nil {
		return fmt.Errorf("assign splits: %w", err)
	}
	return t.advance(ctx)
}

// poll reads once and sends on what came.
func (t *sourceTask) poll(ctx context.Context) error {
	pctx, cancel := context.WithCancel(ctx)
	t.mail.Lock()
	if len(t.mail.queue) > 0 {
		t.mail.Unlock()
		cancel()
		return nil
	}
	if t.mail.poked {
		t.mail.poked = false
		t.mail.Unlock()
		cancel()
		return t.advance(ctx)
	}
	if t.fixedReady() {
		t.mail.Unlock()
		cancel()
		return t.pollFixed(ctx)
	}
	t.mail.cancel = cancel
	t.mail.Unlock()
	wait := t.nextIdle(pollWait)
	p, err := t.source.Poll(pctx, dataflow.PollLimit{Rows: pollRows, Bytes: pollBytes, WaitMicros: wait.Microseconds()})
	t.mail.Lock()
	t.mail.cancel = nil
	t.mail.Unlock()
	cancel()
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.Canceled) {
			return t.advance(ctx) // a command or a poke came
		}
		return err
	}
	defer p.Release()
	t.parked.Store(p.Batch == nil)
	if p.Split != "" {
		if err := t.polled(ctx, &p); err != nil {
			return err
		}
	}
	t.open = p.Open
	if err := t.advance(ctx); err != nil {
		return err
	}
	if t.held != nil && !t.open {
		c := *t.held
		t.held = nil
		return t.barrier(ctx, c)
	}
	return nil
}

func (t *sourceTask) polled(ctx context.Context, p *dataflow.Polled) error {
	c := t.splits[p.Split]
	if c == nil {
		return fmt.Errorf("poll returned the split %q, which is not assigned", p.Split)
	}
	for why, n := range p.Skipped {
		t.skipped[why] += n
	}
	if p.Bad != nil {
		t.count(p.Bad.NumRows(), true)
		p.Bad.Retain()
		if err := t.outs[1].emit(ctx, p.Bad); err != nil {
			return err
		}
	}
	if p.Batch != nil && p.Batch.NumRows() > 0 {
		t.wake(c, p.Batch)
		if err := t.rowsOf(ctx, p, c); err != nil {
			return err
		}
	}
	t.views.news(c, t.env.Now())
	if p.Reached != nil {
		c.reach(*p.Reached)
	}
	if c.pos.Compare(p.Next) != 0 {
		t.moves.Add(1)
	}
	c.pos = p.Next
	c.atUntil = p.AtUntil
	switch {
	case p.Ended:
		c.status, c.ended = checkpoint.Ended, true
		t.tracker.finish(c.split)
	case !p.CaughtUp:
		c.caught = time.Time{}
	case c.caught.IsZero():
		c.caught = t.env.Now()
	}
	return nil
}

// wake makes an idle or ended split live again: it goes on from the source's
// watermark, and so does one that was found later, from its first row on. Both
// are decisions of the clock.
func (t *sourceTask) wake(c *splitClock, b arrow.RecordBatch) {
	c.caught = time.Time{}
	first := c.maxTime == dataflow.MinTime && c.floor != dataflow.MinTime
	switch {
	case c.status != checkpoint.Live:
		c.status = checkpoint.Live
		floor := t.tracker.join(c.split, c.own())
		if floor <= c.own() && !first {
			return
		}
		c.floor = max(c.floor, floor)
	case !first || t.stamper.replaying:
		return
	}
	t.decisions = append(t.decisions, dataflow.ClockDecision{Source: t.src.Name, Split: c.split, Pos: asPos(b, t.stamper.user), Floor: c.floor})
}

func (t *sourceTask) rowsOf(ctx context.Context, p *dataflow.Polled, c *splitClock) error {
	good, bad, err := t.stamper.apply(p.Batch, c)
	if err != nil {
		return err
	}
	if bad != nil {
		t.count(bad.NumRows(), true)
		if err := t.outs[1].emit(ctx, bad); err != nil {
			if good != nil {
				good.Release()
			}
			return err
		}
	}
	if good == nil {
		return nil
	}
	t.count(good.NumRows(), false)
	t.bytes.Add(dataflow.BatchBytes(good))
	if err := t.views.rows(t.env, c, good, t.env.Now()); err != nil {
		good.Release()
		return err
	}
	return t.outs[0].emit(ctx, good)
}

func (t *sourceTask) count(n int64, bad bool) {
	f := t.env.Fates
	f.In.Add(n)
	if bad {
		f.Bad.Add(n)
	} else {
		f.Passed.Add(n)
	}
	t.rows.Add(n)
}

// nextIdle is how long a Poll may wait before a split may turn idle.
func (t *sourceTask) nextIdle(most time.Duration) time.Duration {
	after := t.idleAfter()
	if after == 0 {
		return most
	}
	now := t.env.Now()
	for _, c := range t.splits {
		if c.status == checkpoint.Live && !c.caught.IsZero() {
			most = min(most, max(after-now.Sub(c.caught), time.Millisecond))
		}
	}
	return most
}

func (t *sourceTask) idleAfter() time.Duration {
	if t.src.EventTime == nil || t.stamper.replaying {
		return 0
	}
	return t.src.EventTime.IdleAfter
}

// advance judges idleness, updates the tracker and sends the source's watermark
// if it has risen.
func (t *sourceTask) advance(ctx context.Context) error {
	done := !t.fixedReady()
	after := t.idleAfter()
	top := dataflow.MinTime
	for _, c := range t.splits {
		if c.fixed {
			continue
		}
		if after > 0 && c.status == checkpoint.Live && !c.caught.IsZero() && t.env.Now().Sub(c.caught) >= after {
			c.status = checkpoint.Idle
		}
		if e := t.src.EventTime; e != nil && e.Processing && !c.ended && !c.atUntil {
			c.maxTime = c.read(t.env.Now())
		}
		t.tracker.set(c.split, c.tracked())
		done = done && (c.atUntil || c.ended)
		top = max(top, c.maxTime)
	}
	t.align()
	if t.rests() {
		// Before the source's watermark is looked at: whoever moves it on from there
		// ends the Poll that comes.
		t.parked.Store(true)
	}
	t.views.update(t.splits, t.env.Now())
	t.maxNow.Store(int64(top))
	if done != t.lastDone && t.stretch > 0 {
		t.lastDone = done
		t.status(sourceStatus{t, t.stretch, done})
	}
	t.plain = max(t.plain, min(t.tracker.get(), t.limit))
	wm := t.plain
	if t.final && t.tracker.allFinished() {
		wm = dataflow.MaxTime
	}
	if wm <= t.wm {
		return nil
	}
	t.wm = wm
	t.wmNow.Store(int64(t.plain))
	return t.outs.watermark(ctx, wm)
}

// barrier raises the watermark where asked, notes positions and sends the
// barrier through the chain.
func (t *sourceTask) barrier(ctx context.Context, c command) error {
	if w, ok := c.raise[t.src.Name]; ok {
		if err := t.raise(ctx, w); err != nil {
			return err
		}
	}
	if c.kind == checkpoint.Drain {
		t.wm = dataflow.MaxTime
		if err := t.outs.watermark(ctx, t.wm); err != nil {
			return err
		}
	}
	if err := t.outs.barrier(ctx, *c.barrier); err != nil {
		return err
	}
	r := t.chain.report(c.barrier.epoch)
	r.source = &sourceReport{step: t.src.Name, watermark: t.plain, sent: t.wm, splits: map[dataflow.Split]*checkpoint.SplitState{}, skipped: t.skipped, extra: t.extra.since()}
	for s, k := range t.splits {
		r.source.splits[s] = &checkpoint.SplitState{Position: string(k.pos), MaxTime: k.maxTime, Floor: k.floor, Status: k.status}
	}
	r.source.clock = append(t.decisions, t.stamper.decisions...)
	t.decisions, t.stamper.decisions, t.skipped = nil, nil, map[string]int64{}
	t.report(r)
	return nil
}

// raise lifts the watermark to the one recorded with a commit. A split below it
// was idle then, and is again. MaxTime means that the source was drained then: all
// splits of a bounded one had ended.
func (t *sourceTask) raise(ctx context.Context, w dataflow.Time) error {
	if w == dataflow.MaxTime && t.src.Bounded {
		for _, c := range t.splits {
			if !c.fixed {
				c.status = checkpoint.Ended
			}
		}
	}
	if w != dataflow.MaxTime {
		t.tracker.raise(w)
		for _, c := range t.splits {
			if c.fixed {
				continue
			}
			if c.status == checkpoint.Live && c.own() < w {
				c.status = checkpoint.Idle
			}
			t.tracker.set(c.split, c.tracked())
		}
		t.plain = max(t.plain, w)
		t.wmNow.Store(int64(t.plain))
	}
	if w <= t.wm {
		return nil
	}
	t.wm = w
	return t.outs.watermark(ctx, w)
}

func asPos(b arrow.RecordBatch, col int) int64 {
	v := asInt64(b.Column(col))
	defer v.Release()
	return v.(interface{ Value(int) int64 }).Value(0)
}
