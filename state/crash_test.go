package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashWatch copies a file system that forgets unsynced data before every
// operation that writes, and looks at each copy as a process would that comes
// back there.
type crashWatch struct {
	mem *vfs.MemFS
	r   *rand.Rand

	mu struct {
		sync.Mutex
		points int
		err    error
		// The epoch that is complete and the one that may be under way, with
		// the state of each.
		done, next           int
		doneState, nextState model
	}
}

func (c *crashWatch) wrap() vfs.FS {
	return errorfs.Wrap(c.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose {
			c.crash(op)
		}
		return nil
	}))
}

func (c *crashWatch) mark(done int, doneState model, next int, nextState model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.done, c.mu.doneState, c.mu.next, c.mu.nextState = done, doneState, next, nextState
}

func (c *crashWatch) crash(op errorfs.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return
	}
	c.mu.points++
	// The machine loses its power, or only the process is killed. What lies
	// between (some directory entries reach the disk, older ones do not) no
	// journaling file system does, and Pebble does not expect it.
	cfg := vfs.CrashCloneCfg{}
	if c.r.IntN(3) == 0 {
		cfg.UnsyncedDataPercent, cfg.RNG = 100, c.r
	}
	if err := c.look(c.mem.CrashClone(cfg)); err != nil {
		c.mu.err = fmt.Errorf("crash point %d, before %v of %s, unsynced %d%%: %w", c.mu.points, op.Kind, op.Path, cfg.UnsyncedDataPercent, err)
	}
}

func (c *crashWatch) look(fs vfs.FS) error {
	s, err := Open("state", Options{Logger: quiet, FS: fs})
	if err != nil {
		return err
	}
	defer s.Close()
	b, err := s.Manifest()
	if err != nil {
		return err
	}
	epoch := 0
	if b != nil {
		if epoch, err = strconv.Atoi(string(b)); err != nil {
			return err
		}
	}
	want := c.mu.doneState
	switch epoch {
	case c.mu.done:
	case c.mu.next:
		want = c.mu.nextState
	default:
		return fmt.Errorf("manifest is of epoch %d, want %d or %d", epoch, c.mu.done, c.mu.next)
	}
	kv, err := s.KV("step", allGroups)
	if err != nil {
		return err
	}
	for _, g := range []int{0, 1, 2, 7, 255} {
		have, err := scanned(kv, g, nil, nil)
		if err != nil {
			return err
		}
		if want := want.inGroup(g, nil, nil); fmt.Sprint(have) != fmt.Sprint(want) {
			return fmt.Errorf("group %d is not that of epoch %d: %.200q, want %.200q", g, epoch, have, want)
		}
	}
	return nil
}

// Set, unset, maybe: an epoch whose Write returned is there, one that was not
// begun is not, one under way is there whole or not at all.
func TestEveryCrashPointHoldsExactlyOneEpoch(t *testing.T) {
	t.Run("batches", func(t *testing.T) { everyCrashPoint(t, 1<<40) })
	t.Run("tables", func(t *testing.T) { everyCrashPoint(t, 1) })
	t.Run("both", func(t *testing.T) { everyCrashPoint(t, 2<<10) })
}

func everyCrashPoint(t *testing.T, tablesFrom int64) {
	r := testSeed(t)
	watch := &crashWatch{mem: vfs.NewCrashableMem(), r: rand.New(rand.NewPCG(r.Uint64(), 2))}
	s, err := Open("state", Options{Logger: quiet, FS: watch.wrap(), TablesFrom: tablesFrom})
	must(t, err)
	kv := openKV(t, s, "step", allGroups)
	m, before := model{}, model{}
	tables := false
	for epoch := 1; epoch <= 24; epoch++ {
		for i := 0; i < 60; i++ {
			m.step(t, r, kv, allGroups)
		}
		if epoch == 5 { // Larger than half a memtable: goes past it.
			for i := 0; i < 24; i++ {
				k, v := []byte(fmt.Sprintf("large%d", i)), bytes.Repeat([]byte{byte(i)}, 100<<10)
				must(t, kv.Set(7, k, v))
				m[modelKey(7, k)] = string(v)
			}
		}
		if epoch == 7 {
			must(t, kv.DeleteRange(7, []byte("large"), nil))
			for _, e := range m.inGroup(7, []byte("large"), nil) {
				k, _, _ := bytes.Cut([]byte(e), []byte("="))
				delete(m, modelKey(7, k))
			}
		}
		after := m.clone()
		watch.mark(epoch-1, before, epoch, after)
		must(t, s.Write([]*Delta{kv.Freeze()}, []byte(strconv.Itoa(epoch))))
		watch.mark(epoch, after, epoch, after)
		before = after
		if epoch%8 == 0 {
			tables = tables || s.db.Metrics().Ingest.Count > 0
			must(t, s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
			must(t, s.Close())
			s, err = Open("state", Options{Logger: quiet, FS: watch.wrap(), TablesFrom: tablesFrom})
			must(t, err)
			kv = openKV(t, s, "step", allGroups)
		}
	}
	must(t, s.Close())
	watch.mu.Lock()
	defer watch.mu.Unlock()
	must(t, watch.mu.err)
	t.Logf("%d crash points", watch.mu.points)
	if tables != (tablesFrom < 1<<40) {
		t.Errorf("epochs went as tables: %v", tables)
	}
	if watch.mu.points < 100 {
		t.Fatal("the file system is not watched")
	}
}
