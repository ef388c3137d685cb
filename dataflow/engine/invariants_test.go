package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// ackSource notes what it is told to be safe.
type ackSource struct {
	*seqSource
	ack func(dataflow.Epoch, map[dataflow.Split]dataflow.Position)
}

func (s *ackSource) Ack(_ context.Context, e dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	s.ack(e, upTo)
	return nil
}

// I3, I11: a source hears that rows are safe only once every target that has
// rows of them holds them, however often commits fail before.
func TestSourcesHearOfNothingThatIsNotCommitted(t *testing.T) {
	a, b := &memTarget{}, &memTarget{}
	var mu sync.Mutex
	var acks []dataflow.Epoch
	fails := 3
	b.fail = func() error {
		mu.Lock()
		defer mu.Unlock()
		if fails--; fails >= 0 {
			return errInjected
		}
		return nil
	}
	src := seqStep(2, 3000, 1, nil)
	inner := src.New
	src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		s, err := inner(ctx, env)
		return &ackSource{s.(*seqSource), func(e dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) {
			mu.Lock()
			acks = append(acks, e)
			mu.Unlock()
			for _, target := range []*memTarget{a, b} {
				target.mu.Lock()
				for split, pos := range upTo {
					// Every row is a row of both targets, but for the bad ones.
					if held := target.held.Positions.Get("src", split); held.Compare(pos) < 0 && rowsBetween(held, pos) {
						t.Errorf("%s is acknowledged up to %s of split %s, a target holds %s", e, pos, split, held)
					}
				}
				target.mu.Unlock()
			}
		}}, err
	}
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Sinks: []*Sink{a.sink("a", PortRef{"src", 0}), b.sink("b", PortRef{"src", 0})}}
	if _, err := runJob(t, g, t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(acks) == 0 || fails >= 0 || !slices.IsSorted(acks) {
		t.Fatalf("acknowledged %v, %d failures left", acks, fails)
	}
}

// rowsBetween says whether a row that is not bad lies between two positions.
func rowsBetween(from, to dataflow.Position) bool {
	lo, _ := strconv.ParseInt(string(from), 10, 64)
	hi, _ := strconv.ParseInt(string(to), 10, 64)
	for i := lo; i < hi; i++ {
		if i%97 != 96 {
			return true
		}
	}
	return false
}

// I6: a bounded source that has ended does not hold back the others; nothing
// follows an end, and the run ends behind the last epoch.
func TestAnEndedSourceDoesNotHoldBackTheOthers(t *testing.T) {
	target := &memTarget{}
	short, long := seqStep(1, 20, 1, nil), seqStep(1, 4000, 2, nil)
	long.Name = "long"
	long.Bounded = false
	inner := long.New
	long.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		s, err := inner(ctx, env)
		s.(*seqSource).open = true
		return s, err
	}
	count := countStep(PortRef{"src", 0})
	count.Inputs = append(count.Inputs, PortRef{"long", 0})
	g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{short, long}, Operators: []*Operator{count}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
	s := openStore(t, t.TempDir())
	defer s.Close()
	var j *Job
	j = NewJob(g, Options{Store: s, Every: 2 * time.Millisecond, Log: testLog(t), OnManifest: func(m *checkpoint.Manifest) {
		// 4000 rows are 200 seconds; the short source ends after one.
		if m.Ledger.Sent["count"] > 1000 {
			j.Stop()
		}
	}})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := j.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if res.Manifest.Drained || len(target.rows) < 1000 {
		t.Fatalf("%d rows, drained %v", len(target.rows), res.Manifest.Drained)
	}
}

// orderOp notes what reaches it.
type orderOp struct {
	env  *dataflow.Env
	note func(string)
}

func (o *orderOp) Close() error { return nil }
func (o *orderOp) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	stamps := b.Column(dataflow.Column(b.Schema(), dataflow.SysStamp)).(*array.Int64)
	o.note(fmt.Sprintf("batch %d", stamps.Value(0)))
	o.env.Fates.Passed.Add(b.NumRows())
	b.Retain()
	return out.Emit(ctx, 0, b)
}
func (o *orderOp) OnWatermark(_ context.Context, wm dataflow.Time, _ dataflow.Emitter) error {
	o.note(fmt.Sprintf("watermark %d", wm))
	return nil
}

