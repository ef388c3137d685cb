package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// plant is everything of one attempt to run a graph: tasks, inboxes, sources.
type plant struct {
	g       *Graph
	o       *Options
	log     *slog.Logger
	splits  *dataflow.SplitTable
	sources map[string][]*sourceTask
	keyed   map[string][]*keyedTask
	sinks   map[string]*sinkTask
	quar    *quarantineTask
	inboxes []*inbox
	closed  map[string]*dataflow.ClosedUpTo
	track   map[string]*tracker
	region  map[string]int // by step
	fixed   map[string]*fixedStream
	readers map[PortRef][]readerRef
	reports func(report)
	bads    *badLog
	broken  map[string]*dataflow.Tally
	closers []func() error
	// paused: state or held rows are at the ceiling; the sources wait, but for
	// those that hold the watermark back when only rows are held.
	paused atomic.Bool
	// backlog says per source that a target it feeds is too far behind with its
	// commits, so that it is not read on.
	backlog map[string]*atomic.Bool
	// full: there is no room for bad rows, so that nothing is read.
	full atomic.Bool
	// pressed: a keyed step has changed so much that an epoch is due.
	pressed chan struct{}
	// over is closed when no task runs any more.
	over chan struct{}
}

// readerRef is a step that reads a port.
type readerRef struct {
	op   *Operator
	port int
	sink *Sink
}

// wiring derives who reads which port, once per graph.
func (g *Graph) wiring() map[PortRef][]readerRef {
	out := map[PortRef][]readerRef{}
	for _, op := range g.Operators {
		for i, in := range op.Inputs {
			out[in] = append(out[in], readerRef{op: op, port: i})
		}
	}
	for _, s := range g.Sinks {
		out[s.Input] = append(out[s.Input], readerRef{sink: s})
	}
	return out
}

// upstream returns the source steps that feed a step.
func (g *Graph) upstream(step string) []string {
	for _, s := range g.Sources {
		if s.Name == step {
			return []string{step}
		}
	}
	var inputs []PortRef
	for _, op := range g.Operators {
		if op.Name == step {
			inputs = op.Inputs
		}
	}
	for _, s := range g.Sinks {
		if s.Name == step {
			inputs = []PortRef{s.Input}
		}
	}
	seen := map[string]bool{}
	var out []string
	for _, in := range inputs {
		for _, u := range g.upstream(in.Step) {
			if !seen[u] {
				seen[u] = true
				out = append(out, u)
			}
		}
	}
	return out
}

// feeds lists, per source, the sinks with a committer that its rows go to.
func (g *Graph) feeds() map[string][]string {
	out := map[string][]string{}
	for _, s := range g.Sources {
		out[s.Name] = nil
	}
	for _, s := range g.Sinks {
		if s.NewCommitter == nil {
			continue
		}
		for _, source := range g.upstream(s.Name) {
			out[source] = append(out[source], s.Name)
		}
	}
	return out
}

// ledgerReaders lists which ports each step reads, for the ledger's laws.
func (g *Graph) ledgerReaders() []checkpoint.Reader {
	names := map[PortRef]string{}
	for _, s := range g.Sources {
		for i, p := range s.Ports() {
			names[PortRef{s.Name, i}] = portName(s.Name, p.Name)
		}
	}
	var out []checkpoint.Reader
	for _, op := range g.Operators {
		for i, p := range op.Plan.Ports {
			names[PortRef{op.Name, i}] = portName(op.Name, p.Name)
		}
	}
	for _, op := range g.Operators {
		r := checkpoint.Reader{Step: op.Name}
		for _, in := range op.Inputs {
			r.Ports = append(r.Ports, names[in])
		}
		out = append(out, r)
	}
	for _, s := range g.Sinks {
		out = append(out, checkpoint.Reader{Step: s.Name, Ports: []string{names[s.Input]}})
	}
	return out
}

// stateful says whether any step keeps keyed state.
func (g *Graph) stateful() bool {
	for _, op := range g.Operators {
		if op.Plan.Keyed {
			return true
		}
	}
	return false
}

