package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/failpoint"
)

// connect is prepare that a stop ends early: at once at the start of a run; one
// that has been running gets the budget of a stop, for a last checkpoint.
func (c *coordinator) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-c.j.stop:
		case <-done:
			return
		}
		if c.j.again {
			t := time.NewTimer(c.j.o.Budget)
			defer t.Stop()
			select {
			case <-t.C:
			case <-done:
				return
			}
		}
		cancel(errStoppedConnecting)
	}()
	err := c.prepare(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errStoppedConnecting) {
		return dataflow.Permanent(fmt.Errorf("%w: %w", errStoppedConnecting, err))
	}
	return err
}

var errStoppedConnecting = errors.New("stopped before everything was connected")

// prepare connects to everything, decides how to start and builds the plant.
// Nothing runs yet.
func (c *coordinator) prepare(ctx context.Context) error {
	c.plant = &plant{
		pressed: make(chan struct{}, 1), over: make(chan struct{}), region: c.j.g.regions(),
		g: c.j.g, o: c.j.o, log: c.j.o.Log, splits: &dataflow.SplitTable{}, sources: map[string][]*sourceTask{},
		keyed: map[string][]*keyedTask{}, sinks: map[string]*sinkTask{}, closed: map[string]*dataflow.ClosedUpTo{},
		track: map[string]*tracker{}, fixed: c.j.fixed, backlog: map[string]*atomic.Bool{}, reports: func(r report) { c.post(r) }, bads: c.j.bads, broken: c.j.broken,
	}
	// Before the targets are asked, which another pipeline's state cannot fit.
	if c.manifest != nil && c.manifest.Pipeline != c.j.g.Name {
		return dataflow.Permanentf("the state directory belongs to the pipeline %q, not to %q: choose another state.dir", c.manifest.Pipeline, c.j.g.Name)
	}
	if err := c.recover(ctx); err != nil {
		return err
	}
	first := c.manifest == nil
	if first {
		c.manifest = &checkpoint.Manifest{
			Pipeline: c.j.g.Name, Steps: map[string]string{}, Sources: map[string]*checkpoint.SourceState{},
			Targets: map[string]*checkpoint.TargetState{}, Ledger: checkpoint.NewLedger(),
		}
	}
	for _, s := range c.j.g.Sources {
		c.plant.backlog[s.Name] = &atomic.Bool{}
	}
	for step, t := range c.manifest.Closed {
		c.plant.closed[step] = dataflow.NewClosedUpTo(t)
	}
	c.base = ledgerBase(c.manifest.Ledger)
	fresh := false
	for _, s := range c.j.g.Sources {
		isNew, err := c.openSource(ctx, s)
		if err != nil {
			return fmt.Errorf("source %s: %w", s.Name, err)
		}
		fresh = fresh || isNew
	}
	muted := map[string]bool{}
	for _, m := range c.rec.Muted {
		muted[m] = true
	}
	if err := c.plant.build(ctx, muted); err != nil {
		return err
	}
	if fresh {
		if err := c.writeStart(); err != nil {
			return err
		}
	}
	c.initState()
	c.j.attach(c.plant, c.manifest)
	return nil
}

// ledgerBase is a stored ledger without its gauges: what is held is counted
// anew by the steps that restored it.
func ledgerBase(l checkpoint.Ledger) checkpoint.Ledger {
	out := checkpoint.NewLedger().Plus(l)
	for k, v := range out.Steps {
		v.Held = 0
		out.Steps[k] = v
	}
	return out
}

