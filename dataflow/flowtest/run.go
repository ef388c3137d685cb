package flowtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
	"frazil/state"
)

func init() {
	if flag.Lookup("rewrite") == nil {
		flag.Bool("rewrite", false, "write golden files anew instead of comparing them")
	}
}

func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// Run runs every script in or below dir as a subtest: straight; in batches of
// one row; with other parallelism; interleaved and batched at random; with a
// crash before every step; with the state lost on the way. All must give what
// the script expects. Random variants print their seed; FRAZIL_SEED repeats one.
func Run(t *testing.T, dir string) {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			paths = append(paths, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("no script below %s", dir)
	}
	for _, p := range paths {
		name, _ := filepath.Rel(dir, p)
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			t.Parallel()
			runScript(t, p)
		})
	}
}

func runScript(t *testing.T, path string) {
	s, err := parseScript(path)
	if err != nil {
		t.Fatal(err)
	}
	straight := s.play(t, variant{name: "straight", steps: s.steps, tasks: 1})
	if t.Failed() {
		return
	}
	if rewriting() {
		text := s.pipeline + separator + s.input + separator + straight
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s.want = straight
	}
	s.compare(t, "straight", straight)
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("seed %d", seed)
	for _, v := range s.variants(rand.New(rand.NewPCG(seed, 1))) {
		if t.Failed() {
			return
		}
		s.compare(t, v.name, s.play(t, v))
	}
}

// compare reports lines that differ from what is expected. Where several tasks
// write, rows have no order.
func (s *script) compare(t *testing.T, name, got string) {
	t.Helper()
	if got == s.want || name != "straight" && sortedSections(got) == sortedSections(s.want) {
		return
	}
	t.Errorf("%s: %s\ngot\n%swant\n%s", s.path, name, got, s.want)
}