func (p *plant) env(step string, task, tasks int) *dataflow.Env {
	var files state.FS
	if p.o.Store != nil { // nil: outside a run, see OutsideEnv.
		files = p.o.Store.FS()
	}
	return &dataflow.Env{
		Pipeline: p.g.Name, Step: step, Task: task, Tasks: tasks, Dir: p.g.Dir, Now: p.o.Now,
		Alloc: memory.DefaultAllocator, Log: p.log.With("step", step), Fates: &dataflow.Fates{},
		Broken: p.broken[step], Splits: p.splits, Closed: p.closed[step], Memory: p.o.Memory / 8, WALDir: p.o.WALDir, SpoolDir: p.o.SpoolDir, FS: files,
		Last: func() dataflow.Time { return p.last(step) },
	}
}

// last is the greatest watermark of any split before a step.
func (p *plant) last(step string) dataflow.Time {
	last := dataflow.MinTime
	for _, name := range p.g.upstream(step) {
		if t := p.track[name]; t != nil {
			last = max(last, t.greatest())
		}
	}
	return last
}

// share divides an eighth of the memory among n instances: one for writers, one
// for sources, beside the quarter for queues and the half for state.
func (p *plant) share(n int) int64 {
	return max(p.o.Memory/8/int64(max(n, 1)), 4<<20)
}

// build makes every instance behind the source tasks; nothing runs yet.
func (p *plant) build(ctx context.Context, muted map[string]bool) error {
	p.readers = p.g.wiring()
	q, err := p.newQuarantine()
	if err != nil {
		return err
	}
	p.quar = q
	for _, s := range p.g.Sinks {
		if err := p.buildSink(ctx, s, muted[s.Name]); err != nil {
			return err
		}
	}
	for i := len(p.g.Operators) - 1; i >= 0; i-- {
		if op := p.g.Operators[i]; op.Plan.Keyed {
			if err := p.buildKeyed(ctx, op); err != nil {
				return err
			}
		}
	}
	for _, s := range p.g.Sources {
		for _, t := range p.sources[s.Name] {
			outs, err := p.outs(ctx, t.chain, s.Name, s.Ports(), 0)
			if err != nil {
				return err
			}
			if t.fixed != nil {
				outs = append(outs, &outPort{readers: []stage{p.goneFrom(s.Name)}})
			}
			t.outs = outs
		}
	}
	p.sizeInboxes()
	return nil
}

func (p *plant) newInbox() *inbox {
	in := newInbox(0, 0)
	p.inboxes = append(p.inboxes, in)
	return in
}

// sizeInboxes shares a quarter of the memory among the edges.
func (p *plant) sizeInboxes() {
	edges := 0
	for _, in := range p.inboxes {
		edges += len(in.edges)
	}
	per := max(p.o.Memory/4/int64(max(edges, 1)), 1<<20)
	for _, in := range p.inboxes {
		in.maxBytes, in.maxRows = min(per, 16<<20), 64<<10
	}
	edges = 0
	for _, ts := range p.keyed {
		for _, t := range ts {
			edges += len(t.in.edges)
		}
	}
	for _, ts := range p.keyed {
		for _, t := range ts {
			t.in.maxBytes = min(t.in.maxBytes, max(p.o.StateMemory/keyedQueuesPart/int64(edges), 1<<20))
		}
	}
}

func (p *plant) newQuarantine() (*quarantineTask, error) {
	kv, err := p.o.Store.KV(QuarantineStep, state.Groups{Lo: 0, Hi: state.NumGroups})
	if err != nil {
		return nil, err
	}
	var leaving []string
	for _, f := range p.fixed {
		leaving = append(leaving, f.unread()...)
	}
	q, err := newQuarantineTask(kv, p.o.Quarantine, leaving)
	if err != nil {
		return nil, err
	}
	q.splits, q.in, q.report, q.now = p.splits, p.newInbox(), p.reports, p.o.Now
	q.chain = &taskChain{kvs: []*state.TaskKV{kv}}
	q.full = &p.full
	q.tell = func() {
		p.log.Error("the quarantine is full: the pipeline has stopped reading; fix or discard rows (frazil quarantine), route the late and bad ports to a sink, or raise state.quarantine.bytes", "bytes", q.used(), "limit", q.limits.Bytes)
	}
	return q, nil
}

