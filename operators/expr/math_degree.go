package expr

import (
	"math"

	"frazil/dataflow"
)

// The trigonometric functions of degrees are exact at multiples of 30 and 45:
// what the functions of radians give there is the unit that they count in.

// Variables, so that the same function computes them as computes the values that
// they are compared with.
var (
	degree       = math.Pi / 180
	sinOf30      = math.Sin(30 * degree)
	lessCosOf60  = 1 - math.Cos(60*degree)
	asinOfHalf   = math.Asin(0.5)
	acosOfHalf   = acos(0.5)
	atanOfOne    = math.Atan(1)
	tanOf45      = sinQuarter(45) / cosQuarter(45)
	cotOf45      = cosQuarter(45) / sinQuarter(45)
	degreesFuncs = map[string]floatFunc{
		"sind": ofFinite(sinDegrees), "cosd": ofFinite(cosDegrees), "tand": ofFinite(tanDegrees), "cotd": ofFinite(cotDegrees),
		"asind": within(asinDegrees, -1, 1), "acosd": within(acosDegrees, -1, 1),
		"atand": safe(func(x float64) float64 { return math.Atan(x) / atanOfOne * 45 }),
	}
)

func init() {
	for name, f := range degreesFuncs {
		register(function{name: name, args: []kind{kFloat64}, ret: kFloat64, fails: true, kernel: floatKernel(f)})
	}
	register(function{name: "atan2d", args: []kind{kFloat64, kFloat64}, ret: kFloat64, kernel: floatsKernel(func(x, y float64) (float64, *dataflow.Bad) {
		return math.Copysign(math.Atan2(x, y), x) / atanOfOne * 45, nil
	})})
}

// sinQuarter is the sine of 0 to 90 degrees.
func sinQuarter(x float64) float64 {
	if x <= 30 {
		return math.Sin(x*degree) / sinOf30 / 2
	}
	return cosLow(90 - x)
}

// cosQuarter is the cosine of 0 to 90 degrees.
func cosQuarter(x float64) float64 {
	if x <= 60 {
		return cosLow(x)
	}
	return math.Sin((90-x)*degree) / sinOf30 / 2
}

func cosLow(x float64) float64 { return 1 - (1-math.Cos(x*degree))/lessCosOf60/2 }

// quarter turns an angle into the first quarter of the circle. minus says that
// it lay below the horizontal, left that it lay left of the vertical.
func quarter(x float64) (q float64, minus, left bool) {
	x = math.Mod(x, 360)
	if x < 0 {
		x, minus = -x, true
	}
	if x > 180 {
		x, minus = 360-x, !minus
	}
	if x > 90 {
		x, left = 180-x, true
	}
	return x, minus, left
}

func signIf(minus bool, x float64) float64 {
	if minus {
		return -x
	}
	return x
}

func sinDegrees(x float64) float64 {
	q, minus, _ := quarter(x)
	return signIf(minus, sinQuarter(q))
}

func cosDegrees(x float64) float64 {
	q, _, left := quarter(x)
	return signIf(left, cosQuarter(q))
}

func tanDegrees(x float64) float64 {
	q, minus, left := quarter(x)
	return signIf(minus != left, sinQuarter(q)/cosQuarter(q)/tanOf45) + 0
}

func cotDegrees(x float64) float64 {
	q, minus, left := quarter(x)
	return signIf(minus != left, cosQuarter(q)/sinQuarter(q)/cotOf45) + 0
}

func asinDegrees(x float64) float64 {
	switch {
	case x < 0:
		return -asinDegrees(-x)
	case x <= 0.5:
		return math.Asin(x) / asinOfHalf * 30
	}
	return 90 - acos(x)/acosOfHalf*60
}

func acosDegrees(x float64) float64 {
	switch {
	case x < 0:
		return 90 + asinDegrees(-x)
	case x <= 0.5:
		return 90 - math.Asin(x)/asinOfHalf*30
	}
	return acos(x) / acosOfHalf * 60
}
