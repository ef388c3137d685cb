package expr

import (
	"math"

	"frazil/dataflow"
)

// Mistakes that a function of a float can make.
var (
	badOverflow  = badf(badRange, "value out of range: overflow")
	badUnderflow = badf(badRange, "value out of range: underflow")
	badInput     = badf(badRange, "input is out of range")
	badSqrt      = badf(badArgument, "cannot take the square root of a negative number")
	badLogZero   = badf(badArgument, "cannot take the logarithm of zero")
	badLogMinus  = badf(badArgument, "cannot take the logarithm of a negative number")
	badPowZero   = badf(badArgument, "zero to the power of a negative number is undefined")
	badPowMinus  = badf(badArgument, "a negative number to the power of a fraction is not real")
)

type floatFunc func(x float64) (float64, *dataflow.Bad)

func init() {
	one := func(f floatFunc, names ...string) {
		for _, n := range names {
			register(function{name: n, args: []kind{kFloat64}, ret: kFloat64, fails: true, kernel: floatKernel(f)})
		}
	}
	one(sqrtFloat, "sqrt", "unary |/")
	one(safe(math.Cbrt), "cbrt", "unary ||/")
	one(expFloat, "exp")
	one(logFloat(naturalLog), "ln")
	one(logFloat(log10), "log", "log10")
	one(func(x float64) (float64, *dataflow.Bad) { return checked(x, x/(math.Pi/180)) }, "degrees")
	one(func(x float64) (float64, *dataflow.Bad) { return checked(x, x*(math.Pi/180)) }, "radians")
	for name, f := range map[string]func(float64) float64{
		"sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "cot": func(x float64) float64 { return 1 / math.Tan(x) },
	} {
		one(ofFinite(f), name)
	}
	for name, f := range map[string]func(float64) float64{
		"sinh": sinh, "cosh": cosh, "tanh": math.Tanh, "asinh": math.Asinh, "atan": math.Atan,
	} {
		one(safe(f), name)
	}
	one(within(math.Asin, -1, 1), "asin")
	one(within(acos, -1, 1), "acos")
	one(within(math.Acosh, 1, math.Inf(1)), "acosh")
	one(within(math.Atanh, -1, 1), "atanh")
	two := func(name string, f func(x, y float64) (float64, *dataflow.Bad)) {
		register(function{name: name, args: []kind{kFloat64, kFloat64}, ret: kFloat64, fails: true, kernel: floatsKernel(f)})
	}
	two("atan2", func(x, y float64) (float64, *dataflow.Bad) { return math.Copysign(math.Atan2(x, y), x), nil }) // The library's is +pi for the least negative x.
	for _, name := range []string{"^", "power", "pow"} {
		two(name, powFloat)
	}
	register(function{name: "pi", ret: kFloat64, kernel: func(c *call, out *vec, _ []*vec) {
		for i, r := 0, grow[float64](out, c.n); i < len(r); i++ {
			r[i] = math.Pi
		}
	}})
}

func floatKernel(f floatFunc) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, r := of[float64](a[0]), grow[float64](out, c.n)
		mx := a[0].mask()
		for i := range r {
			v, bad := f(x[i&mx])
			r[i] = v
			if bad != nil {
				c.failBad(i, bad)
			}
		}
	}
}

func floatsKernel(f func(x, y float64) (float64, *dataflow.Bad)) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[float64](a[0]), of[float64](a[1]), grow[float64](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			v, bad := f(x[i&mx], y[i&my])
			r[i] = v
			if bad != nil {
				c.failBad(i, bad)
			}
		}
	}
}

// safe is a function that cannot fail.
func safe(f func(float64) float64) floatFunc {
	return func(x float64) (float64, *dataflow.Bad) { return f(x), nil }
}

// ofFinite is a function of what is not infinite.
func ofFinite(f func(float64) float64) floatFunc {
	return func(x float64) (float64, *dataflow.Bad) {
		if math.IsInf(x, 0) {
			return 0, badInput
		}
		return f(x), nil
	}
}

// within is a function of numbers from lo to hi, and of NaN.
func within(f func(float64) float64, lo, hi float64) floatFunc {
	return func(x float64) (float64, *dataflow.Bad) {
		if x < lo || x > hi {
			return 0, badInput
		}
		return f(x), nil
	}
}

// checked is result r of x, which may neither overflow nor become zero.
func checked(x, r float64) (float64, *dataflow.Bad) {
	switch {
	case math.IsInf(r, 0) && !math.IsInf(x, 0):
		return r, badOverflow
	case r == 0 && x != 0:
		return r, badUnderflow
	}
	return r, nil
}

// acos is exact near 1 too, where math.Acos loses digits.
func acos(x float64) float64 { return 2 * math.Atan2(math.Sqrt(1-x), math.Sqrt(1+x)) }

func sqrtFloat(x float64) (float64, *dataflow.Bad) {
	if x < 0 {
		return 0, badSqrt
	}
	return math.Sqrt(x), nil
}

func expFloat(x float64) (float64, *dataflow.Bad) {
	r := math.Exp(x)
	switch {
	case math.IsInf(x, 0):
	case math.IsInf(r, 1):
		return r, badOverflow
	case r == 0:
		return r, badUnderflow
	}
	return r, nil
}

func logFloat(f func(float64) float64) floatFunc {
	return func(x float64) (float64, *dataflow.Bad) {
		switch {
		case x == 0:
			return 0, badLogZero
		case x < 0:
			return 0, badLogMinus
		}
		return f(x), nil
	}
}

// sinh and cosh go as far as their results do: Go's overflow where exp(x) does.
func sinh(x float64) float64 {
	if math.Abs(x) > 700 {
		e := math.Exp(math.Abs(x) / 2)
		return math.Copysign(e/2*e, x)
	}
	return math.Sinh(x)
}

func cosh(x float64) float64 {
	if math.Abs(x) > 700 {
		e := math.Exp(math.Abs(x) / 2)
		return e / 2 * e
	}
	return math.Cosh(x)
}

// naturalLog is math.Log, which on some machines takes numbers too small for all their bits for
// greater ones.
func naturalLog(x float64) float64 {
	if x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// log10 is exact for powers of ten, which math.Log10 is not.
func log10(x float64) float64 {
	r := naturalLog(x) * (1 / math.Ln10)
	if n := math.Round(r); n != r && n >= -300 && n <= 308 && math.Pow10(int(n)) == x {
		return n
	}
	return r
}

func powFloat(x, y float64) (float64, *dataflow.Bad) {
	switch {
	case x == 0 && y < 0:
		return 0, badPowZero
	case x < 0 && y == y && math.Floor(y) != y:
		return 0, badPowMinus
	}
	r := math.Pow(x, y)
	if x > 0 && x < 0x1p-1022 { // see naturalLog
		r = math.Pow(x*0x1p54, y) * math.Exp2(-54*y)
	}
	switch {
	case math.IsInf(x, 0) || math.IsInf(y, 0):
	case math.IsInf(r, 0):
		return r, badOverflow
	case r == 0 && x != 0:
		return r, badUnderflow
	}
	return r, nil
}
