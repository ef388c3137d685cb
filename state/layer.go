package state

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sort"
	"unsafe"
)

// entryOverhead estimates what an entry costs beside its bytes: its record, and
// its places in the index and in the order of keys.
const entryOverhead = 48

// layer holds changes of one KV in memory: what was written between two
// Freezes. A frozen layer is never changed again, but for the cache of sorted
// keys, which belongs to the goroutine that owns the KV.
//
// There may be millions of entries. So they are records without pointers, in an
// array and with an index of their own: a map of strings takes twice as much, and
// the collector would follow each of them.
type layer struct {
	groups  [NumGroups]*groupLayer
	changed bool
	slab    slab
}

// groupLayer holds the changes of one key group. Every entry is newer than every
// range: DeleteRange takes the entries it covers away.
type groupLayer struct {
	slab    *slab
	records []record
	slots   []uint32 // by hash, linear probing: number of a record plus one, 0 is empty
	gone    int      // records that were taken away and stay until pack
	ranges  []keyRange
	sorted  []uint32 // cache: the first records, as many as it is long, by key
}

// record is one entry: where its key and its value are in the slab.
type record struct {
	hash           uint32
	key, value     place
	keyLen         uint32
	valueLen, room uint32 // room is what the value may grow to
	state          recordState
}

type recordState uint8

const (
	recordSet recordState = iota
	recordDeleted
	recordGone // a range has taken it away: the layer says nothing
)

type entry struct {
	value   []byte
	deleted bool
}

// keyRange is lo <= key < hi; a nil hi is the end of the group.
type keyRange struct{ lo, hi []byte }

var layerSeed = maphash.MakeSeed()

func (l *layer) group(g int) *groupLayer {
	gl := l.groups[g]
	if gl == nil {
		gl = &groupLayer{slab: &l.slab}
		l.groups[g] = gl
	}
	l.changed = true
	return gl
}

// key returns the key of a record.
func (gl *groupLayer) key(n uint32) []byte {
	r := &gl.records[n]
	return gl.slab.at(r.key, r.keyLen)
}

// entry returns what a record that is not gone says.
func (gl *groupLayer) entry(n uint32) entry {
	r := &gl.records[n]
	if r.state == recordDeleted {
		return entry{deleted: true}
	}
	return entry{value: gl.slab.at(r.value, r.valueLen)}
}

// find returns the record of a key, also one that is gone, or the slot where it
// belongs.
func (gl *groupLayer) find(hash uint32, key []byte) (n uint32, slot int, ok bool) {
	mask := len(gl.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		x := gl.slots[i]
		if x == 0 {
			return 0, i, false
		}
		if r := &gl.records[x-1]; r.hash == hash && bytes.Equal(gl.slab.at(r.key, r.keyLen), key) {
			return x - 1, i, true
		}
	}
}

// index makes the slots anew for at least n records.
func (gl *groupLayer) index(n int) {
	size := max(8, len(gl.slots))
	for 4*n > 3*size {
		size *= 2
	}
	gl.slots = make([]uint32, size)
	for n := range gl.records {
		i := int(gl.records[n].hash) & (size - 1)
		for gl.slots[i] != 0 {
			i = (i + 1) & (size - 1)
		}
		gl.slots[i] = uint32(n) + 1
	}
}

// put stores a change and returns by how much the layer has grown.
func (l *layer) put(g int, key, value []byte, deleted bool) int64 {
	gl := l.group(g)
	if n := len(gl.records) + 1; 4*n > 3*len(gl.slots) {
		gl.index(n)
	}
	hash := uint32(maphash.Bytes(layerSeed, key))
	n, slot, ok := gl.find(hash, key)
	if ok {
		return gl.change(&gl.records[n], value, deleted)
	}
	r := record{hash: hash, key: l.slab.copy(key, 0), keyLen: uint32(len(key)), state: recordDeleted}
	if !deleted {
		r.state, r.value = recordSet, l.slab.copy(value, 0)
		r.valueLen, r.room = uint32(len(value)), uint32(len(value))
	}
	gl.records = append(gl.records, r)
	gl.slots[slot] = uint32(len(gl.records))
	return r.bytes()
}