func (p *plant) toQuarantine(step, port string) stage {
	p.quar.edges = append(p.quar.edges, portInfo{step: step, port: port, region: p.region[step]})
	return &edgeStage{in: p.quar.in, edge: p.quar.in.addEdge()}
}

// goneFrom is the edge by which rows that are read again leave the quarantine.
func (p *plant) goneFrom(step string) stage {
	p.quar.edges = append(p.quar.edges, portInfo{step: step, gone: true, region: p.region[step]})
	return &edgeStage{in: p.quar.in, edge: p.quar.in.addEdge()}
}

func (p *plant) buildSink(ctx context.Context, s *Sink, muted bool) error {
	env := p.env(s.Name, 0, 1)
	env.Memory = p.share(len(p.g.Sinks))
	w, err := s.NewWriter(ctx, env)
	if err != nil {
		return fmt.Errorf("sink %s: %w", s.Name, err)
	}
	p.closers = append(p.closers, w.Close)
	bad := p.outPort(s.Name, dataflow.PortBad)
	bad.readers = []stage{p.toQuarantine(s.Name, dataflow.PortBad)}
	p.sinks[s.Name] = &sinkTask{
		name: s.Name, step: s.Name, in: p.newInbox(), writer: w, fates: env.Fates, bad: bad, muted: muted, report: p.reports,
		chain: &taskChain{region: p.region[s.Name], fates: []namedFates{{s.Name, env.Fates}}, ports: []*outPort{bad}},
	}
	return nil
}

func (p *plant) buildKeyed(ctx context.Context, op *Operator) error {
	n := p.g.Parallelism
	p.closed[op.Name] = orNew(p.closed[op.Name])
	for i := range n {
		env := p.env(op.Name, i, n)
		env.Groups, env.Memory = state.GroupsOf(i, n), p.g.StateShare(p.o.StateMemory)
		kv, err := p.o.Store.KV(op.Name, env.Groups)
		if err != nil {
			return err
		}
		env.State, env.Closed = kv, p.closed[op.Name].Task()
		t := &keyedTask{name: fmt.Sprintf("%s/%d", op.Name, i), plant: p, in: p.newInbox(), report: p.reports, chain: &taskChain{region: p.region[op.Name], kvs: []*state.TaskKV{kv}, closed: env.Closed}}
		t.wmNow.Store(int64(dataflow.MinTime))
		if t.stage, err = p.instance(ctx, t.chain, op, 0, env, op.New, 0); err != nil {
			return err
		}
		p.keyed[op.Name] = append(p.keyed[op.Name], t)
	}
	return nil
}

func orNew(c *dataflow.ClosedUpTo) *dataflow.ClosedUpTo {
	if c == nil {
		return dataflow.NewClosedUpTo(dataflow.MinTime)
	}
	return c
}

// instance makes one operator instance and everything fused behind its ports
// from first on. first is 1 for the half in front of an exchange: the readers of
// its step's port 0 stand behind the other half.
func (p *plant) instance(ctx context.Context, chain *taskChain, op *Operator, port int, env *dataflow.Env, create func(context.Context, *dataflow.Env) (dataflow.Operator, error), first int) (*opStage, error) {
	before := first > 0
	inst, err := create(ctx, env)
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", op.Name, err)
	}
	s := &opStage{step: op.Name, op: inst, port: port, fates: env.Fates, counts: before || !op.Plan.Keyed}
	if !before {
		s.delay = op.Plan.Delay
	}
	chain.ops = append(chain.ops, s)
	chain.fates = append(chain.fates, namedFates{op.Name, env.Fates})
	if s.outs, err = p.outs(ctx, chain, op.Name, op.Plan.Ports, first); err != nil {
		return nil, err
	}
	if before {
		x, err := p.exchangeTo(op, port)
		if err != nil {
			return nil, err
		}
		s.outs[0].readers, s.outs[0].name = []stage{x}, ""
	}
	return s, nil
}

