package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// story is what a user does with a log: appends, saves keys, truncates, closes and
// opens again, and goes on after errors as the documentation says.
type story struct {
	fs  vfs.FS
	rnd *rand.Rand

	mu sync.Mutex
	// promised are the frames that Append returned without an error, by their first
	// record; failed those that it gave an error for that leaves them in doubt.
	promised map[uint64]string
	failed   map[string]bool
	// refused got ErrFull: they must not be there.
	refused map[string]bool
	acked   uint64
	keys    map[string]uint64
}

func newStory(fs vfs.FS, rnd *rand.Rand) *story {
	return &story{fs: fs, rnd: rnd, promised: map[uint64]string{}, failed: map[string]bool{}, refused: map[string]bool{}, acked: 1, keys: map[string]uint64{}}
}

// opened is the log of a story while it is open.
type opened struct {
	l *Log
	k *Keys
}

func (s *story) open() (*opened, error) {
	o := &opened{}
	var err error
	if o.k, err = OpenKeys("w", KeysOptions{FS: s.fs, Keep: time.Hour, Now: func() time.Time { return time.Unix(0, 0) }}); err != nil {
		return nil, err
	}
	o.l, err = Open("w", Options{
		FS: s.fs, SegmentBytes: 600,
		Visit: func(f Frame) error {
			if f.First >= o.k.Saved() {
				o.k.Put(f.Next(), KeyEntry{Key: keyOf(string(f.Body)), First: f.First, Arrived: 1})
			}
			return nil
		},
		Retire: func(uint64) error { return o.k.Save() },
	})
	if err != nil {
		return nil, errors.Join(err, o.k.Close())
	}
	return o, nil
}

func (o *opened) close() error {
	if o == nil {
		return nil
	}
	return errors.Join(o.l.Close(), o.k.Close())
}

// play runs n steps. Errors of the file system are survived; it returns what may
// not happen.
func (s *story) play(n int) error {
	o, err := s.open()
	for i := range n {
		if o == nil {
			if o, err = s.open(); err != nil {
				if errors.Is(err, ErrCorrupt) {
					return err
				}
				continue
			}
		}
		if err := s.step(o, i); err != nil {
			return errors.Join(err, o.close())
		}
		if s.rnd.IntN(15) == 0 {
			o.close() // What cannot be closed is gone.
			o = nil
		}
	}
	o.close()
	return nil
}

func (s *story) step(o *opened, i int) error {
	switch s.rnd.IntN(8) {
	case 0:
		s.mu.Lock()
		to := s.acked + uint64(s.rnd.IntN(int(o.l.Next()-s.acked)+1))
		s.acked = to
		s.mu.Unlock()
		return s.tolerate(o.l.Truncate(to))
	case 1:
		return s.tolerate(o.k.Save())
	case 2:
		_, err := frames(o.l)
		return s.tolerate(err)
	}
	var fs []Frame
	for j := range 1 + s.rnd.IntN(3) {
		fs = append(fs, Frame{Records: uint32(1 + s.rnd.IntN(4)), Kind: 1, Arrived: int64(i), Body: fmt.Appendf(nil, "step %d frame %d %x", i, j, s.rnd.Uint64())})
	}
	first, err := o.l.Append(fs)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		for _, f := range fs {
			s.promised[f.First] = frameText(f)
			s.keys[string(f.Body)] = f.First
			o.k.Put(o.l.Next(), KeyEntry{Key: keyOf(string(f.Body)), First: f.First, Arrived: 1})
		}
		_ = first
	case errors.Is(err, ErrFull) && !errors.Is(err, ErrBroken):
		for _, f := range fs {
			s.refused[string(f.Body)] = true
		}
	default:
		for _, f := range fs {
			s.failed[string(f.Body)] = true
		}
		for range 3 {
			if err = o.l.Reopen(); err == nil || errors.Is(err, ErrCorrupt) {
				break
			}
		}
		return s.tolerate(err)
	}
	return nil
}

// tolerate passes on what the file system cannot be blamed for.
func (s *story) tolerate(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTruncated) {
		return err
	}
	return nil
}

// check opens what fs holds: everything promised is there, exactly once and in
// order, and nothing that was refused. Promised is what was when acked was read.
func (s *story) check(fs vfs.FS, promised map[uint64]string, acked uint64, keys map[string]uint64) error {
	o, err := (&story{fs: fs, rnd: s.rnd}).open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer o.close()
	got := map[uint64]string{}
	cur, err := o.l.Read(o.l.First())
	if err != nil {
		return err
	}
	defer cur.Close()
	next := o.l.First()
	for {
		f, ok, err := cur.Next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if f.First != next {
			return fmt.Errorf("record %d follows %d", f.First, next-1)
		}
		next = f.Next()
		got[f.First] = frameText(f)
		s.mu.Lock()
		refused := s.refused[string(f.Body)]
		s.mu.Unlock()
		if refused {
			return fmt.Errorf("record %d was refused and is there: %s", f.First, f.Body)
		}
	}
	if o.l.First() > acked {
		return fmt.Errorf("begins with %d, committed is up to %d", o.l.First(), acked-1)
	}
	for first, want := range promised {
		if first >= o.l.First() && got[first] != want {
			return fmt.Errorf("record %d: %q, promised was %q", first, got[first], want)
		}
	}
	for key, first := range keys {
		e, ok, err := o.k.Find(keyOf(key))
		if err != nil {
			return err
		}
		if !ok || e.First != first {
			return fmt.Errorf("the key of record %d is not remembered", first)
		}
	}
	return nil
}

