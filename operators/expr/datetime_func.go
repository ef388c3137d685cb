package expr

import (
	"fmt"
	"math"
)

func init() {
	ts, tz, iv, dt, tm := kTimestamp, kTimestampTZ, kInterval, kDate, kTime
	one := func(name string, args []kind, ret kind, k kernel) {
		register(function{name: name, args: args, ret: ret, fails: true, kernel: k})
	}
	for _, k := range []kind{ts, tz} {
		one("+", []kind{k, iv}, k, plusInterval(1))
		one("-", []kind{k, iv}, k, plusInterval(-1))
		one("-", []kind{k, k}, iv, minusTimestamp)
		register(function{name: "+", args: []kind{iv, k}, ret: k, fails: true, kernel: swapArgs(plusInterval(1))})
		one("date_trunc", []kind{kString, k}, k, truncKernel)
		one("date_bin", []kind{iv, k, k}, k, binKernel)
	}
	as := func(name string, args, as []kind, ret kind, k kernel) {
		register(function{name: name, args: args, as: as, ret: ret, fails: true, kernel: k})
	}
	as("-", []kind{ts, tz}, []kind{tz, tz}, iv, minusTimestamp)
	as("-", []kind{tz, ts}, []kind{tz, tz}, iv, minusTimestamp)
	one("+", []kind{dt, iv}, ts, dayPlusInterval(1))
	one("-", []kind{dt, iv}, ts, dayPlusInterval(-1))
	one("+", []kind{iv, dt}, ts, swapArgs(dayPlusInterval(1)))
	one("+", []kind{dt, kInt32}, dt, plusDays(1))
	one("-", []kind{dt, kInt32}, dt, plusDays(-1))
	register(function{name: "+", args: []kind{kInt32, dt}, ret: dt, fails: true, kernel: swapArgs(plusDays(1))})
	one("-", []kind{dt, dt}, kInt32, minusDate)
	one("+", []kind{dt, tm}, ts, datePlusTime)
	register(function{name: "+", args: []kind{tm, dt}, ret: ts, fails: true, kernel: swapArgs(datePlusTime)})
	one("+", []kind{tm, iv}, tm, timePlus(1))
	one("-", []kind{tm, iv}, tm, timePlus(-1))
	register(function{name: "+", args: []kind{iv, tm}, ret: tm, fails: true, kernel: swapArgs(timePlus(1))})
	one("-", []kind{tm, tm}, iv, func(c *call, out *vec, a []*vec) {
		x, y, r := of[int64](a[0]), of[int64](a[1]), grow[interval](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			r[i] = interval{us: x[i&mx] - y[i&my]}
		}
	})
	one("date_trunc", []kind{kString, iv}, iv, truncIntervalKernel)
	one("date_trunc", []kind{kString, tz, kString}, tz, truncKernel)
	one("timezone", []kind{kString, tz}, ts, zoneKernel((*zoneCursor).toLocal))
	one("timezone", []kind{kString, ts}, tz, zoneKernel((*zoneCursor).toUTC))
	one("timezone", []kind{iv, tz}, ts, zoneKernel((*zoneCursor).toLocal))
	one("timezone", []kind{iv, ts}, tz, zoneKernel((*zoneCursor).toUTC))
	one("to_timestamp", []kind{kFloat64}, tz, toTimestampKernel)
	register(function{name: "make_date", args: []kind{kInt32, kInt32, kInt32}, ret: dt, fails: true, kernel: makeDateKernel})
}

func swapArgs(k kernel) kernel {
	return func(c *call, out *vec, a []*vec) { k(c, out, []*vec{a[1], a[0]}) }
}

func outOfTime(c *call, i int, what string) { overflow(c, i, what) }

func plusInterval(sign int32) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[int64](a[0]), of[interval](a[1]), grow[int64](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			r[i] = c.plusInterval(i, x[i&mx], y[i&my], sign)
		}
	}
}

