package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	_ "frazil/dataflow/flowtest"
	"frazil/dataflow/ingest"
	"frazil/pipelines"
	_ "frazil/pipelines/std"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
)

// pipeline has steps of many kinds of state. Its sources and sinks are replaced.
const pipeline = `
name: storage
sources:
  pull:
    script: {splits: [p0, p1, p2]}
    decode: {json: {schema: {k: string, et: timestamptz, n: int64}}}
    event_time: {column: et, out_of_orderness: 2s}
  push:
    script: {splits: ["0"], arrived: true}
    decode: {json: {schema: {k: string, et: timestamptz, n: int64}}}
    event_time: {column: et, out_of_orderness: 100h}
operators:
  once: {from: pull, dedup: {key: [n], within: 1h}}
  minute: {from: once, window: {tumbling: 10s, by: [k], aggregate: {rows: count(*), sum: sum(n)}, allowed_lateness: 1s}}
  visits: {from: once, window: {session: {gap: 1s}, by: [k], aggregate: {rows: count(*), least: min(n)}}}
  first: {from: once, top: {by: [k], order_by: [n], limit: 2, tumbling: 10s}}
  total: {from: push, group: {by: [k], aggregate: {rows: count(*), sum: sum(n)}, expire_after: 1000h}}
  hours: {from: push, window: {tumbling: 1m, by: [k], aggregate: {rows: count(*), sum: sum(n)}}}
  sums: {from: once, over: {by: [k], rows_preceding: 3, expire_after: 1h, aggregate: {sum: sum(n)}}}
sinks:
  running: {from: sums, script: {}}
  unique: {from: once, script: {}}
  minutes: {from: minute, script: {}}
  visited: {from: visits, script: {}}
  firsts: {from: first, script: {}}
  pushed: {from: push, script: {}}
  totals: {from: total, script: {}}
  perhour: {from: hours, script: {}}
`

var sinkNames = []string{"running", "unique", "minutes", "visited", "firsts", "pushed", "totals", "perhour"}

// changes names the sinks that get changes.
var changes = map[string]bool{"totals": true}

// process is one life of the program.
type process struct {
	w    *world
	seed uint64
	job  *engine.Job
	// produced: the producer has nothing more to send.
	produced atomic.Bool
	refused  atomic.Int64
	// pulled counts the splits of pull that were read to their end.
	pulled atomic.Int64
	// dead, under the world's lock: it does nothing any more that others see.
	dead  bool
	fatal chan string
	sends sync.WaitGroup
}

// end is how a process ended.
type end struct {
	manifest *checkpoint.Manifest
	// err of the job, or of opening the state; fatal is why the store could not go
	// on.
	err   error
	fatal string
	// refused counts requests that were not taken.
	refused int64
}

// patience is how long a run may take: it takes a second.
const patience = 2 * time.Minute

// disk is what a process runs on.
type disk struct {
	fs   state.FS
	dir  string // that everything is in
	free func(string) (free, total uint64, err error)
}

