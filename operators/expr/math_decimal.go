package expr

import (
	"math/bits"

	"frazil/dataflow"
)

func init() {
	d, f := kDecimal, kInt32
	one := func(t func([]*node) (typ, error), k decFunc, names ...string) {
		for _, n := range names {
			register(function{name: n, args: []kind{d}, result: t, fails: true, kernel: decimalKernel(k)})
		}
	}
	one(rootType, sqrtDec, "sqrt")
	one(realType, expDec, "exp")
	one(realType, lnDec, "ln")
	one(realType, logDec, "log", "log10")
	one(sameType, func(_ *wide, x dec, _, _ int32) (dec, *dataflow.Bad) { return x, nil }, "trim_scale")
	two := func(t func([]*node) (typ, error), k decsFunc, names ...string) {
		for _, n := range names {
			register(function{name: n, args: []kind{d, d}, result: t, fails: true, kernel: decimalsKernel(k)})
		}
	}
	two(realType, logBase, "log")
	two(realType, powDec, "^", "power", "pow")
	two(wholeQuotient, divWhole, "div")
	register(
		function{name: "scale", args: []kind{d}, ret: f, kernel: scaleOf},
		function{name: "min_scale", args: []kind{d}, ret: f, kernel: leastScale})
}

// decFunc computes from x of scale s a decimal of scale to, in registers.
type decFunc func(w *wide, x dec, s, to int32) (dec, *dataflow.Bad)

// decsFunc computes from x of scale s and y of scale t.
type decsFunc func(w *wide, x dec, s int32, y dec, t, to int32) (dec, *dataflow.Bad)

// realType is the type of results that are no fractions: as with quotients 16
// places, or those of the operands.
func realType(args []*node) (typ, error) {
	s := int32(wideScale)
	for _, a := range args {
		s = max(s, a.typ.s)
	}
	return decimalType(38, s), nil
}

func rootType(args []*node) (typ, error) {
	a := args[0].typ
	s := max(a.s, wideScale)
	return decimalType(min(38, (a.p-a.s+1)/2+1+s), s), nil
}

func wholeQuotient(args []*node) (typ, error) {
	a, b := args[0].typ, args[1].typ
	return decimalType(max(1, min(38, a.p-a.s+b.s)), 0), nil
}

func decimalKernel(f decFunc) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, r := of[dec](a[0]), grow[dec](out, c.n)
		m := a[0].mask()
		s, to := c.node.args[0].typ.s, c.node.typ.s
		w := wides.Get().(*wide)
		defer wides.Put(w)
		for i := range r {
			if r[i] = (dec{}); !c.counts(i) {
				continue
			}
			v, bad := f(w, x[i&m], s, to)
			if r[i] = v; bad != nil {
				c.failBad(i, bad)
			}
		}
	}
}

func decimalsKernel(f decsFunc) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[dec](a[0]), of[dec](a[1]), grow[dec](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		s, t := c.scales()
		w := wides.Get().(*wide)
		defer wides.Put(w)
		for i := range r {
			if r[i] = (dec{}); !c.counts(i) {
				continue
			}
			v, bad := f(w, x[i&mx], s, y[i&my], t, c.node.typ.s)
			if r[i] = v; bad != nil {
				c.failBad(i, bad)
			}
		}
	}
}

func scaleOf(c *call, out *vec, _ []*vec) {
	for i, r := 0, grow[int32](out, c.n); i < len(r); i++ {
		r[i] = c.node.args[0].typ.s
	}
}

// leastScale counts the places that are needed.
func leastScale(c *call, out *vec, a []*vec) {
	x, r := of[dec](a[0]), grow[int32](out, c.n)
	m := a[0].mask()
	for i := range r {
		d, s := x[i&m], c.node.args[0].typ.s
		for s > 0 && d.rem(decOf(10)).zero() {
			d = d.shrink(1, false)
			s--
		}
		r[i] = s
	}
}

func divWhole(w *wide, x dec, s int32, y dec, t, _ int32) (dec, *dataflow.Bad) {
	if y.zero() {
		return dec{}, badf(badZero, "division by zero")
	}
	w.a.Mul(setBig(&w.t, x), bigTens[t])
	w.b.Mul(setBig(&w.t, y), bigTens[s])
	w.x.QuoRem(&w.a, &w.b, &w.rest)
	r, ok := decOfBig(&w.x)
	return r, mustFit(ok, 0)
}

// mustFit is nil if ok: the value has no more digits than a decimal.
func mustFit(ok bool, places int32) *dataflow.Bad {
	if ok {
		return nil
	}
	return badf(badRange, "the value does not fit "+decimalType(38, places).String())
}

