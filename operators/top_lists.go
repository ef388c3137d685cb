package operators

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// topItem is one row of a list. Its place and its values lie in topBytes at at.
type topItem struct {
	prefix              uint64
	at                  uint64
	terms, place, value uint32 // lengths: of the terms' part of the place, the place, the row
}

// topWire is an item as it travels and as it is stored. The bytes are a format:
//
//	prefix (8, little endian), uvarint of the terms' length, place and row, both
//	with a uvarint of their length before them
type topWire struct {
	prefix     uint64
	terms      int
	place, row []byte
}

func appendTopWire(dst []byte, w topWire) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, w.prefix)
	dst = binary.AppendUvarint(dst, uint64(w.terms))
	dst = append(binary.AppendUvarint(dst, uint64(len(w.place))), w.place...)
	return append(binary.AppendUvarint(dst, uint64(len(w.row))), w.row...)
}

// cutTopWire reads the first item of v and returns what follows it.
func cutTopWire(v []byte) (w topWire, rest []byte, err error) {
	if len(v) < 8 {
		return w, nil, errRowShort
	}
	w.prefix = binary.LittleEndian.Uint64(v)
	terms, n := binary.Uvarint(v[8:])
	if n <= 0 {
		return w, nil, errRowShort
	}
	if w.place, rest, err = cutSized(v[8+n:]); err != nil {
		return w, nil, err
	}
	if w.terms = int(terms); w.terms > len(w.place) {
		return w, nil, fmt.Errorf("terms of %d bytes in a place of %d", w.terms, len(w.place))
	}
	w.row, rest, err = cutSized(rest)
	return w, rest, err
}

// topList is a list of items in order; the zero value is empty.
type topList struct {
	base, n uint32 // the items lie at base-1 of topLists.items, base 0: nowhere
	class   uint32 // room for 1<<class items
}

// topLists holds lists of the first rows by an order. One goroutine uses it.
type topLists struct {
	limit int
	ties  bool // rows that are equal to the last one by the terms stay as well
	items []topItem
	free  [32][]uint32 // unused stretches of items by class
	bytes topBytes
	live  int64 // bytes of items in lists
}

// of returns the items of a list, to be read until the next offer.
func (l *topLists) of(t topList) []topItem {
	if t.n == 0 {
		return nil
	}
	return l.items[t.base-1 : t.base-1+t.n]
}

// placeOf and rowOf return an item's bytes, to be read until the next compact.
func (l *topLists) placeOf(it *topItem) []byte { return l.bytes.get(it.at, it.place) }

func (l *topLists) rowOf(it *topItem) []byte {
	return l.bytes.get(it.at, it.place+it.value)[it.place:]
}

func (l *topLists) wireOf(it *topItem) topWire {
	return topWire{it.prefix, int(it.terms), l.placeOf(it), l.rowOf(it)}
}

func (l *topLists) compare(w *topWire, it *topItem) int {
	if c := cmp.Compare(w.prefix, it.prefix); c != 0 {
		return c
	}
	return bytes.Compare(w.place, l.placeOf(it))
}

// compareTerms is compare by the terms alone.
func (l *topLists) compareTerms(w *topWire, it *topItem) int {
	if c := cmp.Compare(w.prefix, it.prefix); c != 0 {
		return c
	}
	return bytes.Compare(w.place[:w.terms], l.placeOf(it)[:it.terms])
}

// offer puts an item into a list if it is among the first. It copies w.
func (l *topLists) offer(t *topList, w *topWire) bool {
	items := l.of(*t)
	if len(items) >= l.limit {
		last := &items[l.limit-1]
		if l.ties {
			if l.compareTerms(w, last) > 0 {
				return false
			}
		} else if l.compare(w, last) >= 0 {
			return false
		}
	}
	at := len(items)
	for at > 0 && l.compare(w, &items[at-1]) < 0 {
		at--
	}
	if len(items) == l.limit && !l.ties {
		l.drop(&items[len(items)-1])
		t.n--
	}
	l.insert(t, at, topItem{
		prefix: w.prefix, at: l.bytes.put(w.place, w.row),
		terms: uint32(w.terms), place: uint32(len(w.place)), value: uint32(len(w.row)),
	})
	l.live += int64(len(w.place) + len(w.row))
	if l.ties {
		l.trim(t)
	}
	return true
}