// I5: after a restore the watermark comes before the first batch, and it never
// goes back, neither within a run nor between runs.
func TestARestoredWatermarkComesBeforeTheFirstBatch(t *testing.T) {
	target := &memTarget{}
	dir := t.TempDir()
	restored := dataflow.MinTime
	for run := range 3 {
		var mu sync.Mutex
		var seen []string
		g := orderGraph(target, int64(run), func(s string) { mu.Lock(); seen = append(seen, s); mu.Unlock() })
		runUntil(t, g, dir, 2+run)
		mu.Lock()
		if want := fmt.Sprintf("watermark %d", restored); run > 0 && (len(seen) == 0 || seen[0] != want) {
			t.Fatalf("run %d begins with %q, want %q", run, seen[:min(len(seen), 1)], want)
		}
		last := restored
		for _, s := range seen {
			var n int64
			if _, err := fmt.Sscanf(s, "watermark %d", &n); err != nil {
				continue
			}
			if dataflow.Time(n) < last {
				t.Fatalf("run %d: the watermark goes back from %s to %s", run, last, dataflow.Time(n))
			}
			last = dataflow.Time(n)
		}
		mu.Unlock()
		if restored = storedWatermark(t, dir); restored == dataflow.MinTime {
			t.Fatalf("run %d stored no watermark", run)
		}
	}
}

