package expr

import (
	"math"
)

func init() {
	registerCast(kInt32, kInt64, implicitCast, false, mapKernel(func(x int32) int64 { return int64(x) }))
	registerCast(kInt32, kFloat32, implicitCast, false, mapKernel(func(x int32) float32 { return float32(x) }))
	registerCast(kInt32, kFloat64, implicitCast, false, mapKernel(func(x int32) float64 { return float64(x) }))
	registerCast(kInt64, kFloat32, implicitCast, false, mapKernel(func(x int64) float32 { return float32(x) }))
	registerCast(kInt64, kFloat64, implicitCast, false, mapKernel(func(x int64) float64 { return float64(x) }))
	registerCast(kFloat32, kFloat64, implicitCast, false, mapKernel(func(x float32) float64 { return float64(x) }))
	registerCast(kInt64, kInt32, explicitCast, true, castInt64Int32)
	registerCast(kFloat64, kFloat32, explicitCast, true, castFloat64Float32)
	registerCast(kFloat32, kInt32, explicitCast, true, castFloatInt[float32, int32])
	registerCast(kFloat64, kInt32, explicitCast, true, castFloatInt[float64, int32])
	registerCast(kFloat32, kInt64, explicitCast, true, castFloatInt[float32, int64])
	registerCast(kFloat64, kInt64, explicitCast, true, castFloatInt[float64, int64])
	registerCast(kInt32, kDecimal, implicitCast, true, castIntDec[int32])
	registerCast(kInt64, kDecimal, implicitCast, true, castIntDec[int64])
	registerCast(kFloat32, kDecimal, explicitCast, true, castFloatDec[float32])
	registerCast(kFloat64, kDecimal, explicitCast, true, castFloatDec[float64])
	registerCast(kDecimal, kDecimal, implicitCast, true, castDecDec)
	registerCast(kDecimal, kInt32, explicitCast, true, castDecInt[int32])
	registerCast(kDecimal, kInt64, explicitCast, true, castDecInt[int64])
	registerCast(kDecimal, kFloat32, implicitCast, false, func(c *call, out *vec, a []*vec) {
		s := c.node.args[0].typ.s
		mapRows(c, out, a[0], func(d dec) float32 { return d.float32(s) })
	})
	registerCast(kDecimal, kFloat64, implicitCast, false, func(c *call, out *vec, a []*vec) {
		s := c.node.args[0].typ.s
		mapRows(c, out, a[0], func(d dec) float64 { return d.float(s) })
	})
	registerCast(kBool, kInt32, explicitCast, false, func(c *call, out *vec, a []*vec) {
		r := grow[int32](out, c.n)
		m := a[0].mask()
		for i := range r {
			r[i] = int32(bit(a[0].bits.get(i & m)))
		}
	})
	registerCast(kInt32, kBool, explicitCast, false, func(c *call, out *vec, a []*vec) {
		x, m := of[int32](a[0]), a[0].mask()
		eachWord(growBits(out, c.n), c.n, func(i int) bool { return x[i&m] != 0 })
	})
}

// mapRows applies f to every value.
func mapRows[A, R fixed](c *call, out *vec, a *vec, f func(A) R) {
	x, r := of[A](a), grow[R](out, c.n)
	m := a.mask()
	for i := range r {
		r[i] = f(x[i&m])
	}
}

func mapKernel[A, R fixed](f func(A) R) kernel {
	return func(c *call, out *vec, a []*vec) { mapRows(c, out, a[0], f) }
}

func castInt64Int32(c *call, out *vec, a []*vec) {
	x, r := of[int64](a[0]), grow[int32](out, c.n)
	m := a[0].mask()
	for i := range r {
		v := x[i&m]
		r[i] = int32(v)
		if int64(int32(v)) != v && c.counts(i) {
			c.fail(i, badRange, "%d is out of range of int32", v)
		}
	}
}

func castFloat64Float32(c *call, out *vec, a []*vec) {
	x, r := of[float64](a[0]), grow[float32](out, c.n)
	m := a[0].mask()
	for i := range r {
		v := x[i&m]
		r[i] = float32(v)
		if (infinite(r[i]) && !infinite(v) || r[i] == 0 && v != 0) && c.counts(i) {
			c.fail(i, badRange, "%v is out of range of float32", v)
		}
	}
}

// castFloatInt rounds half to even.
func castFloatInt[F float, I integer](c *call, out *vec, a []*vec) {
	x, r := of[F](a[0]), grow[I](out, c.n)
	m := a[0].mask()
	lo := float64(minOf[I]())
	for i := range r {
		v := math.RoundToEven(float64(x[i&m]))
		if !(v >= lo && v < -lo) {
			if r[i] = 0; c.counts(i) {
				c.fail(i, badRange, "%v is out of range of %s", x[i&m], rangeName[I]())
			}
			continue
		}
		r[i] = I(v)
	}
}

// fit fails a row whose decimal has more digits than its type.
func fit(c *call, i int, d dec, ok bool) dec {
	if t := c.node.typ; !ok || !d.fits(t.p) {
		if c.counts(i) {
			c.fail(i, badRange, "the value does not fit %s", t)
		}
		return dec{}
	}
	return d
}

func castIntDec[T integer](c *call, out *vec, a []*vec) {
	x, r := of[T](a[0]), grow[dec](out, c.n)
	m := a[0].mask()
	t := c.node.typ
	if t.p-t.s >= 19 {
		if t.s == 0 {
			for i := range r {
				r[i] = decOf(int64(x[i&m]))
			}
			return
		}
		for i := range r {
			r[i], _ = decOf(int64(x[i&m])).mul(pow10[t.s])
		}
		return
	}
	for i := range r {
		v, ok := decOf(int64(x[i&m])).rescale(0, t.s)
		r[i] = fit(c, i, v, ok)
	}
}

func castDecDec(c *call, out *vec, a []*vec) {
	x, r := of[dec](a[0]), grow[dec](out, c.n)
	m := a[0].mask()
	from, to := c.node.args[0].typ, c.node.typ
	for i := range r {
		v, ok := x[i&m].rescale(from.s, to.s)
		r[i] = fit(c, i, v, ok)
	}
}

// castDecInt rounds half away from zero.
func castDecInt[T integer](c *call, out *vec, a []*vec) {
	x, r := of[dec](a[0]), grow[T](out, c.n)
	m := a[0].mask()
	s := c.node.args[0].typ.s
	for i := range r {
		v, _ := x[i&m].rescale(s, 0)
		r[i] = T(v.lo)
		if (!v.small() || int64(r[i]) != int64(v.lo)) && c.counts(i) {
			c.fail(i, badRange, "%s is out of range of %s", appendDec(nil, x[i&m], s), rangeName[T]())
		}
	}
}

// castFloatDec takes the 15 (6 for float32) digits that a float holds for sure,
// as PostgreSQL does.
func castFloatDec[T float](c *call, out *vec, a []*vec) {
	x, r := of[T](a[0]), grow[dec](out, c.n)
	m := a[0].mask()
	for i := range r {
		if r[i] = (dec{}); c.counts(i) {
			d, ok := floatDec(x[i&m], c.node.typ.s)
			r[i] = fit(c, i, d, ok)
		}
	}
}
