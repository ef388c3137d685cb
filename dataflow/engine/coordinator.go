package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/failpoint"
	"frazil/state"
)

// coordinator carries out the protocol for one attempt. Its loop owns all
// fields; tasks and helpers talk to it through events.
type coordinator struct {
	j        *Job
	ctx      context.Context
	cancel   context.CancelFunc
	events   chan any
	plant    *plant
	manifest *checkpoint.Manifest // the last durable one; never nil after prepare
	rec      checkpoint.Recovery
	readers  []checkpoint.Reader

	state     checkpoint.State
	tasks     sync.WaitGroup
	helpers   sync.WaitGroup
	acks      sync.WaitGroup
	regions   []*region
	targets   map[string]*checkpoint.TargetState
	committer map[string]*committer
	// found is what each target held when the attempt began; claimed makes sure,
	// before the first epoch with rows for it, that this process alone moves it.
	found     map[string]dataflow.Committed
	claimed   func() error
	sources   map[string]*sourceRun
	done      map[*sourceTask]bool
	base      checkpoint.Ledger
	attached  attachment
	replay    int // index of the stretch under way in rec.Replays
	positions map[dataflow.Epoch]dataflow.Positions
	quietFrom time.Time
	quietRows int64
	finished  bool
	result    Result
	// started, aligned and staged are when the epoch under way came so far. A region
	// that is staged waits for others: that was seen.
	started, aligned, staged time.Time
	waitsForOthers           bool
	spans                    epochSpans
	// diskFull: there is no room for an epoch.
	diskFull bool
}

// sourceRun is one source step in this attempt.
type sourceRun struct {
	src    *Source
	first  dataflow.Source // the one asked for splits, starts, ends and acks
	tasks  []*sourceTask
	state  *checkpoint.SourceState
	splits []dataflow.Split
	ends   map[dataflow.Split]dataflow.Position
	// fixed holds rows of the quarantine that were sent again; nil: none can be.
	fixed *fixedStream
	// acked is the newest epoch acknowledged.
	acked struct {
		sync.Mutex
		epoch dataflow.Epoch
	}
}

// attachment rides on the next barrier: the end of a stretch of a replay.
type attachment struct {
	raise  map[string]dataflow.Time
	unmute []string
	used   dataflow.Epoch
}

// activity tells whether anything of a region moved since its last barrier.
type activity struct {
	rows, bytes int64
	wms         string
}

// events of the loop, beside report and sourceStatus.
type (
	partReady struct {
		region int
		epoch  dataflow.Epoch
		sink   string
		part   dataflow.Part
		err    error
	}
	// quarantineCut is what the quarantine has for an epoch of some regions.
	quarantineCut struct {
		epoch   dataflow.Epoch
		regions []int
		report  report
		err     error
	}
	manifestWritten struct {
		epoch   dataflow.Epoch
		m       *checkpoint.Manifest
		targets []string
		err     error
	}
	committed struct {
		sink  string
		epoch dataflow.Epoch
		err   error
	}
	taskEnded struct{ err error }
	newSplits struct {
		src   *sourceRun
		begin map[dataflow.Split]dataflow.Position
	}
)

