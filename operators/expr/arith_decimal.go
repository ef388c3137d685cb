package expr

import (
	"fmt"
)

func init() {
	dd := []kind{kDecimal, kDecimal}
	register(
		function{name: "+", args: dd, result: sumType, fails: true, kernel: addDec},
		function{name: "-", args: dd, result: sumType, fails: true, kernel: subDec},
		function{name: "*", args: dd, result: productType, fails: true, kernel: mulDec},
		function{name: "/", args: dd, result: quotientType, fails: true, kernel: divDec},
		function{name: "%", args: dd, result: remainderType, fails: true, kernel: remDec},
		function{name: "mod", args: dd, result: remainderType, fails: true, kernel: remDec},
		function{name: "unary -", args: dd[:1], result: sameType, kernel: negDec},
		function{name: "abs", args: dd[:1], result: sameType, kernel: absDec},
		function{name: "unary @", args: dd[:1], result: sameType, kernel: absDec},
		function{name: "sign", args: dd[:1], result: func([]*node) (typ, error) { return decimalType(1, 0), nil }, kernel: signDec},
		function{name: "round", args: dd[:1], result: wholeType, fails: true, kernel: scaleKernel(roundHalf)},
		function{name: "trunc", args: dd[:1], result: wholeType, fails: true, kernel: scaleKernel(roundCut)},
		function{name: "floor", args: dd[:1], result: wholeType, fails: true, kernel: scaleKernel(roundDown)},
		function{name: "ceil", args: dd[:1], result: wholeType, fails: true, kernel: scaleKernel(roundUp)},
		function{name: "ceiling", args: dd[:1], result: wholeType, fails: true, kernel: scaleKernel(roundUp)},
		function{name: "round", args: []kind{kDecimal, kInt32}, result: placesType, fails: true, kernel: placesKernel(roundHalf)},
		function{name: "trunc", args: []kind{kDecimal, kInt32}, result: placesType, fails: true, kernel: placesKernel(roundCut)},
	)
}

func sumType(args []*node) (typ, error) {
	a, b := args[0].typ, args[1].typ
	s := max(a.s, b.s)
	return decimalType(min(38, max(a.p-a.s, b.p-b.s)+s+1), s), nil
}

func productType(args []*node) (typ, error) {
	a, b := args[0].typ, args[1].typ
	if a.s+b.s > 38 {
		return typ{}, fmt.Errorf("the exact product of %s and %s needs %d decimal places, at most 38 fit: round an operand", a, b, a.s+b.s)
	}
	return decimalType(min(38, a.p+b.p), a.s+b.s), nil
}

// quotientType: PostgreSQL chooses the places of a quotient by its value, at
// least 16 significant digits; here they are fixed.
func quotientType(args []*node) (typ, error) {
	a, b := args[0].typ, args[1].typ
	s := max(a.s, b.s, wideScale)
	return decimalType(min(38, a.p-a.s+b.s+s), s), nil
}

func remainderType(args []*node) (typ, error) {
	a, b := args[0].typ, args[1].typ
	s := max(a.s, b.s)
	return decimalType(max(1, min(38, min(a.p-a.s, b.p-b.s)+s)), s), nil
}

// wholeType holds what rounding to a whole number can give.
func wholeType(args []*node) (typ, error) {
	a := args[0].typ
	if a.s == 0 {
		return a, nil
	}
	return decimalType(max(1, min(38, a.p-a.s+1)), 0), nil
}

// placesType keeps the places asked for if that is a constant, else those of
// the operand.
func placesType(args []*node) (typ, error) {
	a, n := args[0].typ, args[1].konst
	if n == nil || n.constNull() {
		return decimalType(min(38, a.p+1), a.s), nil
	}
	s := min(a.s, max(0, of[int32](n)[0]))
	if s == a.s && of[int32](n)[0] >= s {
		return a, nil
	}
	return decimalType(max(1, min(38, a.p-a.s+1+s)), s), nil
}

const tooLong = "a decimal holds at most 38 digits, %d of them behind the point here"

func addDec(c *call, out *vec, a []*vec) { sumDec(c, out, a, false) }

func subDec(c *call, out *vec, a []*vec) { sumDec(c, out, a, true) }