// dayPlusInterval makes a timestamp of the day only where the interval is not null, as
// PostgreSQL does.
func dayPlusInterval(sign int32) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[int32](a[0]), of[interval](a[1]), grow[int64](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			t, ok := dayStart(x[i&mx])
			if !ok {
				c.fail(i, badRange, "date out of range for timestamp")
			}
			r[i] = c.plusInterval(i, t, y[i&my], sign)
		}
	}
}

func (c *call) plusInterval(i int, t int64, v interval, sign int32) int64 {
	if !finite(t) {
		return t
	}
	if sign < 0 {
		v = interval{-v.months, -v.days, -v.us}
	}
	t, ok := addInterval(t, v)
	if !ok {
		outOfTime(c, i, "timestamp")
	}
	return t
}

// minusTimestamp gives days and time, never months.
func minusTimestamp(c *call, out *vec, a []*vec) {
	x, y, r := of[int64](a[0]), of[int64](a[1]), grow[interval](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		d := p - q
		if (p^q)&(p^d) < 0 || !finite(p) || !finite(q) {
			outOfTime(c, i, "interval")
			d = 0
		}
		r[i] = interval{days: int32(d / dayUS), us: d % dayUS}
	}
}

func plusDays(sign int64) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[int32](a[0]), of[int32](a[1]), grow[int32](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			day := x[i&mx]
			if !finiteDate(day) {
				r[i] = day
				continue
			}
			d := int64(day) + sign*int64(y[i&my])
			r[i] = int32(d)
			if d < minDate || d > maxDate {
				outOfTime(c, i, "date")
			}
		}
	}
}

func minusDate(c *call, out *vec, a []*vec) {
	x, y, r := of[int32](a[0]), of[int32](a[1]), grow[int32](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		r[i] = p - q
		if !finiteDate(p) || !finiteDate(q) {
			c.fail(i, badRange, "infinite dates have no difference")
		}
	}
}

func datePlusTime(c *call, out *vec, a []*vec) {
	x, y, r := of[int32](a[0]), of[int64](a[1]), grow[int64](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		day := x[i&mx]
		if !finiteDate(day) {
			r[i] = infiniteDay(day)
			continue
		}
		d := int64(day)
		if d >= endTS/dayUS {
			r[i] = 0
			outOfTime(c, i, "timestamp")
			continue
		}
		r[i] = d*dayUS + y[i&my]
		if !validTS(r[i]) {
			outOfTime(c, i, "timestamp")
		}
	}
}

func timePlus(sign int64) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, y, r := of[int64](a[0]), of[interval](a[1]), grow[int64](out, c.n)
		mx, my := a[0].mask(), a[1].mask()
		for i := range r {
			r[i] = floorMod(x[i&mx]+sign*(y[i&my].us%dayUS), dayUS)
		}
	}
}

// dateUnit names a field of a date or time as PostgreSQL does, plurals included.
func dateUnit(s string) string {
	var buf [16]byte
	switch lowered(s, buf[:]) {
	case "us", "usec", "usecs", "useconds", "microsecon", "microsecond", "microseconds":
		return "microseconds"
	case "ms", "msec", "msecs", "mseconds", "millisecon", "millisecond", "milliseconds":
		return "milliseconds"
	case "s", "sec", "secs", "second", "seconds":
		return "second"
	case "m", "min", "mins", "minute", "minutes":
		return "minute"
	case "h", "hr", "hrs", "hour", "hours":
		return "hour"
	case "d", "day", "days":
		return "day"
	case "w", "week", "weeks":
		return "week"
	case "mon", "mons", "month", "months":
		return "month"
	case "qtr", "quarter", "quarters":
		return "quarter"
	case "y", "yr", "yrs", "year", "years":
		return "year"
	case "decade", "decades", "dec", "decs":
		return "decade"
	case "century", "centuries", "c", "cent":
		return "century"
	case "millennium", "millennia", "mil", "mils", "millenium":
		return "millennium"
	case "dow":
		return "dow"
	case "isodow":
		return "isodow"
	case "doy":
		return "doy"
	case "isoyear":
		return "isoyear"
	case "epoch":
		return "epoch"
	case "julian":
		return "julian"
	case "timezone":
		return "timezone"
	case "timezone_hour":
		return "timezone_hour"
	case "timezone_minute":
		return "timezone_minute"
	}
	return s // no unit: as it was written, for the message
}