func (s *story) checkNow(fs vfs.FS) error {
	return s.check(fs, s.promised, s.acked, s.keys)
}

// At the k-th operation, for every k, the file system fails once.
func TestAnErrorAtAnyOperationLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	kinds := map[string]func(errorfs.OpKind) error{
		"EIO of anything": func(errorfs.OpKind) error { return syscall.EIO },
		"EIO of syncs": func(k errorfs.OpKind) error {
			if k == errorfs.OpFileSync || k == errorfs.OpFileSyncData {
				return syscall.EIO
			}
			return nil
		},
		"ENOSPC of what writes": func(k errorfs.OpKind) error {
			if k.ReadOrWrite() == errorfs.OpIsWrite && k != errorfs.OpRemove {
				return syscall.ENOSPC
			}
			return nil
		},
	}
	for name, fails := range kinds {
		t.Run(name, func(t *testing.T) {
			for k := 0; ; k++ {
				if k > 600 && !long() {
					t.Log("left out: errors behind the 600th operation (FRAZIL_LONG=1)")
					return
				}
				mem := vfs.NewMem()
				n := 0
				hit := false
				fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if fails(op.Kind) == nil {
						return nil
					}
					n++
					if n-1 != k {
						return nil
					}
					hit = true
					return fails(op.Kind)
				}))
				s := newStory(fs, rand.New(rand.NewPCG(seed, 1)))
				if err := s.play(60); err != nil {
					t.Fatalf("operation %d: %v", k, err)
				}
				if err := s.checkNow(mem); err != nil {
					t.Fatalf("operation %d: %v", k, err)
				}
				if !hit {
					return
				}
			}
		})
	}
}

// At any operation the machine loses its power: what was not synced is there in
// parts or not at all.
func TestAPowerLossLosesNothingThatWasPromised(t *testing.T) {
	runs := 15
	if long() {
		runs = 500
	}
	for range runs {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 1))
		mem := vfs.NewCrashableMem()
		var s *story
		var failure error
		clones := 0
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if failure != nil || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || rnd.IntN(12) > 0 {
				return nil
			}
			clones++
			clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[rnd.IntN(3)], RNG: rnd})
			// mu is not held while the file system works.
			s.mu.Lock()
			promised, acked, keys := clone1(s.promised), s.acked, clone1(s.keys)
			s.mu.Unlock()
			if err := s.check(clone, promised, acked, keys); err != nil {
				failure = fmt.Errorf("seed %d, crash %d at %v of %s: %w", seed, clones, op.Kind, op.Path, err)
			}
			return nil
		}))
		s = newStory(fs, rand.New(rand.NewPCG(seed, 2)))
		if err := s.play(150); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if failure != nil {
			t.Fatal(failure)
		}
		if clones == 0 {
			t.Fatal("no crash")
		}
	}
}

func clone1[K comparable, V any](m map[K]V) map[K]V {
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// A sync that failed may have thrown away what was written: what is read back from
// the memory of the system is written again before it counts.
func TestWhatASyncThatFailedLeftIsWrittenAgain(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fail := false
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail && op.Kind == errorfs.OpFileSyncData {
			fail = false
			return syscall.EIO
		}
		return nil
	}))
	l, err := Open("w", Options{FS: fs})
	must(t, err)
	_, err = l.Append([]Frame{{Records: 1, Kind: 1, Body: []byte("one")}})
	must(t, err)
	fail = true
	if _, err = l.Append([]Frame{{Records: 1, Kind: 1, Body: []byte("two")}}); !errors.Is(err, ErrBroken) {
		t.Fatalf("error %v, want %v", err, ErrBroken)
	}
	if _, err = l.Append([]Frame{{Records: 1, Kind: 1, Body: []byte("three")}}); !errors.Is(err, ErrBroken) {
		t.Fatalf("error %v, want %v", err, ErrBroken)
	}
	must(t, l.Reopen())
	first, err := l.Append([]Frame{{Records: 1, Kind: 1, Body: []byte("four")}})
	must(t, err)
	if first != 3 {
		t.Fatalf("record %d, want 3: the second was found again", first)
	}
	want, err := frames(l)
	must(t, err)
	must(t, l.Close())
	after, err := Open("w", Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
	must(t, err)
	got, err := frames(after)
	must(t, err)
	must(t, after.Close())
	if !slices.Equal(got, want) || len(got) != 3 {
		t.Fatalf("after a power loss %v, want %v", got, want)
	}
}

func TestALockThatCannotBeMadeIsNoOtherProcess(t *testing.T) {
	mem := vfs.NewMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpLock {
			return &os.PathError{Op: "open", Path: op.Path, Err: syscall.EIO}
		}
		return nil
	}))
	if _, err := Open("w", Options{FS: fs}); err == nil || errors.Is(err, ErrLocked) {
		t.Fatalf("error %v", err)
	}
	l, err := Open("w", Options{FS: mem})
	must(t, err)
	if _, err := Open("w", Options{FS: mem}); !errors.Is(err, ErrLocked) {
		t.Fatalf("error %v, want %v", err, ErrLocked)
	}
	must(t, l.Close())
}
