package operators

import (
	"time"

	"frazil/dataflow"
)

// dedupTable remembers the event times of the rows that passed, by the hash of
// their key, for one key group.
//
// It is open addressing with linear probing over a power of two of slots. A key
// may have several entries, all in one run of slots. Entries are never removed:
// an expired one keeps its slot filled, so that runs stay whole, and is written
// over by the next row that comes along, or left behind when the table is made
// anew. One table per key group keeps each of those short.
//
// Why expired entries may be written over at any time: with watermark W they
// have t < W - 2*within. Every row that still comes is not late, so its event
// time is at least its stamp less within, and its stamp is at least W; it lies
// more than within after t.
type dedupTable struct {
	slots []dedupSlot
	used  int // slots that are filled, expired ones included
}

// dedupSlot is empty when time is 0.
type dedupSlot struct {
	hi, lo uint64
	time   uint64 // dedupTime
}

// dedupTime maps times to unsigned numbers in their order. Differences stay what
// they are, and only MinTime, which no row has, becomes 0.
func dedupTime(t dataflow.Time) uint64 { return uint64(t) ^ 1<<63 }

const dedupMinSlots = 16

// dedupBounds is what all tables of one operator go by.
type dedupBounds struct {
	within uint64 // microseconds
	keep   uint64 // entries with a lower time have expired
}

func newDedupBounds(within time.Duration) dedupBounds {
	return dedupBounds{within: uint64(within.Microseconds())}
}

// pass says whether a row is no duplicate, and remembers it then.
func (t *dedupTable) pass(b dedupBounds, hi, lo, at uint64) bool {
	if len(t.slots) == 0 {
		t.slots = make([]dedupSlot, dedupMinSlots)
	}
	mask := uint64(len(t.slots) - 1)
	i := lo & mask
	free := -1
	for ; t.slots[i].time != 0; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.lo == lo && s.hi == hi && s.time-at+b.within <= 2*b.within {
			return false
		}
		if s.time < b.keep && free < 0 {
			free = int(i)
		}
	}
	if free >= 0 {
		t.slots[free] = dedupSlot{hi, lo, at}
		return true
	}
	t.slots[i] = dedupSlot{hi, lo, at}
	t.used++
	if t.used > len(t.slots)/4*3 {
		t.rebuild(b)
	}
	return true
}

// load adds an entry that is known to have passed.
func (t *dedupTable) load(b dedupBounds, hi, lo, at uint64) {
	if t.used+1 > len(t.slots)/4*3 {
		t.rebuild(b)
	}
	t.put(hi, lo, at)
}

// put fills the next empty slot.
func (t *dedupTable) put(hi, lo, at uint64) {
	mask := uint64(len(t.slots) - 1)
	i := lo & mask
	for t.slots[i].time != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = dedupSlot{hi, lo, at}
	t.used++
}

// rebuild leaves expired entries behind and gives the others a table that is at
// most half full.
func (t *dedupTable) rebuild(b dedupBounds) {
	live := 0
	for i := range t.slots {
		if s := &t.slots[i]; s.time != 0 && s.time >= b.keep {
			live++
		}
	}
	size := dedupMinSlots
	for live > size/2 {
		size *= 2
	}
	old := t.slots
	t.slots, t.used = make([]dedupSlot, size), 0
	for i := range old {
		if s := &old[i]; s.time != 0 && s.time >= b.keep {
			t.put(s.hi, s.lo, s.time)
		}
	}
}