// run is the life of a process on a disk, until everything is read and committed or
// it fails.
func (w *world) run(d disk, seed uint64) end {
	p := &process{w: w, seed: seed, fatal: make(chan string, 100)}
	g, err := p.graph()
	if err != nil {
		return end{err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	over := make(chan end, 1)
	go func() { over <- p.live(ctx, g, d) }()
	var out end
	select {
	case out = <-over:
	case out.fatal = <-p.fatal:
	}
	select {
	case out.fatal = <-p.fatal: // both at once
	default:
	}
	if out.fatal != "" {
		// The system ends a process at once; what is left of this one may not be
		// seen by anybody.
		w.mu.Lock()
		p.dead = true
		w.mu.Unlock()
		cancel()
	}
	if errors.Is(out.err, context.DeadlineExceeded) {
		out.err = fmt.Errorf("no end after %s: %w", patience, out.err)
	}
	out.refused = p.refused.Load()
	return out
}

func (p *process) live(ctx context.Context, g *engine.Graph, d disk) (out end) {
	store, err := state.Open(filepath.Join(d.dir, "state"), state.Options{
		Logger: logger(), CacheBytes: 1 << 20, FS: d.fs, TablesFrom: int64(p.seed % 2), // all epochs as tables, or none
		Fatal: func(reason string) {
			p.fatal <- reason
			select {} // Ending the goroutine would run what it defers, with locks that it does not have.
		},
	})
	if err != nil {
		return end{err: fmt.Errorf("open the state: %w", err)}
	}
	p.job = engine.NewJob(g, engine.Options{
		Store: store, WALDir: filepath.Join(d.dir, "wal"), Every: time.Hour, EveryRows: 400, Memory: 32 << 20, StateMemory: 8 << 20, Log: logger(),
		Disks: disks(d), DiskFree: d.free, DiskReserve: func(uint64) uint64 { return 4096 },
		Budget:     p.budget(),
		OnManifest: func(m *checkpoint.Manifest) { out.manifest = m },
	})
	var half error
	ctx, stop := context.WithCancel(ctx)
	if p.w.half {
		p.sends.Go(func() { half = p.halfway(ctx, store) })
	}
	res, err := p.job.Run(ctx)
	stop()
	p.sends.Wait()
	if half != nil {
		err = half
	}
	if res.Manifest != nil {
		out.manifest = res.Manifest
	}
	if closing := store.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close the state: %w", closing)
	}
	out.err = err
	return out
}

// budget of a stop: a process that stops halfway leaves commits behind.
func (p *process) budget() time.Duration {
	if p.w.half {
		return time.Millisecond
	}
	return 0
}

// rows of each split that are there.
func (p *process) rows() int {
	if p.w.half {
		return p.w.work.rows / 2
	}
	return p.w.work.rows
}

func disks(d disk) []string {
	if d.free == nil {
		return nil
	}
	return []string{"state"}
}

func logger() *slog.Logger {
	if os.Getenv("FRAZIL_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// graph plans the pipeline and puts the simulated outside in the place of its own.
func (p *process) graph() (*engine.Graph, error) {
	plan, problems := pipelines.Parse("storage.yaml", []byte(pipeline), pipelines.Options{Parallelism: 2})
	if len(problems) > 0 {
		return nil, problems
	}
	g := plan.Graph
	for _, s := range g.Sources {
		s.Bounded, s.DiscoverEvery = true, 0
		if s.Name == "pull" {
			s.New = func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) { return newPull(p, env) }
			continue
		}
		s.Tasks = 1
		s.Serve = p.serve
		s.New = func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) {
			return &push{streamSource: env.Served.(*ingest.Stream).Source(env).(streamSource), p: p}, nil
		}
	}
	for _, k := range g.Sinks {
		shown := dataflow.Stream{}
		if changes[k.Name] {
			shown = dataflow.ShownChanges(totalsOf(g))
		}
		k.NewWriter = func(_ context.Context, env *dataflow.Env) (dataflow.Writer, error) {
			if shown.Schema != nil {
				return dataflow.ShowChanges(&writer{}, shown, env.Alloc), nil
			}
			return &writer{}, nil
		}
		k.NewCommitter = func(context.Context, *dataflow.Env) (dataflow.Committer, error) { return committer{p, k.Name}, nil }
	}
	return g, nil
}

func totalsOf(g *engine.Graph) dataflow.Stream {
	for _, op := range g.Operators {
		if op.Name == "total" {
			return op.Plan.Ports[0].Stream
		}
	}
	panic("no step total")
}

// serve opens the stream and begins to send.
func (p *process) serve(ctx context.Context, env *dataflow.Env) (io.Closer, error) {
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, err
	}
	cfg := ingest.DefaultConfig()
	s, err := ingest.Open(env, cfg, ingest.Spec{Decoded: dec.Schema()})
	if err != nil {
		return nil, err
	}
	p.sends.Go(func() { p.produce(ctx, s) })
	return s, nil
}

// writer stages rows as JSON in the part.
type writer struct{ rows []string }

func (w *writer) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	for i := range int(b.NumRows()) {
		w.rows = append(w.rows, string(dataflow.RowJSON(b, i)))
	}
	return nil, nil
}

func (w *writer) Prepare(context.Context, dataflow.Epoch) (dataflow.Pending, error) {
	if len(w.rows) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(w.rows)
	part := dataflow.Part{Rows: int64(len(w.rows)), Data: data}
	w.rows = nil
	return dataflow.PartFunc(func(context.Context) (dataflow.Part, error) { return part, err }), nil
}

func (w *writer) Close() error { return nil }
