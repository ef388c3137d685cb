package expr

import (
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// The slow functions here compute with integers and reals of math/big and new memory for
// every step, so that they are plain; those that run are compared with them.

const slowBits = 320

func (d dec) big() *big.Int { return setBig(new(big.Int), d) }

func slowTen(n int32) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

func newReal() *big.Float { return new(big.Float).SetPrec(slowBits) }

func slowReal(d dec, s int32) *big.Float {
	x := newReal().SetInt(d.big())
	return x.Quo(x, newReal().SetInt(slowTen(s)))
}

func slowRound(x *big.Float, s int32) (dec, bool) {
	x = newReal().Mul(x, newReal().SetInt(slowTen(s)))
	half := newReal().SetFloat64(0.5)
	if x.Sign() < 0 {
		half.Neg(half)
	}
	n, _ := x.Add(x, half).Int(nil)
	return decOfBig(n)
}

var (
	slowLn2  = sync.OnceValue(func() *big.Float { return slowSeries(newReal().SetInt64(2)) })
	slowLn10 = sync.OnceValue(func() *big.Float { return slowLn(newReal().SetInt64(10)) })
)

func slowLn(x *big.Float) *big.Float {
	m := newReal()
	n := x.MantExp(m) // m is at least 0.5 and less than 1
	if m.Cmp(newReal().SetFloat64(0.7)) < 0 {
		m.SetMantExp(m, 1)
		n--
	}
	r := slowSeries(m)
	if n == 0 {
		return r
	}
	return r.Add(r, newReal().Mul(slowLn2(), newReal().SetInt64(int64(n))))
}

// slowSeries is the logarithm of an x near 1: roots bring it nearer, and then
// ln x = 2 artanh((x-1)/(x+1)).
func slowSeries(x *big.Float) *big.Float {
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
	for k := int64(3); power.Sign() != 0 && power.MantExp(nil) > sum.MantExp(nil)-slowBits; k += 2 {
		power.Mul(power, square)
		sum.Add(sum, newReal().Quo(power, newReal().SetInt64(k)))
	}
	return sum.SetMantExp(sum, roots+1)
}

// slowExp is e to the power of x, |x| < 100: that of x as r + n ln 2 is exp r * 2^n.
func slowExp(x *big.Float) *big.Float {
	const halvings = 12
	n, _ := newReal().Quo(x, slowLn2()).Int64()
	r := newReal().Sub(x, newReal().Mul(slowLn2(), newReal().SetInt64(n)))
	r.SetMantExp(r, -halvings)
	sum, term := newReal().SetInt64(1), newReal().SetInt64(1)
	for k := int64(1); term.Sign() != 0 && term.MantExp(nil) > -slowBits; k++ {
		term.Mul(term, r)
		term.Quo(term, newReal().SetInt64(k))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(n))
}

func slowExpDec(x *big.Float, to int32) (dec, bool) {
	switch f, _ := x.Float64(); {
	case f > 90: // more than 38 digits
		return dec{}, false
	case f < -90:
		return dec{}, true
	}
	return slowRound(slowExp(x), to)
}

func slowLog(x dec, s int32, base *big.Float, to int32) (dec, bool) {
	l := slowLn(slowReal(x, s))
	if base != nil {
		l.Quo(l, base)
	}
	return slowRound(l, to)
}

func slowPow(x dec, s int32, y dec, t, to int32) (dec, bool) {
	whole := y.shrink(t, false)
	isWhole := compareScaled(whole, 0, y, t) == 0
	if isWhole && whole.small() && whole.lo+200 <= 400 {
		return slowPowWhole(x, s, int64(whole.lo), to)
	}
	odd := isWhole && whole.lo&1 != 0 && x.hi < 0
	if x.hi < 0 {
		x = x.neg()
	}
	l := slowLn(slowReal(x, s))
	r, ok := slowExpDec(l.Mul(l, slowReal(y, t)), to)
	if odd {
		r = r.neg()
	}
	return r, ok
}

func slowPowWhole(x dec, s int32, n int64, to int32) (dec, bool) {
	size := max(n, -n)
	num := new(big.Int).Exp(x.big(), big.NewInt(size), nil)
	den := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(s)*size), nil)
	if n < 0 {
		num, den = den, num
	}
	return decOfBig(roundQuo(num.Mul(num, slowTen(to)), den))
}

func slowSqrt(x dec, s, to int32) (dec, bool) {
	n := x.big()
	n.Mul(n, slowTen(2*to-s))
	q := new(big.Int).Sqrt(n)
	if n.Sub(n, new(big.Int).Mul(q, q)).Cmp(q) > 0 { // more than q and a half
		q.Add(q, big.NewInt(1))
	}
	return decOfBig(q)
}

func slowDiv(x dec, s int32, y dec, t int32) (dec, bool) {
	n, d := x.big(), y.big()
	n.Mul(n, slowTen(t))
	return decOfBig(n.Quo(n, d.Mul(d, slowTen(s))))
}

func slowRest(x dec, s int32, y dec, t int32) (dec, bool) {
	to := max(s, t)
	n, d := x.big(), y.big()
	n.Mul(n, slowTen(to-s))
	return decOfBig(n.Rem(n, d.Mul(d, slowTen(to-t))))
}

