package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

func runJob(t *testing.T, g *Graph, dir string, change func(*Options)) (Result, error) {
	t.Helper()
	s := openStore(t, dir)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	o := Options{Store: s, Every: 3 * time.Millisecond, Log: testLog(t), Budget: 20 * time.Second}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return NewJob(g, o).Run(ctx)
}

func TestEveryRowReachesTheSinkOnceAndASecondRunChangesNothing(t *testing.T) {
	target := &memTarget{}
	g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{seqStep(3, 5000, 1, nil)}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
	dir := t.TempDir()
	res, err := runJob(t, g, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	want, bad := wantRows(3, 5000)
	if d := diff(target.sorted(), want); d != "" {
		t.Fatal(d)
	}
	if got := res.Manifest.Ledger.Steps["src"].Bad; got != int64(bad) {
		t.Fatalf("%d bad rows, want %d", got, bad)
	}
	s := openStore(t, dir)
	n := 0
	if err := ReadQuarantine(s, func(Quarantined) error { n++; return nil }); err != nil || n != bad {
		t.Fatalf("%d rows in quarantine, want %d; %v", n, bad, err)
	}
	s.Close()
	res2, err := runJob(t, g, dir, nil)
	if err != nil || !res2.Nothing || res2.Manifest.Epoch != res.Manifest.Epoch {
		t.Fatalf("second run: %+v, %v", res2, err)
	}
}

// model counts what countStep must give, walking each split with its own
// watermark.
func model(splits int, rows int64) (counts []string, late int) {
	n := map[[2]int64]int64{}
	for s := range splits {
		top := int64(-1 << 62)
		for i := range rows {
			if i%97 == 96 {
				continue
			}
			k, ts, _ := seqRow(strconv.Itoa(s), i)
			bucket := ts / 1_000_000
			if (bucket+1)*1_000_000 <= top-2_000_000 {
				late++
			} else {
				n[[2]int64{bucket, k}]++
			}
			top = max(top, ts)
		}
	}
	for bk, c := range n {
		counts = append(counts, fmt.Sprintf(`{"k":%d,"bucket":%d,"count":%d}`, bk[1], bk[0], c))
	}
	return counts, late
}

func countGraph(target *memTarget, splits int, rows, seed int64, tasks int, fail func() error) *Graph {
	return &Graph{
		Name: "p", Parallelism: tasks, Sources: []*Source{seqStep(splits, rows, seed, fail)},
		Operators: []*Operator{countStep(PortRef{"src", 0})}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})},
	}
}

func TestResultsAreTheSameUnderFailuresStopsAndOtherParallelism(t *testing.T) {
	seed := rand.Int63()
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	want, _ := model(4, 6000)
	for round := range 6 {
		target := &memTarget{}
		dir := t.TempDir()
		// A failure comes some polls after the last epoch, so that each attempt
		// gets further.
		var polls, epochs atomic.Int64
		limit := 1 + rng.Int63n(30)
		fail := func() error {
			if epochs.Load() > 0 && polls.Add(1) >= limit {
				polls.Store(0)
				epochs.Store(0)
				return errInjected
			}
			return nil
		}
		for try := 0; ; try++ {
			if try == 60 {
				t.Fatalf("round %d: no end after %d runs", round, try)
			}
			g := countGraph(target, 4, 6000, rng.Int63(), 1+rng.Intn(4), fail)
			res, err := runJob(t, g, dir, func(o *Options) {
				o.OnManifest = func(m *checkpoint.Manifest) {
					epochs.Add(1)
					if err := m.Ledger.Check(g.ledgerReaders()); err != nil {
						t.Error(err)
					}
				}
			})
			if err == nil && res.Manifest.Drained {
				break
			}
		}
		if d := diff(target.sorted(), sortedCopy(want)); d != "" {
			t.Fatalf("round %d: %s", round, d)
		}
	}
}

