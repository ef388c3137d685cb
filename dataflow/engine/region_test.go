package engine

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"

	"github.com/apache/arrow-go/v18/arrow"
)

func TestRegionsAreThePartsWithoutACommonStep(t *testing.T) {
	source := func(name string) *Source { return &Source{Name: name} }
	op := func(name string, inputs ...string) *Operator {
		o := &Operator{Name: name}
		for _, in := range inputs {
			o.Inputs = append(o.Inputs, PortRef{in, 0})
		}
		return o
	}
	sink := func(name, input string) *Sink { return &Sink{Name: name, Input: PortRef{input, 0}} }
	g := &Graph{
		Sources:   []*Source{source("a"), source("b"), source("c"), source("d")},
		Operators: []*Operator{op("f", "a"), op("join", "f", "c"), op("g", "b")},
		Sinks:     []*Sink{sink("x", "f"), sink("y", "join"), sink("z", "g"), sink("w", "b")},
	}
	want := map[string]int{"a": 0, "c": 0, "f": 0, "join": 0, "x": 0, "y": 0, "b": 1, "g": 1, "z": 1, "w": 1, "d": 2}
	if got := g.regions(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// stall is a place in a writer that stands still.
type stall int

const (
	inWrite stall = iota
	inPrepare
	inPart
)

// stallWriter asks gate at its stall.
type stallWriter struct {
	memWriter
	at   stall
	gate func(ctx context.Context) error
}

func (w *stallWriter) Write(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	if w.at == inWrite {
		if err := w.gate(ctx); err != nil {
			return nil, err
		}
	}
	return w.memWriter.Write(ctx, b)
}

func (w *stallWriter) Prepare(ctx context.Context, e dataflow.Epoch) (dataflow.Pending, error) {
	if w.at == inPrepare {
		if err := w.gate(ctx); err != nil {
			return nil, err
		}
	}
	p, err := w.memWriter.Prepare(ctx, e)
	if p == nil || w.at != inPart {
		return p, err
	}
	return dataflow.PartFunc(func(ctx context.Context) (dataflow.Part, error) {
		if err := w.gate(ctx); err != nil {
			return dataflow.Part{}, err
		}
		return p.Part(ctx)
	}), nil
}

func stallSink(target *memTarget, name string, input PortRef, at stall, gate func(context.Context) error) *Sink {
	s := target.sink(name, input)
	s.NewWriter = func(context.Context, *dataflow.Env) (dataflow.Writer, error) {
		return &stallWriter{memWriter: memWriter{t: target}, at: at, gate: gate}, nil
	}
	return s
}

// B4: a sink that gets no file written, wherever it stands still, holds up its own
// stream; the other is read, committed and acknowledged to its end meanwhile.
func TestASinkThatStagesNothingHoldsUpItsStreamOnly(t *testing.T) {
	const rows = 20_000
	for at, where := range []string{"write", "prepare", "part"} {
		t.Run(where, func(t *testing.T) {
			stuck, free := &memTarget{}, &memTarget{}
			open := make(chan struct{})
			gate := func(ctx context.Context) error {
				select {
				case <-open:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			one, stuckAcks := withAcks(seqStep(1, rows, 1, nil))
			two, freeAcks := withAcks(seqStep(2, rows, 2, nil))
			one.Name, two.Name = "stuck", "free"
			g := &Graph{
				Name: "p", Parallelism: 2, Sources: []*Source{one, two},
				Sinks: []*Sink{stallSink(stuck, "a", PortRef{"stuck", 0}, stall(at), gate), free.sink("b", PortRef{"free", 0})},
			}
			r := start(t, g, Options{Every: time.Millisecond, LeaveAfter: time.Millisecond})
			good, bad := wantRows(2, rows)
			r.until("everything of the other source is committed and acknowledged", func() bool {
				s := r.job.Status()
				return s.Targets["b"].Committed == int64(len(good)) && freeAcks.epoch.Load() == int64(s.Epoch)
			})
			if s := r.job.Status(); s.Targets["a"].Committed != 0 || stuckAcks.rows.Load() || s.Ledger.Steps["stuck"].In != 0 {
				t.Errorf("the stuck stream: %+v, rows acknowledged: %v, ledger %+v", s.Targets["a"], stuckAcks.rows.Load(), s.Ledger.Steps["stuck"])
			}
			r.until("the quarantine has the bad rows of the other source", func() bool { return r.job.Status().Quarantined == int64(bad) })
			r.ahead.Store(int64(time.Hour))
			r.until("health names the sink", func() bool {
				for _, p := range r.job.Health() {
					if p.Step == "a" && p.Code == ProblemNotStaged {
						return true
					}
				}
				return false
			})
			close(open)
			all, badToo := wantRows(1, rows)
			r.until("all is committed", func() bool {
				s := r.job.Status()
				return s.Targets["a"].Committed == int64(len(all)) && stuckAcks.epoch.Load() == int64(s.Epoch)
			})
			r.until("the quarantine has the bad rows of both", func() bool { return r.job.Status().Quarantined == int64(bad+badToo) })
			if d := diff(stuck.sorted(), all); d != "" {
				t.Errorf("stuck: %s", d)
			}
			if d := diff(free.sorted(), good); d != "" {
				t.Errorf("free: %s", d)
			}
		})
	}
}

// Two regions with keyed state whose sinks stage now fast, now slowly, now not at
// all, with failures, stops and other parallelism: the rows are those of the model,
// the ledger adds up in every manifest, and the quarantine has each bad row once.
func TestRegionsApartGiveTheSameRowsUnderFailuresAndStops(t *testing.T) {
	seed := rand.Int63()
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	var apart atomic.Int64
	for round := range 8 {
		w := &regionsWorld{t: t, rng: rng, targets: [2]*memTarget{{}, {}}, dir: t.TempDir(), apart: &apart}
		for try := 0; !w.run(); try++ {
			if try == 60 {
				t.Fatalf("round %d: no end after %d runs", round, try)
			}
		}
		for i, target := range w.targets {
			want, _ := model(2+i, 4000)
			if d := diff(target.sorted(), sortedCopy(want)); d != "" {
				t.Fatalf("round %d, region %d: %s", round, i, d)
			}
		}
		w.checkQuarantine()
	}
	if apart.Load() == 0 {
		t.Fatal("no epoch left a region out")
	}
}

type regionsWorld struct {
	t       *testing.T
	rng     *rand.Rand
	targets [2]*memTarget
	dir     string
	apart   *atomic.Int64
}

// graph is two times source, count, sink; the sinks stand still at random.
func (w *regionsWorld) graph(fail func() error) *Graph {
	g := &Graph{Name: "p", Parallelism: 1 + w.rng.Intn(3)}
	for i, target := range w.targets {
		src, count := seqStep(2+i, 4000, w.rng.Int63(), fail), countStep(PortRef{fmt.Sprintf("src%d", i), 0})
		src.Name, count.Name = fmt.Sprintf("src%d", i), fmt.Sprintf("count%d", i)
		var mu sync.Mutex
		rng := rand.New(rand.NewSource(w.rng.Int63()))
		slow := w.rng.Intn(2) == 0
		gate := func(ctx context.Context) error {
			mu.Lock()
			wait := time.Duration(0)
			if slow && rng.Intn(3) == 0 {
				wait = time.Duration(rng.Intn(30)) * time.Millisecond
			}
			mu.Unlock()
			select {
			case <-time.After(wait):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		g.Sources, g.Operators = append(g.Sources, src), append(g.Operators, count)
		g.Sinks = append(g.Sinks, stallSink(target, fmt.Sprintf("out%d", i), PortRef{count.Name, 0}, stall(w.rng.Intn(3)), gate))
	}
	return g
}

// run lets the pipeline run until it fails, is stopped, or ends; true: it has ended.
func (w *regionsWorld) run() bool {
	var polls, epochs atomic.Int64
	limit, stopAt := 1+w.rng.Int63n(60), 1+w.rng.Int63n(40)
	mode := w.rng.Intn(3)
	g := w.graph(func() error {
		time.Sleep(50 * time.Microsecond)
		if mode == 0 && epochs.Load() > 0 && polls.Add(1) >= limit {
			polls.Store(0)
			epochs.Store(0)
			return errInjected
		}
		return nil
	})
	s := openStore(w.t, w.dir)
	defer func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var before map[string]int64
	var j *Job
	j = NewJob(g, Options{Store: s, Every: time.Millisecond, LeaveAfter: time.Millisecond, Log: testLog(w.t), Budget: 20 * time.Second, OnManifest: func(m *checkpoint.Manifest) {
		if err := m.Ledger.Check(g.ledgerReaders()); err != nil {
			w.t.Error(err)
		}
		now := map[string]int64{}
		for name, k := range m.Ledger.Steps {
			now[name] = k.In
		}
		if before != nil && (now["src0"] == before["src0"]) != (now["src1"] == before["src1"]) {
			w.apart.Add(1)
		}
		before = now
		if n := epochs.Add(1); n == stopAt && mode == 1 {
			j.Stop()
		} else if n == stopAt && mode == 2 && stopAt%2 == 0 {
			cancel() // as if it were killed
		}
	}})
	res, err := j.Run(ctx)
	return err == nil && res.Manifest.Drained
}

func (w *regionsWorld) checkQuarantine() {
	s := openStore(w.t, w.dir)
	defer s.Close()
	seen := map[string]int{}
	err := ReadQuarantine(s, func(q Quarantined) error {
		if q.Reason != "late" {
			seen[q.Source+"/"+q.Split+"/"+q.Where]++
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	_, bad0 := wantRows(2, 4000)
	_, bad1 := wantRows(3, 4000)
	if len(seen) != bad0+bad1 {
		w.t.Fatalf("%d bad rows in the quarantine, want %d", len(seen), bad0+bad1)
	}
	for id, n := range seen {
		if n != 1 {
			w.t.Fatalf("%s is in the quarantine %d times", id, n)
		}
	}
}
