package operators

import (
	"bytes"
	"slices"
)

// orderedTimers is a heap of the moments at which windows are due: by time, then
// by key. It is not stored but made again from the windows. A window may have
// several entries; one that comes before the window is due is moved on when its
// turn comes, so that a window which grows with every row costs nothing.
type orderedTimers struct {
	store *orderedStore
	heap  []orderedTimer
}

type orderedTimer struct {
	at      int64
	id, gen uint32
}

// set adds an entry for a window.
func (t *orderedTimers) set(at int64, id uint32) {
	t.heap = append(t.heap, orderedTimer{at, id, t.store.windows[id].gen})
	i := len(t.heap) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !t.before(t.heap[i], t.heap[parent]) {
			return
		}
		t.heap[i], t.heap[parent] = t.heap[parent], t.heap[i]
		i = parent
	}
}

// due removes and returns the first entry up to a time; ok is false without one.
// Entries of windows that are gone are left out.
func (t *orderedTimers) due(upTo int64) (x orderedTimer, ok bool) {
	for len(t.heap) > 0 && t.heap[0].at <= upTo {
		x = t.heap[0]
		last := len(t.heap) - 1
		t.heap[0] = t.heap[last]
		t.heap = t.heap[:last]
		t.down(0)
		if t.store.windows[x.id].gen == x.gen {
			return x, true
		}
	}
	return x, false
}

// pack drops entries of windows that are gone where they are the most.
func (t *orderedTimers) pack() {
	if len(t.heap) < 1<<10 || len(t.heap) < 2*t.store.open {
		return
	}
	t.heap = slices.DeleteFunc(t.heap, func(x orderedTimer) bool { return t.store.windows[x.id].gen != x.gen })
	for i := len(t.heap)/2 - 1; i >= 0; i-- {
		t.down(i)
	}
}

func (t *orderedTimers) down(i int) {
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(t.heap) && t.before(t.heap[c], t.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		t.heap[i], t.heap[least] = t.heap[least], t.heap[i]
		i = least
	}
}

func (t *orderedTimers) before(a, b orderedTimer) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	s := t.store
	x, y := &s.windows[a.id], &s.windows[b.id]
	if x.gen != a.gen || y.gen != b.gen || x.key == y.key {
		return false
	}
	return bytes.Compare(s.key(x.key), s.key(y.key)) < 0
}