func newCoordinator(j *Job, m *checkpoint.Manifest) *coordinator {
	c := &coordinator{
		j: j, events: make(chan any, 64), manifest: m, readers: j.g.ledgerReaders(),
		targets: map[string]*checkpoint.TargetState{}, committer: map[string]*committer{},
		found:   map[string]dataflow.Committed{},
		sources: map[string]*sourceRun{}, done: map[*sourceTask]bool{},
		positions: map[dataflow.Epoch]dataflow.Positions{}, base: checkpoint.NewLedger(),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.claimed = sync.OnceValue(c.claim)
	return c
}

// post hands an event to the loop, or drops it when the attempt is over.
func (c *coordinator) post(e any) {
	select {
	case c.events <- e:
	case <-c.ctx.Done():
	}
}

// run starts the tasks, from the sinks back, and loops until the end.
func (c *coordinator) run(ctx context.Context) (Result, error) {
	// What the tasks read from here on is new, however soon they do.
	before := make([]activity, len(c.regions))
	for i, r := range c.regions {
		before[i] = r.activity()
	}
	c.startTasks()
	if err := c.nextStretch(); err != nil {
		return c.result, err
	}
	c.startDiscovery()
	c.resumeCommits()
	c.ackAgain()
	for i, r := range c.regions {
		r.last = r.activity()
		r.last.rows, r.last.bytes = before[i].rows, before[i].bytes
	}
	tick := time.NewTicker(c.j.o.Every)
	defer tick.Stop()
	beat := time.NewTicker(200 * time.Millisecond)
	defer beat.Stop()
	stop := c.j.stop
	var budget <-chan time.Time
	for !c.finished {
		var err error
		select {
		case <-ctx.Done():
			return c.result, ctx.Err()
		case <-stop:
			stop = nil
			budget = time.After(c.j.o.Budget)
			err = c.step(checkpoint.Stop{})
		case <-budget:
			return c.result, fmt.Errorf("%w: commits are still waiting after %s; what is staged will be committed at the next start", ErrNotStopped, c.j.o.Budget)
		case <-tick.C:
			if c.moved() {
				err = c.step(checkpoint.Tick{})
			}
		case <-c.j.ask:
			err = c.step(checkpoint.Tick{})
		case <-beat.C:
			err = c.heartbeat()
		case <-c.plant.pressed:
			err = c.relieve()
		case e := <-c.events:
			err = c.handle(e)
		}
		if err != nil {
			return c.result, err
		}
	}
	c.refreshStatus()
	c.awaitAcks(ctx)
	return c.result, nil
}

// handle is the loop's switch over events.
func (c *coordinator) handle(e any) error {
	switch e := e.(type) {
	case report:
		r := c.regions[e.region]
		r.reports = append(r.reports, e)
		return c.step(checkpoint.Reported{Epoch: e.epoch, Region: e.region})
	case sourceStatus:
		if e.stretch != c.replay+1 {
			return nil // of a stretch that is over
		}
		c.done[e.task] = e.done
		return c.checkDone()
	case partReady:
		return c.partReady(e)
	case overdue:
		return c.leaveBehind(e.epoch)
	case quarantineCut:
		if e.err != nil {
			return e.err
		}
		return c.writeManifest(e)
	case manifestWritten:
		if e.err != nil {
			return fmt.Errorf("write %s: %w", e.epoch, e.err)
		}
		return c.written(e)
	case committed:
		if e.err != nil {
			return e.err
		}
		return c.committed(e)
	case newSplits:
		return c.addSplits(e)
	case taskEnded:
		if e.err != nil && !errors.Is(e.err, errStopped) {
			return e.err
		}
	}
	return nil
}

// step feeds the protocol and does what it says.
func (c *coordinator) step(e checkpoint.Event) error {
	if _, ok := e.(checkpoint.Tick); ok && c.diskFull {
		return nil
	}
	var actions []checkpoint.Action
	c.state, actions = checkpoint.Step(c.state, e)
	for _, a := range actions {
		switch a := a.(type) {
		case checkpoint.StartBarrier:
			if err := c.startBarrier(a); err != nil {
				return err
			}
		case checkpoint.StageParts:
			if err := failpoint.Hit(failpoint.Aligned); err != nil {
				return err
			}
			if err := c.awaitParts(a.Region, a.Epoch); err != nil {
				return err
			}
		case checkpoint.WriteEpoch:
			c.staged = c.j.o.Now()
			c.cutQuarantine(a.Epoch, a.Regions)
		case checkpoint.StartCommit:
			c.startCommit(a.Target, a.Epoch)
		case checkpoint.AckSource:
			c.ack(a.Source, a.Epoch)
		case checkpoint.EndTasks:
			for _, r := range c.regions {
				r.eachSource(func(t *sourceTask) { t.send(command{end: true}) })
			}
		case checkpoint.Exit:
			c.finished = true
			c.result.Manifest = c.manifest
		case checkpoint.Restore:
		}
	}
	c.holdBacklogged()
	c.watchOthers()
	return nil
}

// holdBacklogged lets the sources wait that feed a target too far behind, and no
// others. A replay is not held: it stages nothing for the targets it mutes.
func (c *coordinator) holdBacklogged() {
	held := c.state.Held()
	for name, b := range c.plant.backlog {
		b.Store(c.diskFull || c.replay >= len(c.rec.Replays) && slices.Contains(held, name))
	}
}

func (c *coordinator) startBarrier(a checkpoint.StartBarrier) error {
	c.started, c.waitsForOthers = c.j.o.Now(), false
	b := &barrier{epoch: a.Epoch}
	cmd := command{barrier: b, kind: a.Kind}
	if c.attached.unmute != nil && c.attached.used == 0 {
		b.unmute, cmd.raise, c.attached.used = c.attached.unmute, c.attached.raise, a.Epoch
	}
	for _, i := range a.Regions {
		r := c.regions[i]
		r.reports, r.parts, r.began, r.last = nil, map[string]dataflow.Part{}, c.started, r.activity()
		r.missing = slices.Clone(r.sinks)
	}
	if err := failpoint.Hit(failpoint.Barrier); err != nil {
		return err
	}
	if a.Kind != checkpoint.Regular {
		if err := failpoint.Hit(failpoint.LastBarrier); err != nil {
			return err
		}
	}
	for _, i := range a.Regions {
		c.regions[i].eachSource(func(t *sourceTask) { t.send(cmd) })
	}
	return nil
}

// awaitParts waits, beside the loop, until every staged part of a region is durable.
func (c *coordinator) awaitParts(i int, e dataflow.Epoch) error {
	c.aligned = c.j.o.Now()
	r := c.regions[i]
	pending := map[string]dataflow.Pending{}
	for _, rep := range r.reports {
		if rep.sink != nil && rep.sink.pending != nil {
			pending[rep.sink.step] = rep.sink.pending
		}
	}
	r.missing = slices.Sorted(maps.Keys(pending))
	for sink, p := range pending {
		c.help(func() {
			part, err := p.Part(c.ctx)
			if err != nil {
				err = fmt.Errorf("sink %s: stage %s: %w", sink, e, err)
			}
			c.post(partReady{i, e, sink, part, err})
		})
	}
	return c.stagedAll(i, e)
}

func (c *coordinator) partReady(e partReady) error {
	if e.err != nil {
		return e.err
	}
	r := c.regions[e.region]
	r.parts[e.sink] = e.part
	r.missing = slices.DeleteFunc(r.missing, func(sink string) bool { return sink == e.sink })
	return c.stagedAll(e.region, e.epoch)
}

// stagedAll says so when nothing of a region's barrier is missing any more.
func (c *coordinator) stagedAll(i int, e dataflow.Epoch) error {
	if len(c.regions[i].missing) > 0 {
		return nil
	}
	c.regions[i].began = time.Time{}
	return c.step(checkpoint.StagedParts{Epoch: e, Region: i})
}

// cutQuarantine asks the quarantine for what it has of the regions of an epoch.
func (c *coordinator) cutQuarantine(e dataflow.Epoch, regions []int) {
	q := c.plant.quar
	err := q.in.ask(func() {
		r, err := q.cut(e, regions)
		c.post(quarantineCut{e, regions, r, err})
	})
	if err != nil {
		c.help(func() { c.post(quarantineCut{epoch: e, err: err}) })
	}
}

// help runs f beside the loop; close waits for it. Its panic ends the attempt.
func (c *coordinator) help(f func()) {
	c.helpers.Add(1)
	go func() {
		defer c.helpers.Done()
		err := guard("coordinator", func() error {
			f()
			return nil
		})
		if err != nil {
			c.post(taskEnded{err})
		}
	}()
}

// writeManifest builds the manifest of an epoch and writes it with the state.
func (c *coordinator) writeManifest(q quarantineCut) error {
	m, targets, err := c.buildManifest(q)
	if err != nil {
		return err
	}
	raw, err := m.Encode()
	if err != nil {
		return err
	}
	deltas := append(deltasOf(c.included(q.regions)), q.report.deltas...)
	for _, i := range q.regions {
		c.regions[i].reports, c.regions[i].parts = nil, nil
	}
	c.help(func() {
		c.post(manifestWritten{epoch: q.epoch, m: m, targets: targets, err: c.store(targets, deltas, raw)})
	})
	return nil
}

// store makes an epoch durable.
func (c *coordinator) store(targets []string, deltas []*state.Delta, manifest []byte) error {
	if err := c.claimFor(targets); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.BeforeManifest); err != nil {
		return err
	}
	if err := c.j.o.Store.Write(deltas, manifest); err != nil {
		return err
	}
	return failpoint.Hit(failpoint.AfterManifest)
}

