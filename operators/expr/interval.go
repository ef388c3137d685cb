package expr

import (
	"math"
)

func init() {
	iv, f8 := kInterval, kFloat64
	reg := func(op string, args []kind, k kernel) {
		register(function{name: op, args: args, ret: iv, fails: true, kernel: k})
	}
	reg("+", []kind{iv, iv}, plusIntervals(1))
	reg("-", []kind{iv, iv}, plusIntervals(-1))
	reg("*", []kind{iv, f8}, scaleInterval(false))
	reg("*", []kind{f8, iv}, swapArgs(scaleInterval(false)))
	reg("/", []kind{iv, f8}, scaleInterval(true))
	reg("unary -", []kind{iv}, negInterval)
}

// intervalOf puts parts together; ok is false if one is out of its range.
func intervalOf(months, days, us int64, ok bool) (interval, bool) {
	v := interval{int32(months), int32(days), us}
	return v, ok && int64(v.months) == months && int64(v.days) == days
}

func plusIntervals(sign int64) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[interval](a[0]), of[interval](a[1]), grow[interval](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			p, q := x[i&mx], y[i&my]
			d := sign * q.us
			us := p.us + d
			ok := (p.us^us)&(d^us) >= 0
			r[i], ok = intervalOf(int64(p.months)+sign*int64(q.months), int64(p.days)+sign*int64(q.days), us, ok)
			if !ok {
				outOfTime(c, i, "interval")
			}
		}
	}
}

func negInterval(c *call, out *vec, a []*vec) {
	x, r := of[interval](a[0]), grow[interval](out, c.n)
	m := a[0].mask()
	for i := range r {
		v := x[i&m]
		var ok bool
		r[i], ok = intervalOf(-int64(v.months), -int64(v.days), -v.us, v.us != math.MinInt64)
		if !ok {
			outOfTime(c, i, "interval")
		}
	}
}

// scaleInterval multiplies or divides: what is left of a month goes into days of
// 30 to the month, what is left of a day into time.
func scaleInterval(divide bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[interval](a[0]), of[float64](a[1]), grow[interval](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			f := y[i&my]
			r[i] = interval{}
			if divide && f == 0 {
				c.fail(i, badZero, "division by zero")
				continue
			}
			v, ok := x[i&mx].scale(f, divide)
			r[i] = v
			if !ok {
				outOfTime(c, i, "interval")
			}
		}
	}
}

func (v interval) scale(f float64, divide bool) (interval, bool) {
	by := func(x float64) float64 {
		if divide {
			return x / f
		}
		return x * f
	}
	round := func(x float64) float64 { return math.RoundToEven(x*1e6) / 1e6 }
	fits := func(x float64) bool { return x > -1<<31-1 && x < 1<<31 }
	m, d, us := by(float64(v.months)), by(float64(v.days)), by(float64(v.us))
	if !fits(m) || !fits(d) {
		return interval{}, false
	}
	months, days := math.Trunc(m), math.Trunc(d)
	monthDays := round((m - months) * 30)
	secs := round((d - days + monthDays - math.Trunc(monthDays)) * 86400)
	if math.Abs(secs) >= 86400 {
		days += math.Trunc(secs / 86400)
		secs -= math.Trunc(secs/86400) * 86400
	}
	days += math.Trunc(monthDays)
	us = math.RoundToEven(us + secs*1e6)
	if !fits(days) || !(us >= math.MinInt64 && us < -math.MinInt64) {
		return interval{}, false
	}
	return interval{int32(months), int32(days), int64(us)}, true
}
