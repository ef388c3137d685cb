package state

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/leak"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var quiet = slog.New(slog.DiscardHandler)

func openMem(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	return openMemFrom(t, fs, 0)
}

// openMemFrom opens a store whose changes go as tables from so many bytes on.
func openMemFrom(t *testing.T, fs vfs.FS, tablesFrom int64) *Store {
	t.Helper()
	s, err := Open("state", Options{Logger: quiet, FS: fs, TablesFrom: tablesFrom})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openKV(t *testing.T, s *Store, step string, g Groups) *TaskKV {
	t.Helper()
	kv, err := s.KV(step, g)
	must(t, err)
	return kv
}

var allGroups = Groups{0, NumGroups}

func TestSecondOpenIsRefusedWithPID(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{Logger: quiet})
	must(t, err)
	_, err = Open(dir, Options{Logger: quiet})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("got %v, want a LockedError with pid %d", err, os.Getpid())
	}
	must(t, s.Close())
	must(t, s.Close())
	s, err = Open(dir, Options{Logger: quiet})
	must(t, err)
	must(t, s.Close())
}

func TestSeedStaysAndManifestIsTheLastWritten(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	if m, err := s.Manifest(); m != nil || err != nil {
		t.Fatalf("manifest of a new store: %q, %v", m, err)
	}
	seed := s.Seed()
	must(t, s.Write(nil, []byte("one")))
	must(t, s.Write(nil, []byte("two")))
	must(t, s.Close())
	s = openMem(t, fs)
	if s.Seed() != seed || seed == [16]byte{} {
		t.Fatal("the seed has changed or is zero")
	}
	if m, err := s.Manifest(); string(m) != "two" || err != nil {
		t.Fatalf("manifest %q, %v", m, err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	must(t, s.db.Set(keyVersion, []byte("2"), nil))
	must(t, s.Close())
	_, err := Open("state", Options{Logger: quiet, FS: fs})
	if !errors.Is(err, errNewer) || err.Error() != "open state in state: state format version 2, this program knows versions up to 1: the state was written by a newer version of the program: use that version, or start with an empty state directory" {
		t.Fatalf("got %v", err)
	}
}

// The process must not end without a word: it says why, and its code is 1.
func TestAStoreThatCannotGoOnEndsTheProcess(t *testing.T) {
	if os.Getenv("FRAZIL_TEST_FATAL") != "" {
		fail := false
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if fail && op.Kind == errorfs.OpFileSyncData {
				return syscall.EIO
			}
			return nil
		}))
		s, err := Open("state", Options{Logger: slog.New(slog.NewTextHandler(os.Stdout, nil)), FS: fs})
		must(t, err)
		fail = true
		must(t, s.Write(nil, []byte("manifest")))
		t.Fatal("written")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAStoreThatCannotGoOnEndsTheProcess$")
	cmd.Env = append(os.Environ(), "FRAZIL_TEST_FATAL=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `level=ERROR msg="state store cannot go on; the last durable epoch is kept, and the next start goes on from it: sync state/000002.log: input/output error"`
	if lines := strings.TrimSpace(string(out)); !strings.HasSuffix(lines, want) || strings.Contains(lines, "goroutine") {
		t.Fatalf("got\n%s\nwant at the end\n%s", lines, want)
	}
}

func TestClosedStoreAnswersWithErrors(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	kv := openKV(t, s, "a", allGroups)
	must(t, s.Close())
	if _, err := kv.Get(1, []byte("k")); !errors.Is(err, errClosed) {
		t.Fatalf("Get: %v", err)
	}
	if err := kv.Scan(1, nil, nil, nil); !errors.Is(err, errClosed) {
		t.Fatalf("Scan: %v", err)
	}
	if err := s.Write(nil, nil); !errors.Is(err, errClosed) {
		t.Fatalf("Write: %v", err)
	}
}

func TestCatalogKeepsIDsAndDropRemovesState(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	a, b := openKV(t, s, "a", allGroups), openKV(t, s, "b", allGroups)
	must(t, a.Set(255, []byte("k"), []byte("va")))
	must(t, b.Set(0, []byte("k"), []byte("vb")))
	must(t, s.Write([]*Delta{a.Freeze(), b.Freeze()}, []byte("1")))
	must(t, s.Drop("a"))
	must(t, s.Drop("never there"))
	must(t, s.Close())

	s = openMem(t, fs)
	if got := s.Steps(); len(got) != 1 || got[0] != "b" {
		t.Fatalf("steps %v", got)
	}
	if a2 := openKV(t, s, "a", allGroups); a2.id == a.id {
		t.Fatal("the id of a dropped step was given out again")
	} else if _, err := a2.Get(255, []byte("k")); !errors.Is(err, ErrNotFound) {
		t.Fatalf("state of a dropped step: %v", err)
	}
	if v, err := openKV(t, s, "b", allGroups).Get(0, []byte("k")); string(v) != "vb" {
		t.Fatalf("state of the other step: %q, %v", v, err)
	}
}

func TestAbandonedChangesAreGoneAfterReset(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	kv := openKV(t, s, "a", allGroups)
	must(t, kv.Set(3, []byte("k"), []byte("1")))
	must(t, s.Write([]*Delta{kv.Freeze()}, []byte("1")))
	must(t, kv.Set(3, []byte("k"), []byte("2")))
	abandoned := kv.Freeze()
	must(t, kv.Set(3, []byte("k"), []byte("3")))
	s.Reset()
	if err := s.Write([]*Delta{abandoned}, []byte("2")); !errors.Is(err, ErrStale) {
		t.Fatalf("write of an abandoned epoch: %v", err)
	}
	if _, err := kv.Get(3, []byte("k")); !errors.Is(err, ErrStale) {
		t.Fatalf("use of an abandoned KV: %v", err)
	}
	kv = openKV(t, s, "a", allGroups)
	if v, _ := kv.Get(3, []byte("k")); string(v) != "1" {
		t.Fatalf("after the reset: %q", v)
	}
}

func TestNewKVReplacesOverlappingOnesOnly(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	lo, hi := openKV(t, s, "a", Groups{0, 128}), openKV(t, s, "a", Groups{128, 256})
	other := openKV(t, s, "b", allGroups)
	openKV(t, s, "a", Groups{200, 256})
	must(t, lo.Set(0, nil, nil))
	must(t, other.Set(200, nil, nil))
	if err := hi.Set(130, nil, nil); !errors.Is(err, ErrStale) {
		t.Fatalf("got %v", err)
	}
	if err := lo.Set(128, nil, nil); err == nil {
		t.Fatal("a group of another task was accepted")
	}
}

func TestWriteRefusesChangesLeftOut(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	kv := openKV(t, s, "a", allGroups)
	must(t, kv.Set(3, []byte("k"), []byte("1")))
	d1 := kv.Freeze()
	must(t, kv.Set(3, []byte("k"), []byte("2")))
	d2 := kv.Freeze()
	if kv.DirtyBytes() != d1.Bytes()+d2.Bytes() || d1.Bytes() <= 0 {
		t.Fatalf("dirty %d, frozen %d and %d", kv.DirtyBytes(), d1.Bytes(), d2.Bytes())
	}
	if err := s.Write([]*Delta{d2}, nil); err == nil {
		t.Fatal("the older change was left out")
	}
	must(t, s.Write([]*Delta{d1}, nil))
	if err := s.Write([]*Delta{d1}, nil); err == nil {
		t.Fatal("written twice")
	}
	must(t, s.Write([]*Delta{d2, kv.Freeze()}, nil))
	if kv.DirtyBytes() != 0 {
		t.Fatalf("dirty %d after everything is written", kv.DirtyBytes())
	}
	if v, _ := kv.Get(3, []byte("k")); string(v) != "2" {
		t.Fatalf("got %q", v)
	}
}
