package state

import (
	"bytes"
	"math/bits"
	"unsafe"
)

// Table holds hot keyed state in memory: keys, each with a row of a fixed
// number of 64-bit words (an accumulator), and a mark per entry that says
// whether it changed since ClearDirty. It is a cache of nothing and writes
// nothing: its user stores the dirty entries at a barrier.
//
// Looking up a key allocates nothing; a new key allocates only when the table
// grows. One goroutine uses it.
//
// Layout: open addressing with linear probing over slots of 8 bytes, each with
// the place of an entry and 32 bits of its hash. The entries lie one after the
// other in chunks, which never move: number and length of the key, the row,
// the key. So a look-up in a large table costs two misses of the cache. The
// slot is found by the low bits of the hash, since the key group has the top 8.
type Table struct {
	words  int
	slots  []uint64         // tag<<32 | place+1; 0: empty. A power of two of them.
	chunks [][]uint64       // those behind the last one are kept for later
	bases  []unsafe.Pointer // where each of them begins
	last   int              // the chunk that entries go to
	used   int              // words of it
	held   int              // words of all chunks
	places []Entry          // in the order of insertion
	hashes []uint64         // likewise
	dirty  []uint64         // bitmap, likewise
	warmed uint64           // keeps the compiler from dropping the loads of Warm
}

// Entry is the place of a key in its table: the number of its chunk, and its word
// there. It stays the same until Reset or Compact, and grows in the order of insertion.
type Entry uint32

const (
	tableMinSlots = 16
	// A chunk has so many words, but for the first one of a small table, which
	// grows up to that, and one for an entry that is larger.
	tableChunkBits  = 14
	tableChunk      = 1 << tableChunkBits
	tableChunkFirst = 64
	// tableHead is what stands before the row of an entry: its number in the order of
	// insertion and, in the low half, the length of its key.
	tableHead = 1
)

// NewTable makes a table whose rows have the given number of words.
func NewTable(words int) *Table {
	return &Table{words: words, slots: make([]uint64, tableMinSlots)}
}

// Len counts the entries.
func (t *Table) Len() int { return len(t.places) }

// At returns the i-th entry in the order of insertion.
func (t *Table) At(i int) Entry { return t.places[i] }

// Bytes is the memory that the table holds on to.
func (t *Table) Bytes() int64 {
	return 8*int64(cap(t.slots)+t.held+cap(t.hashes)+cap(t.dirty)) + 4*int64(cap(t.places)) + 32*int64(cap(t.chunks))
}

// tagOf takes bits of the hash that are neither the key group's nor, below 16
// million slots, the slot's.
func tagOf(hash uint64) uint64 { return hash >> 24 << 32 }

// at returns where an entry begins.
func (t *Table) at(e Entry) unsafe.Pointer {
	return unsafe.Add(t.bases[e>>tableChunkBits], 8*(e&(tableChunk-1)))
}

func (t *Table) head(e Entry) *uint64 { return (*uint64)(t.at(e)) }

func (t *Table) number(e Entry) int { return int(*t.head(e) >> 32) }

func (t *Table) keyLen(e Entry) int { return int(uint32(*t.head(e))) }

// Find returns the entry of key.
func (t *Table) Find(hash uint64, key []byte) (e Entry, ok bool) {
	tag, mask := tagOf(hash), uint64(len(t.slots)-1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s == 0 {
			return 0, false
		}
		if s&^0xffffffff == tag {
			e := Entry(s) - 1
			if bytes.Equal(t.Key(e), key) {
				return e, true
			}
		}
	}
}

// warmSlots is from which size on a table does not fit the near caches.
const warmSlots = 1 << 14

// Warm loads what a look-up of each hash will read. One look-up after the other
// waits for memory twice each; here the waits overlap. A caller with many keys
// at hand warms some 64 and then looks them up. It changes nothing.
func (t *Table) Warm(hashes []uint64) {
	if len(t.slots) < warmSlots {
		return
	}
	mask, sum := uint64(len(t.slots)-1), uint64(0)
	for _, h := range hashes {
		if s := t.slots[h&mask]; s != 0 {
			e := Entry(s) - 1
			sum += *t.head(e) + uint64(*(*byte)(unsafe.Add(t.at(e), 8*(tableHead+t.words-1))))
		}
	}
	t.warmed = sum
}