func (p *plant) exchangeTo(op *Operator, port int) (stage, error) {
	var tasks []*edgeStage
	for _, t := range p.keyed[op.Name] {
		tasks = append(tasks, &edgeStage{in: t.in, edge: t.in.addEdge(), port: port})
	}
	return newExchange(op.Name, op.Plan.Exchange, op.Plan.RouteBy, tasks, memory.DefaultAllocator)
}

func (p *plant) outPort(step, port string) *outPort {
	o := &outPort{name: portName(step, port), step: step}
	if port == dataflow.PortBad && !p.o.Preview {
		o.bad = p.bads
	}
	return o
}

// outs connects the ports of one instance, from first on, with their readers.
func (p *plant) outs(ctx context.Context, chain *taskChain, step string, ports []dataflow.Port, first int) (outPorts, error) {
	out := make(outPorts, len(ports))
	for i, port := range ports {
		o := p.outPort(step, port.Name)
		out[i] = o
		if i < first {
			continue
		}
		chain.ports = append(chain.ports, o)
		for _, r := range p.readers[PortRef{step, i}] {
			s, err := p.reader(ctx, chain, r)
			if err != nil {
				return nil, err
			}
			o.readers = append(o.readers, s)
		}
		if len(o.readers) == 0 && port.Name != dataflow.PortOut {
			o.readers = []stage{p.toQuarantine(step, port.Name)}
		}
	}
	return out, nil
}

func (p *plant) reader(ctx context.Context, chain *taskChain, r readerRef) (stage, error) {
	if r.sink != nil {
		in := p.sinks[r.sink.Name].in
		return &edgeStage{in: in, edge: in.addEdge()}, nil
	}
	create, first := r.op.New, 0
	if r.op.Plan.Keyed {
		create, first = r.op.NewBefore, 1
	}
	p.closed[r.op.Name] = orNew(p.closed[r.op.Name])
	return p.instance(ctx, chain, r.op, r.port, p.env(r.op.Name, 0, 1), create, first)
}

// addSourceTask makes the task of a source whose chain is built later.
func (p *plant) addSourceTask(s *Source, i, n int, src dataflow.Source, env *dataflow.Env, status func(sourceStatus)) *sourceTask {
	t := &sourceTask{
		name: fmt.Sprintf("%s/%d", s.Name, i), src: s, task: i, source: src, env: env, tracker: p.track[s.Name],
		stamper: newStamper(s, env), report: p.reports, status: status, splits: map[dataflow.Split]*splitClock{},
		skipped: map[string]int64{}, wm: dataflow.MinTime, plain: dataflow.MinTime, limit: dataflow.MaxTime,
		final: s.Bounded && len(p.g.Sources) > 1, paused: &p.paused, full: &p.full, backlogged: p.backlog[s.Name],
		chain: &taskChain{region: p.region[s.Name], fates: []namedFates{{s.Name, env.Fates}}},
	}
	t.wmNow.Store(int64(t.tracker.get()))
	p.sources[s.Name] = append(p.sources[s.Name], t)
	return t
}

// close frees everything after the tasks have ended.
func (p *plant) close() error {
	var errs []error
	for _, ts := range p.sources {
		for _, t := range ts {
			errs = append(errs, t.source.Close(), t.chain.close())
		}
	}
	for _, ts := range p.keyed {
		for _, t := range ts {
			errs = append(errs, t.chain.close())
		}
	}
	for _, c := range p.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// OutsideEnv is the Env of a sink that is used outside of a run, to read its
// table.
func OutsideEnv(g *Graph, step string) *dataflow.Env {
	p := plant{g: g, o: Options{}.withDefaults(), splits: &dataflow.SplitTable{}}
	p.log = p.o.Log
	return p.env(step, 0, 1)
}