func (r *record) bytes() int64 { return int64(r.keyLen) + int64(r.valueLen) + entryOverhead }

// change overwrites a record and returns by how much the layer has grown.
func (gl *groupLayer) change(r *record, value []byte, deleted bool) int64 {
	before := r.bytes()
	if r.state == recordGone {
		before = 0
		gl.gone--
	}
	switch n := uint32(len(value)); {
	case deleted:
		gl.slab.drop(r.value, r.room)
		r.state, r.valueLen, r.room = recordDeleted, 0, 0
	case n <= r.room:
		copy(gl.slab.at(r.value, n), value)
		r.state, r.valueLen = recordSet, n
	default:
		spare := uint32(0)
		if r.state == recordSet {
			spare = n / 4 // It is written often and grows.
		}
		gl.slab.drop(r.value, r.room)
		r.state, r.value = recordSet, gl.slab.copy(value, int(spare))
		r.valueLen, r.room = n, n+spare
	}
	return r.bytes() - before
}

// deleteRange records a range and returns by how much the layer has grown.
func (l *layer) deleteRange(g int, lo, hi []byte) int64 {
	gl := l.group(g)
	grown := -gl.takeAway(lo, hi)
	r := keyRange{lo: bytes.Clone(lo), hi: bytes.Clone(hi)}
	// from..to are the ranges that r touches: they become one with it.
	from := sort.Search(len(gl.ranges), func(i int) bool { return !endsBefore(gl.ranges[i].hi, r.lo) })
	to := from
	for to < len(gl.ranges) && !endsBefore(r.hi, gl.ranges[to].lo) {
		if bytes.Compare(gl.ranges[to].lo, r.lo) < 0 {
			r.lo = gl.ranges[to].lo
		}
		if r.hi != nil && (gl.ranges[to].hi == nil || bytes.Compare(gl.ranges[to].hi, r.hi) > 0) {
			r.hi = gl.ranges[to].hi
		}
		grown -= int64(entryOverhead)
		to++
	}
	gl.ranges = slices.Replace(gl.ranges, from, to, r)
	return grown + int64(len(lo)+len(hi)+entryOverhead)
}

// takeAway drops the entries in a range and returns how many bytes they held.
func (gl *groupLayer) takeAway(lo, hi []byte) (held int64) {
	drop := func(n uint32) {
		r := &gl.records[n]
		if r.state == recordGone {
			return
		}
		held += r.bytes()
		gl.slab.drop(r.value, r.room)
		r.state, r.valueLen, r.room = recordGone, 0, 0
		gl.gone++
	}
	if len(gl.sorted) == len(gl.records) {
		for _, n := range gl.keys(lo, hi) {
			drop(n)
		}
	} else {
		for n := range gl.records {
			if inRange(view(gl.key(uint32(n))), lo, hi) {
				drop(uint32(n))
			}
		}
	}
	if 2*gl.gone > len(gl.records) {
		gl.records = slices.DeleteFunc(gl.records, func(r record) bool { return r.state == recordGone })
		gl.sorted, gl.slots, gl.gone = nil, nil, 0
		gl.index(len(gl.records))
	}
	return held
}

// endsBefore says whether a range that ends at hi leaves a gap before lo.
func endsBefore(hi, lo []byte) bool { return hi != nil && bytes.Compare(hi, lo) < 0 }

func inRange(key string, lo, hi []byte) bool {
	return key >= view(lo) && (hi == nil || key < view(hi))
}

// get returns the change of key: found is false when the layer says nothing.
func (l *layer) get(g int, key []byte) (e entry, found bool) {
	gl := l.groups[g]
	if gl == nil {
		return entry{}, false
	}
	if len(gl.records) > gl.gone {
		n, _, ok := gl.find(uint32(maphash.Bytes(layerSeed, key)), key)
		if ok && gl.records[n].state != recordGone {
			return gl.entry(n), true
		}
	}
	return entry{deleted: true}, gl.covered(key)
}