// recover asks every target what it holds and compares.
func (c *coordinator) recover(ctx context.Context) error {
	var facts []checkpoint.SinkFacts
	var quiet []string
	for _, s := range c.j.g.Sinks {
		if s.NewCommitter == nil {
			quiet = append(quiet, s.Name)
			continue
		}
		k, err := s.NewCommitter(ctx, c.plant.env(s.Name, 0, 1))
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
		c.committer[s.Name] = &committer{s, k}
		found, err := k.Committed(ctx)
		if err != nil {
			return fmt.Errorf("sink %s: look at %s: %w", s.Name, k.Target(), err)
		}
		if err := failpoint.Hit(failpoint.TargetRead); err != nil {
			return err
		}
		c.found[s.Name] = found
		f := checkpoint.SinkFacts{Name: s.Name, Target: k.Target(), Found: found, Fingerprint: s.Fingerprint, NotReplayable: s.NotReplayable}
		if c.manifest != nil {
			f.Known = c.manifest.Targets[s.Name]
		}
		facts = append(facts, f)
	}
	if err := c.checkRemoved(); err != nil {
		return err
	}
	rec, err := c.compare(ctx, facts, quiet)
	if err := c.checkTwin(rec, err); err != nil {
		return err
	}
	c.rec, c.targets = rec, rec.Targets
	for _, r := range rec.Replays {
		c.j.o.Log.Warn("a target is ahead of the state: replaying up to it with its sinks muted", "sinks", r.Unmute, "until", r.Until.String())
	}
	return nil
}

// compare decides how to start. A verdict that ends the run is not passed on one look
// at the targets: a cache or a replica before one may answer with what was some time
// ago, which looks like a target that was put back.
func (c *coordinator) compare(ctx context.Context, facts []checkpoint.SinkFacts, quiet []string) (checkpoint.Recovery, error) {
	for wait := 200 * time.Millisecond; ; wait *= 4 {
		rec, err := checkpoint.Recover(c.manifest, facts, c.j.g.stateful(), quiet)
		if wait > time.Second || !errors.Is(err, checkpoint.ErrCannotResume) {
			return rec, err
		}
		c.j.o.Log.Warn("the targets do not fit the state: looking again", "in", wait, "cause", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return rec, ctx.Err()
		}
		for i, f := range facts {
			found, err := c.committer[f.Name].Committed(ctx)
			if err != nil {
				return rec, fmt.Errorf("sink %s: look again at %s: %w", f.Name, f.Target, err)
			}
			facts[i].Found, c.found[f.Name] = found, found
		}
	}
}

// checkRemoved refuses to forget rows that a removed sink has staged.
func (c *coordinator) checkRemoved() error {
	if c.manifest == nil {
		return nil
	}
	for name, t := range c.manifest.Targets {
		if c.committer[name] == nil && len(t.Pending) > 0 {
			return fmt.Errorf("%w: sink %s was removed while %d commits to %s are still pending: put it back until they are made", ErrChanged, name, len(t.Pending), t.Target)
		}
	}
	return nil
}

// openSource makes the tasks of a source and settles where its splits start. It
// says whether a start was resolved that must be made durable.
func (c *coordinator) openSource(ctx context.Context, s *Source) (bool, error) {
	known := c.manifest.Sources[s.Name]
	run := &sourceRun{src: s, state: &checkpoint.SourceState{Watermark: dataflow.MinTime, Splits: map[dataflow.Split]*checkpoint.SplitState{}, Start: map[dataflow.Split]string{}}}
	c.sources[s.Name] = run
	if known != nil {
		run.state = cloneSource(known)
		if run.state.Start == nil {
			run.state.Start = map[dataflow.Split]string{}
		}
	}
	c.plant.track[s.Name] = newTracker(run.state.Watermark)
	c.plant.track[s.Name].setReplaying(len(c.rec.Replays) > 0)
	status := func(st sourceStatus) { c.post(st) }
	newTask := func(i, n int) error {
		env := c.plant.env(s.Name, i, n)
		extra := &extraFields{}
		env.NewDecoder, env.Memory = extra.watch(s.NewDecoder), c.plant.share(len(c.j.g.Sources)*c.j.g.Parallelism)
		env.Served = c.j.servedBy(s.Name)
		src, err := s.New(ctx, env)
		if err != nil {
			return err
		}
		t := c.plant.addSourceTask(s, i, n, src, env, status)
		t.extra = extra
		if c, ok := src.(dataflow.ExtraCounter); ok {
			extra.decoders = append(extra.decoders, c)
		}
		if f := c.j.fixed[s.Name]; f != nil && i == 0 {
			t.fixed = newFixedReader(f, env)
		}
		run.tasks = append(run.tasks, t)
		if l, ok := src.(dataflow.Locator); ok && i == 0 {
			c.plant.splits.SetLocator(s.Name, l)
		}
		return nil
	}
	if err := newTask(0, 1); err != nil {
		return false, err
	}
	run.first = run.tasks[0].source
	d, ok := run.first.(dataflow.Discoverer)
	if !ok {
		return false, dataflow.Permanentf("component %s does not list its splits", s.Component)
	}
	splits, err := d.Discover(ctx)
	if err != nil {
		return false, fmt.Errorf("list its splits: %w", err)
	}
	fresh, err := c.settleStarts(ctx, run, splits, known == nil)
	if err != nil {
		return false, err
	}
	n := c.j.g.Parallelism
	if s.Tasks > 0 {
		n = min(n, s.Tasks)
	}
	n = max(1, min(n, len(run.splits)))
	for i := 1; i < n; i++ {
		if err := newTask(i, n); err != nil {
			return false, err
		}
	}
	if c.j.o.UntilEnd {
		if err := c.captureEnds(ctx, run); err != nil {
			return false, err
		}
	}
	c.plant.track[s.Name].rise = func() {
		for _, t := range run.tasks {
			t.poke()
		}
	}
	if err := c.attachFixed(run); err != nil {
		return false, err
	}
	for _, sp := range run.splits {
		st := run.state.Splits[sp]
		k := splitClock{maxTime: st.MaxTime, floor: st.Floor}
		if s.EventTime != nil {
			k.bound = s.EventTime.OutOfOrderness
		}
		c.plant.track[s.Name].register(sp, k.own(), st.Status != checkpoint.Idle)
	}
	return fresh, nil
}

