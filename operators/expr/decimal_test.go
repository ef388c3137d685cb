package expr

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// randomDec is of every length, also the extremes.
func randomDec(rnd *rand.Rand) dec {
	x := new(big.Int).SetUint64(rnd.Uint64())
	x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(rnd.Uint64()))
	x.Rem(x, pow10[1+rnd.IntN(38)].big())
	switch rnd.IntN(20) {
	case 0: // products and quotients at the edges of 64 and 128 bits
		x.Rsh(x, uint(max(0, x.BitLen()-60-rnd.IntN(8))))
	case 1:
		x = pow10[rnd.IntN(38)].big()
		x.Sub(x, big.NewInt(int64(rnd.IntN(3)-1)))
	}
	if rnd.IntN(2) == 0 {
		x.Neg(x)
	}
	d, _ := decOfBig(x)
	return d
}

// roundQuo is a / b rounded half away from zero.
func roundQuo(a, b *big.Int) *big.Int {
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	if r.Abs(r).Lsh(r, 1).CmpAbs(b) >= 0 {
		q.Add(q, big.NewInt(int64(a.Sign()*b.Sign())))
	}
	return q
}

func TestDecimalsAgreeWithBigIntegers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(38), nil)
	check := func(what string, a, b dec, k int32, got dec, ok bool, want *big.Int) {
		fits := want.CmpAbs(limit) < 0
		if ok != fits || ok && got.big().Cmp(want) != 0 {
			t.Fatalf("seed %d: %s of %s, %s and %d: got %s %v, want %s", seed, what, a.big(), b.big(), k, got.big(), ok, want)
		}
	}
	for range 200000 {
		a, b := randomDec(rnd), randomDec(rnd)
		k := rnd.Int32N(45)
		x, y := a.big(), b.big()
		p := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(k)), nil)
		sum, ok := a.add(b)
		check("sum", a, b, 0, sum, ok, new(big.Int).Add(x, y))
		mul, ok := a.mul(b)
		check("product", a, b, 0, mul, ok, new(big.Int).Mul(x, y))
		check("shrink", a, b, k, a.shrink(k, true), true, roundQuo(x, p))
		check("cut", a, b, k, a.shrink(k, false), true, new(big.Int).Quo(x, p))
		if a.cmp(b) != x.Cmp(y) {
			t.Fatalf("seed %d: compare %s and %s", seed, x, y)
		}
		s, u := rnd.Int32N(39), rnd.Int32N(39)
		xs := new(big.Int).Mul(x, pow10[38-s].big())
		ys := new(big.Int).Mul(y, pow10[38-u].big())
		if compareScaled(a, s, b, u) != xs.Cmp(ys) {
			t.Fatalf("seed %d: compare %s at %d and %s at %d", seed, x, s, y, u)
		}
		if b.zero() {
			continue
		}
		div, ok := a.div(b, k)
		check("quotient", a, b, k, div, ok, roundQuo(new(big.Int).Mul(x, p), y))
		check("rest", a, b, 0, a.rem(b), true, new(big.Int).Rem(x, y))
		text := string(appendDec(nil, a, s))
		back, bad := parseDecimalAs(text, decimalType(38, s))
		if bad != nil || back != a {
			t.Fatalf("seed %d: %s at %d reads back as %s, %v", seed, text, s, back.big(), bad)
		}
	}
}

func TestDaysAgreeWithTheStandardLibrary(t *testing.T) {
	for d := int64(-800000); d < 3000000; d += 17 {
		y, m, day := dateOf(d)
		w := time.Unix(d*86400, 0).UTC()
		if int(y) != w.Year() || int(m) != int(w.Month()) || int(day) != w.Day() || daysOf(y, m, day) != d {
			t.Fatalf("day %d: got %d-%d-%d, want %s", d, y, m, day, w)
		}
		wy, ww := w.ISOWeek()
		if iy, iw := isoWeek(d); int(iy) != wy || int(iw) != ww {
			t.Fatalf("day %d: ISO week %d-%d, want %d-%d", d, iy, iw, wy, ww)
		}
	}
}
