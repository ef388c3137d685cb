package expr

import (
	"math"
	"math/bits"
)

func init() {
	two := func(op string, k kind, kn kernel, fails bool) {
		register(function{name: op, args: []kind{k, k}, ret: k, fails: fails, kernel: kn})
	}
	for _, op := range []struct {
		name     string
		i32, i64 kernel
		f32, f64 kernel
	}{
		{"+", addInt[int32], addInt[int64], addFloat[float32], addFloat[float64]},
		{"-", subInt[int32], subInt[int64], subFloat[float32], subFloat[float64]},
		{"*", mulInt32, mulInt64, mulFloat[float32], mulFloat[float64]},
		{"/", divInt[int32], divInt[int64], divFloat[float32], divFloat[float64]},
	} {
		two(op.name, kInt32, op.i32, true)
		two(op.name, kInt64, op.i64, true)
		two(op.name, kFloat32, op.f32, true)
		two(op.name, kFloat64, op.f64, true)
		for _, pair := range [][]kind{{kFloat32, kFloat64}, {kFloat64, kFloat32}} {
			register(function{name: op.name, args: pair, as: []kind{kFloat64, kFloat64}, ret: kFloat64, fails: true, kernel: op.f64})
		}
	}
	for _, name := range []string{"%", "mod"} {
		two(name, kInt32, remInt[int32], true)
		two(name, kInt64, remInt[int64], true)
	}
	one := func(name string, k kind, kn kernel, fails bool) {
		register(function{name: name, args: []kind{k}, ret: k, fails: fails, kernel: kn})
	}
	one("unary -", kInt32, negInt[int32], true)
	one("unary -", kInt64, negInt[int64], true)
	one("unary -", kFloat32, mapFloat(func(x float32) float32 { return -x }), false)
	one("unary -", kFloat64, mapFloat(func(x float64) float64 { return -x }), false)
	for _, name := range []string{"abs", "unary @"} {
		one(name, kInt32, absInt[int32], true)
		one(name, kInt64, absInt[int64], true)
		one(name, kFloat32, mapFloat(func(x float32) float32 { return float32(math.Abs(float64(x))) }), false)
		one(name, kFloat64, mapFloat(math.Abs), false)
	}
	for _, k := range []kind{kInt32, kInt64, kFloat32, kFloat64, kDecimal} {
		register(function{name: "unary +", args: []kind{k}, result: sameType, kernel: passKernel})
	}
	one("round", kFloat64, mapFloat(math.RoundToEven), false)
	one("floor", kFloat64, mapFloat(math.Floor), false)
	one("ceil", kFloat64, mapFloat(math.Ceil), false)
	one("ceiling", kFloat64, mapFloat(math.Ceil), false)
	one("trunc", kFloat64, mapFloat(math.Trunc), false)
	one("sign", kFloat64, mapFloat(func(x float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0 // of NaN too
	}), false)
}

// sameType is the result type of a function that keeps its first operand's.
func sameType(args []*node) (typ, error) { return args[0].typ, nil }

// passKernel returns its first operand.
func passKernel(c *call, out *vec, a []*vec) {
	valid, nulls, own := out.valid, out.nulls, out.own
	*out = vec{n: c.n, konst: a[0].konst, nulls: nulls, valid: valid, bits: a[0].bits, off: a[0].off, raw: a[0].raw, own: own, ownOff: out.ownOff}
}

func overflow(c *call, i int, what string) {
	if c.counts(i) { // else the message costs memory for nothing
		c.fail(i, badRange, "%s out of range", what)
	}
}

func rangeName[T integer]() string {
	var t T
	if _, ok := any(t).(int32); ok {
		return "int32"
	}
	return "int64"
}

func addInt[T integer](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		s := p + q
		r[i] = s
		if (p^s)&(q^s) < 0 {
			overflow(c, i, rangeName[T]())
		}
	}
}

