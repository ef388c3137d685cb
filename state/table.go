package state

import (
	"bytes"
	"math/bits"
)

// Table holds hot keyed state in memory: keys, each with a row of a fixed
// number of 64-bit words (an accumulator), and a mark per entry that says
// whether it changed since ClearDirty. It is a cache of nothing and writes
// nothing: its user stores the dirty entries at a barrier.
//
// Entries are numbered 0, 1, 2, ... in the order in which they came, and keep
// their number until Reset. Looking up a key allocates nothing; a new key
// allocates only when the table grows. One goroutine uses it.
//
// Layout: open addressing with linear probing over slots of 8 bytes (the
// entry's number and 32 bits of its hash); hashes, keys and words of the
// entries lie one after the other in arrays of their own. The slot is found by
// the low bits of the hash, since the key group has the top 8.
type Table struct {
	words  int
	slots  []uint64 // tag<<32 | entry+1; 0: empty. A power of two of them.
	hashes []uint64
	ends   []int64 // end of each entry's key in keys
	keys   []byte
	rows   []uint64
	dirty  []uint64 // bitmap
}

const tableMinSlots = 16

// NewTable makes a table whose rows have the given number of words.
func NewTable(words int) *Table {
	return &Table{words: words, slots: make([]uint64, tableMinSlots)}
}

// Len counts the entries.
func (t *Table) Len() int { return len(t.hashes) }

// Bytes is the memory that the table holds on to.
func (t *Table) Bytes() int64 {
	return int64(cap(t.keys)) + 8*int64(cap(t.slots)+cap(t.hashes)+cap(t.ends)+cap(t.rows)+cap(t.dirty))
}

// tagOf takes bits of the hash that are neither the key group's nor, below 16
// million slots, the slot's.
func tagOf(hash uint64) uint64 { return hash >> 24 << 32 }

// Find returns the entry of key.
func (t *Table) Find(hash uint64, key []byte) (entry int, ok bool) {
	tag, mask := tagOf(hash), uint64(len(t.slots)-1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s == 0 {
			return 0, false
		}
		if s&^0xffffffff == tag {
			e := int(uint32(s)) - 1
			if bytes.Equal(t.Key(e), key) {
				return e, true
			}
		}
	}
}

// Upsert returns the entry of key, adding it with a row of zeros if it is new,
// and marks it dirty. It copies key.
func (t *Table) Upsert(hash uint64, key []byte) (entry int, fresh bool) {
	if e, ok := t.Find(hash, key); ok {
		t.dirty[e>>6] |= 1 << (e & 63)
		return e, false
	}
	return t.insert(hash, key), true
}

func (t *Table) insert(hash uint64, key []byte) int {
	e := len(t.hashes)
	if (e+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	t.hashes = append(t.hashes, hash)
	t.keys = append(t.keys, key...)
	t.ends = append(t.ends, int64(len(t.keys)))
	for range t.words {
		t.rows = append(t.rows, 0)
	}
	if e>>6 == len(t.dirty) {
		t.dirty = append(t.dirty, 0)
	}
	t.dirty[e>>6] |= 1 << (e & 63)
	t.place(e, hash)
	return e
}

func (t *Table) place(e int, hash uint64) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = tagOf(hash) | uint64(e+1)
}

func (t *Table) grow() {
	t.slots = make([]uint64, 2*len(t.slots))
	for e, hash := range t.hashes {
		t.place(e, hash)
	}
}

// Key returns the key of an entry. It is the table's memory: read it before the
// next Reset, do not change it.
func (t *Table) Key(entry int) []byte {
	lo := int64(0)
	if entry > 0 {
		lo = t.ends[entry-1]
	}
	return t.keys[lo:t.ends[entry]:t.ends[entry]]
}

// Hash returns the hash that an entry was added with.
func (t *Table) Hash(entry int) uint64 { return t.hashes[entry] }

// Row returns the words of an entry, to be read and changed in place until the
// next Upsert.
func (t *Table) Row(entry int) []uint64 {
	lo := entry * t.words
	return t.rows[lo : lo+t.words : lo+t.words]
}

// IsDirty says whether an entry was upserted since the last ClearDirty.
func (t *Table) IsDirty(entry int) bool { return t.dirty[entry>>6]>>(entry&63)&1 != 0 }

// Dirty visits the dirty entries in their order until visit returns an error,
// and returns it. visit may change rows, but add no entry.
func (t *Table) Dirty(visit func(entry int) error) error {
	for w, m := range t.dirty {
		for ; m != 0; m &= m - 1 {
			if err := visit(w<<6 | bits.TrailingZeros64(m)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ClearDirty takes all marks off.
func (t *Table) ClearDirty() { clear(t.dirty) }

// Reset drops all entries and keeps the memory for new ones.
func (t *Table) Reset() {
	clear(t.slots)
	t.hashes, t.ends, t.keys = t.hashes[:0], t.ends[:0], t.keys[:0]
	t.rows, t.dirty = t.rows[:0], t.dirty[:0]
}
