package engine

import (
	"context"
	"encoding/json"
	"math/rand"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// unevenSource is a seqSource that can pause. Its splits are read unevenly: in
// each Poll the one that stands furthest of those that are not paused goes first,
// the worst a reader can do.
type unevenSource struct {
	*seqSource
	paused map[dataflow.Split]bool
	short  map[dataflow.Split]int64 // lengths of splits that are shorter than the others
	seen   *driftSeen
	held   func(dataflow.Split) bool // not read now; nil: none
}

// driftSeen is what a test learns of a run; all tasks write to it.
type driftSeen struct {
	mu     sync.Mutex
	next   map[dataflow.Split]int64
	spread int64 // the greatest distance, in rows, of a split read to the slowest one with more
	pauses int
}

func (d *driftSeen) read(sp dataflow.Split, next int64, rows func(dataflow.Split) int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.next[sp] = next
	least := next
	for s, n := range d.next {
		if n < rows(s) {
			least = min(least, n)
		}
	}
	d.spread = max(d.spread, next-least)
}

func (s *unevenSource) Pause(splits ...dataflow.Split) {
	s.seen.mu.Lock()
	defer s.seen.mu.Unlock()
	for _, sp := range splits {
		s.paused[sp] = true
		s.seen.pauses++
	}
}

func (s *unevenSource) Resume(splits ...dataflow.Split) {
	for _, sp := range splits {
		delete(s.paused, sp)
		s.at[sp].told = false
	}
}

func (s *unevenSource) Assign(ctx context.Context, splits []dataflow.SplitAt) error {
	for _, sp := range splits {
		delete(s.paused, sp.Split)
	}
	return s.seqSource.Assign(ctx, splits)
}

// rowsOf is how many rows a split has.
func (s *unevenSource) rowsOf(sp dataflow.Split) int64 {
	if n, ok := s.short[sp]; ok {
		return n
	}
	return s.rows
}

func (s *unevenSource) Ends(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	out := map[dataflow.Split]dataflow.Position{}
	for _, sp := range splits {
		out[sp] = seqPos(s.rowsOf(sp))
	}
	return out, nil
}

func (s *unevenSource) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	all, rows := s.order, s.rows
	defer func() { s.order, s.rows = all, rows }()
	s.order = nil
	for _, sp := range all {
		at := s.at[sp]
		end := s.rowsOf(sp)
		if at.until >= 0 {
			end = min(end, at.until)
		}
		if s.paused[sp] || at.told && at.next >= end || s.held != nil && s.held(sp) {
			continue
		}
		if len(s.order) == 0 || at.next > s.at[s.order[0]].next {
			s.order, s.seqSource.rows = []dataflow.Split{sp}, end
		}
	}
	p, err := s.seqSource.Poll(ctx, limit)
	if err == nil && p.Split != "" {
		s.seen.read(p.Split, s.at[p.Split].next, s.rowsOf)
	}
	return p, err
}

// unevenStep is a source step over unevenSource.
func unevenStep(splits int, rows, seed int64, drift time.Duration, short map[dataflow.Split]int64, seen *driftSeen) *Source {
	src := seqStep(splits, rows, seed, nil)
	src.EventTime.MaxDrift = drift
	open := src.New
	src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		s, err := open(ctx, env)
		q := s.(*seqSource)
		q.open = !src.Bounded
		return &unevenSource{seqSource: q, paused: map[dataflow.Split]bool{}, short: short, seen: seen}, err
	}
	return src
}

func newDriftSeen(splits int) *driftSeen {
	d := &driftSeen{next: map[dataflow.Split]int64{}}
	for i := range splits {
		d.next[dataflow.Split(strconv.Itoa(i))] = 0
	}
	return d
}

// A row of seqSource is 50 ms after the one before, with up to 1.2 s of disorder:
// 10 s of drift are 200 rows, to which come the disorder and the batch in hand.
const (
	driftOf   = 10 * time.Second
	driftRows = 200 + 2*24 + 200
)

