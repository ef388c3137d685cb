package expr

import (
	"math"
	"math/big"
	"math/bits"
)

func init() {
	for name, lcm := range map[string]bool{"gcd": false, "lcm": true} {
		register(
			function{name: name, args: []kind{kInt32, kInt32}, ret: kInt32, fails: true, kernel: gcdKernel[int32](lcm)},
			function{name: name, args: []kind{kInt64, kInt64}, ret: kInt64, fails: true, kernel: gcdKernel[int64](lcm)},
			function{name: name, args: []kind{kDecimal, kDecimal}, result: gcdType(lcm), fails: true, kernel: gcdDec(lcm)})
	}
	register(
		function{name: "factorial", args: []kind{kInt64}, result: func([]*node) (typ, error) { return decimalType(38, 0), nil }, fails: true, kernel: factorialKernel},
		function{name: "width_bucket", args: []kind{kFloat64, kFloat64, kFloat64, kInt32}, ret: kInt32, fails: true, kernel: bucketFloat},
		function{name: "width_bucket", args: []kind{kDecimal, kDecimal, kDecimal, kInt32}, ret: kInt32, fails: true, kernel: bucketDec})
}

// magnitude of x, also of the smallest number.
func magnitude[T integer](x T) uint64 {
	if x < 0 {
		return -uint64(int64(x))
	}
	return uint64(x)
}

func gcdOf(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func gcdKernel[T integer](lcm bool) kernel {
	most := uint64(^minOf[T]())
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			p, q := magnitude(x[i&mx]), magnitude(y[i&my])
			g, hi := gcdOf(p, q), uint64(0)
			if lcm && g != 0 {
				hi, g = bits.Mul64(p/g, q)
			}
			r[i] = T(g)
			if hi != 0 || g > most {
				overflow(c, i, rangeName[T]())
			}
		}
	}
}

func gcdType(lcm bool) func(args []*node) (typ, error) {
	return func(args []*node) (typ, error) {
		t := commonDecimal(args[0].typ, args[1].typ)
		if lcm {
			t.p = 38
		}
		return t, nil
	}
}

func gcdDec(lcm bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[dec](a[0]), of[dec](a[1]), grow[dec](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		s, t := c.scales()
		to := c.node.typ.s
		for i := range r {
			p, ok1 := x[i&mx].rescale(s, to)
			q, ok2 := y[i&my].rescale(t, to)
			if p.hi < 0 {
				p = p.neg()
			}
			if q.hi < 0 {
				q = q.neg()
			}
			g, h, ok := p, q, ok1 && ok2
			for !h.zero() {
				g, h = h, g.rem(h)
			}
			if lcm && !g.zero() {
				n, _ := p.div(g, 0)
				var fits bool
				g, fits = n.mul(q)
				ok = ok && fits
			}
			if r[i] = g; !ok {
				c.fail(i, badRange, tooLong, to)
			}
		}
	}
}

// factorials holds those of 0 to 33, all that 38 digits hold.
var factorials = func() (t [34]dec) {
	t[0] = decOf(1)
	for i := 1; i < len(t); i++ {
		t[i], _ = t[i-1].mul(decOf(int64(i)))
	}
	return
}()

func factorialKernel(c *call, out *vec, a []*vec) {
	x, r := of[int64](a[0]), grow[dec](out, c.n)
	m := a[0].mask()
	for i := range r {
		n := x[i&m]
		r[i] = dec{}
		switch {
		case n < 0:
			c.fail(i, badRange, "the factorial of a negative number is undefined")
		case n >= int64(len(factorials)):
			c.fail(i, badRange, "the factorial of %d has more than the 38 digits that a decimal holds", n)
		default:
			r[i] = factorials[n]
		}
	}
}

// bucketOf checks the number of buckets.
func bucketOf(c *call, i int, n int32) bool {
	if n <= 0 {
		c.fail(i, badArgument, "the number of buckets is %d, at least 1 is needed", n)
	}
	return n > 0
}

// lastBucket is n+1, which must fit.
func lastBucket(c *call, i int, n int32) int32 {
	if n == math.MaxInt32 {
		overflow(c, i, "int32")
	}
	return n + 1
}

func bucketFloat(c *call, out *vec, a []*vec) {
	r, n := grow[int32](out, c.n), of[int32](a[3])
	v := [3][]float64{of[float64](a[0]), of[float64](a[1]), of[float64](a[2])}
	for i := range r {
		r[i] = 0
		x, lo, hi, k := v[0][i&a[0].mask()], v[1][i&a[1].mask()], v[2][i&a[2].mask()], n[i&a[3].mask()]
		if !c.counts(i) || !bucketOf(c, i, k) {
			continue
		}
		up := lo < hi
		switch {
		case x != x || lo != lo || hi != hi || infinite(lo) || infinite(hi):
			c.fail(i, badArgument, "the bounds of buckets must be finite, and no value NaN")
		case lo == hi:
			c.fail(i, badArgument, "the lower and the upper bound of the buckets are equal")
		case up && x < lo, !up && x > lo:
		case up && x >= hi, !up && x <= hi:
			r[i] = lastBucket(c, i, k)
		default:
			q := (x - lo) / (hi - lo)
			if infinite(hi - lo) {
				q = (x/2 - lo/2) / (hi/2 - lo/2)
			}
			r[i] = min(int32(float64(k)*q), k-1) + 1
		}
	}
}

func bucketDec(c *call, out *vec, a []*vec) {
	r, n := grow[int32](out, c.n), of[int32](a[3])
	v := [3][]dec{of[dec](a[0]), of[dec](a[1]), of[dec](a[2])}
	var s [3]int32
	for k := range s {
		s[k] = c.node.args[k].typ.s
	}
	for i := range r {
		r[i] = 0
		x, lo, hi, k := v[0][i&a[0].mask()], v[1][i&a[1].mask()], v[2][i&a[2].mask()], n[i&a[3].mask()]
		if !c.counts(i) || !bucketOf(c, i, k) {
			continue
		}
		order := compareScaled(lo, s[1], hi, s[2])
		below, above := compareScaled(x, s[0], lo, s[1]), compareScaled(x, s[0], hi, s[2])
		switch {
		case order == 0:
			c.fail(i, badArgument, "the lower and the upper bound of the buckets are equal")
		case below != 0 && below == order:
		case above != order:
			r[i] = lastBucket(c, i, k)
		default:
			r[i] = bucketBig(x, lo, hi, s, k)
		}
	}
}

// bucketBig is 1 + the whole part of k * (x-lo) / (hi-lo).
func bucketBig(x, lo, hi dec, s [3]int32, k int32) int32 {
	to := max(s[0], s[1], s[2])
	w := wides.Get().(*wide)
	defer wides.Put(w)
	at := func(z *big.Int, d dec, s int32) *big.Int { return z.Mul(setBig(&w.t, d), bigTens[to-s]) }
	l := at(&w.a, lo, s[1])
	width := w.b.Sub(at(&w.x, hi, s[2]), l)
	w.c.Sub(at(&w.x, x, s[0]), l)
	w.x.Mul(&w.c, w.t.SetInt64(int64(k)))
	w.y.QuoRem(&w.x, width, &w.rest)
	return int32(w.y.Int64()) + 1
}