func subInt[T integer](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		s := p - q
		r[i] = s
		if (p^q)&(p^s) < 0 {
			overflow(c, i, rangeName[T]())
		}
	}
}

func mulInt32(c *call, out *vec, a []*vec) {
	x, y, r := of[int32](a[0]), of[int32](a[1]), grow[int32](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		s := int64(x[i&mx]) * int64(y[i&my])
		r[i] = int32(s)
		if s != int64(int32(s)) {
			overflow(c, i, "int32")
		}
	}
}

func mulInt64(c *call, out *vec, a []*vec) {
	x, y, r := of[int64](a[0]), of[int64](a[1]), grow[int64](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		s := p * q
		r[i] = s
		hi, _ := bits.Mul64(uint64(p), uint64(q))
		if int64(hi)-(p>>63&q)-(q>>63&p) != s>>63 {
			overflow(c, i, "int64")
		}
	}
}

// minOf is the smallest value of T.
func minOf[T integer]() T {
	one := T(1)
	for one<<1 != 0 {
		one <<= 1
	}
	return one
}

func divInt[T integer](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	least := minOf[T]()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		switch {
		case q == 0:
			r[i] = 0
			c.fail(i, badZero, "division by zero")
		case q == -1:
			r[i] = -p
			if p == least {
				overflow(c, i, rangeName[T]())
			}
		default:
			r[i] = p / q
		}
	}
}

func remInt[T integer](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		q := y[i&my]
		switch q {
		case 0:
			r[i] = 0
			c.fail(i, badZero, "division by zero")
		case -1:
			r[i] = 0
		default:
			r[i] = x[i&mx] % q
		}
	}
}

func negInt[T integer](c *call, out *vec, a []*vec) {
	x, r := of[T](a[0]), grow[T](out, c.n)
	mx := a[0].mask()
	least := minOf[T]()
	for i := range r {
		p := x[i&mx]
		r[i] = -p
		if p == least {
			overflow(c, i, rangeName[T]())
		}
	}
}

func absInt[T integer](c *call, out *vec, a []*vec) {
	x, r := of[T](a[0]), grow[T](out, c.n)
	mx := a[0].mask()
	least := minOf[T]()
	for i := range r {
		p := x[i&mx]
		if p < 0 {
			p = -p
			if p == least {
				overflow(c, i, rangeName[T]())
			}
		}
		r[i] = p
	}
}

func infinite[T float](x T) bool { return x-x != x-x && x == x }

// checkFloat fails a row whose result is infinite although no operand is, or,
// where a product or quotient is asked for, zero although no operand is.
func checkFloat[T float](c *call, i int, p, q, r T) {
	if infinite(r) && !infinite(p) && !infinite(q) {
		c.fail(i, badRange, "value out of range: overflow")
	}
}

func addFloat[T float](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		s := p + q
		r[i] = s
		if s-s != 0 {
			checkFloat(c, i, p, q, s)
		}
	}
}

func subFloat[T float](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		s := p - q
		r[i] = s
		if s-s != 0 {
			checkFloat(c, i, p, q, s)
		}
	}
}

func mulFloat[T float](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		s := p * q
		r[i] = s
		if s-s != 0 {
			checkFloat(c, i, p, q, s)
		}
		if s == 0 && p != 0 && q != 0 {
			c.fail(i, badRange, "value out of range: underflow")
		}
	}
}

func divFloat[T float](c *call, out *vec, a []*vec) {
	x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		s := p / q
		r[i] = s
		switch {
		case q == 0 && p == p:
			c.fail(i, badZero, "division by zero")
		case s-s != 0:
			checkFloat(c, i, p, q, s)
		case s == 0 && p != 0 && !infinite(q):
			c.fail(i, badRange, "value out of range: underflow")
		}
	}
}

// mapFloat applies a function that cannot fail.
func mapFloat[T float](f func(T) T) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, r := of[T](a[0]), grow[T](out, c.n)
		mx := a[0].mask()
		for i := range r {
			r[i] = f(x[i&mx])
		}
	}
}
