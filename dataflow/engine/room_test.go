package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
)

// A disk without room stops epochs and reading, and nothing else: both go on by
// themselves when there is room.
func TestAFullDiskStopsEpochsUntilThereIsRoom(t *testing.T) {
	const rows = 50_000
	var free atomic.Uint64
	free.Store(1 << 30)
	target := &memTarget{}
	src, _ := withAcks(seqStep(1, rows, 1, nil))
	src.Bounded = false
	var r *liveJob
	slow(src, func() dataflow.Epoch { return r.job.Status().Epoch })
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
	r = start(t, g, Options{
		Every: 2 * time.Millisecond, Disks: []string{"/state"},
		DiskFree: func(string) (uint64, uint64, error) { return free.Load(), 1 << 30, nil },
	})
	r.until("some epochs", func() bool { return r.job.Status().Epoch > 3 })
	free.Store(1 << 20)
	r.until("the source is held", func() bool { return r.job.Status().Sources["src"].Held })
	at := r.job.Status().Epoch
	if h := r.job.Health(); len(h) != 1 || h[0].Code != ProblemDiskLow {
		t.Errorf("health: %v", h)
	}
	free.Store(1 << 30)
	r.until("it goes on", func() bool { return r.job.Status().Epoch > at+2 && !r.job.Status().Sources["src"].Held })
}