func slowBucket(x, lo, hi dec, s [3]int32, k int32) int32 {
	to := max(s[0], s[1], s[2])
	at := func(d dec, s int32) *big.Int { return new(big.Int).Mul(slowTen(to-s), d.big()) }
	l := at(lo, s[1])
	p, w := at(x, s[0]), at(hi, s[2])
	p.Sub(p, l).Mul(p, big.NewInt(int64(k)))
	return int32(p.Quo(p, w.Sub(w, l)).Int64()) + 1
}

// nearRoot is a square, or one more or less, or where its root is nearly halfway.
func nearRoot(rnd *rand.Rand) dec {
	q := rnd.Uint64N(9e18)
	x := new(big.Int).SetUint64(q)
	x.Mul(x, x)
	if rnd.IntN(3) == 0 { // (q + 1/2)^2 is q^2 + q + 1/4
		x.Add(x, new(big.Int).SetUint64(q))
	}
	d, _ := decOfBig(x.Add(x, big.NewInt(rnd.Int64N(3)-1)))
	return d
}

// nearOne is a decimal that is 1, or nearly.
func nearOne(rnd *rand.Rand, s int32) dec {
	d, _ := pow10[min(s, 37)].add(decOf(rnd.Int64N(1 << (1 + rnd.IntN(50)))))
	return d
}

// exactCase is one of random operands.
type exactCase struct {
	x, y  dec
	s, t  int32
	to    int32
	whole bool
}

func randomCase(rnd *rand.Rand) exactCase {
	c := exactCase{x: randomDec(rnd), y: randomDec(rnd), s: rnd.Int32N(39), t: rnd.Int32N(39)}
	switch rnd.IntN(8) {
	case 0:
		c.x = nearRoot(rnd)
	case 1:
		c.x = nearOne(rnd, c.s)
	case 2:
		c.x, c.y = nearOne(rnd, c.s), nearOne(rnd, c.t)
	case 3: // as people write them
		c.x, c.s = decOf(rnd.Int64N(1e6)-1e5), rnd.Int32N(5)
	}
	switch rnd.IntN(4) {
	case 0: // whole
		c.y, c.t = decOf(rnd.Int64N(480)-240), 0
	case 1:
		c.y, c.t = decOf(rnd.Int64N(2e6)-1e6), rnd.Int32N(7)
	}
	c.to = max(wideScale, c.s, c.t)
	return c
}

// compareExact compares what the fast and the slow way say of c.
func (c exactCase) compare(t *testing.T, what string, got dec, fits bool, want dec, wantFits bool) {
	if fits != wantFits || fits && got != want {
		t.Errorf("%s of %s at %d and %s at %d, to %d places: got %s %t, want %s %t", what, c.x.big(), c.s, c.y.big(), c.t, c.to, got.big(), fits, want.big(), wantFits)
	}
}

// TestDecimalFunctionsAreExact compares the functions of decimals with the slow ones.
func TestDecimalFunctionsAreExact(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	w := new(wide)
	one := func(c exactCase, what string, f decFunc, slow func() (dec, bool)) {
		got, bad := f(w, c.x, c.s, c.to)
		want, fits := slow()
		c.compare(t, what, got, bad == nil, want, fits)
	}
	two := func(c exactCase, what string, f decsFunc, slow func() (dec, bool)) {
		got, bad := f(w, c.x, c.s, c.y, c.t, c.to)
		want, fits := slow()
		c.compare(t, what, got, bad == nil, want, fits)
	}
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	for range rounds {
		c := randomCase(rnd)
		if !c.y.zero() {
			two(c, "div", divWhole, func() (dec, bool) { return slowDiv(c.x, c.s, c.y, c.t) })
			got := remScaled(c.x, c.s, c.y, c.t)
			want, fits := slowRest(c.x, c.s, c.y, c.t)
			c.compare(t, "rest", got, true, want, fits)
		}
		if !c.x.zero() && (c.x.hi >= 0 || c.t == 0) {
			two(c, "power", powDec, func() (dec, bool) { return slowPow(c.x, c.s, c.y, c.t, c.to) })
		}
		e := c
		e.x, e.s = c.y, c.t
		one(e, "exp", expDec, func() (dec, bool) { return slowExpDec(slowReal(e.x, e.s), e.to) })
		if c.x.hi < 0 || c.x.zero() {
			continue
		}
		one(c, "sqrt", sqrtDec, func() (dec, bool) { return slowSqrt(c.x, c.s, c.to) })
		one(c, "ln", lnDec, func() (dec, bool) { return slowLog(c.x, c.s, nil, c.to) })
		one(c, "log", logDec, func() (dec, bool) { return slowLog(c.x, c.s, slowLn10(), c.to) })
		if c.y.hi >= 0 && !c.y.zero() && compareScaled(c.x, c.s, decOf(1), 0) != 0 {
			two(c, "log to a base", logBase, func() (dec, bool) { return slowLog(c.y, c.t, slowLn(slowReal(c.x, c.s)), c.to) })
		}
		lo, hi := randomDec(rnd), randomDec(rnd)
		s := [3]int32{c.s, c.t, rnd.Int32N(39)}
		if k := 1 + rnd.Int32N(1000); compareScaled(lo, s[1], c.x, s[0]) < 0 && compareScaled(c.x, s[0], hi, s[2]) < 0 {
			if got, want := bucketBig(c.x, lo, hi, s, k), slowBucket(c.x, lo, hi, s, k); got != want {
				t.Errorf("bucket of %s from %s to %s at %v of %d: got %d, want %d", c.x.big(), lo.big(), hi.big(), s, k, got, want)
			}
		}
	}
}