// settleStarts gives every split a position: the state's, the recovered one, the
// configured start at the very first start, its beginning otherwise (K08, K10).
func (c *coordinator) settleStarts(ctx context.Context, run *sourceRun, splits []dataflow.Split, firstEver bool) (bool, error) {
	st := run.state
	var unknown []dataflow.Split
	all := map[dataflow.Split]bool{}
	for _, sp := range splits {
		all[sp] = true
	}
	for sp := range st.Splits {
		all[sp] = true
	}
	for sp := range c.rec.Start[run.src.Name] {
		all[sp] = true
	}
	delete(all, fixedSplit)
	for sp := range all {
		run.splits = append(run.splits, sp)
		pos := c.rec.Start.Get(run.src.Name, sp)
		if have := st.Splits[sp]; have != nil {
			if pos != nil {
				have.Position = string(pos)
			}
			continue
		}
		st.Splits[sp] = newSplitState(st.Watermark)
		if pos == nil {
			unknown = append(unknown, sp)
			continue
		}
		st.Splits[sp].Position = string(pos)
		if origin := c.rec.Origin.Get(run.src.Name, sp); origin != nil {
			st.Start[sp] = string(origin)
		}
		firstEver = false
	}
	sort.Slice(run.splits, func(i, j int) bool { return run.splits[i] < run.splits[j] })
	if len(unknown) == 0 {
		return false, nil
	}
	slices.Sort(unknown)
	return true, c.resolveStarts(ctx, run, unknown, firstEver)
}

func newSplitState(floor dataflow.Time) *checkpoint.SplitState {
	return &checkpoint.SplitState{MaxTime: dataflow.MinTime, Floor: floor, Status: checkpoint.Live}
}

func (c *coordinator) resolveStarts(ctx context.Context, run *sourceRun, unknown []dataflow.Split, firstEver bool) error {
	s, ok := run.first.(dataflow.Starter)
	if !ok {
		return dataflow.Permanentf("component %s does not resolve where its splits start", run.src.Component)
	}
	ask := s.Begin
	if firstEver {
		ask = s.Start
	}
	starts, err := ask(ctx, unknown)
	if err != nil {
		return fmt.Errorf("resolve where its splits start: %w", err)
	}
	for _, sp := range unknown {
		pos := starts[sp]
		if pos == nil {
			return fmt.Errorf("no start for the split %q", sp)
		}
		run.state.Splits[sp].Position, run.state.Start[sp] = string(pos), string(pos)
	}
	return nil
}