// I5: the restored watermark comes first also where no split would make it again,
// since all of them were idle: rows of one that wakes up are judged by it.
func TestARestoredWatermarkOutlastsIdleSplits(t *testing.T) {
	const restored = dataflow.Time(1_700_000_100_000_000)
	dir := t.TempDir()
	s := openStore(t, dir)
	splits := map[dataflow.Split]*checkpoint.SplitState{}
	for _, sp := range []dataflow.Split{"0", "1"} {
		splits[sp] = &checkpoint.SplitState{Position: string(seqPos(10)), MaxTime: restored - 60_000_000, Floor: dataflow.MinTime, Status: checkpoint.Idle}
	}
	m := &checkpoint.Manifest{Pipeline: "p", Epoch: 1, Ledger: checkpoint.NewLedger(), Sources: map[string]*checkpoint.SourceState{
		"src": {Watermark: restored, Splits: splits, Start: map[dataflow.Split]string{"0": string(seqPos(0)), "1": string(seqPos(0))}},
	}}
	raw, err := m.Encode()
	if err == nil {
		err = errors.Join(s.Write(nil, raw), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	g := orderGraph(&memTarget{}, 1, func(s string) { mu.Lock(); seen = append(seen, s); mu.Unlock() })
	runUntil(t, g, dir, 2)
	mu.Lock()
	defer mu.Unlock()
	if len(seen) < 2 || seen[0] != fmt.Sprintf("watermark %d", restored) || seen[1] != fmt.Sprintf("batch %d", restored) {
		t.Fatalf("the run begins with %q", seen[:min(len(seen), 2)])
	}
}

// I5: a split that was found after the last commit, before the state was lost, is found
// again by the start that replays up to that commit: its rows go on from the watermark
// recorded with it, which has not waited for them.
func TestASplitFoundBeforeTheStateWasLostGoesOnFromTheWatermark(t *testing.T) {
	target := &memTarget{}
	graph := func(seed int64, note func(string)) *Graph {
		g := orderGraph(target, seed, note)
		g.Operators = append(g.Operators, countStep(PortRef{"order", 0})) // keeps state, so it is replayed
		g.Sinks = []*Sink{target.sink("out", PortRef{"count", 0})}
		return g
	}
	runUntil(t, graph(1, func(string) {}), t.TempDir(), 6)
	var mu sync.Mutex
	var seen []string
	g := graph(2, func(s string) { mu.Lock(); seen = append(seen, s); mu.Unlock() })
	made := g.Sources[0].New
	g.Sources[0].New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		src, err := made(ctx, env)
		src.(*seqSource).splits = 2
		return src, err
	}
	if _, err := runJob(t, g, t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	stampsBehind(t, seen)
}

// stampsBehind fails if a row was stamped behind a watermark that came before it, or none
// came behind one at all.
func stampsBehind(t *testing.T, seen []string) {
	t.Helper()
	wm, behind := int64(dataflow.MinTime), 0
	for _, s := range seen {
		var at int64
		if _, err := fmt.Sscanf(s, "watermark %d", &at); err == nil {
			wm = max(wm, at)
			continue
		}
		if _, err := fmt.Sscanf(s, "batch %d", &at); err != nil {
			t.Fatal(s)
		}
		if at < wm {
			t.Fatalf("a row is stamped with %d behind the watermark %d", at, wm)
		}
		if wm > int64(dataflow.MinTime) {
			behind++
		}
	}
	if behind == 0 {
		t.Fatalf("no row came behind a watermark: %q", seen[:min(len(seen), 5)])
	}
}

// I8: a split that was idle when a target got its last commit is idle again behind the
// replay up to it: its next row is stamped with the watermark recorded there, and not with
// its own, by which it would be counted in windows that are closed.
func TestASplitThatWasIdleIsIdleAgainBehindAReplay(t *testing.T) {
	target := &memTarget{}
	graph := func(seed int64, shorter int64, note func(string)) *Graph {
		g := orderGraph(target, seed, note)
		g.Operators = append(g.Operators, countStep(PortRef{"order", 0})) // keeps state, so it is replayed
		g.Sinks = []*Sink{target.sink("out", PortRef{"count", 0})}
		src := g.Sources[0]
		src.EventTime.IdleAfter = time.Millisecond
		made := src.New
		src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
			s, err := made(ctx, env)
			s.(*seqSource).splits, s.(*seqSource).shorter, s.(*seqSource).open = 2, shorter, shorter > 0
			return s, err
		}
		return g
	}
	// Split 1 has 50 rows, and the other one goes on.
	_, last, _ := seqRow("1", 49)
	runUntilEpoch(t, graph(1, 99_950, func(string) {}), t.TempDir(), func(m *checkpoint.Manifest) bool {
		return m.Sources["src"].Watermark > dataflow.Time(last)
	})
	held, err := (memCommitter{target}).Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if held.Watermarks["src"] <= dataflow.Time(last) {
		t.Fatalf("split 1 was not left behind: the watermark is %d, its last row %d", held.Watermarks["src"], last)
	}
	var mu sync.Mutex
	var seen []string
	if _, err := runJob(t, graph(2, 0, func(s string) { mu.Lock(); seen = append(seen, s); mu.Unlock() }), t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	stampsBehind(t, seen)
}

// I8: what the clock decided about a split is repeated also where the first target that a
// replay goes up to had nothing of that split: with a union of two sources the table of
// one of them is passed before the other is read at all.
func TestDecisionsAreRepeatedWhereTheFirstStretchHasNothingOfTheSplit(t *testing.T) {
	const floor = dataflow.Time(1_800_000_000_000_000)
	at := func(splits map[dataflow.Split]int64, clock ...dataflow.ClockDecision) dataflow.Committed {
		c := dataflow.Committed{Positions: dataflow.Positions{}, Start: dataflow.Positions{}, ClockComplete: true, Clock: clock, Plan: "f1", Watermarks: map[string]dataflow.Time{"src": dataflow.MinTime}}
		for s, n := range splits {
			c.Positions.Set("src", s, seqPos(n))
			c.Start.Set("src", s, seqPos(0))
		}
		return c
	}
	first := &memTarget{held: at(map[dataflow.Split]int64{"0": 10})}
	second := &memTarget{held: at(map[dataflow.Split]int64{"0": 20, "1": 20}, dataflow.ClockDecision{Source: "src", Split: "1", Pos: 5, Floor: floor})}
	var mu sync.Mutex
	stamped := map[int64]int64{} // of split 1, by its number
	op := &stampsOp{note: func(n, stamp int64) { mu.Lock(); stamped[n-1_000_000] = stamp; mu.Unlock() }}
	src := seqStep(2, 30, 1, nil)
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}}
	g.Operators = []*Operator{{
		Name: "stamps", Component: "stamps", Inputs: []PortRef{{"src", 0}},
		New: func(_ context.Context, env *dataflow.Env) (dataflow.Operator, error) { op.env = env; return op, nil },
	}, countStep(PortRef{"stamps", 0})} // keeps state, so it is replayed
	g.Operators[0].Plan.Ports = []dataflow.Port{{Stream: src.Out()}}
	g.Sinks = []*Sink{first.sink("first", PortRef{"count", 0}), second.sink("second", PortRef{"count", 0})}
	if _, err := runJob(t, g, t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for n := range int64(30) {
		if got, want := stamped[n] >= int64(floor), n >= 5; got != want {
			t.Errorf("row %d of split 1 is stamped with %d; the recorded floor %d applies from row 5 on", n, stamped[n], floor)
		}
	}
}

// stampsOp tells the stamps of the rows that pass, by their numbers.
type stampsOp struct {
	env  *dataflow.Env
	note func(n, stamp int64)
}

func (o *stampsOp) Close() error { return nil }
func (o *stampsOp) OnWatermark(context.Context, dataflow.Time, dataflow.Emitter) error {
	return nil
}
func (o *stampsOp) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	ns := b.Column(2).(*array.Int64)
	stamps := b.Column(dataflow.Column(b.Schema(), dataflow.SysStamp)).(*array.Int64)
	for i := range int(b.NumRows()) {
		o.note(ns.Value(i), stamps.Value(i))
	}
	o.env.Fates.Passed.Add(b.NumRows())
	b.Retain()
	return out.Emit(ctx, 0, b)
}

