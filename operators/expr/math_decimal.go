package expr

import (
	"math/big"

	"frazil/dataflow"
)

func init() {
	d, f := kDecimal, kInt32
	one := func(t func([]*node) (typ, error), k func(c *call, x dec, s int32) (dec, *dataflow.Bad), names ...string) {
		for _, n := range names {
			register(function{name: n, args: []kind{d}, result: t, fails: true, kernel: decimalKernel(k)})
		}
	}
	one(rootType, sqrtDec, "sqrt")
	one(realType, expDec, "exp")
	one(realType, func(c *call, x dec, s int32) (dec, *dataflow.Bad) { return logDec(c, x, s, nil) }, "ln")
	one(realType, func(c *call, x dec, s int32) (dec, *dataflow.Bad) { return logDec(c, x, s, ln10()) }, "log", "log10")
	one(sameType, func(_ *call, x dec, _ int32) (dec, *dataflow.Bad) { return x, nil }, "trim_scale")
	two := func(t func([]*node) (typ, error), k func(c *call, x dec, s int32, y dec, t int32) (dec, *dataflow.Bad), names ...string) {
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

func decimalKernel(f func(c *call, x dec, s int32) (dec, *dataflow.Bad)) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, r := of[dec](a[0]), grow[dec](out, c.n)
		m := a[0].mask()
		s := c.node.args[0].typ.s
		for i := range r {
			if r[i] = (dec{}); !c.counts(i) {
				continue
			}
			v, bad := f(c, x[i&m], s)
			if r[i] = v; bad != nil {
				c.fail(i, bad.Reason, "%s", bad.Detail)
			}
		}
	}
}

func decimalsKernel(f func(c *call, x dec, s int32, y dec, t int32) (dec, *dataflow.Bad)) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[dec](a[0]), of[dec](a[1]), grow[dec](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		s, t := c.scales()
		for i := range r {
			if r[i] = (dec{}); !c.counts(i) {
				continue
			}
			v, bad := f(c, x[i&mx], s, y[i&my], t)
			if r[i] = v; bad != nil {
				c.fail(i, bad.Reason, "%s", bad.Detail)
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

func divWhole(_ *call, x dec, s int32, y dec, t int32) (dec, *dataflow.Bad) {
	if y.zero() {
		return dec{}, badf(badZero, "division by zero")
	}
	n, d := x.big(), y.big()
	n.Mul(n, tenTo(t))
	r, ok := decOfBig(n.Quo(n, d.Mul(d, tenTo(s))))
	return r, mustFit(ok, 0)
}

func tenTo(n int32) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil) }

// mustFit is nil if ok: the value has no more digits than a decimal.
func mustFit(ok bool, places int32) *dataflow.Bad {
	if ok {
		return nil
	}
	return badf(badRange, "the value does not fit "+decimalType(38, places).String())
}

// sqrtDec rounds the exact root.
func sqrtDec(c *call, x dec, s int32) (dec, *dataflow.Bad) {
	if x.hi < 0 {
		return dec{}, badSqrt
	}
	to := c.node.typ.s
	n := x.big()
	n.Mul(n, tenTo(2*to-s))
	q := new(big.Int).Sqrt(n)
	if n.Sub(n, new(big.Int).Mul(q, q)).Cmp(q) > 0 { // more than q and a half
		q.Add(q, big.NewInt(1))
	}
	r, ok := decOfBig(q)
	return r, mustFit(ok, to)
}

func expDec(c *call, x dec, s int32) (dec, *dataflow.Bad) { return expReal(c, realOf(x, s)) }

// expReal is exp(x) as the decimal of the result's type.
func expReal(c *call, x *big.Float) (dec, *dataflow.Bad) {
	to := c.node.typ.s
	switch f, _ := x.Float64(); {
	case f > 90: // more than 38 digits
		return dec{}, mustFit(false, to)
	case f < -90:
		return dec{}, nil
	}
	return roundReal(exp(x), to)
}

func logDec(c *call, x dec, s int32, base *big.Float) (dec, *dataflow.Bad) {
	switch {
	case x.zero():
		return dec{}, badLogZero
	case x.hi < 0:
		return dec{}, badLogMinus
	}
	l := ln(realOf(x, s))
	if base != nil {
		l.Quo(l, base)
	}
	return roundReal(l, c.node.typ.s)
}

// logBase is the logarithm of y to the base x.
func logBase(c *call, x dec, s int32, y dec, t int32) (dec, *dataflow.Bad) {
	switch {
	case x.zero() || y.zero():
		return dec{}, badLogZero
	case x.hi < 0 || y.hi < 0:
		return dec{}, badLogMinus
	case compareScaled(x, s, decOf(1), 0) == 0:
		return dec{}, badf(badZero, "division by zero: the logarithm of the base 1")
	}
	return logDec(c, y, t, ln(realOf(x, s)))
}

// powDec is x to the power of y: exact, and rounded once, if y is whole and the
// number of digits bearable.
func powDec(c *call, x dec, s int32, y dec, t int32) (dec, *dataflow.Bad) {
	to := c.node.typ.s
	whole := y.shrink(t, false)
	isWhole := compareScaled(whole, 0, y, t) == 0
	switch {
	case y.zero():
		return pow10[to], nil
	case x.zero() && y.hi < 0:
		return dec{}, badPowZero
	case x.zero():
		return dec{}, nil
	case x.hi < 0 && !isWhole:
		return dec{}, badPowMinus
	}
	if isWhole && whole.small() && whole.lo+200 <= 400 {
		return powWhole(x, s, int64(whole.lo), to)
	}
	odd := isWhole && whole.lo&1 != 0 && x.hi < 0
	if x.hi < 0 {
		x = x.neg()
	}
	l := ln(realOf(x, s))
	r, bad := expReal(c, l.Mul(l, realOf(y, t)))
	if odd {
		r = r.neg()
	}
	return r, bad
}

// powWhole is x to the power of n as a fraction of whole numbers.
func powWhole(x dec, s int32, n int64, to int32) (dec, *dataflow.Bad) {
	size := n
	if n < 0 {
		size = -n
	}
	num := new(big.Int).Exp(x.big(), big.NewInt(size), nil)
	den := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(s)*size), nil)
	if n < 0 {
		num, den = den, num
	}
	num.Mul(num, tenTo(to))
	r, ok := decOfBig(quoHalf(num, den))
	return r, mustFit(ok, to)
}

// quoHalf is a / b rounded half away from zero. It changes a and b.
func quoHalf(a, b *big.Int) *big.Int {
	minus := a.Sign()*b.Sign() < 0
	a.Abs(a)
	b.Abs(b)
	q, r := a.QuoRem(a, b, new(big.Int))
	if r.Lsh(r, 1).Cmp(b) >= 0 {
		q.Add(q, big.NewInt(1))
	}
	if minus {
		q.Neg(q)
	}
	return q
}