// Upsert returns the entry of key, adding it with a row of zeros if it is new,
// and marks it dirty. It copies key.
func (t *Table) Upsert(hash uint64, key []byte) (e Entry, fresh bool) {
	e, ok := t.Find(hash, key)
	if !ok {
		e = t.insert(hash, key)
	}
	n := t.number(e)
	t.dirty[n>>6] |= 1 << (n & 63)
	return e, !ok
}

func (t *Table) insert(hash uint64, key []byte) Entry {
	n := len(t.places)
	if (n+1)*4 > len(t.slots)*3 {
		t.grow()
	}
	e := t.room(tableHead + t.words + (len(key)+7)/8)
	*t.head(e) = uint64(n)<<32 | uint64(uint32(len(key)))
	copy(t.Key(e), key)
	t.places = append(t.places, e)
	t.hashes = append(t.hashes, hash)
	if n>>6 == len(t.dirty) {
		t.dirty = append(t.dirty, 0)
	}
	t.place(e, hash)
	return e
}

// room returns the place of so many words of zeros.
func (t *Table) room(size int) Entry {
	if len(t.chunks) == 0 {
		t.open(max(tableChunkFirst, size))
	}
	// An entry begins within the first words of a chunk, however large that is.
	for t.used+size > len(t.chunks[t.last]) || t.used >= tableChunk {
		c := t.chunks[t.last]
		if t.last == 0 && len(c) < tableChunk && t.used+size <= tableChunk {
			more := make([]uint64, min(tableChunk, max(2*len(c), t.used+size)))
			copy(more, c[:t.used])
			t.chunks[0], t.bases[0] = more, unsafe.Pointer(&more[0])
			t.held += len(more) - len(c)
			break
		}
		t.last += max(1, len(c)>>tableChunkBits)
		t.used = 0
		if t.last == len(t.chunks) || len(t.chunks[t.last]) < size {
			t.open((size + tableChunk - 1) &^ (tableChunk - 1))
		}
	}
	if t.last<<tableChunkBits+t.used >= 1<<32-1 {
		panic("state: a table holds at most 32 GiB")
	}
	e := Entry(t.last<<tableChunkBits + t.used)
	clear(t.chunks[t.last][t.used : t.used+size])
	t.used += size
	return e
}

// open makes a chunk of so many words the last one. One that is larger than others
// takes several numbers.
func (t *Table) open(size int) {
	for _, c := range t.chunks[t.last:] {
		t.held -= len(c)
	}
	clear(t.chunks[t.last:])
	clear(t.bases[t.last:])
	c := make([]uint64, size)
	t.chunks, t.bases = append(t.chunks[:t.last], c), append(t.bases[:t.last], unsafe.Pointer(&c[0]))
	for range max(1, size>>tableChunkBits) - 1 {
		t.chunks, t.bases = append(t.chunks, nil), append(t.bases, nil)
	}
	t.held += size
}

func (t *Table) place(e Entry, hash uint64) {
	mask := uint64(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = tagOf(hash) | uint64(e+1)
}

func (t *Table) grow() {
	t.slots = make([]uint64, 2*len(t.slots))
	for i, e := range t.places {
		t.place(e, t.hashes[i])
	}
}

// Key returns the key of an entry. It is the table's memory: do not change it,
// and do not keep it over an Upsert or Reset.
func (t *Table) Key(e Entry) []byte {
	x := t.at(e)
	n := int(uint32(*(*uint64)(x)))
	if n == 0 {
		return nil
	}
	// The key's bytes stand in whole words of the chunk from there on.
	return unsafe.Slice((*byte)(unsafe.Add(x, 8*(tableHead+t.words))), n)
}

// Hash returns the hash that an entry was added with.
func (t *Table) Hash(e Entry) uint64 { return t.hashes[t.number(e)] }

// Row returns the words of an entry, to be read and changed in place until the
// next Upsert.
func (t *Table) Row(e Entry) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Add(t.at(e), 8*tableHead)), t.words)
}

// IsDirty says whether an entry was upserted since the last ClearDirty.
func (t *Table) IsDirty(e Entry) bool {
	n := t.number(e)
	return t.dirty[n>>6]>>(n&63)&1 != 0
}

// Dirty visits the dirty entries in the order of insertion until visit returns
// an error, and returns it. visit may change rows, but add no entry.
func (t *Table) Dirty(visit func(e Entry) error) error {
	for w, m := range t.dirty {
		for ; m != 0; m &= m - 1 {
			if err := visit(t.places[w<<6|bits.TrailingZeros64(m)]); err != nil {
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
	t.places, t.hashes, t.dirty, t.last, t.used = t.places[:0], t.hashes[:0], t.dirty[:0], 0, 0
}
