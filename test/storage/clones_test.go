package storage

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"frazil/dataflow/flowtest/full"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// reference are the results of a run in which nothing happens.
func reference(w work) (results, error) {
	x := newWorld(w)
	e := x.run(disk{fs: vfs.NewMem()}, w.seed)
	if e.err != nil || e.fatal != "" {
		return nil, fmt.Errorf("a run in which nothing happens: %w %s", e.err, e.fatal)
	}
	want, err := x.results()
	if err != nil {
		return nil, err
	}
	return want, x.compare(want, e.manifest)
}

// crash is the world at a moment, and what a disk has of it then.
type crash struct {
	w     *world
	fs    *vfs.MemFS
	depth int
	text  string
}

// crasher takes clones while a process runs on mem.
type crasher struct {
	mem *vfs.MemFS
	w   *world

	mu    sync.Mutex
	rng   *rand.Rand
	every int
	most  int
	depth int
	// journal: the disk keeps the order of names, as file systems with a journal
	// do: a file that is synced is found, and so is all that was named before. Only
	// then may some names be lost and some not; Pebble does not expect more.
	journal bool
	lie     string // see lyingFS
	taken   []crash
}

func (c *crasher) wrap() vfs.FS {
	var under vfs.FS = c.mem
	if c.journal {
		under = journalFS{c.mem}
	}
	if c.lie != "" {
		under = lyingFS{c.mem, c.lie}
	}
	return errorfs.Wrap(under, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
			c.maybe(op)
		}
		return nil
	}))
}

func (c *crasher) maybe(op errorfs.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taken) >= c.most || c.rng.IntN(c.every) > 0 {
		return
	}
	percent := []int{0, 0, 0, 100}[c.rng.IntN(4)]
	if c.journal {
		percent = c.rng.IntN(101)
	}
	c.w.mu.Lock()
	w := c.w.cloneLocked()
	fs := c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng})
	c.w.mu.Unlock()
	w.silent = c.w.silent || c.rng.IntN(5) == 0
	c.taken = append(c.taken, crash{w, fs, c.depth, fmt.Sprintf("before %s of %s, %d%% of what was not synced", opNames[op.Kind], op.Path, percent)})
}

// crashes runs a process with everything that comes of it: clones, and clones of
// the runs on these.
type crashes struct {
	want    results
	rng     *rand.Rand
	figures full.Figures
	left    int
	lie     string
}

func (x *crashes) from(c crash) error {
	watch := &crasher{mem: c.fs, w: c.w, rng: rand.New(rand.NewPCG(x.rng.Uint64(), 1)), every: 40, most: 12, depth: c.depth + 1, journal: x.rng.IntN(2) == 0, lie: x.lie}
	if c.depth > 0 {
		watch.every, watch.most = 60, 2
	}
	if c.depth >= 3 {
		watch.most = 0
	}
	seed := x.rng.Uint64()
	e := c.w.run(disk{fs: watch.wrap()}, seed)
	if e.err != nil || e.fatal != "" {
		return fmt.Errorf("%s: %w %s", c.text, e.err, e.fatal)
	}
	if err := c.w.compare(x.want, e.manifest); err != nil {
		return fmt.Errorf("%s: %w", c.text, err)
	}
	for _, next := range watch.taken {
		if x.left == 0 {
			return nil
		}
		x.left--
		x.figures["clones"]++
		x.figures[fmt.Sprintf("clones_at_depth_%d", next.depth)]++
		if next.w.silent {
			x.figures["without_producer"]++
		}
		x.figures["acknowledged_at_crash"] += int64(len(next.w.acked))
		if err := x.from(next); err != nil {
			return fmt.Errorf("%s\n after %w", c.text, err)
		}
	}
	return nil
}

// clonesOf runs until so many clones were looked at, with faults that are planted.
func clonesOf(seed uint64, n int, plant plant, lie string) (full.Figures, error) {
	rng := rand.New(rand.NewPCG(seed, 11))
	x := &crashes{rng: rng, figures: full.Figures{}, left: n, lie: lie}
	for without := 0; x.left > 0; {
		w := work{rows: 60 + rng.IntN(120), requests: 20 + rng.IntN(60), seed: rng.Uint64()}
		var err error
		if x.want, err = reference(w); err != nil {
			return nil, err
		}
		world := newWorld(w)
		world.plant = plant
		x.figures["runs"]++
		before := x.left
		if err := x.from(crash{w: world, fs: vfs.NewCrashableMem(), text: "the first run"}); err != nil {
			return x.figures, err
		}
		if x.left < before {
			without = 0
		} else if without++; without == 10 {
			return x.figures, fmt.Errorf("no clone was taken in %d runs", without)
		}
	}
	return x.figures, nil
}

// At any operation the machine loses its power, or the process is killed, and what
// comes back there goes on to the right end.
func TestCrashClones(t *testing.T) {
	full.Suite{Name: "crash-clones", Total: 400, Short: 2}.Run(t, func(t *testing.T, portion int) full.Figures {
		figures, err := clonesOf(uint64(portion), 25, noPlant, "")
		if err != nil {
			t.Fatal(err)
		}
		return figures
	})
}
