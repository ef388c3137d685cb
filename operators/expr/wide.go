package expr

import (
	"math"
	"math/big"
	"math/bits"
	"sync"
)

// wide holds registers for whole numbers of any length. Their memory stays, so that rows
// need none of their own: what a method of wide computes is written to a register that its
// caller names, and never to one of its operands.
type wide struct {
	a, b, c, x, y, t, rest, square, power, term big.Int
}

var wides = sync.Pool{New: func() any { return new(wide) }}

// The registers are filled from 64 bits at a time.
const _ = uint(bits.UintSize - 64)

// setBig makes z the unscaled value of d.
func setBig(z *big.Int, d dec) *big.Int {
	hi, lo, negative := d.abs()
	z.SetBits(append(z.Bits()[:0], big.Word(lo), big.Word(hi)))
	if negative {
		z.Neg(z)
	}
	return z
}

// decOfBig is x as a decimal; ok is false if it has more than 38 digits.
func decOfBig(x *big.Int) (d dec, ok bool) {
	if x.BitLen() > 127 {
		return dec{}, false
	}
	var w [2]uint64
	for i, b := range x.Bits() {
		w[i] = uint64(b)
	}
	d = signed(w[1], w[0], x.Sign() < 0)
	return d, d.fits(38)
}

// bigTens holds 10^0 to 10^76, and what else is small.
var bigTens = func() (t [77]*big.Int) {
	t[0] = big.NewInt(1)
	for i := 1; i < len(t); i++ {
		t[i] = new(big.Int).Mul(t[i-1], big.NewInt(10))
	}
	return
}()

var bigOne = bigTens[0]

// quoHalf makes z the quotient a / b rounded half away from zero; b > 0.
func (w *wide) quoHalf(z, a, b *big.Int) *big.Int {
	z.QuoRem(a, b, &w.rest)
	w.rest.Abs(&w.rest)
	if w.rest.Lsh(&w.rest, 1).Cmp(b) >= 0 {
		if a.Sign() < 0 {
			return z.Sub(z, bigOne)
		}
		z.Add(z, bigOne)
	}
	return z
}

// pow makes z the power n > 0 of x > 0.
func (w *wide) pow(z, x *big.Int, n uint64) *big.Int {
	z.Set(x)
	for i := bits.Len64(n) - 2; i >= 0; i-- {
		w.t.Mul(z, z)
		if n>>uint(i)&1 != 0 {
			z.Mul(&w.t, x)
		} else {
			z.Set(&w.t)
		}
	}
	return z
}

// root makes z the square root of n >= 0 rounded to the nearest whole number.
func (w *wide) root(z, n *big.Int) *big.Int {
	if n.Sign() == 0 {
		return z.SetInt64(0)
	}
	// An estimate from above, of 52 bits, which Newton's steps double until they fall no more.
	shift := uint(max(0, n.BitLen()-64)+1) &^ 1
	top := w.t.Rsh(n, shift).Uint64()
	z.SetUint64(uint64(math.Sqrt(float64(top))) + 2048)
	if shift == 0 {
		z.SetUint64(uint64(math.Sqrt(float64(top))) + 1)
	}
	z.Lsh(z, shift/2)
	for {
		w.t.QuoRem(n, z, &w.rest)
		if w.t.Cmp(z) >= 0 {
			break
		}
		z.Add(z, &w.t).Rsh(z, 1)
	}
	w.square.Mul(z, z)
	if w.t.Sub(n, &w.square).Cmp(z) > 0 { // more than a half more
		z.Add(z, bigOne)
	}
	return z
}
