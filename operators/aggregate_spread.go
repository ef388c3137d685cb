package operators

import (
	"math/big"
	"math/bits"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// spread is which measure of spread is asked for.
type spread struct {
	samp bool // of a sample: divided by n-1, null for one value
	root bool // the standard deviation, otherwise the variance
}

// newSpreadFunc makes stddev_ and var_pop and _samp. Results of integers and
// decimals are decimals with 16 places (decimals with more keep theirs), exact
// but for the last rounding, half away from zero; of floats they are float64.
func newSpreadFunc(a *expr.Aggregate) aggregateFunc {
	s := spread{
		samp: a.Func == "stddev_samp" || a.Func == "var_samp",
		root: a.Func == "stddev_samp" || a.Func == "stddev_pop",
	}
	result, ok := a.Type.(*arrow.Decimal128Type)
	if !ok {
		return floatSpreadFunc{s}
	}
	if arg, ok := a.Arg.Type().(*arrow.Decimal128Type); ok {
		return decimalSpreadFunc{decimalSpread{s, int(arg.Scale), int(result.Scale)}}
	}
	return intSpreadFunc{decimalSpread{s, 0, int(result.Scale)}}
}

// decimalSpread makes results of exact sums.
type decimalSpread struct {
	spread
	argScale, scale int
}

var bigTen = big.NewInt(10)

// append appends the result for n values with the unscaled sums sum and squares.
func (s decimalSpread) append(b array.Builder, n uint64, sum, squares *big.Int) *dataflow.Bad {
	if n == 0 || s.samp && n == 1 {
		b.AppendNull()
		return nil
	}
	count := new(big.Int).SetUint64(n)
	// The variance is (n * squares - sum^2) / (n * (n-1)), n*n for a population.
	num := new(big.Int).Mul(count, squares)
	num.Sub(num, new(big.Int).Mul(sum, sum))
	den := new(big.Int).Set(count)
	if s.samp {
		den.Mul(den, new(big.Int).SetUint64(n-1))
	} else {
		den.Mul(den, count)
	}
	scale := s.scale - 2*s.argScale
	if s.root {
		scale += s.scale // the root halves it again
	}
	power := new(big.Int).Exp(bigTen, big.NewInt(int64(max(scale, -scale))), nil)
	if scale >= 0 {
		num.Mul(num, power)
	} else {
		den.Mul(den, power)
	}
	// Rounded half up; nothing here is negative.
	r := num.Lsh(num, 1)
	if s.root {
		r.Lsh(r, 1).Quo(r, den).Sqrt(r)
	} else {
		r.Quo(r, den)
	}
	r.Add(r, big.NewInt(1)).Rsh(r, 1)
	if r.BitLen() > 127 || decimal128.FromBigInt(r).GreaterEqual(tenTo38) {
		b.AppendNull()
		return &dataflow.Bad{Reason: aggregateOverflow, Detail: "the result has more than 38 digits"}
	}
	b.(*array.Decimal128Builder).Append(decimal128.FromBigInt(r))
	return nil
}

// bigWords makes a number of words in two's complement, lowest first.
func bigWords(words []uint64) *big.Int {
	n := new(big.Int)
	for i := len(words) - 1; i >= 0; i-- {
		n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(words[i]))
	}
	if words[len(words)-1]>>63 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(64*len(words))))
	}
	return n
}

// addWords adds src to dst, both in two's complement, lowest word first.
func addWords(dst, src []uint64) {
	var carry uint64
	for i, w := range src {
		dst[i], carry = bits.Add64(dst[i], w, carry)
	}
}

// intSpreadFunc works on int32 and int64. Accumulator: the sum (2 words, two's
// complement, lowest first), the sum of squares (3 words), the count of values.
type intSpreadFunc struct{ decimalSpread }

func (intSpreadFunc) words() int { return 6 }

func (intSpreadFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	switch a := arg.(type) {
	case *array.Int32:
		spreadInts(acc, groups, a.Int32Values())
	case *array.Int64:
		spreadInts(acc, groups, a.Int64Values())
	}
}

func spreadInts[T int32 | int64](acc accColumn, groups []uint32, values []T) {
	for i, g := range groups {
		v := int64(values[i])
		r := acc.rows[acc.at(g):]
		r = r[:6]
		var c uint64
		r[0], c = bits.Add64(r[0], uint64(v), 0)
		r[1] += uint64(v>>63) + c
		abs := uint64(max(v, -v)) // of the least int64 as well
		hi, lo := bits.Mul64(abs, abs)
		r[2], c = bits.Add64(r[2], lo, 0)
		r[3], c = bits.Add64(r[3], hi, c)
		r[4] += c
		r[5]++
	}
}

func (intSpreadFunc) merge(dst, src []uint64) {
	addWords(dst[:2], src[:2])
	addWords(dst[2:5], src[2:5])
	dst[5] += src[5]
}

func (f intSpreadFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	return f.append(b, acc[5], bigWords(acc[:2]), bigWords(acc[2:5]))
}

// decimalSpreadFunc works on decimals. Accumulator: the unscaled sum (3 words,
// two's complement, lowest first), the sum of squares (5 words), the count of
// values.
type decimalSpreadFunc struct{ decimalSpread }

func (decimalSpreadFunc) words() int { return 9 }

func (decimalSpreadFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	values := arg.(*array.Decimal128).Values()
	for i, g := range groups {
		r := acc.rows[acc.at(g):]
		r = r[:9]
		lo, hi := values[i].LowBits(), values[i].HighBits()
		var c uint64
		r[0], c = bits.Add64(r[0], lo, 0)
		r[1], c = bits.Add64(r[1], uint64(hi), c)
		r[2] += uint64(hi>>63) + c
		abs := values[i].Abs()
		a0, a1 := abs.LowBits(), uint64(abs.HighBits())
		// (a1*2^64 + a0)^2 = a1^2*2^128 + 2*a0*a1*2^64 + a0^2
		h0, l0 := bits.Mul64(a0, a0)
		h1, l1 := bits.Mul64(a0, a1)
		h2, l2 := bits.Mul64(a1, a1)
		r[3], c = bits.Add64(r[3], l0, 0)
		r[4], c = bits.Add64(r[4], h0, c)
		r[5], c = bits.Add64(r[5], l2, c)
		r[6], c = bits.Add64(r[6], h2, c)
		r[7] += c
		r[4], c = bits.Add64(r[4], l1<<1, 0)
		r[5], c = bits.Add64(r[5], h1<<1|l1>>63, c)
		r[6], c = bits.Add64(r[6], h1>>63, c)
		r[7] += c
		r[8]++
	}
}

func (decimalSpreadFunc) merge(dst, src []uint64) {
	addWords(dst[:3], src[:3])
	addWords(dst[3:8], src[3:8])
	dst[8] += src[8]
}

func (f decimalSpreadFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	return f.append(b, acc[8], bigWords(acc[:3]), bigWords(acc[3:8]))
}
