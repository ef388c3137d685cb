package operators

import (
	"bytes"
	"slices"
)

// orderedStore holds the open windows of the keys of one task: what an ordered
// window keeps between rows. Keys and windows lie in arrays and are known by
// their index there, so that nothing is allocated per row and the collector has
// nothing to follow; what is freed is used again. Index 0 stands for none.
//
// Everything that reads or changes the windows of a key does it through find,
// upsert, add and remove.
type orderedStore struct {
	layout *accLayout
	// slots is open addressing with linear probing: 32 bits of the hash, then the
	// key's index; 0 is empty. A power of two of them.
	slots   []uint64
	keys    []orderedKey
	arena   []byte // the bytes of the keys
	dead    int    // bytes of arena that belong to no key
	freeKey uint32 // a list through first
	live    int    // keys

	windows    []orderedWindow
	open       int      // of them
	freeWindow uint32   // a list through next
	accs       []uint64 // a row of accumulators per window
	heaps      []accHeap
	garbage    []int // per heap: values that belong to no window
	// shown is what the result of each window was when it was last given, accumulators
	// in shownAccs; both are nil where no result is ever taken back.
	shown     []orderedShown
	shownAccs []uint64

	distinct *orderedDistinct // nil without distinct aggregates

	dirty []uint32 // keys with the mark keyDirty
	buf   []byte
}

// orderedKey is one key that has windows.
type orderedKey struct {
	hash  uint64
	noted int64  // with the mark keyNoted: when its note is due
	off   uint32 // in arena
	size  uint32
	first uint32 // its windows
	marks uint8
}

const (
	orderedKeyDirty  = 1 << iota // changed since it was stored
	orderedKeyStored             // has an entry in the KV
	orderedKeyUsed               // had a row since shrink came by
	orderedKeyLive               // is a key: the index is not free
	orderedKeyNoted              // has a note in the KV, and may leave the memory without another
)

// orderedWindow is one open window of one key.
type orderedWindow struct {
	// start and end are the bounds: the end is not in the window, but in a count
	// window, where both are event times of rows.
	start, end int64
	rows       int64  // since the last result
	since      int64  // of the clock: when the first of them came; only with early by time
	key        uint32 // its key
	next       uint32 // the key's next window
	gen        uint32 // changes when the index is used for another window
	segment    uint32 // in which its last row waits to be added
	marks      uint8
}

const (
	// orderedFired: the watermark has passed the end.
	orderedFired = 1 << iota
	// orderedShows: a result was given that a later one takes back.
	orderedShows
)

// orderedShown is a result as it was given.
type orderedShown struct {
	start, end int64
	timing     orderedTiming
}

const orderedMinSlots = 16

func newOrderedStore(layout *accLayout, shows bool) *orderedStore {
	s := &orderedStore{layout: layout, slots: make([]uint64, orderedMinSlots), heaps: layout.newHeaps()}
	s.garbage = make([]int, len(s.heaps))
	// Index 0 of all: none. Rows that do not count are added to the accumulators
	// of window 0.
	s.keys = make([]orderedKey, 1)
	s.windows = make([]orderedWindow, 1)
	s.accs = make([]uint64, layout.stride)
	if shows {
		s.shown = make([]orderedShown, 1)
		s.shownAccs = make([]uint64, layout.stride)
	}
	return s
}

func orderedTag(hash uint64) uint64 { return hash >> 24 << 32 }

// key returns the bytes of a key, valid until the next upsert.
func (s *orderedStore) key(k uint32) []byte {
	e := &s.keys[k]
	return s.arena[e.off : e.off+e.size]
}

// find returns the key, or 0.
func (s *orderedStore) find(hash uint64, key []byte) uint32 {
	mask := uint64(len(s.slots) - 1)
	for i := hash & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if x := s.slots[i]; x&^0xffffffff == orderedTag(hash) {
			if k := uint32(x); bytes.Equal(s.key(k), key) {
				return k
			}
		}
	}
	return 0
}

// upsert returns the key, adding it without windows if it is new. It copies key.
func (s *orderedStore) upsert(hash uint64, key []byte) uint32 {
	if k := s.find(hash, key); k != 0 {
		return k
	}
	if (s.live+1)*4 > len(s.slots)*3 {
		s.grow()
	}
	k := s.freeKey
	if k != 0 {
		s.freeKey = s.keys[k].first
	} else {
		k = uint32(len(s.keys))
		s.keys = append(s.keys, orderedKey{})
	}
	if uint64(len(s.arena)+len(key)) >= 1<<32 {
		panic("operators: the keys of a window take more than 4 GiB")
	}
	s.keys[k] = orderedKey{hash: hash, off: uint32(len(s.arena)), size: uint32(len(key)), marks: orderedKeyLive}
	s.arena = append(s.arena, key...)
	s.live++
	s.place(k)
	return k
}

func (s *orderedStore) place(k uint32) {
	hash, mask := s.keys[k].hash, uint64(len(s.slots)-1)
	i := hash & mask
	for s.slots[i] != 0 {
		i = (i + 1) & mask
	}
	s.slots[i] = orderedTag(hash) | uint64(k)
}

func (s *orderedStore) grow() {
	old := s.slots
	s.slots = make([]uint64, 2*len(old))
	for _, x := range old {
		if x != 0 {
			s.place(uint32(x))
		}
	}
}

