package engine

import (
	"maps"
	"sync"
	"time"
)

// Durations counts how long something took, in buckets.
type Durations struct {
	// Count of them and their Sum.
	Count uint64
	Sum   time.Duration
	// Buckets counts, per upper bound in seconds, those that took no longer.
	Buckets map[float64]uint64
}

// durationBounds are the upper bounds of the buckets, in seconds.
var durationBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}

// histogram collects Durations. Safe for concurrent use.
type histogram struct {
	mu  sync.Mutex
	sum Durations
}

func (h *histogram) add(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sum.Buckets == nil {
		h.sum.Buckets = map[float64]uint64{}
	}
	h.sum.Count++
	h.sum.Sum += d
	for _, b := range durationBounds {
		if d.Seconds() <= b {
			h.sum.Buckets[b]++
		}
	}
}

func (h *histogram) get() Durations {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.sum
	out.Buckets = maps.Clone(h.sum.Buckets)
	for _, b := range durationBounds {
		if out.Buckets == nil {
			out.Buckets = map[float64]uint64{}
		}
		out.Buckets[b] += 0
	}
	return out
}

// durations are those of a job.
type durations struct {
	epoch   histogram
	mu      sync.Mutex
	commits map[string]*histogram
}

func (d *durations) commit(sink string) *histogram {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.commits == nil {
		d.commits = map[string]*histogram{}
	}
	if d.commits[sink] == nil {
		d.commits[sink] = &histogram{}
	}
	return d.commits[sink]
}

// EpochDurations is how long epochs took, from the barrier until they were durable.
func (j *Job) EpochDurations() Durations { return j.durations.epoch.get() }

// CommitDurations is how long commits took, retries included, by sink.
func (j *Job) CommitDurations() map[string]Durations {
	j.durations.mu.Lock()
	sinks := maps.Clone(j.durations.commits)
	j.durations.mu.Unlock()
	out := map[string]Durations{}
	for sink, h := range sinks {
		out[sink] = h.get()
	}
	return out
}