func (c *coordinator) written(e manifestWritten) error {
	c.manifest = e.m
	c.plant.released()
	c.positions[e.epoch] = e.m.Positions()
	c.j.published(e.m)
	now := c.j.o.Now()
	c.j.o.Log.Debug("epoch", "number", uint64(e.epoch), "align", c.aligned.Sub(c.started), "stage", c.staged.Sub(c.aligned), "write", now.Sub(c.staged), "targets", e.targets)
	c.traceEpoch(e.epoch, now)
	c.j.durations.epoch.add(now.Sub(c.started))
	if err := c.step(checkpoint.Written{Epoch: e.epoch, Targets: e.targets}); err != nil {
		return err
	}
	if c.attached.used == e.epoch && c.attached.used != 0 {
		for _, wm := range c.attached.raise {
			if wm == dataflow.MaxTime {
				return errAnew
			}
		}
		c.attached = attachment{}
		c.replay++
		if err := failpoint.Hit(failpoint.Unmuted); err != nil {
			return err
		}
		return c.nextStretch()
	}
	return nil
}

// nextStretch begins to read the next stretch: of a replay, or of the run proper.
func (c *coordinator) nextStretch() error {
	if c.replay < len(c.rec.Replays) {
		if err := failpoint.Hit(failpoint.Replay); err != nil {
			return err
		}
	}
	c.assignNext()
	return nil
}

