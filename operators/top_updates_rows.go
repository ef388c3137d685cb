package operators

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"frazil/state"
)

// topRowTable has the rows of groups, and of each group the first ones in order.
//
// Of a group the head is sorted and every other row stands behind it. A new row
// goes into the head if it is before its last one. The head is cut when it has
// grown to twice the limit and more; where rows taken away leave less than the
// limit, refill looks through all rows of the group, which then happens once for
// many such rows.
type topRowTable struct {
	limit  int
	keys   *state.Table // of groups: a word with 1 + the index in groups, 0 for none
	groups []topRowGroup
	free   []uint32
	empty  int // entries of keys without a group
	rows   *state.Table
	gone   int // entries of rows that stand for nothing
	// lists has the bytes of rows and counts those that are there.
	lists   topLists
	taken   int64 // bytes of rows that went since settle
	scratch []state.Entry
}

type topRowGroup struct {
	entry state.Entry // in keys
	chain uint64      // 1 + an entry of rows, 0: none
	n     int
	head  []state.Entry
	// dirty: former is the stretch of the first rows as they were at the last
	// barrier.
	dirty           bool
	former, formers int
}

// A row has these words; links are 1 + an entry, 0 for none.
const (
	topRowMarks = iota // the group in the low half
	topRowNext
	topRowPrev
	topRowPrefix
	topRowAt
	topRowTerms // and the length of the place
	topRowValue
	topRowWords
)

const (
	topRowThere  = 1 << 63
	topRowStored = 1 << 62 // the log has it
	topRowHead   = 1 << 61 // it is in the head of its group
	topRowGroups = 1<<32 - 1
)

func (t *topRowTable) init(limit int) {
	t.limit, t.keys, t.rows = limit, state.NewTable(1), state.NewTable(topRowWords)
}

// longest is how long a head may get, and short what is left when it is cut.
func (t *topRowTable) longest() int { return 2*t.limit + 64 }
func (t *topRowTable) short() int   { return t.limit + t.limit/2 + 32 }

// group returns the index of the group of a key, making it if there is none.
func (t *topRowTable) group(hash uint64, key []byte) uint32 {
	e, fresh := t.keys.Upsert(hash, key)
	row := t.keys.Row(e)
	if row[0] != 0 {
		return uint32(row[0] - 1)
	}
	if !fresh {
		t.empty--
	}
	var g uint32
	if n := len(t.free); n > 0 {
		g, t.free = t.free[n-1], t.free[:n-1]
	} else {
		g = uint32(len(t.groups))
		t.groups = append(t.groups, topRowGroup{})
	}
	t.groups[g] = topRowGroup{entry: e, head: t.groups[g].head[:0]}
	row[0] = uint64(g) + 1
	return g
}

// dropEmpty forgets a group without rows.
func (t *topRowTable) dropEmpty(g uint32) {
	x := &t.groups[g]
	if x.n > 0 {
		return
	}
	t.keys.Row(x.entry)[0] = 0
	t.empty++
	t.free = append(t.free, g)
}

func (t *topRowTable) has(e state.Entry) bool    { return t.rows.Row(e)[topRowMarks]&topRowThere != 0 }
func (t *topRowTable) stored(e state.Entry) bool { return t.rows.Row(e)[topRowMarks]&topRowStored != 0 }

// setStored notes whether the log has a row, and so is to be told when it goes.
func (t *topRowTable) setStored(e state.Entry) {
	row := t.rows.Row(e)
	row[topRowMarks] &^= topRowStored
	if t.has(e) {
		row[topRowMarks] |= topRowStored
	}
}

func (t *topRowTable) groupOf(e state.Entry) uint32 {
	return uint32(t.rows.Row(e)[topRowMarks] & topRowGroups)
}

func (t *topRowTable) item(e state.Entry) topItem {
	row := t.rows.Row(e)
	return topItem{
		prefix: row[topRowPrefix], at: row[topRowAt],
		terms: uint32(row[topRowTerms] >> 32), place: uint32(row[topRowTerms]), value: uint32(row[topRowValue]),
	}
}

// compare says which of two rows comes first.
func (t *topRowTable) compare(a, b state.Entry) int {
	x, y := t.item(a), t.item(b)
	if c := cmp.Compare(x.prefix, y.prefix); c != 0 {
		return c
	}
	return bytes.Compare(t.lists.placeOf(&x), t.lists.placeOf(&y))
}

// put makes e, which is not there, a row of group g. fresh: it never was.
func (t *topRowTable) put(g uint32, e state.Entry, fresh bool, w *topWire) {
	row := t.rows.Row(e)
	if !fresh {
		t.gone--
	}
	x := &t.groups[g]
	row[topRowMarks] = row[topRowMarks]&topRowStored | topRowThere | uint64(g)
	row[topRowPrefix] = w.prefix
	row[topRowAt] = t.lists.bytes.put(w.place, w.row)
	row[topRowTerms] = uint64(w.terms)<<32 | uint64(len(w.place))
	row[topRowValue] = uint64(len(w.row))
	t.lists.live += int64(len(w.place) + len(w.row))
	row[topRowNext], row[topRowPrev] = x.chain, 0
	if x.chain != 0 {
		t.rows.Row(state.Entry(x.chain - 1))[topRowPrev] = uint64(e) + 1
	}
	x.chain = uint64(e) + 1
	x.n++
	t.offer(x, e)
}

