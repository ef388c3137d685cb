package storage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is a disk whose k-th sync fails as those of Linux do: what should have been
// written is thrown away, reading still finds it, and syncs after it succeed and do
// not write it. Only a crash shows that it is not there.
type gate struct {
	vfs.FS
	mem *vfs.MemFS

	mu    sync.Mutex
	at    int // syncs until the one that fails
	syncs int
	hit   string // the file whose sync failed
	files map[string]*gateFile
	// crashIn is how many writing operations behind the failure crash is called.
	crashIn int
	crash   func()
}

// gateFile is a file by all its names.
type gateFile struct {
	// dirty was written since the last sync; lost is on no disk, and nothing will
	// bring it there but writing it again.
	dirty, lost extent
}

// extent is a range of bytes.
type extent struct{ lo, hi int64 }

func (e extent) with(lo, hi int64) extent {
	if e.lo == e.hi {
		return extent{lo, hi}
	}
	return extent{min(e.lo, lo), max(e.hi, hi)}
}

// without cuts off what is written again, if it is an end of it.
func (e extent) without(lo, hi int64) extent {
	switch {
	case lo <= e.lo && hi >= e.hi:
		return extent{}
	case lo <= e.lo && hi > e.lo:
		return extent{hi, e.hi}
	case hi >= e.hi && lo < e.hi:
		return extent{e.lo, lo}
	}
	return e
}

func newGate(at int) *gate {
	mem := vfs.NewCrashableMem()
	return &gate{FS: mem, mem: mem, at: at, files: map[string]*gateFile{}}
}

// killed is the disk behind the end of the process: reading finds everything.
func (g *gate) killed() *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	mem := g.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	out := &gate{FS: mem, mem: mem, at: g.at, syncs: g.syncs, hit: g.hit, files: map[string]*gateFile{}, crashIn: g.crashIn, crash: g.crash}
	same := map[*gateFile]*gateFile{}
	for path, f := range g.files {
		if same[f] == nil {
			c := *f
			if c.dirty.lo < c.dirty.hi {
				// The clone takes it for written.
				c.lost = c.lost.with(c.dirty.lo, c.dirty.hi)
			}
			same[f] = &c
		}
		out.files[path] = same[f]
	}
	return out
}

// afterCrash is what is on the disk.
func (g *gate) afterCrash() (*vfs.MemFS, error) {
	mem := g.mem.CrashClone(vfs.CrashCloneCfg{})
	g.mu.Lock()
	defer g.mu.Unlock()
	for path, f := range g.files {
		if f.lost.lo == f.lost.hi {
			continue
		}
		file, err := mem.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
		if oserrNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		if n := min(f.lost.hi, info.Size()) - f.lost.lo; n > 0 {
			if _, err := file.WriteAt(make([]byte, n), f.lost.lo); err != nil {
				return nil, err
			}
		}
		if err := file.Sync(); err != nil {
			return nil, err
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	return mem, nil
}

func oserrNotExist(err error) bool { return err != nil && os.IsNotExist(err) }

// step counts an operation behind the failure.
func (g *gate) step() {
	g.mu.Lock()
	call := false
	if g.hit != "" && g.crash != nil {
		g.crashIn--
		call = g.crashIn == 0
	}
	crash := g.crash
	g.mu.Unlock()
	if call {
		crash()
	}
}

func (g *gate) file(path string, f vfs.File, err error, fresh bool) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if fresh || g.files[path] == nil {
		g.files[path] = &gateFile{}
	}
	return &gateHandle{File: f, g: g, path: path, f: g.files[path]}, nil
}

func (g *gate) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(path, c)
	return g.file(path, f, err, true)
}

func (g *gate) OpenReadWrite(path string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := g.FS.OpenReadWrite(path, c, o...)
	return g.file(path, f, err, false)
}

func (g *gate) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.ReuseForWrite(from, to, c)
	if err == nil {
		g.mu.Lock()
		delete(g.files, from)
		g.mu.Unlock()
	}
	return g.file(to, f, err, true)
}

func (g *gate) Rename(from, to string) error {
	g.step()
	err := g.FS.Rename(from, to)
	if err == nil {
		g.mu.Lock()
		g.files[to] = g.files[from]
		if g.files[to] == nil {
			g.files[to] = &gateFile{}
		}
		delete(g.files, from)
		g.mu.Unlock()
	}
	return err
}

func (g *gate) Link(from, to string) error {
	g.step()
	err := g.FS.Link(from, to)
	if err == nil {
		g.mu.Lock()
		if g.files[from] == nil {
			g.files[from] = &gateFile{}
		}
		g.files[to] = g.files[from]
		g.mu.Unlock()
	}
	return err
}

func (g *gate) Remove(path string) error {
	g.step()
	err := g.FS.Remove(path)
	if err == nil {
		g.mu.Lock()
		delete(g.files, path)
		g.mu.Unlock()
	}
	return err
}

func (g *gate) OpenDir(path string) (vfs.File, error) {
	f, err := g.FS.OpenDir(path)
	if err != nil {
		return nil, err
	}
	return &gateHandle{File: f, g: g, path: path + "/"}, nil
}

func (g *gate) Unwrap() vfs.FS { return g.FS }

// gateHandle is an open file, or a folder, of which f is nil.
type gateHandle struct {
	vfs.File
	g    *gate
	path string
	f    *gateFile
	at   int64
}

func (h *gateHandle) wrote(lo, hi int64) {
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	h.f.dirty = h.f.dirty.with(lo, hi)
	h.f.lost = h.f.lost.without(lo, hi)
}

func (h *gateHandle) Write(b []byte) (int, error) {
	h.g.step()
	n, err := h.File.Write(b)
	h.wrote(h.at, h.at+int64(n))
	h.at += int64(n)
	return n, err
}

func (h *gateHandle) WriteAt(b []byte, off int64) (int, error) {
	h.g.step()
	n, err := h.File.WriteAt(b, off)
	h.wrote(off, off+int64(n))
	return n, err
}

// syncing says whether this sync fails.
func (h *gateHandle) syncing() error {
	h.g.step()
	h.g.mu.Lock()
	defer h.g.mu.Unlock()
	h.g.syncs++
	if h.g.syncs-1 != h.g.at {
		if h.f != nil {
			h.f.dirty = extent{}
		}
		return nil
	}
	h.g.hit = h.path
	if h.f != nil {
		if h.f.dirty.lo < h.f.dirty.hi {
			h.f.lost = h.f.lost.with(h.f.dirty.lo, h.f.dirty.hi)
		}
		h.f.dirty = extent{}
	}
	return &os.PathError{Op: fmt.Sprintf("injected in sync %d of", h.g.syncs), Path: h.path, Err: syscall.EIO}
}

func (h *gateHandle) Sync() error {
	if err := h.syncing(); err != nil {
		return err
	}
	return h.File.Sync()
}

func (h *gateHandle) SyncData() error {
	if err := h.syncing(); err != nil {
		return err
	}
	return h.File.SyncData()
}
