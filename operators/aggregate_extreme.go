package operators

import (
	"bytes"
	"fmt"
	"unsafe"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// newExtremeFunc makes min and max. The result has the argument's type. Text
// and binary compare by bytes; NaN is above every number, and a zero is 0
// whatever its sign was, so that the result depends on the set of values only.
func newExtremeFunc(name string, arg arrow.DataType) (aggregateFunc, error) {
	// Both keep the greatest: min of all values with their bits flipped.
	flip := uint64(0)
	if name == "min" {
		flip = ^uint64(0)
	}
	switch arg.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DATE32, arrow.TIME64, arrow.TIMESTAMP:
		return wordExtremeFunc{flip}, nil
	case arrow.DECIMAL128:
		return decimalExtremeFunc{flip}, nil
	case arrow.STRING, arrow.BINARY:
		return bytesExtremeFunc{least: name == "min"}, nil
	}
	return nil, fmt.Errorf("%s of %s is not supported", name, dataflow.TypeName(arg))
}

// wordExtremeFunc is min and max of types that fit one word. Accumulator: 1 if
// there is a value; the value as a word in the order of its type, flipped.
type wordExtremeFunc struct{ flip uint64 }

func (wordExtremeFunc) words() int { return 2 }

func (f wordExtremeFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	switch a := arg.(type) {
	case *array.Int32:
		extremeInts(acc, groups, a.Int32Values(), f.flip)
	case *array.Int64:
		extremeInts(acc, groups, a.Int64Values(), f.flip)
	case *array.Date32:
		extremeInts(acc, groups, a.Date32Values(), f.flip)
	case *array.Time64:
		extremeInts(acc, groups, a.Time64Values(), f.flip)
	case *array.Timestamp:
		extremeInts(acc, groups, a.TimestampValues(), f.flip)
	case *array.Float32:
		extremeFloats(acc, groups, a.Float32Values(), f.flip)
	case *array.Float64:
		extremeFloats(acc, groups, a.Float64Values(), f.flip)
	}
}

func extremeInts[T ~int32 | ~int64](acc accColumn, groups []uint32, values []T, flip uint64) {
	flip ^= 1 << 63
	for i, g := range groups {
		extremeWord(acc.rows[acc.at(g):], uint64(int64(values[i]))^flip)
	}
}

func extremeFloats[T float32 | float64](acc accColumn, groups []uint32, values []T, flip uint64) {
	for i, g := range groups {
		extremeWord(acc.rows[acc.at(g):], keyFloat64Bits(float64(values[i]))^flip)
	}
}

func extremeWord(r []uint64, w uint64) {
	if r[0] == 0 || w > r[1] {
		r[0], r[1] = 1, w
	}
}

func (wordExtremeFunc) merge(dst, src []uint64) {
	if src[0] != 0 {
		extremeWord(dst, src[1])
	}
}

func (f wordExtremeFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	if acc[0] == 0 {
		b.AppendNull()
		return nil
	}
	w := acc[1] ^ f.flip
	i := int64(w ^ 1<<63)
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(i))
	case *array.Int64Builder:
		b.Append(i)
	case *array.Date32Builder:
		b.Append(arrow.Date32(i))
	case *array.Time64Builder:
		b.Append(arrow.Time64(i))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(i))
	case *array.Float32Builder:
		b.Append(float32(keyFloat64From(w)))
	case *array.Float64Builder:
		b.Append(keyFloat64From(w))
	}
	return nil
}

// decimalExtremeFunc is min and max of decimals. Accumulator: 1 if there is a
// value; high and low word of the unscaled value in the order of numbers,
// flipped.
type decimalExtremeFunc struct{ flip uint64 }

func (decimalExtremeFunc) words() int { return 3 }

func (f decimalExtremeFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	values := arg.(*array.Decimal128).Values()
	for i, g := range groups {
		hi, lo := uint64(values[i].HighBits())^1<<63, values[i].LowBits()
		extremeWords(acc.rows[acc.at(g):], hi^f.flip, lo^f.flip)
	}
}

func extremeWords(r []uint64, hi, lo uint64) {
	if r[0] == 0 || hi > r[1] || hi == r[1] && lo > r[2] {
		r[0], r[1], r[2] = 1, hi, lo
	}
}

func (decimalExtremeFunc) merge(dst, src []uint64) {
	if src[0] != 0 {
		extremeWords(dst, src[1], src[2])
	}
}

func (f decimalExtremeFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	if acc[0] == 0 {
		b.AppendNull()
		return nil
	}
	b.(*array.Decimal128Builder).Append(decimal128.New(int64(acc[1]^f.flip^1<<63), acc[2]^f.flip))
	return nil
}

// bytesExtremeFunc is min and max of string and binary. Accumulator: one word
// for the bytes beside it.
type bytesExtremeFunc struct{ least bool }

func (bytesExtremeFunc) words() int { return 1 }

func (f bytesExtremeFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	switch a := arg.(type) {
	case *array.String:
		for i, g := range groups {
			if g != 0 {
				v := a.Value(i)
				f.add(&acc.rows[acc.at(g)], acc.heap, unsafe.Slice(unsafe.StringData(v), len(v)))
			}
		}
	case *array.Binary:
		for i, g := range groups {
			if g != 0 {
				f.add(&acc.rows[acc.at(g)], acc.heap, a.Value(i))
			}
		}
	}
}

// add copies v if it keeps it.
func (f bytesExtremeFunc) add(word *uint64, heap *accHeap, v []byte) {
	if *word == 0 {
		*word = heap.add(v)
		return
	}
	if c := bytes.Compare(v, heap.get(*word)); c < 0 && f.least || c > 0 && !f.least {
		heap.set(*word, v)
	}
}

// merge does nothing: mergeBytes does it.
func (bytesExtremeFunc) merge(dst, src []uint64) {}

func (f bytesExtremeFunc) mergeBytes(dst []uint64, heap *accHeap, value []byte) {
	f.add(&dst[0], heap, value)
}

func (bytesExtremeFunc) result(b array.Builder, _ []uint64) *dataflow.Bad {
	b.AppendNull()
	return nil
}

func (bytesExtremeFunc) resultBytes(b array.Builder, _ []uint64, value []byte) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.BinaryBuilder.Append(value)
	case *array.BinaryBuilder:
		b.Append(value)
	}
}
