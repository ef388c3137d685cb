package expr

import (
	"math"
	"math/bits"
	"strconv"
)

func init() {
	for _, k := range []kind{kInt16, kInt32} {
		bitwise[int32](k)
	}
	bitwise[int64](kInt64)
	register(
		function{name: "to_hex", args: []kind{kInt32}, ret: kString, kernel: hexKernel[int32]},
		function{name: "to_hex", args: []kind{kInt64}, ret: kString, kernel: hexKernel[int64]},
		function{name: "bit_count", args: []kind{kBinary}, ret: kInt64, kernel: bitCount},
		function{name: "get_byte", args: []kind{kBinary, kInt32}, ret: kInt32, fails: true, kernel: getByte},
		function{name: "set_byte", args: []kind{kBinary, kInt32, kInt32}, ret: kBinary, fails: true, kernel: setByte},
		function{name: "get_bit", args: []kind{kBinary, kInt64}, ret: kInt32, fails: true, kernel: getBit},
		function{name: "set_bit", args: []kind{kBinary, kInt64, kInt32}, ret: kBinary, fails: true, kernel: setBit})
}

// bitwise registers the operators of a type of whole numbers whose values are
// kept as T.
func bitwise[T integer](k kind) {
	two := func(name string, f func(x, y T) T) {
		register(function{name: name, args: []kind{k, k}, ret: k, kernel: func(c *call, out *vec, a []*vec) {
			x, y, r := of[T](a[0]), of[T](a[1]), grow[T](out, c.n)
			mx, my := a[0].mask(), a[1].mask()
			for i := range r {
				r[i] = f(x[i&mx], y[i&my])
			}
		}})
	}
	two("&", func(x, y T) T { return x & y })
	two("|", func(x, y T) T { return x | y })
	two("#", func(x, y T) T { return x ^ y })
	register(function{name: "unary ~", args: []kind{k}, ret: k, kernel: mapKernel(func(x T) T { return ^x })})
	most := uint32(31)
	if k == kInt64 {
		most = 63
	}
	shift := func(name string, f func(x T, n uint32) T) {
		register(function{name: name, args: []kind{k, kInt32}, ret: k, kernel: func(c *call, out *vec, a []*vec) {
			x, y, r := of[T](a[0]), of[int32](a[1]), grow[T](out, c.n)
			mx, my := a[0].mask(), a[1].mask()
			for i := range r {
				r[i] = f(x[i&mx], uint32(y[i&my])&most)
			}
		}})
	}
	left := func(x T, n uint32) T { return x << n }
	if k == kInt16 {
		left = func(x T, n uint32) T { return T(int16(x << n)) }
	}
	shift("<<", left)
	shift(">>", func(x T, n uint32) T { return x >> n })
}

func hexKernel[T integer](c *call, out *vec, a []*vec) {
	x, m := of[T](a[0]), a[0].mask()
	mask := uint64(math.MaxUint64)
	if int64(minOf[T]()) == math.MinInt32 {
		mask = math.MaxUint32
	}
	eachValue(c, out, func(dst []byte, i int) []byte { return strconv.AppendUint(dst, uint64(x[i&m])&mask, 16) })
}

func bitCount(c *call, out *vec, a []*vec) {
	r, m := grow[int64](out, c.n), a[0].mask()
	for i := range r {
		n := 0
		for _, b := range a[0].bytes(i & m) {
			n += bits.OnesCount8(b)
		}
		r[i] = int64(n)
	}
}

// place checks a place in a byte string, from 0.
func (c *call) place(i int, at, n int64, what string) bool {
	if at < 0 || at >= n {
		if c.counts(i) {
			c.fail(i, badArgument, "%s %d is out of range: there are %d", what, at, n)
		}
		return false
	}
	return true
}

func getByte(c *call, out *vec, a []*vec) {
	at, r := of[int32](a[1]), grow[int32](out, c.n)
	for i := range r {
		b, k := a[0].bytes(i&a[0].mask()), int64(at[i&a[1].mask()])
		if r[i] = 0; c.place(i, k, int64(len(b)), "byte") {
			r[i] = int32(b[k])
		}
	}
}

func setByte(c *call, out *vec, a []*vec) {
	at, to := of[int32](a[1]), of[int32](a[2])
	eachValue(c, out, func(dst []byte, i int) []byte {
		b, k := a[0].bytes(i&a[0].mask()), int64(at[i&a[1].mask()])
		if !c.place(i, k, int64(len(b)), "byte") {
			return dst
		}
		start := len(dst)
		dst = append(dst, b...)
		dst[start+int(k)] = byte(to[i&a[2].mask()])
		return dst
	})
}

// Bits count from the lowest one of the first byte.

func getBit(c *call, out *vec, a []*vec) {
	at, r := of[int64](a[1]), grow[int32](out, c.n)
	for i := range r {
		b, k := a[0].bytes(i&a[0].mask()), at[i&a[1].mask()]
		if r[i] = 0; c.place(i, k, int64(len(b))*8, "bit") {
			r[i] = int32(b[k>>3] >> (k & 7) & 1)
		}
	}
}

func setBit(c *call, out *vec, a []*vec) {
	at, to := of[int64](a[1]), of[int32](a[2])
	eachValue(c, out, func(dst []byte, i int) []byte {
		b, k, v := a[0].bytes(i&a[0].mask()), at[i&a[1].mask()], to[i&a[2].mask()]
		if !c.place(i, k, int64(len(b))*8, "bit") {
			return dst
		}
		if v != 0 && v != 1 {
			c.fail(i, badArgument, "a bit is 0 or 1, not %d", v)
			return dst
		}
		start := len(dst)
		dst = append(dst, b...)
		p := &dst[start+int(k>>3)]
		*p = *p&^(1<<(k&7)) | byte(v)<<(k&7)
		return dst
	})
}
