package expr

import "math"

// int16 is PostgreSQL's smallint: kernels of int32 compute it, and narrow looks that the
// result fits.
func init() {
	k := kInt16
	two := []kind{k, k}
	for name, kn := range map[string]kernel{
		"+": addInt[int32], "-": subInt[int32], "*": mulInt32, "/": divInt[int32], "%": remInt[int32], "mod": remInt[int32],
	} {
		register(function{name: name, args: two, ret: k, fails: true, kernel: narrow(kn)})
	}
	for name, kn := range map[string]kernel{"unary -": negInt[int32], "unary @": absInt[int32], "abs": absInt[int32]} {
		register(function{name: name, args: two[:1], ret: k, fails: true, kernel: narrow(kn)})
	}
	register(function{name: "unary +", args: two[:1], result: sameType, kernel: passKernel})

	registerCast(k, kInt32, implicitCast, false, passKernel)
	registerCast(k, kInt64, implicitCast, false, mapKernel(func(x int32) int64 { return int64(x) }))
	registerCast(k, kFloat32, implicitCast, false, mapKernel(func(x int32) float32 { return float32(x) }))
	registerCast(k, kFloat64, implicitCast, false, mapKernel(func(x int32) float64 { return float64(x) }))
	registerCast(k, kDecimal, implicitCast, true, castIntDec[int32])
	registerCast(kInt32, k, explicitCast, true, narrow(passKernel))
	registerCast(kInt64, k, explicitCast, true, narrow(castInt64Int32))
	registerCast(kFloat32, k, explicitCast, true, narrow(castFloatInt[float32, int32]))
	registerCast(kFloat64, k, explicitCast, true, narrow(castFloatInt[float64, int32]))
	registerCast(kDecimal, k, explicitCast, true, narrow(castDecInt[int32]))
}

// narrow fails rows whose result is no int16.
func narrow(kn kernel) kernel {
	return func(c *call, out *vec, a []*vec) {
		kn(c, out, a)
		for i, x := range of[int32](out)[:min(c.n, len(of[int32](out)))] {
			if x < math.MinInt16 || x > math.MaxInt16 {
				overflow(c, i, "int16")
			}
		}
	}
}
