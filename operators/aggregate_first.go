package operators

import (
	"bytes"
	"encoding/binary"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// firstFunc is first and last: the value of the first or last row in the order
// of accOrder whose value is not null; rows at the same place go by the value.
// Accumulator: a word for the bytes beside it; the first 8 bytes of the order
// key, which say of most rows that they change nothing. The bytes are uvarint of
// the length of the order key, the key, the value (sortable).
type firstFunc struct {
	kind keyKind
	last bool
}

func (firstFunc) ordered() {}

func (firstFunc) words() int { return 2 }

func (f firstFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	var col sortColumn
	col.bind(arg)
	best := acc.order.extremes(groups, f.last)
	var key, elem []byte
	for i, g := range groups {
		if g == 0 || best != nil && acc.order.times[i] != best[g] {
			continue
		}
		r := acc.rows[acc.at(g):]
		if t := acc.order.prefix(i); best != nil && r[0] != 0 && t != r[1] && f.last != (t > r[1]) {
			continue
		}
		key = acc.order.append(key[:0], i)
		elem = binary.AppendUvarint(elem[:0], uint64(len(key)))
		elem = col.appendValue(append(elem, key...), i)
		f.add(r, acc.heap, elem)
	}
}

// firstElement splits an element into its order key and value.
func firstElement(elem []byte) (key, value []byte) {
	n, w := binary.Uvarint(elem)
	return elem[w : w+int(n)], elem[w+int(n):]
}

// add takes elem if it comes before (behind, for last) what is there.
func (f firstFunc) add(r []uint64, heap *accHeap, elem []byte) {
	key, value := firstElement(elem)
	if r[0] != 0 {
		haveKey, have := firstElement(heap.get(r[0]))
		c := bytes.Compare(key, haveKey)
		if c == 0 {
			c = bytes.Compare(value, have)
		}
		if c == 0 || f.last != (c > 0) {
			return
		}
		heap.set(r[0], elem)
	} else {
		r[0] = heap.add(elem)
	}
	var prefix [8]byte
	copy(prefix[:], key)
	r[1] = binary.BigEndian.Uint64(prefix[:])
}

// merge does nothing: mergeBytes does it.
func (firstFunc) merge(dst, src []uint64) {}

func (f firstFunc) mergeBytes(dst []uint64, heap *accHeap, value []byte) { f.add(dst, heap, value) }

func (firstFunc) result(b array.Builder, _ []uint64) *dataflow.Bad {
	b.AppendNull()
	return nil
}

func (f firstFunc) resultBytes(b array.Builder, _ []uint64, elem []byte) {
	_, value := firstElement(elem)
	d := sortDecoder{kind: f.kind}
	d.append(value, b)
}
