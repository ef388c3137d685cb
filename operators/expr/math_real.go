package expr

import (
	"math"
	"math/big"
	"sync"

	"frazil/dataflow"
)

// Reals on the way to a decimal of 38 digits are whole numbers of 2^-realBits: 126 bits for
// the digits, as many that the exponent of a power takes, and as many to spare as tell what
// is halfway between two decimals from what only seems so, as exp(-1e-19) at 38 places does.
const realBits = 448

// expBits are those of e to the power of what is less than one.
const expBits = 320

// mostLog is the largest whole number of which there is a logarithm in logs.
const mostLog = 256

// logs are the natural logarithms of 1 to mostLog as reals: that of n is that of n-1 and
// 2 artanh(1/(2n-1)).
var logs = sync.OnceValue(func() *[mostLog + 1]big.Int {
	const spare = 32 // bits, for what sums lose
	var t [mostLog + 1]big.Int
	sum, term := new(big.Int), new(big.Int)
	for n := int64(2); n <= mostLog; n++ {
		q := big.NewInt(2*n - 1)
		power := new(big.Int).Lsh(bigOne, realBits+spare+1)
		power.Quo(power, q)
		q.Mul(q, q)
		for k := int64(1); power.Sign() != 0; k += 2 {
			sum.Add(sum, term.Quo(power, big.NewInt(k)))
			power.Quo(power, q)
		}
		t[n].Rsh(sum, spare)
	}
	return &t
})

// smallBigs are the divisors of series.
var smallBigs = func() (t [128]*big.Int) {
	for i := range t {
		t[i] = big.NewInt(int64(i))
	}
	return
}()

// ln makes z the natural logarithm of n / 10^s as a real; n > 0. With n as m * 2^k and m
// from 1 to 2 it is ln m + k ln 2 - s ln 10, and a j for which m * j / 256 is nearly 1 leaves
// of ln m a short series.
func (w *wide) ln(z, n *big.Int, s int32) *big.Int {
	logs := logs()
	k := n.BitLen() - 1
	m := w.x.Lsh(n, uint(realBits-k))
	top := w.t.Rsh(m, realBits-62).Int64() // 2^62 to 2^63
	j := int64(math.Round(mostLog * (1 << 62) / float64(top)))
	m.Mul(w.t.Set(m), w.y.SetInt64(j)).Rsh(m, 8)
	m.Sub(m, w.y.Lsh(bigOne, realBits))
	w.lnNear(z, m)
	z.Sub(z, &logs[j])
	z.Add(z, w.t.Mul(&logs[2], w.y.SetInt64(int64(k+8))))
	return z.Sub(z, w.t.Mul(&logs[10], w.y.SetInt64(int64(s))))
}

// lnNear makes z the logarithm of 1 + d for a small d: 2 artanh(d/(2+d)).
func (w *wide) lnNear(z, d *big.Int) {
	minus := d.Sign() < 0
	w.y.Add(d, w.t.Lsh(bigOne, realBits+1))
	w.t.Abs(d)
	w.t.Lsh(&w.t, realBits+1)
	w.power.QuoRem(&w.t, &w.y, &w.rest) // twice the quotient, as the whole series is
	w.t.Mul(&w.power, &w.power)
	w.square.Rsh(&w.t, realBits+2)
	z.SetInt64(0)
	for k := 1; w.power.Sign() != 0; k += 2 {
		w.term.QuoRem(&w.power, smallBigs[k], &w.rest)
		z.Add(z, &w.term)
		w.t.Mul(&w.power, &w.square)
		w.power.Rsh(&w.t, realBits)
	}
	if minus {
		z.Neg(z)
	}
}

// float is the real x, of which less than 2^10 is the whole part.
func (w *wide) float(x *big.Int) float64 {
	return math.Ldexp(float64(w.t.Rsh(x, realBits-52).Int64()), -52)
}

// exp makes z such that e to the power of the real x, |x| < 128, is z * 2^-down. It is e to
// the power of what is left over from whole numbers of ln 2 and from the logarithm of a j / 128,
// times these.
func (w *wide) exp(z, x *big.Int) (down int) {
	logs := logs()
	n := int64(math.Floor(w.float(x) / math.Ln2))
	w.x.Sub(x, w.t.Mul(&logs[2], w.y.SetInt64(n-7)))
	j := int64(math.Exp(w.float(&w.x)))
	w.y.Sub(&w.x, &logs[j])
	for w.y.Sign() < 0 { // by as much as a float is off
		j--
		w.y.Sub(&w.x, &logs[j])
	}
	r := w.x.Rsh(&w.y, realBits-expBits)
	z.Lsh(bigOne, expBits)
	w.power.Set(z)
	for k := 1; ; k++ {
		w.t.Mul(&w.power, r)
		w.t.Rsh(&w.t, expBits)
		w.power.QuoRem(&w.t, smallBigs[k], &w.rest)
		if w.power.Sign() == 0 {
			break
		}
		z.Add(z, &w.power)
	}
	z.Mul(w.t.Set(z), w.y.SetInt64(j))
	return expBits + 7 - int(n)
}

// nearBits are those behind the point that a result is rounded by.
const nearBits = 128

// roundReal is x * 2^-nearBits rounded half up; x is not negative, and is changed. What is
// nearer to a half than reals are right can only be one, and is rounded as one; near says so.
func roundReal(x *big.Int) (d dec, near, ok bool) {
	x.Add(x, bigHalf)
	switch b := x.Bits(); {
	case b[1] == math.MaxUint64 && b[0] == math.MaxUint64:
		near = true
		x.Add(x, bigOne)
	case b[1] == 0 && b[0] == 0:
		near = true
	}
	d, ok = decOfBig(x.Rsh(x, nearBits))
	return d, near, ok
}

var bigHalf = new(big.Int).Lsh(bigOne, nearBits-1)

// lnDec is the logarithm of n / 10^s at scale to.
func (w *wide) lnDec(n *big.Int, s, to int32) (dec, *dataflow.Bad) {
	w.ln(&w.a, n, s)
	minus := w.a.Sign() < 0
	w.b.Mul(w.a.Abs(&w.a), bigTens[to])
	return signedReal(w.b.Rsh(&w.b, realBits-nearBits), minus, to)
}

// quoDec is the quotient of two logarithms at scale to; it changes them.
func (w *wide) quoDec(a, b *big.Int, to int32) (dec, *dataflow.Bad) {
	minus := a.Sign()*b.Sign() < 0
	w.t.Mul(a.Abs(a), bigTens[to])
	w.y.Lsh(&w.t, nearBits)
	w.t.QuoRem(&w.y, b.Abs(b), &w.rest)
	return signedReal(&w.t, minus, to)
}

func signedReal(x *big.Int, minus bool, to int32) (dec, *dataflow.Bad) {
	d, _, ok := roundReal(x)
	if minus {
		d = d.neg()
	}
	return d, mustFit(ok, to)
}

// expDec is e to the power of the real x at scale to. near is as with roundReal.
func (w *wide) expDec(x *big.Int, to int32) (d dec, near, ok bool) {
	if x.BitLen() > realBits+7 { // 128 or more
		if x.Sign() < 0 {
			return dec{}, false, true
		}
		return dec{}, false, false
	}
	down := w.exp(&w.a, x)
	w.t.Mul(&w.a, bigTens[to])
	return roundReal(w.a.Rsh(&w.t, uint(down-nearBits)))
}