func (c *coordinator) committed(e committed) error {
	t := c.targets[e.sink]
	if len(t.Pending) > 0 && t.Pending[0].Epoch == e.epoch {
		c.j.committedRows(e.sink, t.Complete())
	}
	return c.step(checkpoint.Committed{Target: e.sink, Epoch: e.epoch})
}

// ack tells a source, beside the loop, up to where everything is safe.
func (c *coordinator) ack(name string, e dataflow.Epoch) {
	pos := c.positions[e]
	c.forgetPositions()
	s := c.sources[name]
	if c.j.o.Preview || s == nil {
		return
	}
	a, ok := s.first.(dataflow.Acker)
	if !ok || pos[name] == nil {
		return
	}
	upTo := maps.Clone(pos[name])
	again := upTo[fixedSplit]
	delete(upTo, fixedSplit)
	c.acks.Add(1)
	c.help(func() {
		defer c.acks.Done()
		s.acked.Lock()
		defer s.acked.Unlock()
		if e < s.acked.epoch {
			return // a later one has overtaken it
		}
		s.acked.epoch = e
		err := failpoint.Hit(failpoint.BeforeAck)
		if err == nil {
			err = a.Ack(c.ctx, e, upTo)
		}
		if again != nil && s.fixed != nil && s.src.Serve != nil {
			err = errors.Join(err, s.fixed.truncate(again))
		}
		if err == nil {
			err = failpoint.Hit(failpoint.AfterAck)
		}
		if err != nil && c.ctx.Err() == nil {
			c.j.o.Log.Warn("acknowledge to the source", "step", name, "error", err)
		}
	})
}

// forgetPositions drops those that no acknowledgement can ask for any more: one is
// always of the last epoch, or of the one before the first that a target waits for.
func (c *coordinator) forgetPositions() {
	needed := map[dataflow.Epoch]bool{c.state.Written: true}
	for _, q := range c.state.Waiting {
		for _, e := range q {
			needed[e-1] = true
		}
	}
	maps.DeleteFunc(c.positions, func(e dataflow.Epoch, _ dataflow.Positions) bool { return e < c.state.Written && !needed[e] })
}

// ackAgain repeats the last acknowledgement: the process may have been killed
// between a commit and it, and there may never be another epoch.
func (c *coordinator) ackAgain() {
	if c.manifest.Epoch == 0 || len(c.rec.Replays) > 0 {
		return
	}
	for name, targets := range c.state.Feeds {
		if !slices.ContainsFunc(targets, func(t string) bool { return len(c.state.Waiting[t]) > 0 }) {
			c.ack(name, c.manifest.Epoch)
		}
	}
}

// ackPatience bounds the wait for acknowledgements at the end of a run. They
// are for others to see; nothing here depends on them.
const ackPatience = 5 * time.Second