func (c *coordinator) captureEnds(ctx context.Context, run *sourceRun) error {
	if run.src.Bounded {
		return nil // it ends by itself
	}
	e, ok := run.first.(dataflow.Ender)
	if !ok {
		return dataflow.Permanentf("component %s has no end: --until end cannot be used with it", run.src.Component)
	}
	ends, err := e.Ends(ctx, run.splits)
	if err != nil {
		return fmt.Errorf("capture the ends: %w", err)
	}
	run.ends = ends
	return nil
}

// writeStart makes resolved starts durable before the first record is read.
func (c *coordinator) writeStart() error {
	m := *c.manifest
	m.Sources = map[string]*checkpoint.SourceState{}
	for name, s := range c.sources {
		m.Sources[name] = cloneSource(s.state)
	}
	m.Targets = map[string]*checkpoint.TargetState{}
	for name, t := range c.targets {
		m.Targets[name] = cloneTarget(t)
	}
	m.Steps = map[string]string{}
	for _, op := range c.j.g.Operators {
		if op.Plan.Keyed {
			m.Steps[op.Name] = op.Plan.Fingerprint
		}
	}
	if len(c.rec.Replays) > 0 {
		// The targets are ahead of this state until the replay has passed them.
		m.Targets = map[string]*checkpoint.TargetState{}
		for name, t := range c.manifest.Targets {
			m.Targets[name] = t
		}
	}
	raw, err := m.Encode()
	if err != nil {
		return err
	}
	if err := c.j.o.Store.Write(nil, raw); err != nil {
		return fmt.Errorf("write where the splits start: %w", err)
	}
	if err := failpoint.Hit(failpoint.StartWritten); err != nil {
		return err
	}
	c.manifest = &m
	return nil
}

// initState starts the protocol behind the manifest.
func (c *coordinator) initState() {
	c.state = checkpoint.State{Epoch: c.manifest.Epoch, Written: c.manifest.Epoch, Waiting: map[string][]dataflow.Epoch{}, Feeds: c.j.g.feeds()}
	c.positions[c.manifest.Epoch] = c.manifest.Positions()
	for name, t := range c.targets {
		for _, p := range t.Pending {
			c.state.Waiting[name] = append(c.state.Waiting[name], p.Epoch)
		}
	}
	c.newRegions()
	c.state.Regions = make([]checkpoint.Region, len(c.regions))
	add := func(step string, tasks int) { c.state.Regions[c.plant.region[step]].Tasks += tasks }
	for step := range c.plant.sinks {
		add(step, 1)
	}
	for step, ts := range c.plant.keyed {
		add(step, len(ts))
	}
	for step, ts := range c.plant.sources {
		add(step, len(ts))
	}
	for i := range c.state.Regions {
		if len(c.plant.quar.edgesOf(i)) > 0 {
			c.state.Regions[i].Tasks++
		}
	}
}

// resumeCommits publishes what the last run staged.
func (c *coordinator) resumeCommits() {
	for name, q := range c.state.Waiting {
		c.startCommit(name, q[0])
	}
}

// startTasks starts every task, sinks first.
func (c *coordinator) startTasks() {
	spawn := func(name string, run func(context.Context) error) {
		c.tasks.Add(1)
		go func() {
			defer c.tasks.Done()
			err := guard(name, func() error { return run(c.ctx) })
			if err != nil {
				c.post(taskEnded{err})
			}
		}()
	}
	spawn("quarantine", c.plant.quar.run)
	for _, s := range c.j.g.Sinks {
		t := c.plant.sinks[s.Name]
		spawn(t.name, t.run)
	}
	for i := len(c.j.g.Operators) - 1; i >= 0; i-- {
		for _, t := range c.plant.keyed[c.j.g.Operators[i].Name] {
			spawn(t.name, t.run)
		}
	}
	for _, s := range c.j.g.Sources {
		for _, t := range c.plant.sources[s.Name] {
			spawn(t.name, t.run)
		}
	}
}

