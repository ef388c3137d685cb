package expr

import (
	"cmp"
	"math"
)

func init() {
	compare := func(args, as []kind, eq, lt kernel) {
		flip := func(k kernel) kernel {
			return func(c *call, out *vec, a []*vec) {
				k(c, out, a)
				for i := range out.bits {
					out.bits[i] = ^out.bits[i]
				}
			}
		}
		swap := func(k kernel) kernel {
			return func(c *call, out *vec, a []*vec) {
				c.node = swapped(c.node)
				k(c, out, []*vec{a[1], a[0]})
			}
		}
		for op, k := range map[string]kernel{
			"=": eq, "<>": flip(eq), "<": lt, ">=": flip(lt), ">": swap(lt), "<=": flip(swap(lt)),
		} {
			register(function{name: op, args: args, as: as, ret: kBool, kernel: k})
		}
	}
	same := func(k kind, eq, lt kernel) { compare([]kind{k, k}, nil, eq, lt) }
	mixed := func(a, b, as kind, eq, lt kernel) {
		compare([]kind{a, b}, []kind{as, as}, eq, lt)
		compare([]kind{b, a}, []kind{as, as}, eq, lt)
	}
	same(kInt16, eqKernel[int32], ltKernel[int32])
	same(kInt32, eqKernel[int32], ltKernel[int32])
	same(kInt64, eqKernel[int64], ltKernel[int64])
	same(kFloat32, eqFloat[float32], ltFloat[float32])
	same(kFloat64, eqFloat[float64], ltFloat[float64])
	mixed(kFloat32, kFloat64, kFloat64, eqFloat[float64], ltFloat[float64])
	same(kDecimal, eqDec, ltDec)
	same(kString, eqText, ltText)
	same(kBinary, eqText, ltText)
	same(kBool, eqBool, ltBool)
	same(kDate, eqKernel[int32], ltKernel[int32])
	same(kTime, eqKernel[int64], ltKernel[int64])
	same(kTimestamp, eqKernel[int64], ltKernel[int64])
	same(kTimestampTZ, eqKernel[int64], ltKernel[int64])
	for op, test := range map[string]func(order int) bool{
		"=": func(o int) bool { return o == 0 }, "<>": func(o int) bool { return o != 0 }, "<": func(o int) bool { return o < 0 },
		"<=": func(o int) bool { return o <= 0 }, ">": func(o int) bool { return o > 0 }, ">=": func(o int) bool { return o >= 0 },
	} {
		for _, k := range []kind{kTimestamp, kTimestampTZ} { // days far away are no timestamps, but compare
			register(function{name: op, args: []kind{kDate, k}, ret: kBool, kernel: dayMoment(test)},
				function{name: op, args: []kind{k, kDate}, ret: kBool, kernel: swapArgs(dayMoment(func(o int) bool { return test(-o) }))})
		}
	}
	mixed(kTimestamp, kTimestampTZ, kTimestampTZ, eqKernel[int64], ltKernel[int64])
	same(kUUID, eqUUID, ltUUID)
	same(kInterval, eqInterval, ltInterval)
}

// dayMoment compares the beginning of a day with a timestamp.
func dayMoment(test func(order int) bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y := of[int32](a[0]), of[int64](a[1])
		mx, my := a[0].mask(), a[1].mask()
		eachWord(growBits(out, c.n), c.n, func(i int) bool {
			d, ok := dayStart(x[i&mx])
			if !ok {
				d = math.MaxInt64 - 1 // behind every timestamp but infinity
			}
			return test(cmp.Compare(d, y[i&my]))
		})
	}
}

// swapped returns n with its two operands exchanged, for kernels that ask for
// their types.
func swapped(n *node) *node {
	if len(n.args) != 2 || n.args[0].typ.k != kDecimal {
		return n
	}
	m := *n
	m.args = []*node{n.args[1], n.args[0]}
	return &m
}

func bit(b bool) uint64 {
	var x uint64
	if b {
		x = 1
	}
	return x
}

type integer interface{ int32 | int64 }

// The loops below make one word of 64 results at a time, without branches.

func eqKernel[T integer](c *call, out *vec, a []*vec) {
	x, y := of[T](a[0]), of[T](a[1])
	if a[0].konst {
		x, y = y, x
		a = []*vec{a[1], a[0]}
	}
	b := growBits(out, c.n)
	if a[1].konst {
		k := y[0]
		if a[0].konst {
			b.fill(-bit(x[0] == k))
			return
		}
		for w := range b {
			var m uint64
			for i, v := range x[w<<6 : min(w<<6+64, c.n)] {
				m |= bit(v == k) << (uint(i) & 63)
			}
			b[w] = m
		}
		return
	}
	for w := range b {
		var m uint64
		lo, hi := w<<6, min(w<<6+64, c.n)
		q := y[lo:hi]
		for i, v := range x[lo:hi] {
			m |= bit(v == q[i]) << (uint(i) & 63)
		}
		b[w] = m
	}
}

func ltKernel[T integer](c *call, out *vec, a []*vec) {
	x, y := of[T](a[0]), of[T](a[1])
	b := growBits(out, c.n)
	switch {
	case a[0].konst && a[1].konst:
		b.fill(-bit(x[0] < y[0]))
	case a[1].konst:
		k := y[0]
		for w := range b {
			var m uint64
			for i, v := range x[w<<6 : min(w<<6+64, c.n)] {
				m |= bit(v < k) << (uint(i) & 63)
			}
			b[w] = m
		}
	case a[0].konst:
		k := x[0]
		for w := range b {
			var m uint64
			for i, v := range y[w<<6 : min(w<<6+64, c.n)] {
				m |= bit(k < v) << (uint(i) & 63)
			}
			b[w] = m
		}
	default:
		for w := range b {
			var m uint64
			lo, hi := w<<6, min(w<<6+64, c.n)
			q := y[lo:hi]
			for i, v := range x[lo:hi] {
				m |= bit(v < q[i]) << (uint(i) & 63)
			}
			b[w] = m
		}
	}
}

