package state

import (
	"slices"
	"unsafe"
)

// Compact drops the entries that keep refuses, in place: the others move towards
// the beginning, in their order, and the memory behind them is given back. keep is
// asked about an entry where it was; moved is told of each that stays, in order, once
// its row is at its new place. Both may use Row, Key and Hash of their entry and
// nothing else of the table. Nothing is dirty afterwards.
func (t *Table) Compact(keep func(e Entry) bool, moved func(from, to Entry)) {
	t.last, t.used = 0, 0
	n := 0
	for i, from := range t.places {
		if !keep(from) {
			continue
		}
		size := tableHead + t.words + (t.keyLen(from)+7)/8
		// What goes before an entry is no more than what went before it when it was
		// added, so that it fits where it is, if not before.
		for t.used+size > len(t.chunks[t.last]) || t.used >= tableChunk {
			t.last += chunkNumbers(t.chunks[t.last])
			t.used = 0
		}
		to := Entry(t.last<<tableChunkBits + t.used)
		if to != from {
			copy(unsafe.Slice(t.head(to), size), unsafe.Slice(t.head(from), size))
		}
		t.used += size
		*t.head(to) = uint64(n)<<32 | uint64(uint32(t.keyLen(to)))
		t.places[n], t.hashes[n] = to, t.hashes[i]
		n++
		moved(from, to)
	}
	t.places, t.hashes = fitted(t.places[:n]), fitted(t.hashes[:n])
	t.dirty = fitted(t.dirty[:(n+63)/64])
	t.ClearDirty()
	t.freeBehind()
	t.reindex()
}

// chunkNumbers is how many numbers a chunk takes.
func chunkNumbers(c []uint64) int { return max(1, len(c)>>tableChunkBits) }

// fitted returns s without most of the room behind it.
func fitted[T any](s []T) []T {
	if cap(s) < 2*len(s)+tableMinSlots {
		return s
	}
	return slices.Clone(s)
}

// freeBehind gives back the chunks behind the last one, and most of a single one
// where that is nearly empty.
func (t *Table) freeBehind() {
	if len(t.chunks) == 0 {
		return
	}
	end := t.last + chunkNumbers(t.chunks[t.last])
	for _, c := range t.chunks[end:] {
		t.held -= len(c)
	}
	t.chunks, t.bases = slices.Clone(t.chunks[:end]), slices.Clone(t.bases[:end])
	if c := t.chunks[0]; t.last == 0 && len(c) > max(tableChunkFirst, 2*t.used) {
		t.held -= len(c)
		t.chunks, t.bases = t.chunks[:0], t.bases[:0]
		t.open(max(tableChunkFirst, t.used))
		copy(t.chunks[0], c[:t.used])
	}
}

// reindex fills the slots anew.
func (t *Table) reindex() {
	size := tableMinSlots
	for 4*len(t.places) > 3*size {
		size *= 2
	}
	if 2*size < len(t.slots) {
		t.slots = make([]uint64, 2*size)
	} else {
		clear(t.slots)
	}
	for i, e := range t.places {
		t.place(e, t.hashes[i])
	}
}
