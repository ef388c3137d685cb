package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/rig"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// faultyWork has more than 2,000 operations on the disk.
func faultyWork(seed uint64) work { return work{rows: 150, requests: 850, seed: seed} }

// once is an error at one operation.
type once struct {
	mu  sync.Mutex
	at  int // operations until then
	hit *errorfs.Op
	// ops counts all.
	ops int
}

func (o *once) decide(op errorfs.Op) error {
	if op.Kind == errorfs.OpGetDiskUsage {
		return nil // not an operation on a file
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ops++
	if o.ops-1 != o.at {
		return nil
	}
	o.hit = &op
	return &os.PathError{Op: fmt.Sprintf("injected in %s", opNames[op.Kind]), Path: op.Path, Err: syscall.EIO}
}

// opNames are the operations for people.
var opNames = map[errorfs.OpKind]string{
	errorfs.OpCreate: "create", errorfs.OpLink: "link", errorfs.OpOpen: "open", errorfs.OpOpenDir: "open of a folder",
	errorfs.OpRemove: "remove", errorfs.OpRemoveAll: "remove all", errorfs.OpRename: "rename", errorfs.OpReuseForWrite: "reuse",
	errorfs.OpMkdirAll: "mkdir", errorfs.OpLock: "lock", errorfs.OpList: "list", errorfs.OpFilePreallocate: "preallocate",
	errorfs.OpStat: "stat of a path", errorfs.OpFileClose: "close", errorfs.OpFileRead: "read", errorfs.OpFileReadAt: "read at",
	errorfs.OpFileWrite: "write", errorfs.OpFileWriteAt: "write at", errorfs.OpFileStat: "stat", errorfs.OpFileSync: "sync",
	errorfs.OpFileSyncData: "sync of data", errorfs.OpFileSyncTo: "sync up to", errorfs.OpFileFlush: "flush",
}

// lives runs processes, one after the other on what the one before left of the
// disk, until one comes to its end. after prepares the disk behind a process that
// did not.
func (w *world) lives(most int, seed uint64, figures full.Figures, on func(life int) disk) (end, error) {
	rng := rand.New(rand.NewPCG(seed, 5))
	for life := range most {
		e := w.run(on(life), rng.Uint64())
		figures["refused_requests"] += e.refused
		switch {
		case e.fatal != "":
			figures["fatal"]++
			logf("life %d: the store could not go on: %s", life, e.fatal)
		case e.err != nil:
			figures["stopped_with_error"]++
			logf("life %d: %v", life, e.err)
		default:
			return e, nil
		}
		if e.err != nil && life+1 == most {
			return e, fmt.Errorf("process %d: %w", life+1, e.err)
		}
	}
	return end{}, fmt.Errorf("%d processes did not come to an end", most)
}

func logf(format string, args ...any) {
	if os.Getenv("FRAZIL_TEST_LOG") != "" {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}

var errNotHit = errors.New("the operation was never reached")

// errorAt lets the k-th operation fail, once. The program goes on by itself or
// ends, and is started again.
func errorAt(seed uint64, k int, want results, figures full.Figures) error {
	rng := rand.New(rand.NewPCG(seed, uint64(k)))
	w := newWorld(faultyWork(seed))
	fault := &once{at: k}
	mem := vfs.NewCrashableMem()
	e, err := w.lives(3, rng.Uint64(), figures, func(life int) disk {
		if life > 0 {
			// The process is gone, or the machine lost its power with it.
			mem = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100 * rng.IntN(2), RNG: rng})
		}
		return disk{fs: errorfs.Wrap(mem, errorfs.InjectorFunc(fault.decide))}
	})
	switch {
	case err != nil:
		return fmt.Errorf("error at %v: %w", fault.hit, err)
	case fault.hit == nil:
		return fmt.Errorf("%w: %d of %d", errNotHit, k, fault.ops)
	}
	figures["errors"]++
	figures["errors_"+fault.hit.Kind.ReadOrWrite().String()]++
	if err := w.compare(want, e.manifest); err != nil {
		return fmt.Errorf("error in %s of %s: %w", opNames[fault.hit.Kind], fault.hit.Path, err)
	}
	return nil
}

// At the k-th operation on the disk, for every k up to 2,000, there is an error.
func TestStorageErrors(t *testing.T) {
	eachK(t, full.Suite{Name: "storage-errors", Total: 2000 / 10, Short: 1}, 10, faultyWork, errorAt)
}

// eachK works through the operations k of a suite, each of them a portion, all of a
// portion with the same work.
func eachK(t *testing.T, s full.Suite, each int, of func(seed uint64) work, at func(seed uint64, k int, want results, figures full.Figures) error) {
	t.Helper()
	s.Run(t, func(t *testing.T, portion int) full.Figures {
		figures := full.Figures{}
		seed := uint64(portion)
		want, err := reference(of(seed))
		if err != nil {
			t.Fatal(err)
		}
		for k := portion * each; k < (portion+1)*each; k++ {
			err := at(seed, k, want, figures)
			if rig.Raced && errors.Is(err, errNotHit) {
				continue // There are fewer operations: the program is slower than its epochs.
			}
			if err != nil {
				t.Fatalf("k = %d: %v", k, err)
			}
		}
		return figures
	})
}