// truncDays cuts a day to the start of a unit; ok is false for a unit of less
// than a week.
func truncDays(unit string, days int64) (int64, bool) {
	y, m, _ := dateOf(days)
	// Years before 1 count down from 0; decades, centuries and millennia are cut
	// as PostgreSQL cuts them.
	switch unit {
	case "week":
		return days - isoWeekday(days) + 1, true
	case "month":
		return daysOf(y, m, 1), true
	case "quarter":
		return daysOf(y, (m-1)/3*3+1, 1), true
	case "year":
		return daysOf(y, 1, 1), true
	case "decade":
		return daysOf(floorDiv(y, 10)*10, 1, 1), true
	case "century":
		return daysOf(floorDiv(y-1, 100)*100+1, 1, 1), true
	case "millennium":
		return daysOf(floorDiv(y-1, 1000)*1000+1, 1, 1), true
	}
	return days, false
}

func truncKernel(c *call, out *vec, a []*vec) {
	x, r := of[int64](a[1]), grow[int64](out, c.n)
	mu, mx := a[0].mask(), a[1].mask()
	unit, last := "", ""
	width := int64(0) // of a unit up to a day
	var z zoneCursor
	for i := range r {
		if s := a[0].text(i & mu); i == 0 || s != last {
			unit, last = dateUnit(s), s
			width = unitWidth(unit)
		}
		us := x[i&mx]
		switch {
		case !finite(us):
			r[i] = us
			continue
		case width > 0 && len(a) == 2:
			r[i] = us - floorMod(us, width)
		case len(a) == 2:
			days, ok := truncDays(unit, floorDiv(us, dayUS))
			r[i] = days * dayUS
			if !ok {
				c.failUnit(i, last, "")
			}
		default:
			r[i] = truncIn(c, i, &z, a[2].text(i&a[2].mask()), unit, us)
		}
		if !validTS(r[i]) {
			outOfTime(c, i, "timestamp")
		}
	}
}

// truncIn cuts what clocks in a zone show. Below a day the offset stays.
func truncIn(c *call, i int, z *zoneCursor, name, unit string, us int64) int64 {
	if !c.counts(i) {
		return us
	}
	if !z.use(name) {
		c.fail(i, badArgument, "unknown time zone %q", name)
		return us
	}
	local := z.toLocal(us)
	width := unitWidth(unit)
	if width > 0 && width < dayUS {
		return us - floorMod(local, width)
	}
	days, ok := truncDays(unit, floorDiv(local, dayUS))
	if !ok && width == 0 {
		c.failUnit(i, unit, "")
	}
	return z.toUTC(days * dayUS)
}

func (c *call) failUnit(i int, unit, of string) {
	if c.counts(i) {
		c.fail(i, badArgument, "unknown unit %q%s", unit, of)
	}
}

// unitWidth is the length of a unit up to a day, 0 for others.
func unitWidth(unit string) int64 {
	switch unit {
	case "microseconds":
		return 1
	case "milliseconds":
		return 1000
	case "second":
		return secUS
	case "minute":
		return minUS
	case "hour":
		return hourUS
	case "day":
		return dayUS
	}
	return 0
}

func truncIntervalKernel(c *call, out *vec, a []*vec) {
	x, r := of[interval](a[1]), grow[interval](out, c.n)
	mu, mx := a[0].mask(), a[1].mask()
	unit, last := "", ""
	for i := range r {
		if s := a[0].text(i & mu); i == 0 || s != last {
			unit, last = dateUnit(s), s
		}
		v, ok := truncInterval(unit, x[i&mx])
		r[i] = v
		if !ok {
			c.failUnit(i, unit, " of an interval")
		}
	}
}