// forget frees a key without windows.
func (s *orderedStore) forget(k uint32) {
	mask := uint64(len(s.slots) - 1)
	i := s.keys[k].hash & mask
	for uint32(s.slots[i]) != k {
		i = (i + 1) & mask
	}
	// Entries behind a gap that could not be found over it move into it.
	for j := (i + 1) & mask; s.slots[j] != 0; j = (j + 1) & mask {
		home := s.keys[uint32(s.slots[j])].hash & mask
		if (j-home)&mask >= (j-i)&mask {
			s.slots[i] = s.slots[j]
			i = j
		}
	}
	s.slots[i] = 0
	s.dead += int(s.keys[k].size)
	s.keys[k] = orderedKey{first: s.freeKey}
	s.freeKey = k
	s.live--
	if s.dead > 1<<16 && 2*s.dead > len(s.arena) {
		s.packKeys()
	}
}

// packKeys copies the bytes of the live keys together.
func (s *orderedStore) packKeys() {
	arena := make([]byte, 0, len(s.arena)-s.dead)
	for _, x := range s.slots {
		if x == 0 {
			continue
		}
		e := &s.keys[uint32(x)]
		off := uint32(len(arena))
		arena = append(arena, s.arena[e.off:e.off+e.size]...)
		e.off = off
	}
	s.arena, s.dead = arena, 0
}

// touch marks a key as changed.
func (s *orderedStore) touch(k uint32) {
	e := &s.keys[k]
	e.marks |= orderedKeyUsed
	if e.marks&orderedKeyDirty == 0 {
		e.marks |= orderedKeyDirty
		s.dirty = append(s.dirty, k)
	}
}

// add opens a window of a key.
func (s *orderedStore) add(k uint32, start, end int64) uint32 {
	id := s.freeWindow
	if id != 0 {
		s.freeWindow = s.windows[id].next
	} else {
		id = uint32(len(s.windows))
		s.windows = append(s.windows, orderedWindow{})
		s.accs = appendZeros(s.accs, s.layout.stride)
		if s.shown != nil {
			s.shown = append(s.shown, orderedShown{})
			s.shownAccs = appendZeros(s.shownAccs, s.layout.stride)
		}
	}
	w := &s.windows[id]
	*w = orderedWindow{start: start, end: end, key: k, next: s.keys[k].first, gen: w.gen}
	s.open++
	s.keys[k].first = id
	return id
}

func appendZeros(words []uint64, n int) []uint64 {
	have := len(words)
	words = slices.Grow(words, n)[:have+n]
	clear(words[have:])
	return words
}

// unlink takes a window from its key; release still has to follow.
func (s *orderedStore) unlink(id uint32) {
	w := &s.windows[id]
	at := &s.keys[w.key].first
	for *at != id {
		at = &s.windows[*at].next
	}
	*at = w.next
}

// release frees a window that was unlinked, and what it kept.
func (s *orderedStore) release(id uint32) {
	if s.distinct != nil {
		s.distinct.forget(id)
	}
	s.clear(s.accs, id)
	if s.shown != nil {
		s.clear(s.shownAccs, id)
	}
	w := &s.windows[id]
	*w = orderedWindow{gen: w.gen + 1, next: s.freeWindow}
	s.open--
	s.freeWindow = id
}

// row returns the accumulators of a window.
func (s *orderedStore) row(accs []uint64, id uint32) []uint64 {
	lo := int(id) * s.layout.stride
	return accs[lo : lo+s.layout.stride : lo+s.layout.stride]
}

// clear makes accumulators those of no row.
func (s *orderedStore) clear(accs []uint64, id uint32) {
	row := s.row(accs, id)
	for h, b := range s.layout.bytes {
		if row[b.off] != 0 {
			s.garbage[h]++
		}
	}
	clear(row)
}

// merge adds the accumulators of one row to those of another.
func (s *orderedStore) merge(dst, src []uint64) {
	s.layout.mergeRow(dst, s.heaps, src, s.heaps)
}

// join adds what window src holds to window dst. src must be released then.
func (s *orderedStore) join(dst, src uint32) error {
	if s.distinct != nil {
		s.distinct.strip(s.row(s.accs, src))
	}
	s.merge(s.row(s.accs, dst), s.row(s.accs, src))
	if s.distinct == nil {
		return nil
	}
	return s.distinct.join(dst, src)
}

// empty makes a window one without rows.
func (s *orderedStore) empty(id uint32) {
	s.clear(s.accs, id)
	if s.distinct != nil {
		s.distinct.forget(id)
	}
}

// show remembers the result of a window as it is now.
func (s *orderedStore) show(id uint32, timing orderedTiming) {
	w := &s.windows[id]
	w.marks |= orderedShows
	s.shown[id] = orderedShown{start: w.start, end: w.end, timing: timing}
	s.clear(s.shownAccs, id)
	s.merge(s.row(s.shownAccs, id), s.row(s.accs, id))
}

// packHeaps drops the values that belong to no window where they are the most.
func (s *orderedStore) packHeaps() {
	for h := range s.heaps {
		if n := len(s.heaps[h].values); n < 1<<10 || 2*s.garbage[h] < n {
			continue
		}
		old, off := s.heaps[h], s.layout.bytes[h].off
		s.heaps[h], s.garbage[h] = accHeap{}, 0
		for _, accs := range [][]uint64{s.accs, s.shownAccs} {
			for i := off + s.layout.stride; i < len(accs); i += s.layout.stride {
				if accs[i] != 0 {
					accs[i] = s.heaps[h].add(old.get(accs[i]))
				}
			}
		}
	}
}