func sortedSections(text string) string {
	var out, rows []string
	flush := func() { sort.Strings(rows); out = append(out, rows...); rows = nil }
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "--") || strings.HasPrefix(line, "==") {
			flush()
			out = append(out, line)
			continue
		}
		rows = append(rows, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// variant is one way to run a script.
type variant struct {
	name    string
	steps   []step
	tasks   int
	crashes map[int]bool
	// lost: the state is deleted at each crash.
	lost bool
}

// variants other than the straight one.
func (s *script) variants(rng *rand.Rand) []variant {
	one := s.rebatch(s.steps, func(int) int { return 1 })
	out := []variant{
		{name: "one row a batch", steps: one, tasks: 1},
		{name: "two tasks", steps: s.steps, tasks: 2},
		{name: "three tasks", steps: one, tasks: 3},
	}
	if !s.replays && !s.shuffles {
		for i := range out {
			out[i].tasks = min(out[i].tasks, s.mostTasks())
		}
	}
	random := func(n int) int { return 1 + rng.IntN(n) }
	for i := range 3 {
		steps := s.rebatch(s.steps, random)
		if s.shuffles {
			steps = shuffle(steps, rng)
		}
		out = append(out, variant{name: fmt.Sprintf("random %d", i), steps: barriers(steps, rng), tasks: 1 + rng.IntN(s.mostTasks())})
	}
	if s.shuffles {
		out = append(out, variant{name: "split by split", steps: gather(s.steps, s.lanes), tasks: 2})
	}
	for i := range 2 {
		steps := s.rebatch(s.steps, random)
		if i > 0 {
			steps = barriers(steps, rng)
		}
		out = append(out, variant{name: "a crash before every step", steps: steps, tasks: 1 + rng.IntN(s.mostTasks()), crashes: everyStep(steps)})
	}
	if s.replays {
		steps := barriers(s.rebatch(s.steps, random), rng)
		out = append(out, variant{name: "the state lost before every third step", steps: steps, tasks: 1 + rng.IntN(s.mostTasks()), crashes: everyThird(steps), lost: true})
	}
	return out
}

// mostTasks is 1 where rows of several tasks would meet in an order that
// decides.
func (s *script) mostTasks() int {
	if s.shuffles || len(s.lanes) == 1 {
		return 3
	}
	return 1
}

func everyStep(steps []step) map[int]bool {
	out := map[int]bool{}
	for i := range steps {
		out[i] = true
	}
	return out
}

func everyThird(steps []step) map[int]bool {
	out := map[int]bool{}
	for i := 2; i < len(steps); i += 3 {
		out[i] = true
	}
	return out
}

// rebatch cuts the records of each lane anew; size gets how many there are.
func (s *script) rebatch(steps []step, size func(left int) int) []step {
	var out []step
	for _, st := range steps {
		if st.kind != stepRead {
			out = append(out, st)
			continue
		}
		for n := st.n; n > 0; {
			k := min(n, size(n))
			n -= k
			out = append(out, step{kind: stepRead, lane: st.lane, n: k})
		}
	}
	return out
}

// sections calls f with every run of steps between two fences, and keeps what
// it returns.
func sections(steps []step, f func([]step) []step) []step {
	var out, open []step
	for _, st := range steps {
		if st.fence() {
			out = append(append(out, f(open)...), st)
			open = nil
			continue
		}
		if st.kind == stepRead {
			open = append(open, st)
		}
	}
	return append(out, f(open)...)
}

// shuffle merges the lanes in another order, each lane keeping its own.
func shuffle(steps []step, rng *rand.Rand) []step {
	return sections(steps, func(open []step) []step {
		lanes := map[lane][]step{}
		order := make([]lane, 0, len(open))
		for _, st := range open {
			lanes[st.lane] = append(lanes[st.lane], st)
			order = append(order, st.lane)
		}
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var out []step
		for _, l := range order {
			out = append(out, lanes[l][0])
			lanes[l] = lanes[l][1:]
		}
		return out
	})
}

// gather reads each lane in one batch, one lane after the other, last one first.
func gather(steps []step, lanes []lane) []step {
	return sections(steps, func(open []step) []step {
		n := map[lane]int{}
		for _, st := range open {
			n[st.lane] += st.n
		}
		var out []step
		for _, l := range slices.Backward(lanes) {
			if n[l] > 0 {
				out = append(out, step{kind: stepRead, lane: l, n: n[l]})
			}
		}
		return out
	})
}

// barriers puts epochs between steps.
func barriers(steps []step, rng *rand.Rand) []step {
	var out []step
	for _, st := range steps {
		if rng.IntN(3) == 0 {
			out = append(out, step{kind: stepBarrier})
		}
		out = append(out, st)
	}
	return out
}

// play runs a variant to its end and returns what it gave.
func (s *script) play(t *testing.T, v variant) string {
	t.Helper()
	w, name := newWorld(s, v.steps, v.crashes)
	defer w.forget(name)
	dir := t.TempDir()
	store := openState(t, dir)
	defer func() { closeState(t, store) }()
	for runs := 0; !w.done(); runs++ {
		if runs > 2*len(w.moves)+10 {
			t.Fatalf("%s: %s: no end", s.path, v.name)
		}
		p, err := s.load(name, v.tasks)
		if err != nil {
			t.Fatal(err)
		}
		lost := s.attempt(t, v, w, p.Graph, store)
		if t.Failed() {
			t.FailNow()
		}
		if lost && v.lost {
			closeState(t, store)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			store = openState(t, dir)
			w.lose()
			continue
		}
		store.Reset()
	}
	report := w.report(!v.lost)
	if w.failure != nil {
		t.Fatalf("%s: %s: %v", s.path, v.name, w.failure)
	}
	return report
}

// attempt runs the engine once and says whether it crashed.
func (s *script) attempt(t *testing.T, v variant, w *world, g *engine.Graph, store *state.Store) (crashed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o := engine.Options{Store: store, Every: time.Hour, Now: w.now, OnManifest: w.onManifest}
	if os.Getenv("FRAZIL_TEST_LOG") != "" {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	job := engine.NewJob(g, o)
	w.begin(job, cancel)
	_, err := job.Run(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.failure != nil:
		t.Errorf("%s: %s: %v", s.path, v.name, w.failure)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		t.Errorf("%s: %s: stands still at move %d of %d: %+v", s.path, v.name, w.run.next, len(w.moves), w.moves[min(w.run.next, len(w.moves)-1)])
	case err != nil && !(w.run.over && errors.Is(err, context.Canceled)):
		t.Errorf("%s: %s: %v", s.path, v.name, err)
	}
	return err != nil
}

func openState(t *testing.T, dir string) *state.Store {
	t.Helper()
	store, err := state.Open(dir, state.Options{Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func closeState(t *testing.T, store *state.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// report writes what was committed, at each show and at the end, and the fates
// of all rows: a state that was lost has counted some of them twice.
func (w *world) report(fates bool) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	n := 0
	for i := range w.moves {
		if rows, ok := w.shows[i]; ok {
			n++
			fmt.Fprintf(&b, "== show %d\n", n)
			w.rows(&b, rows)
		}
	}
	b.WriteString("== end\n")
	w.rows(&b, w.committed())
	b.WriteString("-- fates\n")
	if !fates {
		// They are those of the script, or its other variants would fail.
		_, have, _ := strings.Cut(w.script.want, "-- fates\n")
		b.WriteString(have)
		return b.String()
	}
	var names []string
	for name := range w.last.Ledger.Steps {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if w.script.changeReaders[name] {
			continue
		}
		c := w.last.Ledger.Steps[name]
		if w.script.changeMakers[name] {
			c.Created = 0
		}
		fmt.Fprintf(&b, "%s:%s\n", name, countsText(c))
	}
	return b.String()
}

func (w *world) rows(b *strings.Builder, rows map[string][]string) {
	for _, sink := range w.script.sinks {
		out := slices.Clone(rows[sink])
		if !w.script.ordered {
			sort.Strings(out)
		}
		fmt.Fprintf(b, "-- %s\n", sink)
		for _, r := range out {
			b.WriteString(r + "\n")
		}
	}
}

// countsText writes the counters that are not 0.
func countsText(c dataflow.Counts) string {
	var b strings.Builder
	for _, x := range []struct {
		name string
		n    int64
	}{
		{"in", c.In}, {"passed", c.Passed}, {"filtered", c.Filtered}, {"late", c.Late}, {"partly_late", c.PartlyLate},
		{"duplicate", c.Duplicate}, {"bad", c.Bad}, {"absorbed", c.Absorbed}, {"expired", c.Expired}, {"created", c.Created},
		{"held", c.Held}, {"staged", c.Staged}, {"superseded", c.Superseded}, {"muted", c.Muted},
	} {
		if x.n != 0 {
			fmt.Fprintf(&b, " %s=%d", x.name, x.n)
		}
	}
	return b.String()
}