type float interface{ float32 | float64 }

// eqFloat: NaN equals NaN.
func eqFloat[T float](c *call, out *vec, a []*vec) {
	x, y := of[T](a[0]), of[T](a[1])
	mx, my := a[0].mask(), a[1].mask()
	eachWord(growBits(out, c.n), c.n, func(i int) bool {
		p, q := x[i&mx], y[i&my]
		return p == q || p != p && q != q
	})
}

// ltFloat: NaN is greater than everything else.
func ltFloat[T float](c *call, out *vec, a []*vec) {
	x, y := of[T](a[0]), of[T](a[1])
	b := growBits(out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for w := range b {
		var m uint64
		lo := w << 6
		for i := lo; i < min(lo+64, c.n); i++ {
			p, q := x[i&mx], y[i&my]
			m |= (bit(p < q) | bit(q != q)&^bit(p != p)) << (uint(i) & 63)
		}
		b[w] = m
	}
}

// eachWord fills b from a test of each row; for types where the test costs more
// than the call.
func eachWord(b bitset, n int, test func(i int) bool) {
	for w := range b {
		var m uint64
		lo := w << 6
		for i := lo; i < min(lo+64, n); i++ {
			m |= bit(test(i)) << (uint(i) & 63)
		}
		b[w] = m
	}
}

// scales returns the scales of two decimal operands.
func (c *call) scales() (int32, int32) { return c.node.args[0].typ.s, c.node.args[1].typ.s }

func eqDec(c *call, out *vec, a []*vec) {
	x, y := of[dec](a[0]), of[dec](a[1])
	mx, my := a[0].mask(), a[1].mask()
	s, t := c.scales()
	if s == t {
		eachWord(growBits(out, c.n), c.n, func(i int) bool { return x[i&mx] == y[i&my] })
		return
	}
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return compareScaled(x[i&mx], s, y[i&my], t) == 0 })
}

func ltDec(c *call, out *vec, a []*vec) {
	x, y := of[dec](a[0]), of[dec](a[1])
	mx, my := a[0].mask(), a[1].mask()
	s, t := c.scales()
	if s == t {
		eachWord(growBits(out, c.n), c.n, func(i int) bool { return x[i&mx].less(y[i&my]) })
		return
	}
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return compareScaled(x[i&mx], s, y[i&my], t) < 0 })
}

func eqText(c *call, out *vec, a []*vec) {
	if a[0].konst {
		a = []*vec{a[1], a[0]}
	}
	x, y := a[0], a[1]
	b := growBits(out, c.n)
	if y.konst && !x.konst {
		k := y.text(0)
		off, raw := x.off[:c.n+1], x.raw
		for w := range b {
			var m uint64
			lo := w << 6
			for i := lo; i < min(lo+64, c.n); i++ {
				from, to := off[i], off[i+1]
				if int(to-from) == len(k) && string(raw[from:to]) == k {
					m |= 1 << (uint(i) & 63)
				}
			}
			b[w] = m
		}
		return
	}
	mx, my := x.mask(), y.mask()
	eachWord(b, c.n, func(i int) bool { return x.text(i&mx) == y.text(i&my) })
}

func ltText(c *call, out *vec, a []*vec) {
	x, y := a[0], a[1]
	mx, my := x.mask(), y.mask()
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return x.text(i&mx) < y.text(i&my) })
}

func eqBool(c *call, out *vec, a []*vec) {
	b := growBits(out, c.n)
	for w := range b {
		b[w] = ^(a[0].bitWord(w) ^ a[1].bitWord(w))
	}
}

func ltBool(c *call, out *vec, a []*vec) {
	b := growBits(out, c.n)
	for w := range b {
		b[w] = ^a[0].bitWord(w) & a[1].bitWord(w)
	}
}

func eqUUID(c *call, out *vec, a []*vec) {
	x, y := of[uuid16](a[0]), of[uuid16](a[1])
	mx, my := a[0].mask(), a[1].mask()
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return x[i&mx] == y[i&my] })
}

func ltUUID(c *call, out *vec, a []*vec) {
	x, y := of[uuid16](a[0]), of[uuid16](a[1])
	mx, my := a[0].mask(), a[1].mask()
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return string(x[i&mx][:]) < string(y[i&my][:]) })
}

// span is the length of an interval with days of 24 hours and months of 30 days,
// by which intervals compare, in whole days and microseconds.
func (v interval) span() (days, us int64) {
	days = int64(v.months)*30 + int64(v.days) + v.us/dayUS
	us = v.us % dayUS
	if us < 0 {
		days--
		us += dayUS
	}
	return days, us
}

func (v interval) cmp(w interval) int {
	d1, u1 := v.span()
	d2, u2 := w.span()
	switch {
	case d1 < d2 || d1 == d2 && u1 < u2:
		return -1
	case d1 == d2 && u1 == u2:
		return 0
	}
	return 1
}

func eqInterval(c *call, out *vec, a []*vec) {
	x, y := of[interval](a[0]), of[interval](a[1])
	mx, my := a[0].mask(), a[1].mask()
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return x[i&mx].cmp(y[i&my]) == 0 })
}

func ltInterval(c *call, out *vec, a []*vec) {
	x, y := of[interval](a[0]), of[interval](a[1])
	mx, my := a[0].mask(), a[1].mask()
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return x[i&mx].cmp(y[i&my]) < 0 })
}

const dayUS = int64(24 * 3600 * 1e6)
