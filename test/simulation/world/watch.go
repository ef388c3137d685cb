package world

import (
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// watch notes what goes on while the world lasts, not only at its end: in how many of
// its hours, or of the 24 parts of a shorter one, each of these was seen.
type watch struct {
	mu                sync.Mutex
	rose, fired, idle map[time.Duration]bool
	// top is the highest watermark of each source so far, asleep the splits that are
	// idle now.
	top    map[string]dataflow.Time
	asleep map[string]bool
}

func newWatch() *watch {
	return &watch{rose: map[time.Duration]bool{}, fired: map[time.Duration]bool{}, idle: map[time.Duration]bool{},
		top: map[string]dataflow.Time{}, asleep: map[string]bool{}}
}

// part says which part of the world's time it is; ok: it has not calmed down yet.
func (w *World) part() (part time.Duration, ok bool) {
	return w.now() / max(w.o.For/24, 1), !w.isCalm()
}

// sawManifest notes watermarks that are higher than ever, and idle splits.
func (w *World) sawManifest(m *checkpoint.Manifest) {
	part, ok := w.part()
	if !ok {
		return
	}
	w.watch.mu.Lock()
	defer w.watch.mu.Unlock()
	for step, s := range m.Sources {
		if top, there := w.watch.top[step]; !there || s.Watermark > top {
			w.watch.top[step] = s.Watermark
			w.watch.rose[part] = w.watch.rose[part] || s.Watermark > dataflow.MinTime
		}
		for name, split := range s.Splits {
			key := step + "/" + string(name)
			is := split.Status == checkpoint.Idle
			if is {
				w.watch.idle[part] = true
			}
			if is && !w.watch.asleep[key] {
				w.add("splits_idle", 1)
			}
			w.watch.asleep[key] = is
		}
	}
}

// sawWindows notes that results of windows were committed.
func (w *World) sawWindows() {
	if part, ok := w.part(); ok {
		w.watch.mu.Lock()
		defer w.watch.mu.Unlock()
		w.watch.fired[part] = true
	}
}

// figuresOfWatch tells what was noted.
func (w *World) figuresOfWatch() {
	w.add("hours_watermark_rose", int64(len(w.watch.rose)))
	w.add("hours_windows_fired", int64(len(w.watch.fired)))
	w.add("hours_splits_idle", int64(len(w.watch.idle)))
}
