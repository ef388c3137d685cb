package expr

import (
	"math/big"
	"sync"

	"frazil/dataflow"
)

// realBits is the precision of reals on the way to a decimal of 38 digits: 126
// bits, those that a power of a large number loses, and some to spare.
const realBits = 320

func newReal() *big.Float { return new(big.Float).SetPrec(realBits) }

// realOf is the decimal d of scale s.
func realOf(d dec, s int32) *big.Float {
	x := newReal().SetInt(d.big())
	return x.Quo(x, newReal().SetInt(tenTo(s)))
}

// roundReal is x at scale s, rounded half away from zero.
func roundReal(x *big.Float, s int32) (dec, *dataflow.Bad) {
	x = newReal().Mul(x, newReal().SetInt(tenTo(s)))
	half := newReal().SetFloat64(0.5)
	if x.Sign() < 0 {
		half.Neg(half)
	}
	n, _ := x.Add(x, half).Int(nil)
	d, ok := decOfBig(n)
	return d, mustFit(ok, s)
}

var (
	ln2  = sync.OnceValue(func() *big.Float { return lnSeries(newReal().SetInt64(2)) })
	ln10 = sync.OnceValue(func() *big.Float { return ln(newReal().SetInt64(10)) })
)

// ln is the natural logarithm of x > 0: that of x as m * 2^n is ln m + n ln 2.
func ln(x *big.Float) *big.Float {
	m := newReal()
	n := x.MantExp(m) // m is at least 0.5 and less than 1
	if m.Cmp(newReal().SetFloat64(0.7)) < 0 {
		m.SetMantExp(m, 1)
		n--
	}
	r := lnSeries(m)
	if n == 0 {
		return r
	}
	return r.Add(r, newReal().Mul(ln2(), newReal().SetInt64(int64(n))))
}

// lnSeries is the logarithm of an x near 1: roots bring it nearer, and then
// ln x = 2 artanh((x-1)/(x+1)).
func lnSeries(x *big.Float) *big.Float {
	const roots = 10
	x = newReal().Set(x)
	for range roots {
		x.Sqrt(x)
	}
	one := newReal().SetInt64(1)
	z := newReal().Sub(x, one)
	z.Quo(z, newReal().Add(x, one))
	square := newReal().Mul(z, z)
	sum, power := newReal().Set(z), newReal().Set(z)
	for k := int64(3); power.Sign() != 0 && power.MantExp(nil) > sum.MantExp(nil)-realBits; k += 2 {
		power.Mul(power, square)
		sum.Add(sum, newReal().Quo(power, newReal().SetInt64(k)))
	}
	return sum.SetMantExp(sum, roots+1)
}

// exp is e to the power of x, |x| < 100: that of x as r + n ln 2 is exp r * 2^n.
func exp(x *big.Float) *big.Float {
	const halvings = 12
	n, _ := newReal().Quo(x, ln2()).Int64()
	r := newReal().Sub(x, newReal().Mul(ln2(), newReal().SetInt64(n)))
	r.SetMantExp(r, -halvings)
	sum, term := newReal().SetInt64(1), newReal().SetInt64(1)
	for k := int64(1); term.Sign() != 0 && term.MantExp(nil) > -realBits; k++ {
		term.Mul(term, r)
		term.Quo(term, newReal().SetInt64(k))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(n))
}