func sumDec(c *call, out *vec, a []*vec, minus bool) {
	x, y, r := of[dec](a[0]), of[dec](a[1]), grow[dec](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	s, t := c.scales()
	to := max(s, t)
	for i := range r {
		p, q := x[i&mx], y[i&my]
		ok1, ok2 := true, true
		if s != to {
			p, ok1 = p.rescale(s, to)
		}
		if t != to {
			q, ok2 = q.rescale(t, to)
		}
		if minus {
			q = q.neg()
		}
		v, ok := p.add(q)
		r[i] = v
		if !ok || !ok1 || !ok2 {
			c.fail(i, badRange, tooLong, to)
		}
	}
}

func mulDec(c *call, out *vec, a []*vec) {
	x, y, r := of[dec](a[0]), of[dec](a[1]), grow[dec](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		v, ok := x[i&mx].mul(y[i&my])
		r[i] = v
		if !ok {
			c.fail(i, badRange, tooLong, c.node.typ.s)
		}
	}
}

func divDec(c *call, out *vec, a []*vec) {
	x, y, r := of[dec](a[0]), of[dec](a[1]), grow[dec](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	s, t := c.scales()
	k := c.node.typ.s - s + t
	for i := range r {
		q := y[i&my]
		if q.zero() {
			r[i] = dec{}
			c.fail(i, badZero, "division by zero")
			continue
		}
		v, ok := x[i&mx].div(q, k)
		r[i] = v
		if !ok {
			c.fail(i, badRange, tooLong, c.node.typ.s)
		}
	}
}

func remDec(c *call, out *vec, a []*vec) {
	x, y, r := of[dec](a[0]), of[dec](a[1]), grow[dec](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	s, t := c.scales()
	for i := range r {
		q := y[i&my]
		if q.zero() {
			r[i] = dec{}
			c.fail(i, badZero, "division by zero")
			continue
		}
		r[i] = remScaled(x[i&mx], s, q, t)
	}
}

// remScaled is the rest of x / y at the greater scale. It never overflows: the
// rest is smaller than both.
func remScaled(x dec, s int32, y dec, t int32) dec {
	switch {
	case s == t:
		return x.rem(y)
	case s < t:
		if p, ok := x.rescale(s, t); ok {
			return p.rem(y)
		}
	default:
		q, ok := y.rescale(t, s)
		if ok {
			return x.rem(q)
		}
		return x // the divisor has more digits
	}
	// x is too long at the finer scale.
	w := wides.Get().(*wide)
	defer wides.Put(w)
	w.a.Mul(setBig(&w.t, x), bigTens[t-s])
	w.b.QuoRem(&w.a, setBig(&w.t, y), &w.rest)
	r, _ := decOfBig(&w.rest)
	return r
}

func negDec(c *call, out *vec, a []*vec) {
	x, r := of[dec](a[0]), grow[dec](out, c.n)
	mx := a[0].mask()
	for i := range r {
		r[i] = x[i&mx].neg()
	}
}

func absDec(c *call, out *vec, a []*vec) {
	x, r := of[dec](a[0]), grow[dec](out, c.n)
	mx := a[0].mask()
	for i := range r {
		r[i] = x[i&mx]
		if r[i].hi < 0 {
			r[i] = r[i].neg()
		}
	}
}

func signDec(c *call, out *vec, a []*vec) {
	x, r := of[dec](a[0]), grow[dec](out, c.n)
	mx := a[0].mask()
	for i := range r {
		r[i] = decOf(int64(x[i&mx].cmp(dec{})))
	}
}

// rounding brings d of scale s to scale t <= s.
type rounding func(d dec, s, t int32) dec

func roundHalf(d dec, s, t int32) dec { return d.shrink(s-t, true) }

func roundCut(d dec, s, t int32) dec { return d.shrink(s-t, false) }

func roundDown(d dec, s, t int32) dec {
	r := d.shrink(s-t, false)
	if d.hi < 0 && compareScaled(r, t, d, s) != 0 {
		r, _ = r.add(decOf(-1))
	}
	return r
}

func roundUp(d dec, s, t int32) dec {
	r := d.shrink(s-t, false)
	if d.hi >= 0 && compareScaled(r, t, d, s) != 0 {
		r, _ = r.add(decOf(1))
	}
	return r
}

func scaleKernel(f rounding) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, r := of[dec](a[0]), grow[dec](out, c.n)
		mx := a[0].mask()
		s := c.node.args[0].typ.s
		for i := range r {
			r[i] = f(x[i&mx], s, 0)
		}
	}
}

// placesKernel rounds to a number of places that may be negative.
func placesKernel(f rounding) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, p, r := of[dec](a[0]), of[int32](a[1]), grow[dec](out, c.n)
		mx, mp := a[0].mask(), a[1].mask()
		s, to := c.node.args[0].typ.s, c.node.typ.s
		for i := range r {
			d, places := x[i&mx], max(p[i&mp], -39)
			if places >= s {
				r[i], _ = d.rescale(s, to)
				continue
			}
			d = f(d, s, places)
			v, ok := d.rescale(places, to)
			r[i] = v
			if !ok {
				c.fail(i, badRange, tooLong, to)
			}
		}
	}
}
