package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/full"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// small is a disk that has no room from its k-th operation that needs some, until
// somebody has asked for it often enough.
type small struct {
	vfs.FS

	mu  sync.Mutex
	at  int
	ops int
	// refusals are left until there is room again; refused counts them.
	refusals, refused int
}

func (s *small) fullLocked() bool { return s.ops > s.at && s.refusals > 0 }

// need says that an operation needs room.
func (s *small) need(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops++
	if !s.fullLocked() {
		return nil
	}
	s.refusals--
	s.refused++
	return &os.PathError{Op: "injected", Path: path, Err: syscall.ENOSPC}
}

func (s *small) GetDiskUsage(string) (vfs.DiskUsage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fullLocked() {
		s.refusals--
		return vfs.DiskUsage{TotalBytes: 1 << 30}, nil
	}
	return vfs.DiskUsage{TotalBytes: 1 << 30, AvailBytes: 1 << 30}, nil
}

func (s *small) free(string) (free, total uint64, err error) {
	u, err := s.GetDiskUsage("")
	return u.AvailBytes, u.TotalBytes, err
}

func (s *small) file(path string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &smallFile{f, s, path}, nil
}

func (s *small) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.need(path); err != nil {
		return nil, err
	}
	f, err := s.FS.Create(path, c)
	return s.file(path, f, err)
}

func (s *small) OpenReadWrite(path string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := s.FS.OpenReadWrite(path, c, o...)
	return s.file(path, f, err)
}

func (s *small) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.ReuseForWrite(from, to, c)
	return s.file(to, f, err)
}

func (s *small) Link(from, to string) error {
	if err := s.need(to); err != nil {
		return err
	}
	return s.FS.Link(from, to)
}

func (s *small) Rename(from, to string) error {
	if err := s.need(to); err != nil {
		return err
	}
	return s.FS.Rename(from, to)
}

func (s *small) MkdirAll(path string, mode os.FileMode) error {
	if err := s.need(path); err != nil {
		return err
	}
	return s.FS.MkdirAll(path, mode)
}

func (s *small) Unwrap() vfs.FS { return s.FS }

type smallFile struct {
	vfs.File
	s    *small
	path string
}

// Write has room for half of it.
func (f *smallFile) Write(b []byte) (int, error) {
	if err := f.s.need(f.path); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

func (f *smallFile) Preallocate(off, n int64) error {
	if err := f.s.need(f.path); err != nil {
		return err
	}
	return f.File.Preallocate(off, n)
}

// roomWork needs room some 600 times.
func roomWork(seed uint64) work { return work{rows: 240, requests: 560, seed: seed} }

// noRoomAt has no room from the k-th operation that needs some, for a while.
func noRoomAt(seed uint64, k int, want results, figures full.Figures) error {
	rng := rand.New(rand.NewPCG(seed, uint64(k)))
	w := newWorld(roomWork(seed))
	mem := vfs.NewCrashableMem()
	s := &small{at: k, refusals: 1 + rng.IntN(12)}
	lives := 0
	e, err := w.lives(40, rng.Uint64(), figures, func(life int) disk {
		lives = life + 1
		if life > 0 {
			mem = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
		}
		next := &small{FS: mem, at: s.at, ops: s.ops, refusals: s.refusals, refused: s.refused}
		s = next
		return disk{fs: next, free: next.free}
	})
	switch {
	case err != nil:
		return fmt.Errorf("no room for operation %d: %w", k, err)
	case s.refused == 0:
		return fmt.Errorf("%w: %d of %d", errNotHit, k, s.ops)
	}
	figures["full"]++
	if lives == 1 {
		figures["went_on_by_itself"]++
	}
	figures["refused_operations"] += int64(s.refused)
	return w.compare(want, e.manifest)
}

// The disk is full from the k-th operation that needs room, for every k up to 500,
// and has room again a while later: the program goes on by itself, or, where the
// store could not go on, when it is started again.
func TestAFullDiskLosesNothing(t *testing.T) {
	eachK(t, full.Suite{Name: "storage-full", Total: 500 / 5, Short: 1}, 5, roomWork, noRoomAt)
}
