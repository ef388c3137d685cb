package expr

import "math"

func init() {
	describe("date/time", "age", "How much later the first timestamp is, in years, months, days and time as a calendar counts them. With one operand PostgreSQL takes today: that reads the clock and is refused.",
		example{"age(timestamp '2024-04-10', timestamp '1957-06-13')", "66 years 9 mons 27 days"},
		example{"timestamp '2024-04-10' - timestamp '1957-06-13'", "24408 days"})
	for _, k := range []kind{kTimestamp, kTimestampTZ} {
		register(function{name: "age", args: []kind{k, k}, ret: kInterval, fails: true, kernel: ageKernel})
	}
	describe("date/time", "justify_days", "An interval with 30 days at a time made a month.", example{"justify_days(interval '1 year 65 days')", "1 year 2 mons 5 days"})
	describe("date/time", "justify_hours", "An interval with 24 hours at a time made a day.", example{"justify_hours(interval '50 hours 10 minutes')", "2 days 02:10:00"})
	describe("date/time", "justify_interval", "An interval with both, and one sign for all its parts.", example{"justify_interval(interval '1 month -1 hour')", "29 days 23:00:00"})
	for name, f := range map[string]func(interval) (interval, bool){
		"justify_days": justifyDays, "justify_hours": justifyHours, "justify_interval": justifyInterval,
	} {
		register(function{name: name, args: []kind{kInterval}, ret: kInterval, fails: true, kernel: justifyKernel(f)})
	}
}

func ageKernel(c *call, out *vec, a []*vec) {
	x, y, r := of[int64](a[0]), of[int64](a[1]), grow[interval](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		p, q := x[i&mx], y[i&my]
		if !finite(p) || !finite(q) {
			r[i] = interval{}
			c.fail(i, badRange, "the age of an infinite timestamp is out of range")
			continue
		}
		r[i] = age(p, q)
	}
}

// age is p - q, field by field; what is missing to a whole month is taken from
// the month of the earlier one.
func age(p, q int64) interval {
	if p < q {
		v := age(q, p)
		return interval{-v.months, -v.days, -v.us}
	}
	y1, m1, d1 := dateOf(floorDiv(p, dayUS))
	y2, m2, d2 := dateOf(floorDiv(q, dayUS))
	months, days := (y1-y2)*12+m1-m2, d1-d2
	us := floorMod(p, dayUS) - floorMod(q, dayUS)
	if us < 0 {
		us += dayUS
		days--
	}
	if days < 0 {
		days += monthLength(y2, m2)
		months--
	}
	return interval{int32(months), int32(days), us}
}

func justifyKernel(f func(interval) (interval, bool)) kernel {
	return func(c *call, out *vec, a []*vec) {
		x, r := of[interval](a[0]), grow[interval](out, c.n)
		m := a[0].mask()
		for i := range r {
			v, ok := f(x[i&m])
			r[i] = v
			if !ok {
				outOfTime(c, i, "interval")
			}
		}
	}
}

// carry moves whole parts of size from small to large and gives both one sign.
func carry(large, small, size int64) (int64, int64) {
	large, small = large+small/size, small%size
	switch {
	case large > 0 && small < 0:
		return large - 1, small + size
	case large < 0 && small > 0:
		return large + 1, small - size
	}
	return large, small
}

func justifyHours(v interval) (interval, bool) {
	days, us := carry(int64(v.days), v.us, dayUS)
	return intervalOf(int64(v.months), days, us, true)
}

func justifyDays(v interval) (interval, bool) {
	months, days := carry(int64(v.months), int64(v.days), 30)
	return intervalOf(months, days, v.us, true)
}

func justifyInterval(v interval) (interval, bool) {
	months, days, us := int64(v.months), int64(v.days)+v.us/dayUS, v.us%dayUS
	months, days = months+days/30, days%30
	switch {
	case months > 0 && (days < 0 || days == 0 && us < 0):
		months, days = months-1, days+30
	case months < 0 && (days > 0 || days == 0 && us > 0):
		months, days = months+1, days-30
	}
	switch {
	case days > 0 && us < 0:
		days, us = days-1, us+dayUS
	case days < 0 && us > 0:
		days, us = days+1, us-dayUS
	}
	return intervalOf(months, days, us, months <= math.MaxInt32)
}
