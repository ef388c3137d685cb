package operators

import (
	"encoding/binary"
	"math"
	"sort"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// approxPercentileFunc is approx_percentile of float64: it counts values in
// buckets that share sign, exponent and the first 6 bits of the mantissa, and
// answers with the middle of the bucket that percentile_disc's value is in, at
// most 1/128 (0.8%) of the value away; never outside the least and greatest
// value. The result depends on the values alone, not on how they were merged.
//
// Accumulator: a word for the bytes beside it; the least value (as in keys, bits
// flipped), the greatest. The bytes are entries of 12 bytes in ascending order:
// the bucket (4 bytes, big endian), how many values it has (8 bytes).
type approxPercentileFunc struct{ quantile float64 }

const (
	approxEntry = 12
	// approxShift leaves sign, exponent and 6 bits of the mantissa.
	approxShift = 52 - 6
)

func (approxPercentileFunc) words() int { return 3 }

func (f approxPercentileFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	values := arg.(*array.Float64).Float64Values()
	for i, g := range groups {
		if g == 0 {
			continue
		}
		// Numbers in their order: the bucket is what their first bits are.
		bits := keyFloat64Bits(values[i])
		r := acc.rows[acc.at(g):]
		r[1], r[2] = max(r[1], ^bits), max(r[2], bits)
		f.add(acc.heap.at(&r[0]), uint32(bits>>approxShift), 1)
	}
}

func (approxPercentileFunc) add(v *[]byte, bucket uint32, n uint64) {
	b := *v
	i := approxEntry * sort.Search(len(b)/approxEntry, func(i int) bool { return binary.BigEndian.Uint32(b[approxEntry*i:]) >= bucket })
	if i == len(b) || binary.BigEndian.Uint32(b[i:]) != bucket {
		var fresh [approxEntry]byte
		binary.BigEndian.PutUint32(fresh[:], bucket)
		b = append(b, fresh[:]...)
		copy(b[i+approxEntry:], b[i:])
		copy(b[i:], fresh[:])
		*v = b
	}
	binary.BigEndian.PutUint64(b[i+4:], binary.BigEndian.Uint64(b[i+4:])+n)
}

func (approxPercentileFunc) merge(dst, src []uint64) {
	dst[1], dst[2] = max(dst[1], src[1]), max(dst[2], src[2])
}

func (f approxPercentileFunc) mergeBytes(dst []uint64, heap *accHeap, value []byte) {
	v := heap.at(&dst[0])
	for ; len(value) >= approxEntry; value = value[approxEntry:] {
		f.add(v, binary.BigEndian.Uint32(value), binary.BigEndian.Uint64(value[4:]))
	}
}

func (approxPercentileFunc) result(b array.Builder, _ []uint64) *dataflow.Bad {
	b.AppendNull()
	return nil
}

func (f approxPercentileFunc) resultBytes(b array.Builder, acc []uint64, v []byte) {
	n := uint64(0)
	for e := v; len(e) >= approxEntry; e = e[approxEntry:] {
		n += binary.BigEndian.Uint64(e[4:])
	}
	at := max(uint64(math.Ceil(f.quantile*float64(n))), 1)
	bucket := uint32(0)
	for e := v; len(e) >= approxEntry; e = e[approxEntry:] {
		bucket = binary.BigEndian.Uint32(e)
		c := binary.BigEndian.Uint64(e[4:])
		if at <= c {
			break
		}
		at -= c
	}
	b.(*array.Float64Builder).Append(keyFloat64From(min(max(approxMiddle(bucket), ^acc[1]), acc[2])))
}

// approxMiddle is the middle of a bucket, as in keys. Zero, infinities and NaN
// have buckets of their own, zero shares it with the least positive numbers.
func approxMiddle(bucket uint32) uint64 {
	for _, x := range []float64{0, math.Inf(1), math.Inf(-1), math.NaN()} {
		if bits := keyFloat64Bits(x); uint32(bits>>approxShift) == bucket {
			return bits
		}
	}
	return uint64(bucket)<<approxShift | 1<<(approxShift-1)
}
