package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// An accumulator is what an aggregate keeps of the rows it has seen: a fixed
// number of 64-bit words, all zeros for no row, and for some aggregates bytes
// of any length beside them. Accumulators of all aggregates of a step lie one
// after the other in one row of words (accLayout). They can be merged, in any
// order and grouping, so that rows are aggregated per batch in front of an
// exchange and again behind it.

// aggregateFunc is one aggregate on arguments of one type. It holds no state of
// its own and is safe for concurrent use.
type aggregateFunc interface {
	// words is the size of the accumulator.
	words() int
	// update adds value i of arg to the accumulator of groups[i], for all i.
	// Group 0 takes the rows that do not count (its accumulator is rubbish): a
	// null of arg is always in it. arg is nil for count.
	update(acc accColumn, groups []uint32, arg arrow.Array)
	// merge adds the accumulator src to dst.
	merge(dst, src []uint64)
	// result appends the value to b, of the type the function was made for. If
	// the value does not fit it appends null and says why.
	result(b array.Builder, acc []uint64) *dataflow.Bad
}

// bytesAggregate is an aggregateFunc that keeps bytes beside its words. The
// first word is 0 without them, otherwise 1 + the index in an accHeap.
type bytesAggregate interface {
	aggregateFunc
	// mergeBytes adds value, another accumulator's bytes, to dst. It copies
	// value.
	mergeBytes(dst []uint64, heap *accHeap, value []byte)
	// resultBytes is result where there are bytes; result is asked where there
	// are none.
	resultBytes(b array.Builder, acc []uint64, value []byte)
}

// orderedAggregate is an aggregateFunc whose result depends on the order of the
// rows: accColumn.order tells it.
type orderedAggregate interface {
	aggregateFunc
	ordered()
}

// nullAggregate is an aggregateFunc whose update gets nulls as well.
type nullAggregate interface {
	aggregateFunc
	nulls()
}

// newAggregateFunc makes the function that a calls for.
func newAggregateFunc(a *expr.Aggregate) (aggregateFunc, error) {
	if a.Star || a.Func == "count" {
		return countFunc{}, nil
	}
	arg := a.Arg.Type()
	switch a.Func {
	case "sum", "avg":
		return newSumFunc(a.Func, arg, a.Type)
	case "avg_int":
		return intAvgFunc{}, nil
	case "min", "max":
		return newExtremeFunc(a.Func, arg)
	case "stddev_pop", "stddev_samp", "var_pop", "var_samp":
		return newSpreadFunc(a), nil
	case "bool_and", "bool_or":
		return boolFunc{or: a.Func == "bool_or"}, nil
	case "bit_and":
		return bitFunc{bitAnd}, nil
	case "bit_or":
		return bitFunc{bitOr}, nil
	case "bit_xor":
		return bitFunc{bitXor}, nil
	case "approx_percentile":
		return approxPercentileFunc{a.Quantile}, nil
	}
	kind, err := sortKindOf(arg)
	if err != nil {
		return nil, fmt.Errorf("%s of %s is not supported", a.Func, dataflow.TypeName(arg))
	}
	return newValueFunc(a, kind)
}

// newValueFunc makes the functions that keep values as they are.
func newValueFunc(a *expr.Aggregate, kind keyKind) (aggregateFunc, error) {
	values := valuesFunc{kind: kind, desc: a.Desc}
	switch a.Func {
	case "first", "last":
		return firstFunc{kind: kind, last: a.Func == "last"}, nil
	case "array_agg":
		return arrayFunc{listFunc{kind}}, nil
	case "string_agg":
		return textsFunc{listFunc{kind}, a.Separator}, nil
	case "percentile_cont":
		return percentileContFunc{values, a.Quantile}, nil
	case "percentile_disc":
		return percentileDiscFunc{values, a.Quantile}, nil
	case "mode":
		return modeFunc{values}, nil
	case "approx_count_distinct":
		return approxCountFunc{kind}, nil
	}
	return nil, fmt.Errorf("aggregate %s is not available", a.Func)
}

// accHeap keeps the byte parts of one aggregate's accumulators.
type accHeap struct{ values [][]byte }

// add copies v and returns the word that stands for it.
func (h *accHeap) add(v []byte) uint64 {
	n := len(h.values)
	if n < cap(h.values) {
		h.values = h.values[:n+1]
		h.values[n] = append(h.values[n][:0], v...)
	} else {
		h.values = append(h.values, append([]byte(nil), v...))
	}
	return uint64(n + 1)
}

