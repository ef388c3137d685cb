// Package world is a simulated world around the real engine: brokers with their
// splits, producers that post, tables with their catalog, a disk, and an operator who
// stops, kills and restarts the process. All of it follows from one seed. It keeps its
// own books of what was sent and compares the tables with them.
package world

import (
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Options say which world it is.
type Options struct {
	Seed uint64
	// For is how long the world lasts before its faults end; Days lets it last days
	// with few events.
	For  time.Duration
	Days bool
	// Threads: goroutines run in threads, and time stands still while one waits for a
	// mutex (testing/synctest): nothing may then take time while it holds one.
	Threads bool
	// Second: sometimes a second process is started on a copy of the disk, and both go on.
	Second bool
	// Bug plants one: see bugs.
	Bug string
	// Jump moves the wall clock, and nothing else, by d.
	Jump func(d time.Duration)
	// Verbose writes the trace to stderr.
	Verbose bool
}

// Result is what is told of a world.
type Result struct {
	Seed uint64 `json:"seed"`
	// Hash covers everything that happened, with its times: one seed, one hash.
	Hash string `json:"hash"`
	// Shape names the pipeline.
	Shape string `json:"shape"`
	// Failures are broken promises.
	Failures []string         `json:"failures,omitempty"`
	Figures  map[string]int64 `json:"figures"`
	// Virtual time that passed.
	Virtual time.Duration `json:"virtual"`
}

// bugs that can be planted, each in the world itself, and what breaks.
var bugs = []string{
	"skip_record",   // the broker leaves a record out that it counts
	"drop_commit",   // the catalog says that it has applied a commit, and has its positions only
	"double_commit", // the catalog applies a commit twice
	"forget_acked",  // a push producer is told of records that were never posted
}

// World is one of them. Its goroutines never run at the same time.
type World struct {
	o     Options
	plan  *plan
	start time.Time

	// tab guards the tables, and is taken before mu.
	tab      sync.Mutex
	mu       sync.Mutex
	rng      *rand.Rand
	hash     interface{ Write([]byte) (int, error) }
	sum      func() uint64
	figures  map[string]int64
	failures []string
	calm     bool // no more faults
	offset   time.Duration

	topics  map[string]*topic
	pushes  map[string]*push
	tables  map[string]*table
	objects map[string][]string // what writers have staged
	staged  int
	watch   *watch
	current *process
	count   int
}

// Run lets a world pass and says what became of it.
func Run(o Options) Result {
	h := fnv.New64a()
	w := &World{
		o: o, start: time.Now(), rng: rand.New(rand.NewPCG(o.Seed, 0x51)), hash: h, sum: h.Sum64, figures: map[string]int64{},
		topics: map[string]*topic{}, pushes: map[string]*push{}, tables: map[string]*table{}, objects: map[string][]string{}, watch: newWatch(),
	}
	if o.Bug != "" && !slices.Contains(bugs, o.Bug) {
		w.fail("no bug %q; there are %v", o.Bug, bugs)
		return w.result()
	}
	w.plan = makePlan(o)
	w.furnish()
	before := runtime.NumGoroutine()
	deadline := time.AfterFunc(o.For+o.For/2+time.Hour, func() {
		stacks := make([]byte, 1<<20)
		w.fail("the world does not come to its end:\n%s", stacks[:runtime.Stack(stacks, true)])
		w.Print(os.Stdout)
		os.Exit(1)
	})
	w.live()
	deadline.Stop()
	w.figuresOfWatch()
	if len(w.failures) == 0 {
		w.compare()
		w.leaks(before)
	}
	return w.result()
}

// leaks looks for goroutines that are left over.
func (w *World) leaks(before int) {
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Second)
	}
	stacks := make([]byte, 1<<20)
	w.fail("%d goroutines are left over:\n%s", runtime.NumGoroutine()-before, stacks[:runtime.Stack(stacks, true)])
}

func (w *World) result() Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Result{Seed: w.o.Seed, Hash: fmt.Sprintf("%016x", w.sum()), Failures: w.failures, Figures: w.figures, Virtual: time.Since(w.start)}
	if w.plan != nil {
		r.Shape = w.plan.shape
	}
	return r
}

// now is how long the world has lasted.
func (w *World) now() time.Duration { return time.Since(w.start) }

// trace adds to the hash what happened, counts it, and says so where wanted.
func (w *World) trace(kind, format string, args ...any) {
	line := fmt.Sprintf("%s %s ", w.now(), kind) + fmt.Sprintf(format, args...) + "\n"
	w.mu.Lock()
	defer w.mu.Unlock()
	w.figures[kind]++
	_, _ = w.hash.Write([]byte(line))
	fmt.Fprint(w.said(), line)
}

func (w *World) add(kind string, n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.figures[kind] += n
}

func (w *World) fail(format string, args ...any) {
	text := fmt.Sprintf("at %s: ", w.now()) + fmt.Sprintf(format, args...)
	w.trace("failure", "%s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) < 20 {
		w.failures = append(w.failures, text)
	}
}

// chance draws: true once in so many times, never when the world has calmed down.
func (w *World) chance(oneIn int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.calm && w.rng.IntN(oneIn) == 0
}

func (w *World) intn(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *World) between(lo, hi time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)+1))
}

// lag is how long something takes that takes about so long: mostly less, sometimes
// much more.
func (w *World) lag(about time.Duration) time.Duration {
	switch n := w.intn(100); {
	case n < 30:
		return 0
	case n < 97 || w.isCalm():
		return w.between(0, 2*about)
	}
	return w.between(0, 50*about)
}

func (w *World) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// yield lets other goroutines go first, sometimes.
func (w *World) yield() {
	for range w.intn(4) {
		runtime.Gosched()
	}
}

// said is where the trace goes to. All is formatted in any case: whether somebody
// listens must change nothing.
func (w *World) said() io.Writer {
	if w.o.Verbose {
		return os.Stderr
	}
	return io.Discard
}

// log passes on what the engine says.
func (w *World) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(unknown{w.said()}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// unknown hides what is written to.
type unknown struct{ io.Writer }