func TestALostOrOlderStateIsReplayedMuted(t *testing.T) {
	want, _ := model(3, 4000)
	for _, age := range []string{"deleted", "older"} {
		t.Run(age, func(t *testing.T) {
			target := &memTarget{}
			dir, old := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "old")
			// Two runs that stop half-way, with a copy of the state between.
			runUntil(t, countGraph(target, 3, 4000, 5, 2, nil), dir, 3)
			if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			runUntil(t, countGraph(target, 3, 4000, 6, 2, nil), dir, 4)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if age == "older" {
				if err := os.CopyFS(dir, os.DirFS(old)); err != nil {
					t.Fatal(err)
				}
			}
			// Stopped in the middle of the replay, it starts over from there.
			runUntil(t, countGraph(target, 3, 4000, 8, 2, nil), dir, 1)
			if _, err := runJob(t, countGraph(target, 3, 4000, 7, 3, nil), dir, nil); err != nil {
				t.Fatal(err)
			}
			if d := diff(target.sorted(), sortedCopy(want)); d != "" {
				t.Fatal(d)
			}
		})
	}
}

// runUntil stops the job after n epochs.
func runUntil(t *testing.T, g *Graph, dir string, n int) {
	t.Helper()
	seen := 0
	runUntilEpoch(t, g, dir, func(*checkpoint.Manifest) bool { seen++; return seen == n })
}

// runUntilEpoch stops the job behind the epoch that is the one.
func runUntilEpoch(t *testing.T, g *Graph, dir string, is func(*checkpoint.Manifest) bool) {
	t.Helper()
	s := openStore(t, dir)
	defer s.Close()
	var j *Job
	slow := g.Sources[0]
	inner := slow.New
	slow.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		src, err := inner(ctx, env)
		if err == nil {
			src.(*seqSource).fail = func() error { time.Sleep(200 * time.Microsecond); return nil }
		}
		return src, err
	}
	j = NewJob(g, Options{Store: s, Every: 2 * time.Millisecond, Log: testLog(t), OnManifest: func(m *checkpoint.Manifest) {
		if is(m) {
			j.Stop()
		}
	}})
	if _, err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Splits end in another order each time: the stored watermark, from which rows of
// a later run go on, is the same.
func TestTheWatermarkAfterAllHaveEndedDoesNotDependOnTheirOrder(t *testing.T) {
	const splits, rows, shorter = 3, 900, 250
	want := dataflow.MinTime
	for i := range int64(rows) {
		if _, ts, _ := seqRow("0", i); i%97 != 96 {
			want = max(want, dataflow.Time(ts).Sub(2*time.Second))
		}
	}
	for seed := range int64(20) {
		src := seqStep(splits, rows, seed, nil)
		made := src.New
		src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
			s, err := made(ctx, env)
			s.(*seqSource).shorter = shorter
			return s, err
		}
		target := &memTarget{}
		g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
		res, err := runJob(t, g, t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Manifest.Sources["src"].Watermark; got != want {
			t.Fatalf("seed %d: the stored watermark is %s, want %s", seed, got, want)
		}
	}
}

// A step whose key, window or schema is another than its state was written with
// gets no old state and loses none: the run is refused until it is told to.
func TestAChangedStepIsRefusedUntilItsStateIsDiscarded(t *testing.T) {
	dir, target := t.TempDir(), &memTarget{}
	graph := func(print string) *Graph {
		g := countGraph(target, 2, 2000, 1, 2, nil)
		g.Operators[0].Plan.Fingerprint = print
		return g
	}
	first, err := runJob(t, graph("by k"), dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := target.sorted()
	_, err = runJob(t, graph("by n"), dir, nil)
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "count") || !strings.Contains(err.Error(), "--discard-state") {
		t.Fatalf("with a changed step: %v", err)
	}
	if again, err := runJob(t, graph("by k"), dir, nil); err != nil || !again.Nothing || again.Manifest.Epoch != first.Manifest.Epoch {
		t.Fatalf("with the step as it was: %+v, %v", again, err)
	}
	if _, err := runJob(t, graph("by n"), dir, func(o *Options) { o.Discard = []string{"count"} }); err != nil {
		t.Fatalf("told to discard it: %v", err)
	}
	if d := diff(target.sorted(), rows); d != "" {
		t.Fatal(d)
	}
}
