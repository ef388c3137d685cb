package operators

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// valuesFunc keeps the values of a group with how often each came, for
// percentile_cont, percentile_disc and mode. Accumulator: a word for the bytes
// beside it; how many bytes there were when equal values were last put together.
// The bytes are entries in any order: uvarint of the count, the value
// (sortable); equal values may have several.
type valuesFunc struct {
	kind keyKind
	desc bool
}

// valuesSlack is how many bytes come together at least before equal values are
// looked for.
const valuesSlack = 4096

func (valuesFunc) words() int { return 2 }

func (f valuesFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	var col sortColumn
	col.bind(arg)
	for i, g := range groups {
		if g == 0 {
			continue
		}
		r := acc.rows[acc.at(g):]
		v := acc.heap.at(&r[0])
		*v = col.appendValue(append(*v, 1), i)
		f.settle(r, v)
	}
}

// settle puts equal values together if the bytes have doubled since.
func (f valuesFunc) settle(r []uint64, v *[]byte) {
	if uint64(len(*v)) < 2*r[1]+valuesSlack {
		return
	}
	out := make([]byte, 0, len(*v))
	for _, e := range f.entries(*v) {
		out = append(binary.AppendUvarint(out, e.count), e.value...)
	}
	*v = append((*v)[:0], out...)
	r[1] = uint64(len(out))
}

// merge does nothing: mergeBytes does it.
func (valuesFunc) merge(dst, src []uint64) {}

func (f valuesFunc) mergeBytes(dst []uint64, heap *accHeap, value []byte) {
	v := heap.at(&dst[0])
	*v = append(*v, value...)
	f.settle(dst, v)
}

func (valuesFunc) result(b array.Builder, _ []uint64) *dataflow.Bad {
	b.AppendNull()
	return nil
}

// valueCount is a value and how often it came.
type valueCount struct {
	value []byte
	count uint64
}

// entries lists the values in ascending order, each once.
func (f valuesFunc) entries(v []byte) []valueCount {
	d := sortDecoder{kind: f.kind}
	var all []valueCount
	for len(v) > 0 {
		n, w := binary.Uvarint(v)
		value, rest, err := d.next(v[w:])
		if err != nil {
			break
		}
		all, v = append(all, valueCount{value, n}), rest
	}
	slices.SortFunc(all, func(a, b valueCount) int { return bytes.Compare(a.value, b.value) })
	n := 0
	for _, e := range all {
		if n > 0 && bytes.Equal(all[n-1].value, e.value) {
			all[n-1].count += e.count
			continue
		}
		all[n] = e
		n++
	}
	return all[:n]
}

// sorted is entries in the order asked for, and the count of all values.
func (f valuesFunc) sorted(v []byte) (entries []valueCount, n uint64) {
	entries = f.entries(v)
	if f.desc {
		slices.Reverse(entries)
	}
	for _, e := range entries {
		n += e.count
	}
	return entries, n
}

// valueAt returns the value at place i, from 0 on.
func valueAt(entries []valueCount, i uint64) []byte {
	for _, e := range entries {
		if i < e.count {
			return e.value
		}
		i -= e.count
	}
	return entries[len(entries)-1].value
}

// percentileDiscFunc is percentile_disc: the first value whose place is at least
// the quantile.
type percentileDiscFunc struct {
	valuesFunc
	quantile float64
}

func (f percentileDiscFunc) resultBytes(b array.Builder, _ []uint64, v []byte) {
	entries, n := f.sorted(v)
	at := uint64(math.Ceil(f.quantile * float64(n)))
	d := sortDecoder{kind: f.kind}
	d.append(valueAt(entries, max(at, 1)-1), b)
}

// percentileContFunc is percentile_cont: between two values it goes in a
// straight line.
type percentileContFunc struct {
	valuesFunc
	quantile float64
}

func (f percentileContFunc) resultBytes(b array.Builder, _ []uint64, v []byte) {
	entries, n := f.sorted(v)
	at := f.quantile * float64(n-1)
	value := func(i float64) float64 {
		return keyFloat64From(binary.BigEndian.Uint64(valueAt(entries, uint64(i))))
	}
	x := value(math.Floor(at))
	if y := value(math.Ceil(at)); math.Ceil(at) != math.Floor(at) {
		x += (at - math.Floor(at)) * (y - x)
	}
	b.(*array.Float64Builder).Append(x)
}

// modeFunc is mode: the most frequent value, the first of several in the order
// asked for.
type modeFunc struct{ valuesFunc }

func (f modeFunc) resultBytes(b array.Builder, _ []uint64, v []byte) {
	entries, _ := f.sorted(v)
	best := 0
	for i, e := range entries {
		if e.count > entries[best].count {
			best = i
		}
	}
	d := sortDecoder{kind: f.kind}
	d.append(entries[best].value, b)
}
