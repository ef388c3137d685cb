package expr

import "math"

func init() {
	i4, f8, text := kInt32, kFloat64, kString
	add := func(name string, ret kind, k kernel, args ...kind) {
		register(function{name: name, args: args, ret: ret, fails: true, kernel: k})
	}
	describe("date/time", "make_time", "The time of an hour, a minute and seconds.", example{"make_time(8, 15, 23.5)", "08:15:23.5"})
	add("make_time", kTime, makeTimeKernel, i4, i4, f8)
	describe("date/time", "make_timestamp", "The timestamp of a year, month, day, hour, minute and seconds.",
		example{"make_timestamp(2024, 7, 15, 8, 15, 23.5)", "2024-07-15 08:15:23.5"})
	add("make_timestamp", kTimestamp, makeTimestampKernel, i4, i4, i4, i4, i4, f8)
	describe("date/time", "make_timestamptz", "As make_timestamp, of what clocks in a zone show; UTC without one.",
		example{"make_timestamptz(2024, 7, 15, 8, 15, 23.5)", "2024-07-15 08:15:23.5+00"},
		example{"make_timestamptz(2024, 7, 15, 8, 15, 23.5, 'Europe/Berlin')", "2024-07-15 06:15:23.5+00"})
	add("make_timestamptz", kTimestampTZ, makeTimestampKernel, i4, i4, i4, i4, i4, f8)
	add("make_timestamptz", kTimestampTZ, makeTimestampKernel, i4, i4, i4, i4, i4, f8, text)
	describe("date/time", "make_interval", "The interval of years, months, weeks, days, hours, minutes and seconds; those that are left out are 0. They may be named.",
		example{"make_interval(1, 2)", "1 year 2 mons"}, example{"make_interval(days => 10, secs => 1.5)", "10 days 00:00:01.5"})
	all := []kind{i4, i4, i4, i4, i4, i4, f8}
	for n := range len(all) + 1 {
		add("make_interval", kInterval, makeIntervalKernel, all[:n]...)
	}
	named["make_interval"] = namedOperands{names: []string{"years", "months", "weeks", "days", "hours", "mins", "secs"}, zeros: true}
	named["make_date"] = namedOperands{names: []string{"year", "month", "day"}}
	named["make_time"] = namedOperands{names: []string{"hour", "min", "sec"}}
	moment := []string{"year", "month", "mday", "hour", "min", "sec", "timezone"}
	named["make_timestamp"] = namedOperands{names: moment[:6]}
	named["make_timestamptz"] = namedOperands{names: moment}
}

// int32At returns row i of a whole number operand.
func int32At(v *vec, i int) int64 { return int64(of[int32](v)[i&v.mask()]) }

// clockOf is the time of an hour, a minute and seconds; 60 seconds and 24 hours
// are taken as the start of the next minute and day.
func clockOf(h, m int64, sec float64) (us int64, ok bool) {
	sec = math.RoundToEven(sec * 1e6) // what rounds to 0 or 60 seconds is that
	if h < 0 || h > 24 || m < 0 || m > 59 || !(sec >= 0 && sec <= 60e6) {
		return 0, false
	}
	us = h*hourUS + m*minUS + int64(sec)
	return us, us <= dayUS
}

func makeTimeKernel(c *call, out *vec, a []*vec) {
	s, r := of[float64](a[2]), grow[int64](out, c.n)
	for i := range r {
		us, ok := clockOf(int32At(a[0], i), int32At(a[1], i), s[i&a[2].mask()])
		r[i] = us
		if !ok {
			c.fail(i, badRange, "time field out of range: expected hour 0 to 24, minute 0 to 59, seconds 0 to 60")
		}
	}
}

// makeTimestampKernel reads a zone where there is a seventh operand.
func makeTimestampKernel(c *call, out *vec, a []*vec) {
	s, r := of[float64](a[5]), grow[int64](out, c.n)
	for i := range r {
		r[i] = 0
		if !c.counts(i) {
			continue
		}
		days, ok := dayNumber(int32At(a[0], i), int32At(a[1], i), int32At(a[2], i))
		us, inDay := clockOf(int32At(a[3], i), int32At(a[4], i), s[i&a[5].mask()])
		if !ok || !inDay {
			c.fail(i, badRange, "date or time field out of range")
			continue
		}
		if days >= endTS/dayUS {
			outOfTime(c, i, "timestamp")
			continue
		}
		t := days*dayUS + us
		if len(a) > 6 {
			name := a[6].text(i & a[6].mask())
			z, ok := zoneWritten(name)
			if !ok {
				c.fail(i, badArgument, "unknown time zone %q", name)
				continue
			}
			t = z.toUTC(t)
		}
		r[i] = t
		if !validTS(t) {
			outOfTime(c, i, "timestamp")
		}
	}
}

// zoneWritten finds a zone by name or offset, where + is east of UTC.
func zoneWritten(name string) (zone, bool) {
	if name != "" && (name[0] == '+' || name[0] == '-') {
		p := &scanner{s: name}
		off, ok := p.offset()
		return zone{offset: off}, ok && !p.more()
	}
	return zoneNamed(name)
}

// dayNumber is the day of a date, whose years before 1 are negative; there is no
// year 0.
func dayNumber(y, m, d int64) (days int64, ok bool) {
	switch {
	case y == 0:
		return 0, false
	case y < 0:
		y++
	}
	if m < 1 || m > 12 || d < 1 || d > monthLength(y, m) {
		return 0, false
	}
	days = daysOf(y, m, d)
	return days, days >= minDate && days <= maxDate
}

func makeIntervalKernel(c *call, out *vec, a []*vec) {
	r := grow[interval](out, c.n)
	for i := range r {
		at := func(n int) int64 {
			if n >= len(a) {
				return 0
			}
			return int32At(a[n], i)
		}
		months := at(0)*12 + at(1)
		days := at(2)*7 + at(3)
		us := at(4)*hourUS + at(5)*minUS
		ok := true
		if len(a) > 6 {
			secs := math.RoundToEven(of[float64](a[6])[i&a[6].mask()] * 1e6)
			sum := us
			if ok = secs >= math.MinInt64 && secs < -math.MinInt64; ok {
				sum = us + int64(secs)
				ok = (us^sum)&(int64(secs)^sum) >= 0
			}
			us = sum
		}
		r[i], ok = intervalOf(months, days, us, ok)
		if !ok {
			outOfTime(c, i, "interval")
		}
	}
}