// truncInterval cuts towards zero.
func truncInterval(unit string, v interval) (interval, bool) {
	cut := func(n int32) (interval, bool) { return interval{months: v.months / n * n}, true }
	cutUS := func(n int64) (interval, bool) { return interval{v.months, v.days, v.us / n * n}, true }
	switch unit {
	case "millennium":
		return cut(12000)
	case "century":
		return cut(1200)
	case "decade":
		return cut(120)
	case "year":
		return cut(12)
	case "quarter":
		return cut(3)
	case "month":
		return cut(1)
	case "day":
		return interval{months: v.months, days: v.days}, true
	case "hour":
		return cutUS(hourUS)
	case "minute":
		return cutUS(minUS)
	case "second":
		return cutUS(secUS)
	case "milliseconds":
		return cutUS(1000)
	case "microseconds":
		return v, true
	}
	return v, false
}

func binKernel(c *call, out *vec, a []*vec) {
	w, x, o, r := of[interval](a[0]), of[int64](a[1]), of[int64](a[2]), grow[int64](out, c.n)
	mw, mx, mo := a[0].mask(), a[1].mask(), a[2].mask()
	for i := range r {
		v, us, origin := w[i&mw], x[i&mx], o[i&mo]
		r[i] = us
		stride := int64(v.days)*dayUS + v.us
		switch {
		case !finite(us):
		case !finite(origin):
			c.fail(i, badRange, "the origin of date_bin must be finite")
		case v.months != 0:
			c.fail(i, badArgument, "date_bin takes no months or years")
		case stride <= 0:
			c.fail(i, badRange, "the stride of date_bin must be greater than zero")
		default:
			r[i] = origin + floorDiv(us-origin, stride)*stride
		}
	}
}

// zoneKernel moves a time by a zone: a name or an interval.
func zoneKernel(move func(z *zoneCursor, us int64) int64) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, r := of[int64](a[1]), grow[int64](out, c.n)
		mz, mx := a[0].mask(), a[1].mask()
		var z zoneCursor
		for i := range r {
			r[i] = x[i&mx]
			if !c.counts(i) || !finite(r[i]) {
				continue
			}
			if c.node.args[0].typ.k == kInterval {
				v := of[interval](a[0])[i&mz]
				if v.months != 0 || v.days != 0 {
					c.fail(i, badArgument, "an interval that is a zone has no months or days")
					continue
				}
				z.fix(zone{offset: v.us / secUS})
			} else if s := a[0].text(i & mz); !z.use(s) {
				c.fail(i, badArgument, "unknown time zone %q", s)
				continue
			}
			r[i] = move(&z, x[i&mx])
			if !validTS(r[i]) {
				outOfTime(c, i, "timestamp")
			}
		}
	}
}

// epoch2000 is 2000-01-01, from which PostgreSQL counts, in seconds since 1970.
const epoch2000 = 946684800

func toTimestampKernel(c *call, out *vec, a []*vec) {
	x, r := of[float64](a[0]), grow[int64](out, c.n)
	m := a[0].mask()
	for i := range r {
		f := x[i&m]
		if math.IsInf(f, 0) {
			r[i] = lastTS
			if f < 0 {
				r[i] = firstTS
			}
			continue
		}
		if !(f >= float64(minTS)/1e6 && f < float64(endTS)/1e6) {
			r[i] = 0
			if c.counts(i) {
				outOfTime(c, i, fmt.Sprintf("timestamp %v", f))
			}
			continue
		}
		r[i] = int64(math.RoundToEven((f-epoch2000)*1e6)) + epoch2000*secUS // as PostgreSQL rounds
	}
}

func makeDateKernel(c *call, out *vec, a []*vec) {
	r := grow[int32](out, c.n)
	for i := range r {
		days, ok := dayNumber(int32At(a[0], i), int32At(a[1], i), int32At(a[2], i))
		r[i] = int32(days)
		if !ok {
			outOfTime(c, i, "date")
		}
	}
}