// assignNext hands out the splits of the next stretch: of a replay, or of the
// run proper.
func (c *coordinator) assignNext() {
	var until dataflow.Positions
	replaying := c.replay < len(c.rec.Replays)
	if replaying {
		until = c.rec.Replays[c.replay].Until
	}
	clear(c.done)
	for name, s := range c.sources {
		c.plant.track[name].setReplaying(replaying)
		cmds := make([]command, len(s.tasks))
		for i, sp := range s.splits {
			a := assignment{SplitAt: dataflow.SplitAt{Split: sp, Until: s.ends[sp]}, state: *s.state.Splits[sp]}
			a.From = dataflow.Position(a.state.Position)
			if replaying {
				if a.Until = until.Get(name, sp); a.Until == nil {
					continue
				}
			}
			a.replay = c.decisionsFor(name, sp)
			k := &cmds[i%len(s.tasks)]
			k.assign = append(k.assign, a)
		}
		for i, t := range s.tasks {
			cmds[i].stretch = c.replay + 1
			if i == 0 {
				cmds[i].fixed = s.fixedUntil(until, replaying)
				if c.replay == 0 {
					cmds[i].fixedReplay = c.decisionsFor(name, fixedSplit)
				}
			}
			if cmds[i].replaying = replaying; replaying {
				// One that feeds none of the targets of this stretch stands where it is.
				cmds[i].limit = max(s.state.Watermark, watermarkOf(c.rec.Replays[c.replay].Watermarks, name))
			}
			t.send(cmds[i])
		}
	}
}

func watermarkOf(wms map[string]dataflow.Time, step string) dataflow.Time {
	if wm, ok := wms[step]; ok {
		return wm
	}
	return dataflow.MinTime
}

func (c *coordinator) decisionsFor(step string, sp dataflow.Split) []dataflow.ClockDecision {
	var out []dataflow.ClockDecision
	for _, d := range c.rec.Clock {
		if d.Source == step && d.Split == sp {
			out = append(out, d)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Pos < out[j].Pos })
	return out
}

// startDiscovery looks for new splits now and then.
func (c *coordinator) startDiscovery() {
	for _, s := range c.sources {
		if s.src.DiscoverEvery == 0 || s.src.Bounded || s.ends != nil {
			continue
		}
		c.help(func() { c.discover(s) })
	}
}

func (c *coordinator) discover(s *sourceRun) {
	known := map[dataflow.Split]bool{}
	for _, sp := range s.splits {
		known[sp] = true
	}
	t := time.NewTicker(s.src.DiscoverEvery)
	defer t.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-t.C:
		}
		begin, err := s.lookForNew(c.ctx, known)
		if err != nil {
			if c.ctx.Err() == nil {
				c.j.o.Log.Warn("look for new splits", "step", s.src.Name, "error", err)
			}
			continue
		}
		if len(begin) > 0 {
			for sp := range begin {
				known[sp] = true
			}
			c.post(newSplits{s, begin})
		}
	}
}

func (s *sourceRun) lookForNew(ctx context.Context, known map[dataflow.Split]bool) (map[dataflow.Split]dataflow.Position, error) {
	all, err := s.first.(dataflow.Discoverer).Discover(ctx)
	if err != nil {
		return nil, err
	}
	fresh := slices.DeleteFunc(all, func(sp dataflow.Split) bool { return known[sp] })
	if len(fresh) == 0 {
		return nil, nil
	}
	return s.first.(dataflow.Starter).Begin(ctx, fresh)
}

// addSplits assigns splits that were found while running. They join the tracker
// at its watermark.
func (c *coordinator) addSplits(e newSplits) error {
	s := e.src
	for sp, pos := range e.begin {
		if s.state.Splits[sp] != nil {
			continue
		}
		tr := c.plant.track[s.src.Name]
		st := newSplitState(tr.join(sp, dataflow.MinTime))
		st.Position = string(pos)
		s.state.Splits[sp], s.state.Start[sp] = st, string(pos)
		s.splits = append(s.splits, sp)
		c.j.o.Log.Info("found a new split", "step", s.src.Name, "split", sp, "from", string(pos))
		if c.replay < len(c.rec.Replays) {
			continue // assigned with the others after the replay
		}
		t := s.tasks[(len(s.splits)-1)%len(s.tasks)]
		t.send(command{assign: []assignment{{SplitAt: dataflow.SplitAt{Split: sp, From: pos}, state: *st}}})
	}
	return nil
}
