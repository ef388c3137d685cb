package storage

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/leak"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const stuck = "a process that its store has ended stands where it was: nobody sees it any more, as if the system had ended it"

func TestMain(m *testing.M) {
	os.Exit(leak.Main(m, leak.WithoutGoroutines(stuck), leak.WithoutArrow(stuck)))
}

// TestRunsLeaveNothing looks after processes that come to an end by themselves: one
// to which nothing happens, and one that goes on after a failure in the write-ahead
// log. It is the first test of the package, before any process that stands still.
func TestRunsLeaveNothing(t *testing.T) {
	var writes atomic.Int64
	for what, fs := range map[string]vfs.FS{
		"nothing happens": vfs.NewMem(),
		"one append fails": errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind != errorfs.OpFileWrite || !strings.Contains(op.Path, ".wal") || writes.Add(1) != 4 {
				return nil
			}
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.EIO}
		})),
	} {
		watch := leak.Begin()
		e := newWorld(work{rows: 100, requests: 100, seed: 3}).run(disk{fs: fs}, 3)
		err := watch.End()
		if e.err != nil || e.fatal != "" || err != nil {
			t.Errorf("%s: %v", what, fmt.Errorf("%w %s %w", e.err, e.fatal, err))
		}
	}
	if writes.Load() < 4 {
		t.Error("no append has failed")
	}
}
