package operators

import (
	"fmt"
	"math"
	"math/big"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// floatSpreadFunc works on float32 and float64. It keeps the sums of values and
// of squares in twice the precision (pairs of float64), so that neither the
// order of rows and merges nor a mean far above the spread shows: n*squares and
// sum^2 may agree in their first 20 digits and still give 12 right ones.
// Accumulator: the bits of the sum (high, low part), of the sum of squares
// (high, low part); the count of values that are not finite; the count of all.
type floatSpreadFunc struct{ spread }

func (floatSpreadFunc) words() int { return 6 }

func (floatSpreadFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	switch a := arg.(type) {
	case *array.Float32:
		spreadFloats(acc, groups, a.Float32Values())
	case *array.Float64:
		spreadFloats(acc, groups, a.Float64Values())
	}
}

func spreadFloats[T float32 | float64](acc accColumn, groups []uint32, values []T) {
	for i, g := range groups {
		r := acc.rows[acc.at(g):]
		r = r[:6]
		r[5]++
		v := float64(values[i])
		if v-v != 0 {
			r[4]++
			continue
		}
		addPair(r[:2], v, 0)
		square := v * v
		addPair(r[2:4], square, math.FMA(v, v, -square))
	}
}

// addPair adds hi+lo to the pair of float64 in r (Dekker's addition).
func addPair(r []uint64, hi, lo float64) {
	a := math.Float64frombits(r[0])
	s := a + hi
	bv := s - a
	err := (a - (s - bv)) + (hi - bv)
	err += math.Float64frombits(r[1]) + lo
	sum := s + err
	r[0], r[1] = math.Float64bits(sum), math.Float64bits(err-(sum-s))
}

func (floatSpreadFunc) merge(dst, src []uint64) {
	for i := 0; i < 4; i += 2 {
		addPair(dst[i:i+2], math.Float64frombits(src[i]), math.Float64frombits(src[i+1]))
	}
	dst[4] += src[4]
	dst[5] += src[5]
}

func (f floatSpreadFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	n := acc[5]
	out := b.(*array.Float64Builder)
	switch {
	case n == 0 || f.samp && n == 1:
		out.AppendNull()
		return nil
	case acc[4] > 0:
		out.Append(math.NaN())
		return nil
	}
	squares := math.Float64frombits(acc[2])
	if squares-squares != 0 {
		out.AppendNull()
		return &dataflow.Bad{Reason: aggregateOverflow, Detail: fmt.Sprintf("the squares of %d values do not fit float64", n)}
	}
	const precision = 320
	pair := func(hi, lo uint64) *big.Float {
		x := new(big.Float).SetPrec(precision).SetFloat64(math.Float64frombits(hi))
		return x.Add(x, new(big.Float).SetFloat64(math.Float64frombits(lo)))
	}
	count := new(big.Float).SetPrec(precision).SetUint64(n)
	sum, sq := pair(acc[0], acc[1]), pair(acc[2], acc[3])
	v := sq.Sub(sq.Mul(sq, count), sum.Mul(sum, sum))
	if v.Sign() <= 0 {
		out.Append(0)
		return nil
	}
	den := new(big.Float).SetPrec(precision).SetUint64(n)
	if f.samp {
		den.SetUint64(n - 1)
	}
	v.Quo(v, den.Mul(den, count))
	if f.root {
		v.Sqrt(v)
	}
	x, _ := v.Float64()
	out.Append(x)
	return nil
}
