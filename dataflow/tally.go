package dataflow

import (
	"maps"
	"sync"
)

// Tally counts things of one step by name, for people who watch it: what rows broke, by
// rule. All tasks of the step share it. It counts since the process started, and rows
// that are read again after a restart once more; what must be exact is in Fates. Safe
// for concurrent use; a nil Tally counts nothing.
type Tally struct {
	mu struct {
		sync.Mutex
		n map[string]int64
	}
}

// Add counts n more of name.
func (t *Tally) Add(name string, n int64) {
	if t == nil || n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.n == nil {
		t.mu.n = map[string]int64{}
	}
	t.mu.n[name] += n
}

// Load returns all counts, in a map of the caller's own.
func (t *Tally) Load() map[string]int64 {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.mu.n)
}
