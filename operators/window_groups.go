package operators

import "bytes"

// windowGroups gives the rows of one batch numbers 1, 2, ... by pane and key;
// group 0 takes the rows that do not count. It is open addressing with linear
// probing; its memory is used again for the next batch.
type windowGroups struct {
	n      int
	slots  []uint32 // group; 0: empty. A power of two of them.
	hashes []uint64 // of the key, per group
	starts []int64
	ints   []int64 // the key where it is one int64
	keys   []byte  // canonical keys, ends of them per group
	ends   []int
	buf    []byte
}

// key returns the canonical key of group g, which is at least 1.
func (g *windowGroups) key(i int) []byte { return g.keys[g.ends[i-1]:g.ends[i]] }

// find sets w.group for all rows of the batch at hand by w.panes and w.marks.
func (g *windowGroups) find(w *windowBefore) {
	g.reset()
	if ints, ok := w.keys.enc.int64s(); ok {
		g.findInts(w.group, w.panes, w.marks, ints)
		return
	}
	for i, m := range w.marks {
		if m != rowCounts {
			w.group[i] = 0
			continue
		}
		g.buf = w.keys.enc.append(g.buf[:0], i)
		w.group[i] = g.byKey(keyHash(g.buf), w.panes[i], g.buf)
	}
}

func (g *windowGroups) reset() {
	// As many slots as the groups of the last batch suggest, for a short clear
	// and few misses of the cache.
	want := 256
	for want < 4*g.n {
		want *= 2
	}
	if want > len(g.slots) || want < len(g.slots)/4 {
		g.slots = make([]uint32, want)
	} else {
		clear(g.slots)
	}
	g.n = 0
	g.hashes, g.starts, g.ints = append(g.hashes[:0], 0), append(g.starts[:0], 0), append(g.ints[:0], 0)
	g.keys, g.ends = g.keys[:0], append(g.ends[:0], 0)
}

// windowSpread mixes a pane into a hash, and an int64 into a slot.
const windowSpread = 0x9e3779b97f4a7c15

// windowProbe is the slot's hash of a pane and a key with a good hash.
func windowProbe(hash uint64, pane int64) uint64 { return hash ^ uint64(pane)*windowSpread>>32 }

// windowIntProbe is the slot's hash of a pane and an int64 key.
func windowIntProbe(v, pane int64) uint64 {
	h := (uint64(v) ^ uint64(pane)*windowSpread) * windowSpread
	return h ^ h>>32
}

func (g *windowGroups) byKey(hash uint64, pane int64, key []byte) uint32 {
	mask := uint64(len(g.slots) - 1)
	i := windowProbe(hash, pane) & mask
	for ; g.slots[i] != 0; i = (i + 1) & mask {
		x := g.slots[i]
		if g.hashes[x] == hash && g.starts[x] == pane && bytes.Equal(g.key(int(x)), key) {
			return x
		}
	}
	g.n++
	g.slots[i] = uint32(g.n)
	g.hashes = append(g.hashes, hash)
	g.starts = append(g.starts, pane)
	g.keys = append(g.keys, key...)
	g.ends = append(g.ends, len(g.keys))
	if 2*g.n > len(g.slots) {
		g.grow(func(x int) uint64 { return windowProbe(g.hashes[x], g.starts[x]) })
	}
	return uint32(g.n)
}

// findInts is find for keys that are one int64 without nulls: rows are told
// apart by the numbers, and canonical keys are made once per group.
func (g *windowGroups) findInts(group []uint32, starts []int64, marks []rowMark, ints []int64) {
	for i, v := range ints {
		if marks[i] != rowCounts {
			group[i] = 0
			continue
		}
		group[i] = g.byInt(v, starts[i])
	}
	for x := 1; x <= g.n; x++ {
		lo := len(g.keys)
		g.keys = appendKeyInt64(g.keys, g.ints[x])
		g.ends = append(g.ends, len(g.keys))
		g.hashes = append(g.hashes, keyHash(g.keys[lo:]))
	}
}

func (g *windowGroups) byInt(v, pane int64) uint32 {
	mask := uint64(len(g.slots) - 1)
	i := windowIntProbe(v, pane) & mask
	for ; g.slots[i] != 0; i = (i + 1) & mask {
		if x := g.slots[i]; g.ints[x] == v && g.starts[x] == pane {
			return x
		}
	}
	g.n++
	g.slots[i] = uint32(g.n)
	g.ints = append(g.ints, v)
	g.starts = append(g.starts, pane)
	if 2*g.n > len(g.slots) {
		g.grow(func(x int) uint64 { return windowIntProbe(g.ints[x], g.starts[x]) })
	}
	return uint32(g.n)
}

func (g *windowGroups) grow(probe func(x int) uint64) {
	g.slots = make([]uint32, 2*len(g.slots))
	mask := uint64(len(g.slots) - 1)
	for x := 1; x <= g.n; x++ {
		i := probe(x) & mask
		for g.slots[i] != 0 {
			i = (i + 1) & mask
		}
		g.slots[i] = uint32(x)
	}
}