// sqrtDec rounds the exact root.
func sqrtDec(w *wide, x dec, s, to int32) (dec, *dataflow.Bad) {
	if x.hi < 0 {
		return dec{}, badSqrt
	}
	w.a.Mul(setBig(&w.t, x), bigTens[2*to-s])
	r, ok := decOfBig(w.root(&w.b, &w.a))
	return r, mustFit(ok, to)
}

func expDec(w *wide, x dec, s, to int32) (dec, *dataflow.Bad) {
	w.a.Lsh(setBig(&w.t, x), realBits)
	w.b.QuoRem(&w.a, bigTens[s], &w.rest)
	r, _, ok := w.expDec(&w.b, to)
	return r, mustFit(ok, to)
}

// loggable says why x has no logarithm.
func loggable(x dec) *dataflow.Bad {
	switch {
	case x.zero():
		return badLogZero
	case x.hi < 0:
		return badLogMinus
	}
	return nil
}

func lnDec(w *wide, x dec, s, to int32) (dec, *dataflow.Bad) {
	if bad := loggable(x); bad != nil {
		return dec{}, bad
	}
	return w.lnDec(setBig(&w.b, x), s, to)
}

func logDec(w *wide, x dec, s, to int32) (dec, *dataflow.Bad) {
	if bad := loggable(x); bad != nil {
		return dec{}, bad
	}
	w.ln(&w.a, setBig(&w.b, x), s)
	return w.quoDec(&w.a, w.b.Set(&logs()[10]), to)
}

// logBase is the logarithm of y to the base x.
func logBase(w *wide, x dec, s int32, y dec, t, to int32) (dec, *dataflow.Bad) {
	switch {
	case x.zero() || y.zero():
		return dec{}, badLogZero
	case x.hi < 0 || y.hi < 0:
		return dec{}, badLogMinus
	case compareScaled(x, s, decOf(1), 0) == 0:
		return dec{}, badf(badZero, "division by zero: the logarithm of the base 1")
	}
	w.ln(&w.a, setBig(&w.c, y), t)
	w.ln(&w.b, setBig(&w.c, x), s)
	return w.quoDec(&w.a, &w.b, to)
}

// mostWhole bounds the whole numbers to the power of which is exact.
const mostWhole = 200

// powDec is x to the power of y: exact, and rounded once, if y is whole and no more than
// mostWhole.
func powDec(w *wide, x dec, s int32, y dec, t, to int32) (dec, *dataflow.Bad) {
	whole := y.shrink(t, false)
	isWhole := compareScaled(whole, 0, y, t) == 0
	switch {
	case y.zero():
		return pow10[to], mustFit(to < 38, to)
	case x.zero() && y.hi < 0:
		return dec{}, badPowZero
	case x.zero():
		return dec{}, nil
	case x.hi < 0 && !isWhole:
		return dec{}, badPowMinus
	}
	odd := isWhole && whole.lo&1 != 0 && x.hi < 0
	if x.hi < 0 {
		x = x.neg()
	}
	var r dec
	var near, ok bool
	exact := isWhole && whole.small() && whole.lo+mostWhole <= 2*mostWhole
	short := exact && powBits(x, s, int64(whole.lo)) <= exactBits
	if !short {
		r, near, ok = powReal(w, x, s, y, t, to)
	}
	if short || exact && near {
		r, ok = powWhole(w, x, s, int64(whole.lo), to)
	}
	if odd {
		r = r.neg()
	}
	return r, mustFit(ok, to)
}

// exactBits are those of powers that take less time exact than by logarithms.
const exactBits = 1024

// powBits are those of the fraction that is x to the power of n.
func powBits(x dec, s int32, n int64) int64 {
	hi, lo, _ := x.abs()
	size := bits.Len64(hi) + 64
	if hi == 0 {
		size = bits.Len64(lo)
	}
	return max(n, -n) * int64(max(size, int(s)*10/3+1))
}

// powWhole is x > 0 to the power of n as a fraction of whole numbers.
func powWhole(w *wide, x dec, s int32, n int64, to int32) (dec, bool) {
	size := uint64(max(n, -n))
	num, den := w.pow(&w.a, setBig(&w.b, x), size), &w.c
	if s == 0 {
		den.Set(bigOne)
	} else {
		w.pow(den, bigTens[1], uint64(s)*size)
	}
	if n < 0 {
		num, den = den, num
	}
	w.x.Mul(num, bigTens[to])
	return decOfBig(w.quoHalf(&w.y, &w.x, den))
}

// powReal is x > 0 to the power of y, the exponential of y ln x. near is as with roundReal.
func powReal(w *wide, x dec, s int32, y dec, t, to int32) (r dec, near, ok bool) {
	w.ln(&w.c, setBig(&w.b, x), s)
	w.a.Mul(&w.c, setBig(&w.t, y))
	w.b.QuoRem(&w.a, bigTens[t], &w.rest)
	return w.expDec(&w.b, to)
}