// offer puts a row of a group, which is not in its head, into it if it belongs
// there.
func (t *topRowTable) offer(x *topRowGroup, e state.Entry) {
	n := len(x.head)
	whole := n == x.n-1
	if !whole && (n == 0 || t.compare(e, x.head[n-1]) > 0) {
		return
	}
	x.head = slices.Insert(x.head, t.place(x, e), e)
	t.rows.Row(e)[topRowMarks] |= topRowHead
	if len(x.head) > t.longest() {
		t.cut(x)
	}
}

// place is where in the head of its group a row stands or would stand.
func (t *topRowTable) place(x *topRowGroup, e state.Entry) int {
	return sort.Search(len(x.head), func(i int) bool { return t.compare(x.head[i], e) >= 0 })
}

func (t *topRowTable) cut(x *topRowGroup) {
	for _, e := range x.head[t.short():] {
		t.rows.Row(e)[topRowMarks] &^= topRowHead
	}
	x.head = x.head[:t.short()]
}

// take takes a row, which is there, out of its group.
func (t *topRowTable) take(e state.Entry) {
	row := t.rows.Row(e)
	x := &t.groups[t.groupOf(e)]
	if row[topRowMarks]&topRowHead != 0 {
		at := t.place(x, e)
		x.head = slices.Delete(x.head, at, at+1)
	}
	next, prev := row[topRowNext], row[topRowPrev]
	if next != 0 {
		t.rows.Row(state.Entry(next - 1))[topRowPrev] = prev
	}
	if prev != 0 {
		t.rows.Row(state.Entry(prev - 1))[topRowNext] = next
	} else {
		x.chain = next
	}
	x.n--
	it := t.item(e)
	t.lists.drop(&it)
	t.taken += int64(it.place + it.value)
	row[topRowMarks] &= topRowStored
	t.gone++
}

// refill makes the head of a group at least as long as the limit, if the group has
// as many rows.
func (t *topRowTable) refill(g uint32) {
	x := &t.groups[g]
	if len(x.head) >= min(t.limit, x.n) {
		return
	}
	for _, e := range x.head {
		t.rows.Row(e)[topRowMarks] &^= topRowHead
	}
	n, all, full := t.short(), t.scratch[:0], false
	sorted := func() {
		slices.SortFunc(all, t.compare)
		full = full || len(all) > n
		all = all[:min(len(all), n)]
	}
	for at := x.chain; at != 0; {
		e := state.Entry(at - 1)
		at = t.rows.Row(e)[topRowNext]
		if full && t.compare(e, all[n-1]) > 0 {
			continue
		}
		if all = append(all, e); len(all) == 2*n {
			sorted()
		}
	}
	sorted()
	for _, e := range all {
		t.rows.Row(e)[topRowMarks] |= topRowHead
	}
	x.head = append(x.head[:0], all...)
	t.scratch = all
}

// first appends the items of a group's first rows to dst. Its head has them.
func (t *topRowTable) first(dst []topItem, x *topRowGroup) []topItem {
	for _, e := range x.head[:min(len(x.head), t.limit)] {
		dst = append(dst, t.item(e))
	}
	return dst
}

// settle forgets what stands for nothing and gives memory back. Nothing is dirty
// behind it.
func (t *topRowTable) settle() {
	if t.gone > topSlackGroups && 2*t.gone > t.rows.Len() {
		t.renumber()
	}
	if t.empty > topSlackGroups && 2*t.empty > t.keys.Len() {
		old := t.keys
		t.keys, t.empty = state.NewTable(1), 0
		for i := range old.Len() {
			e := old.At(i)
			if g := old.Row(e)[0]; g != 0 {
				n, _ := t.keys.Upsert(old.Hash(e), old.Key(e))
				t.keys.Row(n)[0] = g
				t.groups[g-1].entry = n
			}
		}
	}
	t.taken = 0
	t.keys.ClearDirty()
	t.rows.ClearDirty()
	if t.lists.sparse(0) {
		old := t.lists.bytes
		t.lists.bytes = topBytes{}
		for i := range t.rows.Len() {
			e := t.rows.At(i)
			if !t.has(e) {
				continue
			}
			it := t.item(e)
			b := old.get(it.at, it.place+it.value)
			t.rows.Row(e)[topRowAt] = t.lists.bytes.put(b, nil)
		}
	}
}

// renumber makes the table of rows anew without those that are gone.
func (t *topRowTable) renumber() {
	old := t.rows
	t.rows, t.gone = state.NewTable(topRowWords), 0
	for i := range old.Len() {
		e := old.At(i)
		row := old.Row(e)
		if row[topRowMarks]&topRowThere == 0 {
			continue
		}
		n, _ := t.rows.Upsert(old.Hash(e), old.Key(e))
		copy(t.rows.Row(n), row)
		row[topRowPrefix] = uint64(n) + 1 // where it went
	}
	moved := func(link uint64) uint64 {
		if link == 0 {
			return 0
		}
		return old.Row(state.Entry(link - 1))[topRowPrefix]
	}
	for i := range t.rows.Len() {
		row := t.rows.Row(t.rows.At(i))
		row[topRowNext], row[topRowPrev] = moved(row[topRowNext]), moved(row[topRowPrev])
	}
	for g := range t.groups {
		x := &t.groups[g]
		if x.n == 0 {
			continue
		}
		x.chain = moved(x.chain)
		for i, e := range x.head {
			x.head[i] = state.Entry(moved(uint64(e)+1) - 1)
		}
	}
}
