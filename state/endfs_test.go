package state

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// endings are the operations on the log whose failure must end the process with the
// reason. Changes are written into the log, or as tables from so many bytes on.
var endings = []struct {
	name   string
	op     errorfs.OpKind
	tables int64
	want   string
}{
	{"begin a file beside tables", errorfs.OpCreate, 1, "create state/"},
	{"begin a file", errorfs.OpCreate, 1 << 40, "create state/"},
	{"begin a file that was used before", errorfs.OpReuseForWrite, 1 << 40, "create state/"},
	{"write beside tables", errorfs.OpFileWrite, 1, "write state/"},
	{"write", errorfs.OpFileWrite, 1 << 40, "write state/"},
	{"sync beside tables", errorfs.OpFileSyncData, 1, "sync state/"},
	{"sync", errorfs.OpFileSyncData, 1 << 40, "sync state/"},
}

// A process whose store cannot go on ends as it was told to, with the reason, also
// where Pebble itself would panic in a goroutine of its own or with a lock in a state
// that ends the process.
func TestWhatFailsInTheLogEndsTheProcessWithTheReason(t *testing.T) {
	if i, err := strconv.Atoi(os.Getenv("FRAZIL_ENDING")); err == nil {
		endAt(t, endings[i].op, endings[i].tables)
		return
	}
	for i, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWhatFailsInTheLogEndsTheProcessWithTheReason$")
			child.Env = append(os.Environ(), fmt.Sprint("FRAZIL_ENDING=", i))
			out, err := child.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.Contains(string(out), "ended: "+e.want) {
				t.Fatalf("%v:\n%s", err, out)
			}
		})
	}
}

func endAt(t *testing.T, kind errorfs.OpKind, tables int64) {
	armed, hit := false, false
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !armed || op.Kind != kind || !strings.HasSuffix(op.Path, ".log") {
			return nil
		}
		hit = true
		return errors.New("injected")
	}))
	s, err := Open("state", Options{Logger: quiet, FS: fs, TablesFrom: tables, Fatal: func(reason string) {
		fmt.Println("ended:", reason)
		os.Exit(7)
	}})
	must(t, err)
	kv := openKV(t, s, "step", allGroups)
	armed = true
	value := make([]byte, 100<<10)
	for epoch := range 100 {
		for i := range 10 {
			must(t, kv.Set(7, fmt.Appendf(nil, "%d", i), value))
		}
		must(t, s.Write([]*Delta{kv.Freeze()}, []byte(strconv.Itoa(epoch))))
	}
	must(t, s.Close())
	t.Fatalf("the store went on to its end; the operation failed: %v", hit)
}
