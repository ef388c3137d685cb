package state

import (
	"bytes"
	"slices"
	"sort"
	"unsafe"
)

// entryOverhead estimates what a map entry costs beside its bytes.
const entryOverhead = 64

// layer holds changes of one KV in memory: what was written between two
// Freezes. A frozen layer is never changed again, but for the cache of sorted
// keys, which belongs to the goroutine that owns the KV.
type layer struct {
	groups  [NumGroups]*groupLayer
	changed bool
	slab    slab
}

// groupLayer holds the changes of one key group. Every entry is newer than every
// range: DeleteRange takes the entries it covers away.
type groupLayer struct {
	entries map[string]entry
	ranges  []keyRange // sorted, not overlapping
	sorted  []string   // cache of the keys in order, valid if as long as entries
}

type entry struct {
	value   []byte
	deleted bool
}

// keyRange is lo <= key < hi; a nil hi is the end of the group.
type keyRange struct{ lo, hi []byte }

func (l *layer) group(g int) *groupLayer {
	gl := l.groups[g]
	if gl == nil {
		gl = &groupLayer{entries: map[string]entry{}}
		l.groups[g] = gl
	}
	l.changed = true
	return gl
}

// put stores a change and returns by how much the layer has grown.
func (l *layer) put(g int, key, value []byte, deleted bool) int64 {
	gl := l.group(g)
	old, ok := gl.entries[string(key)]
	if ok && !deleted && cap(old.value) >= len(value) && !old.deleted {
		grown := len(value) - len(old.value)
		old.value = append(old.value[:0], value...)
		gl.entries[string(key)] = old
		return int64(grown)
	}
	e := entry{deleted: deleted}
	if !deleted {
		spare := 0
		if ok {
			spare = len(value) / 4 // It is written often and grows.
		}
		e.value = l.slab.copy(value, spare)
	}
	if ok {
		gl.entries[string(key)] = e
		return int64(len(e.value) - len(old.value))
	}
	gl.entries[l.slab.string(key)] = e
	return int64(len(key) + len(value) + entryOverhead)
}

// deleteRange records a range and returns by how much the layer has grown.
func (l *layer) deleteRange(g int, lo, hi []byte) int64 {
	gl := l.group(g)
	var grown int64
	for k, e := range gl.entries {
		if inRange(k, lo, hi) {
			delete(gl.entries, k)
			grown -= int64(len(k) + len(e.value) + entryOverhead)
		}
	}
	gl.sorted = nil
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
	if e, ok := gl.entries[string(key)]; ok {
		return e, true
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

// keys returns the changed keys in [lo, hi) in order.
func (gl *groupLayer) keys(lo, hi []byte) []string {
	if gl == nil || len(gl.entries) == 0 {
		return nil
	}
	if len(gl.sorted) != len(gl.entries) {
		gl.sorted = gl.sorted[:0]
		for k := range gl.entries {
			gl.sorted = append(gl.sorted, k)
		}
		slices.Sort(gl.sorted)
	}
	from := sort.SearchStrings(gl.sorted, view(lo))
	to := len(gl.sorted)
	if hi != nil {
		to = sort.SearchStrings(gl.sorted, view(hi))
	}
	return gl.sorted[from:max(from, to)]
}

// view reads b as a string without copying, for comparisons only.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// slab hands out copies from larger chunks: one allocation for many small keys
// and values. Its memory is freed with the layer.
type slab struct{ free []byte }

const (
	slabChunk = 64 << 10
	slabLarge = 4 << 10
)

func (s *slab) copy(b []byte, spare int) []byte {
	n := len(b) + spare
	if n > slabLarge {
		return append(make([]byte, 0, n), b...)
	}
	if n > len(s.free) {
		s.free = make([]byte, slabChunk)
	}
	out := s.free[:len(b):n]
	s.free = s.free[n:]
	copy(out, b)
	return out
}

// string copies b as a string: nothing writes to these bytes again.
func (s *slab) string(b []byte) string { return view(s.copy(b, 0)) }