// at returns the bytes that *word stands for, to be changed in place until the
// next add; it makes them if there are none.
func (h *accHeap) at(word *uint64) *[]byte {
	if *word == 0 {
		*word = h.add(nil)
	}
	return &h.values[*word-1]
}

func (h *accHeap) get(word uint64) []byte { return h.values[word-1] }

func (h *accHeap) set(word uint64, v []byte) {
	h.values[word-1] = append(h.values[word-1][:0], v...)
}

// reset forgets the values and keeps their memory.
func (h *accHeap) reset() { h.values = h.values[:0] }

// accColumn is one aggregate's accumulators in rows of words.
type accColumn struct {
	rows        []uint64
	stride, off int
	heap        *accHeap
	// order is set for an orderedAggregate.
	order *accOrder
}

// at returns where the accumulator of group g starts in rows.
func (c accColumn) at(g uint32) int { return int(g)*c.stride + c.off }

// accLayout says where the accumulators of a step's aggregates lie in a row of
// words, and writes such rows as bytes. The bytes are a format, sent through the
// exchange and kept in the state:
//
//	row = the words of the aggregates in their order, little endian, where the
//	      first word of an aggregate with bytes is 0 (none) or 1
//	      then, of each aggregate with bytes whose word is 1: uvarint of the
//	      length, bytes
type accLayout struct {
	funcs  []aggregateFunc
	offs   []int
	stride int
	bytes  []accBytes
	// scratch holds one decoded row.
	scratch []uint64
}

// accBytes is an aggregate with bytes: its heap has the same index here.
type accBytes struct {
	fn  bytesAggregate
	off int
}

func newAccLayout(funcs []aggregateFunc) *accLayout {
	l := &accLayout{funcs: funcs, offs: make([]int, len(funcs))}
	for i, f := range funcs {
		l.offs[i] = l.stride
		if b, ok := f.(bytesAggregate); ok {
			l.bytes = append(l.bytes, accBytes{b, l.stride})
		}
		l.stride += f.words()
	}
	l.scratch = make([]uint64, l.stride)
	return l
}

// newHeaps makes the heaps that rows of this layout need.
func (l *accLayout) newHeaps() []accHeap { return make([]accHeap, len(l.bytes)) }

// column views aggregate i in rows.
func (l *accLayout) column(i int, rows []uint64, heaps []accHeap) accColumn {
	c := accColumn{rows: rows, stride: l.stride, off: l.offs[i]}
	for h := range l.bytes {
		if l.bytes[h].off == c.off {
			c.heap = &heaps[h]
		}
	}
	return c
}

// encode appends row to dst.
func (l *accLayout) encode(dst []byte, row []uint64, heaps []accHeap) []byte {
	start := len(dst)
	for _, w := range row {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	for h, b := range l.bytes {
		if w := row[b.off]; w != 0 {
			binary.LittleEndian.PutUint64(dst[start+8*b.off:], 1)
			v := heaps[h].get(w)
			dst = binary.AppendUvarint(dst, uint64(len(v)))
			dst = append(dst, v...)
		}
	}
	return dst
}

var errAccShort = errors.New("accumulators end early")

// merge adds an encoded row to row.
func (l *accLayout) merge(row []uint64, heaps []accHeap, enc []byte) error {
	if len(enc) < 8*l.stride {
		return errAccShort
	}
	src := l.scratch
	for i := range src {
		src[i] = binary.LittleEndian.Uint64(enc[8*i:])
	}
	for i, f := range l.funcs {
		off := l.offs[i]
		f.merge(row[off:], src[off:])
	}
	enc = enc[8*l.stride:]
	for h, b := range l.bytes {
		if src[b.off] == 0 {
			continue
		}
		n, w := binary.Uvarint(enc)
		if w <= 0 || n > uint64(len(enc)-w) {
			return errAccShort
		}
		b.fn.mergeBytes(row[b.off:], &heaps[h], enc[w:w+int(n)])
		enc = enc[w+int(n):]
	}
	if len(enc) != 0 {
		return fmt.Errorf("%d bytes after the accumulators", len(enc))
	}
	return nil
}

// result appends the value of aggregate i in row to b.
func (l *accLayout) result(i int, b array.Builder, row []uint64, heaps []accHeap) *dataflow.Bad {
	off := l.offs[i]
	f, ok := l.funcs[i].(bytesAggregate)
	if !ok {
		return l.funcs[i].result(b, row[off:])
	}
	if row[off] == 0 {
		return f.result(b, row[off:])
	}
	for h := range l.bytes {
		if l.bytes[h].off == off {
			f.resultBytes(b, row[off:], heaps[h].get(row[off]))
		}
	}
	return nil
}