// C1: with max_drift no split gets further ahead of the slowest than the bound
// and a batch, so what waits for the watermark is bounded; and the rows are the
// same as without it.
func TestSplitsStayTogetherWithMaxDrift(t *testing.T) {
	const splits, rows = 5, 4000
	run := func(tasks int, drift time.Duration) ([]string, *driftSeen) {
		t.Helper()
		seen, target := newDriftSeen(splits), &memTarget{}
		g := &Graph{Name: "p", Parallelism: tasks, Sources: []*Source{unevenStep(splits, rows, 1, drift, nil, seen)},
			Operators: []*Operator{countStep(PortRef{"src", 0})}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
		if _, err := runJob(t, g, t.TempDir(), nil); err != nil {
			t.Fatal(err)
		}
		return target.sorted(), seen
	}
	want, free := run(1, 0)
	if free.pauses > 0 || free.spread < rows {
		t.Fatalf("without a bound: %d pauses, spread over %d rows; the test shows nothing", free.pauses, free.spread)
	}
	for _, tasks := range []int{1, 2, 5} {
		got, seen := run(tasks, driftOf)
		if d := diff(got, want); d != "" {
			t.Errorf("%d tasks: %s", tasks, d)
		}
		if seen.pauses == 0 || seen.spread > driftRows {
			t.Errorf("%d tasks: %d pauses, spread over %d rows, at most %d are allowed", tasks, seen.pauses, seen.spread, driftRows)
		}
	}
}

// A split that has nothing more, whether it ends, stands where it is read to, or
// is caught up, is not waited for.
func TestNobodyWaitsForASplitWithoutMoreRows(t *testing.T) {
	for _, c := range []struct {
		name    string
		bounded bool
		options func(*Options)
	}{
		{"ended", true, func(*Options) {}},
		{"until end", false, func(o *Options) { o.UntilEnd = true }},
		{"caught up", false, func(o *Options) { o.UntilIdle = 400 * time.Millisecond }},
	} {
		t.Run(c.name, func(t *testing.T) {
			const splits, rows, short = 4, 3000, 100
			seen, target := newDriftSeen(splits), &memTarget{}
			src := unevenStep(splits, rows, 1, driftOf, map[dataflow.Split]int64{"0": short, "2": 0}, seen)
			src.Bounded = c.bounded
			g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
			if _, err := runJob(t, g, t.TempDir(), c.options); err != nil {
				t.Fatal(err)
			}
			want, _ := wantRows(splits, rows)
			want = slices.DeleteFunc(want, func(r string) bool {
				var row struct{ N int64 }
				if err := json.Unmarshal([]byte(r), &row); err != nil {
					t.Fatal(err)
				}
				split, i := row.N/1_000_000, row.N%1_000_000
				return split == 0 && i >= short || split == 2
			})
			if d := diff(target.sorted(), want); d != "" {
				t.Error(d)
			}
			if seen.pauses == 0 {
				t.Error("nothing was paused: the test shows nothing")
			}
		})
	}
}

// Restarts, a lost state and its replay give the same rows, whatever is paused
// when it happens.
func TestMaxDriftSurvivesRestartsAndReplays(t *testing.T) {
	const splits, rows = 4, 3000
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	target := &memTarget{}
	seen := newDriftSeen(splits)
	count := countStep(PortRef{"src", 0})
	dir := t.TempDir()
	for runs := 0; ; runs++ {
		if runs > 200 {
			t.Fatal("no end")
		}
		src := unevenStep(splits, rows, rng.Int63(), driftOf, nil, seen)
		g := &Graph{Name: "p", Parallelism: 1 + rng.Intn(3), Sources: []*Source{src}, Operators: []*Operator{count}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		crash := 2 + rng.Intn(6)
		s := openStore(t, dir)
		j := NewJob(g, Options{Store: s, Every: time.Millisecond, Log: testLog(t), OnManifest: func(*checkpoint.Manifest) {
			if crash--; crash == 0 && runs < 30 {
				cancel()
			}
		}})
		_, err := j.Run(ctx)
		over := ctx.Err() == nil
		cancel()
		if cerr := s.Close(); cerr != nil {
			t.Fatal(cerr)
		}
		if over {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if rng.Intn(3) == 0 {
			dir = t.TempDir() // the state is lost
		}
	}
	ref := &memTarget{}
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{seqStep(splits, rows, 1, nil)}, Operators: []*Operator{count}, Sinks: []*Sink{ref.sink("out", PortRef{"count", 0})}}
	if _, err := runJob(t, g, t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	if d := diff(target.sorted(), ref.sorted()); d != "" {
		t.Errorf("seed %d: %s", seed, d)
	}
	if seen.pauses == 0 {
		t.Error("nothing was paused: the test shows nothing")
	}
}

var _ dataflow.Pauser = (*unevenSource)(nil)