// storedWatermark is that of the last epoch: rows behind it, which a stopping
// run still passes on, are no part of it.
func storedWatermark(t *testing.T, dir string) dataflow.Time {
	t.Helper()
	s := openStore(t, dir)
	defer s.Close()
	raw, err := s.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	m, err := checkpoint.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return m.Sources["src"].Watermark
}

func orderGraph(target *memTarget, seed int64, note func(string)) *Graph {
	src := seqStep(1, 100_000, seed, nil)
	op := &Operator{
		Name: "order", Component: "order", Inputs: []PortRef{{"src", 0}},
		New: func(_ context.Context, env *dataflow.Env) (dataflow.Operator, error) { return &orderOp{env, note}, nil },
	}
	op.Plan.Ports = []dataflow.Port{{Stream: src.Out()}}
	return &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Operators: []*Operator{op}, Sinks: []*Sink{target.sink("out", PortRef{"order", 0})}}
}

// I4: numbers of epochs are never reused, after failures and in later runs.
func TestEpochsCountUpOverFailuresAndRuns(t *testing.T) {
	target := &memTarget{}
	dir := t.TempDir()
	var last, failedAt dataflow.Epoch
	var seen atomic.Int64
	failures := 0
	for run := range 3 {
		left := 2
		fail := func() error {
			// Some polls behind an epoch, twice a run.
			if seen.Load() > 0 && left > 0 && seen.Add(1) > 5 {
				left--
				failures++
				seen.Store(0)
				return errInjected
			}
			return nil
		}
		g := countGraph(target, 1, 3000*int64(run+1), int64(run), 2, fail)
		_, err := runJob(t, g, dir, func(o *Options) {
			o.OnManifest = func(m *checkpoint.Manifest) {
				if m.Epoch <= last {
					t.Errorf("run %d: %s follows %s", run, m.Epoch, last)
				}
				last = m.Epoch
				seen.CompareAndSwap(0, 1)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if last <= failedAt {
			t.Fatalf("run %d made no epoch", run)
		}
		failedAt = last
	}
	if failures == 0 {
		t.Fatal("nothing failed")
	}
}

// I1: what an epoch says of state, positions and staged rows are the events
// before its barrier, no more and no less: the counts in the state and those
// that left make up the positions, at every epoch.
func TestAnEpochHoldsExactlyTheEventsBeforeItsBarrier(t *testing.T) {
	target := &memTarget{}
	s := openStore(t, t.TempDir())
	defer s.Close()
	g := countGraph(target, 3, 40_000, 9, 3, nil)
	epochs := 0
	o := Options{Store: s, Every: time.Millisecond, Log: testLog(t), OnManifest: func(m *checkpoint.Manifest) {
		epochs++
		var read int64
		for split, st := range m.Sources["src"].Splits {
			next, _ := strconv.ParseInt(st.Position, 10, 64)
			for i := range next {
				if i%97 != 96 {
					read++
				}
			}
			_ = split
		}
		if c := m.Ledger.Steps["count"]; c.In != read || c.Absorbed+c.Late != read {
			t.Errorf("%s: %d rows lie before the positions, the step counted %+v", m.Epoch, read, c)
		}
	}}
	if _, err := NewJob(g, o).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epochs < 2 {
		t.Fatalf("%d epochs, want one in the middle", epochs)
	}
	left := 0
	kv, err := s.KV("count", state.Groups{Lo: 0, Hi: state.NumGroups})
	if err != nil {
		t.Fatal(err)
	}
	for group := range state.NumGroups {
		if err := kv.Scan(group, nil, nil, func(_, _ []byte) error { left++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if left != 0 {
		t.Fatalf("%d counts are left in the state of a drained run", left)
	}
}