// covered says whether a range of the layer holds key.
func (gl *groupLayer) covered(key []byte) bool {
	if gl == nil || len(gl.ranges) == 0 {
		return false
	}
	i := sort.Search(len(gl.ranges), func(i int) bool {
		return gl.ranges[i].hi == nil || bytes.Compare(gl.ranges[i].hi, key) > 0
	})
	return i < len(gl.ranges) && bytes.Compare(gl.ranges[i].lo, key) <= 0
}

// keys returns the records whose keys are in [lo, hi), in the order of keys. Some
// of them may be gone.
func (gl *groupLayer) keys(lo, hi []byte) []uint32 {
	if gl == nil || len(gl.records) == gl.gone {
		return nil
	}
	gl.sort()
	search := func(key []byte) int {
		return sort.Search(len(gl.sorted), func(i int) bool { return bytes.Compare(gl.key(gl.sorted[i]), key) >= 0 })
	}
	from, to := search(lo), len(gl.sorted)
	if hi != nil {
		to = search(hi)
	}
	return gl.sorted[from:max(from, to)]
}

// sort brings the records that are new since the last time in among the others.
func (gl *groupLayer) sort() {
	old := gl.sorted
	if len(old) == len(gl.records) {
		return
	}
	compare := func(a, b uint32) int { return bytes.Compare(gl.key(a), gl.key(b)) }
	fresh := make([]uint32, 0, len(gl.records)-len(old))
	for n := len(old); n < len(gl.records); n++ {
		fresh = append(fresh, uint32(n))
	}
	slices.SortFunc(fresh, compare)
	if len(old) == 0 {
		gl.sorted = fresh
		return
	}
	gl.sorted = make([]uint32, 0, len(gl.records))
	for len(old) > 0 && len(fresh) > 0 {
		if compare(old[0], fresh[0]) < 0 {
			gl.sorted, old = append(gl.sorted, old[0]), old[1:]
		} else {
			gl.sorted, fresh = append(gl.sorted, fresh[0]), fresh[1:]
		}
	}
	gl.sorted = append(append(gl.sorted, old...), fresh...)
}

// view reads b as a string without copying, for comparisons only.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// slab keeps copies in larger chunks: one allocation for many small keys and
// values. Its memory is freed with the layer, that of large values before.
type slab struct {
	chunks [][]byte
	last   uint32 // the chunk that still has room, with used of it taken
	used   int
}

// place is where bytes are in a slab: in a chunk, behind others.
type place struct {
	chunk  uint32
	offset uint16
}

const (
	slabChunk = 64 << 10
	slabLarge = 4 << 10
)

// copy keeps b and spare bytes behind it.
func (s *slab) copy(b []byte, spare int) place {
	n := len(b) + spare
	switch {
	case n == 0:
		return place{}
	case n > slabLarge:
		large := make([]byte, n)
		copy(large, b)
		s.chunks = append(s.chunks, large)
		return place{chunk: uint32(len(s.chunks) - 1)}
	case len(s.chunks) == 0 || s.used == 0 || s.used+n > slabChunk:
		s.chunks = append(s.chunks, make([]byte, slabChunk))
		s.last, s.used = uint32(len(s.chunks)-1), 0
	}
	p := place{chunk: s.last, offset: uint16(s.used)}
	copy(s.chunks[s.last][s.used:], b)
	s.used += n
	return p
}

// at returns n bytes that were kept.
func (s *slab) at(p place, n uint32) []byte {
	if n == 0 {
		return []byte{}
	}
	return s.chunks[p.chunk][p.offset : int(p.offset)+int(n) : int(p.offset)+int(n)]
}

// drop frees what was kept in n bytes, if it is large.
func (s *slab) drop(p place, n uint32) {
	if n > slabLarge {
		s.chunks[p.chunk] = nil
	}
}
