package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	_ "frazil/operators" // the components
	"frazil/pipelines"
	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	errUnbound   = errors.New("a component of the simulation without a world")
	errSimulated = errors.New("simulated error")
	errDead      = errors.New("the process is dead")
)

// process is one run of the engine on one disk.
type process struct {
	w    *World
	n    int
	disk *vfs.MemFS
	// line is the history of epochs that the disk belongs to.
	line *lineage

	job    *engine.Job
	graph  *engine.Graph
	cancel context.CancelFunc
	dead   chan struct{}
	done   chan struct{}
	res    engine.Result
	err    error
	// failing is how many errors of components the process is still to have.
	failing int
	// stale is how many looks at tables are still to be answered by what was.
	stale int
	began time.Duration
}

// lineage is what is known of the epochs of a disk and its clones.
type lineage struct {
	epoch      dataflow.Epoch
	positions  dataflow.Positions
	watermarks map[string]dataflow.Time
}

// begin starts a process on a disk.
func (w *World) begin(fs *vfs.MemFS, line lineage, last bool) *process {
	w.count++
	p := &process{w: w, n: w.count, disk: fs, line: &line, dead: make(chan struct{}), done: make(chan struct{}), failing: w.intn(4), stale: w.plan.stale, began: w.now()}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.trace("starts", "%d epoch %d", p.n, line.epoch)
	go func() {
		defer close(p.done)
		defer cancel()
		p.err = p.run(ctx, last)
	}()
	return p
}

func (p *process) run(ctx context.Context, last bool) (err error) {
	w := p.w
	store, err := state.Open("state", state.Options{FS: disk{p.disk, p}, Logger: w.log(), CacheBytes: 1 << 20, Fatal: p.fatal})
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	x, problems := pipelines.Parse("sim.yaml", []byte(w.plan.yaml), pipelines.Options{Parallelism: 1 + w.intn(3)})
	if x == nil {
		return fmt.Errorf("the pipeline: %w\n%s", problems, w.plan.yaml)
	}
	p.bind(x.Graph)
	o := engine.Options{
		Store: store, Every: w.plan.every, WALDir: "wal", Memory: w.plan.memory, StateMemory: w.plan.stateMemory, Log: w.log(),
		UntilEnd: last, OnManifest: p.onManifest, EveryRows: w.plan.everyRows,
	}
	p.graph = x.Graph
	p.job = engine.NewJob(x.Graph, o)
	if !p.alive() {
		return errDead
	}
	p.res, err = p.job.Run(ctx)
	return err
}

// fatal ends the process as the store asks for it.
func (p *process) fatal(why string) {
	if p.alive() {
		p.w.fail("the store of %d cannot go on: %s", p.n, why)
	}
	select {}
}

// bind puts the simulated components of this process into its graph.
func (p *process) bind(g *engine.Graph) {
	w := p.w
	for _, s := range g.Sources {
		if to := w.pushes[s.Name]; to != nil {
			s.Serve = func(_ context.Context, env *dataflow.Env) (io.Closer, error) { return p.serve(to, env) }
			s.New = func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) {
				return env.Served.(*served).Source(env), nil
			}
			continue
		}
		t := w.topics[s.Name]
		s.New = func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) { return p.newReader(t, env), nil }
	}
	for _, s := range g.Sinks {
		t := w.tables[strings.TrimPrefix(s.Name, sinkPrefix)]
		in := s.In
		s.NewWriter = func(_ context.Context, env *dataflow.Env) (dataflow.Writer, error) {
			var k dataflow.Writer = &writer{p: p, t: t, env: env}
			if t.changes {
				k = dataflow.ShowChanges(k, in.Input, env.Alloc)
			}
			return k, nil
		}
		s.NewCommitter = func(context.Context, *dataflow.Env) (dataflow.Committer, error) { return committer{p, t}, nil }
	}
}

func (p *process) alive() bool {
	select {
	case <-p.dead:
		return false
	default:
		return true
	}
}

// mayFail takes one of the errors that the process is to have.
func (p *process) mayFail() bool {
	if p.failing == 0 {
		return false
	}
	p.failing--
	return true
}

// call is a way to the outside and back, which takes time; a dead process does not
// come there.
func (p *process) call(ctx context.Context, what string, about time.Duration) error {
	p.w.yield()
	locked := what == "claim" || what == "look" || what == "ack"
	if t := p.w.lag(about); t > 0 && !(locked && p.w.o.Threads) {
		if err := pause(ctx, t); err != nil {
			return err
		}
	}
	if !p.alive() {
		<-ctx.Done()
		return fmt.Errorf("%s: %w", what, errors.Join(errDead, ctx.Err()))
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// kill ends the process at once and returns what its disk keeps.
func (p *process) kill(unsynced int) *vfs.MemFS {
	w := p.w
	w.trace("kills", "%d", p.n)
	w.mu.Lock()
	rng := w.rng
	clone := p.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng})
	w.mu.Unlock()
	p.bury()
	return clone
}

// bury lets nothing of the process reach the world any more.
func (p *process) bury() {
	if p.alive() {
		close(p.dead)
	}
	p.cancel()
	<-p.done
}

// onManifest hears of every durable epoch.
func (p *process) onManifest(m *checkpoint.Manifest) {
	if !p.alive() {
		return
	}
	p.w.trace("epochs", "%d %d at %v", p.n, m.Epoch, m.Watermarks())
	p.w.sawManifest(m)
	p.checkManifest(m)
}
