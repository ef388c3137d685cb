package ingest

import (
	"maps"
	"sync"
	"time"

	"frazil/dataflow"
)

// extras are the fields outside the schema, counted by the goroutine that decodes
// and asked for by the engine's.
type extras struct {
	mu     sync.Mutex
	counts map[string]int64
	// told is what the sources before the one that reads now were told.
	told map[string]int64
	next time.Time
}

// update asks the decoder, once a second.
func (x *extras) update(now time.Time, dec dataflow.Decoder) {
	c, ok := dec.(dataflow.ExtraCounter)
	if !ok || now.Before(x.next) {
		return
	}
	x.next = now.Add(time.Second)
	counts := c.Extra()
	x.mu.Lock()
	x.counts = counts
	x.mu.Unlock()
}

// tell returns all counts that were not told before base.
func (x *extras) tell(base map[string]int64) map[string]int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := maps.Clone(x.counts)
	for name, n := range base {
		out[name] -= n
	}
	x.told = x.counts
	return out
}

func (x *extras) base() map[string]int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.told
}

// Extra implements dataflow.ExtraCounter: since the source was made.
func (r *source) Extra() map[string]int64 { return r.s.extra.tell(r.extraBase) }