// awaitAcks waits for the acknowledgements under way.
func (c *coordinator) awaitAcks(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		c.acks.Wait()
		close(done)
	}()
	t := time.NewTimer(ackPatience)
	defer t.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-t.C:
		c.j.o.Log.Warn("a source has not taken the acknowledgement of what was committed")
	}
}

// heartbeat looks at what has no event of its own.
func (c *coordinator) heartbeat() error {
	c.refreshStatus()
	c.lookForRoom()
	if err := c.relieve(); err != nil {
		return err
	}
	if c.enoughRead() {
		if err := c.step(checkpoint.Tick{}); err != nil {
			return err
		}
	}
	if c.plant.quar.view.Load().expired(c.j.o.Quarantine, c.j.o.Now()) && c.state.Phase == checkpoint.Resting {
		if err := c.step(checkpoint.Tick{}); err != nil {
			return err
		}
	}
	if d := c.j.o.UntilIdle; d > 0 && c.replay >= len(c.rec.Replays) {
		now, rows := c.j.o.Now(), c.read()
		if c.quietFrom.IsZero() || rows != c.quietRows {
			c.quietFrom, c.quietRows = now, rows
		} else if now.Sub(c.quietFrom) >= d {
			return c.drain()
		}
	}
	return nil
}

// enoughRead says whether rows or bytes ask for an epoch before its time.
func (c *coordinator) enoughRead() bool {
	o := c.j.o
	if o.EveryRows == 0 && o.EveryBytes == 0 {
		return false
	}
	var rows, bytes int64
	for i, r := range c.regions {
		if !c.state.Behind(i) {
			now := r.activity()
			rows, bytes = rows+now.rows-r.last.rows, bytes+now.bytes-r.last.bytes
		}
	}
	return o.EveryRows > 0 && rows >= o.EveryRows || o.EveryBytes > 0 && bytes >= o.EveryBytes
}

// moved says whether an epoch would record anything new.
func (c *coordinator) moved() bool {
	for i, r := range c.regions {
		if !c.state.Behind(i) && r.activity() != r.last {
			return true
		}
	}
	return c.attached.unmute != nil && c.attached.used == 0
}

func (r *region) eachSource(f func(*sourceTask)) {
	for _, s := range r.sources {
		for _, t := range s.tasks {
			f(t)
		}
	}
}

func (r *region) activity() activity {
	var a activity
	r.eachSource(func(t *sourceTask) {
		a.rows += t.rows.Load() + t.moves.Load()
		a.bytes += t.bytes.Load()
		a.wms += fmt.Sprintf("%d ", t.wmNow.Load())
	})
	return a
}

// read is what all tasks have read.
func (c *coordinator) read() int64 {
	var n int64
	for _, r := range c.regions {
		n += r.activity().rows
	}
	return n
}

// checkDone acts when every source task has nothing more to read.
func (c *coordinator) checkDone() error {
	replaying := c.replay < len(c.rec.Replays)
	for _, s := range c.sources {
		if !replaying && !s.src.Bounded && s.ends == nil {
			return nil
		}
		for _, t := range s.tasks {
			if !c.done[t] {
				return nil
			}
		}
	}
	if !replaying {
		return c.drain()
	}
	if c.attached.unmute == nil {
		r := c.rec.Replays[c.replay]
		c.j.o.Log.Info("replay has reached the target; unmuting", "sinks", r.Unmute)
		c.attached = attachment{raise: r.Watermarks, unmute: r.Unmute}
	}
	return c.step(checkpoint.Tick{})
}

// drain asks for the last epoch, unless there is nothing to record.
func (c *coordinator) drain() error {
	if c.read() == 0 && c.manifest.Drained && len(c.state.Waiting) == 0 && c.state.Phase == checkpoint.Resting {
		c.result.Nothing, c.finished, c.result.Manifest = true, true, c.manifest
		return nil
	}
	return c.step(checkpoint.SourcesEnded{})
}

// close ends everything of the attempt and waits for it.
func (c *coordinator) close() error {
	c.cancel()
	if c.plant == nil {
		return nil
	}
	for _, in := range c.plant.inboxes {
		in.stop()
	}
	c.tasks.Wait()
	close(c.plant.over)
	c.helpers.Wait()
	var errs []error
	for _, k := range c.committer {
		errs = append(errs, k.close())
	}
	return errors.Join(append(errs, c.plant.close())...)
}