// trim drops the items behind the ties of the last place.
func (l *topLists) trim(t *topList) {
	items := l.of(*t)
	for n := len(items); n > l.limit; n-- {
		w := l.wireOf(&items[n-1])
		if l.compareTerms(&w, &items[l.limit-1]) == 0 {
			return
		}
		l.drop(&items[n-1])
		t.n--
	}
}

func (l *topLists) drop(it *topItem) { l.live -= int64(it.place + it.value) }

// insert makes room at position i of a list.
func (l *topLists) insert(t *topList, i int, it topItem) {
	if t.base == 0 || t.n == 1<<t.class {
		l.grow(t)
	}
	t.n++
	items := l.of(*t)
	copy(items[i+1:], items[i:])
	items[i] = it
}

func (l *topLists) grow(t *topList) {
	class := uint32(0)
	if t.base != 0 {
		class = t.class + 1
	}
	base := l.stretch(class)
	copy(l.items[base-1:], l.of(*t))
	l.release(t)
	t.base, t.class = base, class
}

func (l *topLists) stretch(class uint32) (base uint32) {
	if f := l.free[class]; len(f) > 0 {
		l.free[class] = f[:len(f)-1]
		return f[len(f)-1]
	}
	base = uint32(len(l.items)) + 1
	for range 1 << class {
		l.items = append(l.items, topItem{})
	}
	return base
}

func (l *topLists) release(t *topList) {
	if t.base != 0 {
		l.free[t.class] = append(l.free[t.class], t.base)
	}
}

// clear empties a list.
func (l *topLists) clear(t *topList) {
	for i := range l.of(*t) {
		l.drop(&l.of(*t)[i])
	}
	l.release(t)
	*t = topList{}
}

// merge offers all items of from, which stays.
func (l *topLists) merge(t *topList, from topList) {
	for i := range l.of(from) {
		w := l.wireOf(&l.of(from)[i])
		l.offer(t, &w)
	}
}

// copyOf copies a list of other lists.
func (l *topLists) copyOf(from *topLists, t topList) (n topList) {
	for i, it := range from.of(t) {
		b := from.bytes.get(it.at, it.place+it.value)
		it.at = l.bytes.put(b, nil)
		l.live += int64(len(b))
		l.insert(&n, i, it)
	}
	return n
}

// appendWire adds the items of a list to dst.
func (l *topLists) appendWire(dst []byte, t topList) []byte {
	for i := range l.of(t) {
		dst = appendTopWire(dst, l.wireOf(&l.of(t)[i]))
	}
	return dst
}

// offerWire offers the items that v holds, which are in order: where one has no
// room, those behind it have none.
func (l *topLists) offerWire(t *topList, v []byte) error {
	for len(v) > 0 {
		w, rest, err := cutTopWire(v)
		if err != nil {
			return err
		}
		if !l.offer(t, &w) {
			return nil
		}
		v = rest
	}
	return nil
}

// sparse says whether most bytes belong neither to a list nor to the others, so
// many of them, that are to stay.
func (l *topLists) sparse(others int64) bool { return l.bytes.size > 2*(l.live+others)+topSlack }

// topSlack keeps few bytes from being moved again and again.
const topSlack = 1 << 20

// compact moves the bytes of the items that visit names.
func (l *topLists) compact(visit func(move func([]topItem))) {
	old := l.bytes
	l.bytes = topBytes{}
	visit(func(items []topItem) {
		for i := range items {
			it := &items[i]
			b := old.get(it.at, it.place+it.value)
			it.at = l.bytes.put(b[:it.place], b[it.place:])
		}
	})
}

// topBytes are places and rows, one behind the other in chunks that never move.
type topBytes struct {
	chunks [][]byte
	size   int64
}

const (
	topFirstChunk = 4 << 10
	topChunk      = 1 << 20
)

// put copies two stretches of bytes, one behind the other.
func (b *topBytes) put(x, y []byte) (at uint64) {
	n := len(x) + len(y)
	i := len(b.chunks) - 1
	if i < 0 || cap(b.chunks[i])-len(b.chunks[i]) < n {
		b.chunks = append(b.chunks, make([]byte, 0, max(n, min(topChunk, topFirstChunk<<min(len(b.chunks), bits.Len(topChunk))))))
		i++
	}
	c := b.chunks[i]
	at = uint64(i)<<32 | uint64(len(c))
	b.chunks[i] = append(append(c, x...), y...)
	b.size += int64(n)
	return at
}

func (b *topBytes) get(at uint64, n uint32) []byte {
	from := uint32(at)
	return b.chunks[at>>32][from : from+n : from+n]
}
