package operators

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// boolFunc is bool_and and bool_or. Accumulator: bit 0 if there was a false, bit
// 1 if there was a true.
type boolFunc struct{ or bool }

func (boolFunc) words() int { return 1 }

func (boolFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	a := arg.(*array.Boolean)
	for i, g := range groups {
		bit := uint64(1)
		if a.Value(i) {
			bit = 2
		}
		acc.rows[acc.at(g)] |= bit
	}
}

func (boolFunc) merge(dst, src []uint64) { dst[0] |= src[0] }

func (f boolFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	switch {
	case acc[0] == 0:
		b.AppendNull()
	case f.or:
		b.(*array.BooleanBuilder).Append(acc[0]&2 != 0)
	default:
		b.(*array.BooleanBuilder).Append(acc[0]&1 == 0)
	}
	return nil
}

// bitKind is which bits an aggregate of bits combines how.
type bitKind uint8

const (
	bitAnd bitKind = iota
	bitOr
	bitXor
)

// bitFunc is bit_and, bit_or and bit_xor of int32 and int64. Accumulator: 1 if
// there is a value; the bits, those of bit_and flipped, so that none is 0.
type bitFunc struct{ kind bitKind }

func (bitFunc) words() int { return 2 }

func (f bitFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	switch a := arg.(type) {
	case *array.Int32:
		combineBits(f, acc, groups, a.Int32Values())
	case *array.Int64:
		combineBits(f, acc, groups, a.Int64Values())
	}
}

func combineBits[T int32 | int64](f bitFunc, acc accColumn, groups []uint32, values []T) {
	for i, g := range groups {
		v := uint64(values[i])
		if f.kind == bitAnd {
			v = ^v
		}
		f.add(acc.rows[acc.at(g):], v)
	}
}

func (f bitFunc) add(r []uint64, v uint64) {
	r[0] = 1
	if f.kind == bitXor {
		r[1] ^= v
	} else {
		r[1] |= v
	}
}

func (f bitFunc) merge(dst, src []uint64) {
	if src[0] != 0 {
		f.add(dst, src[1])
	}
}

func (f bitFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	if acc[0] == 0 {
		b.AppendNull()
		return nil
	}
	v := acc[1]
	if f.kind == bitAnd {
		v = ^v
	}
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(int64(v))
	}
	return nil
}
