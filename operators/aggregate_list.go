package operators

import (
	"bytes"
	"encoding/binary"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// listFunc keeps all values of a group with their places in the order, for
// array_agg and string_agg. Accumulator: a word for the bytes beside it. The
// bytes are elements in any order: uvarint of the length of the order key,
// uvarint of the length of the value + 1 (0: null), the key, the value
// (sortable).
type listFunc struct {
	kind keyKind
}

func (listFunc) ordered() {}

func (listFunc) words() int { return 1 }

func (f listFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	var col sortColumn
	col.bind(arg)
	var key, value []byte
	for i, g := range groups {
		if g == 0 {
			continue
		}
		key = acc.order.append(key[:0], i)
		n := uint64(0)
		value = value[:0]
		if !col.isNull(i) {
			value = col.appendValue(value, i)
			n = uint64(len(value)) + 1
		}
		v := acc.heap.at(&acc.rows[acc.at(g)])
		*v = binary.AppendUvarint(binary.AppendUvarint(*v, uint64(len(key))), n)
		*v = append(append(*v, key...), value...)
	}
}

// merge does nothing: mergeBytes does it.
func (listFunc) merge(dst, src []uint64) {}

func (listFunc) mergeBytes(dst []uint64, heap *accHeap, value []byte) {
	v := heap.at(&dst[0])
	*v = append(*v, value...)
}

func (listFunc) result(b array.Builder, _ []uint64) *dataflow.Bad {
	b.AppendNull()
	return nil
}

// listElement is one value, nil for null, behind its order key.
type listElement struct{ key, value []byte }

// elements lists the elements in order: by their keys, then by value, nulls
// last.
func (listFunc) elements(v []byte) []listElement {
	var out []listElement
	for len(v) > 0 {
		k, w := binary.Uvarint(v)
		v = v[w:]
		n, w := binary.Uvarint(v)
		v = v[w:]
		e := listElement{key: v[:k]}
		v = v[k:]
		if n > 0 {
			e.value = v[: n-1 : n-1]
			v = v[n-1:]
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b listElement) int {
		if c := bytes.Compare(a.key, b.key); c != 0 {
			return c
		}
		if (a.value == nil) != (b.value == nil) {
			if a.value == nil {
				return 1
			}
			return -1
		}
		return bytes.Compare(a.value, b.value)
	})
	return out
}

// arrayFunc is array_agg, which keeps nulls.
type arrayFunc struct{ listFunc }

func (arrayFunc) nulls() {}

func (f arrayFunc) resultBytes(b array.Builder, _ []uint64, v []byte) {
	list := b.(*array.ListBuilder)
	list.Append(true)
	d := sortDecoder{kind: f.kind}
	for _, e := range f.elements(v) {
		if e.value == nil {
			list.ValueBuilder().AppendNull()
			continue
		}
		d.append(e.value, list.ValueBuilder())
	}
}

// textsFunc is string_agg.
type textsFunc struct {
	listFunc
	separator string
}

func (f textsFunc) resultBytes(b array.Builder, _ []uint64, v []byte) {
	d := sortDecoder{kind: keyString}
	var text []byte
	for i, e := range f.elements(v) {
		if i > 0 {
			text = append(text, f.separator...)
		}
		text = append(text, d.text(e.value)...)
	}
	b.(*array.StringBuilder).BinaryBuilder.Append(text)
}
