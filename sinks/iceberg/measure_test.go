package iceberg

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	icebergio "github.com/apache/iceberg-go/io"
)

// cpuTime is user and system time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakAllocator notes the most that was allocated at once.
type peakAllocator struct {
	memory.Allocator
	now, peak atomic.Int64
}

func (p *peakAllocator) add(n int) {
	now := p.now.Add(int64(n))
	for {
		old := p.peak.Load()
		if now <= old || p.peak.CompareAndSwap(old, now) {
			return
		}
	}
}

func (p *peakAllocator) Allocate(size int) []byte { p.add(size); return p.Allocator.Allocate(size) }
func (p *peakAllocator) Reallocate(size int, b []byte) []byte {
	p.add(size - len(b))
	return p.Allocator.Reallocate(size, b)
}
func (p *peakAllocator) Free(b []byte) { p.now.Add(-int64(len(b))); p.Allocator.Free(b) }

// noSync is the local disk without syncs, counting open files.
type noSync struct {
	icebergio.LocalFS
	open, peak atomic.Int64
}

func (n *noSync) Create(name string) (icebergio.FileWriter, error) {
	f, err := n.LocalFS.Create(name)
	if err != nil {
		return nil, err
	}
	now := n.open.Add(1)
	for {
		old := n.peak.Load()
		if now <= old || n.peak.CompareAndSwap(old, now) {
			break
		}
	}
	return &countedFile{f, n}, nil
}

type countedFile struct {
	icebergio.FileWriter
	fs *noSync
}

func (c *countedFile) Close() error { c.fs.open.Add(-1); return c.FileWriter.Close() }
