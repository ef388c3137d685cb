package expr

import (
	"errors"
	"fmt"
	"math"
)

// extract gives numeric: its places depend on the field, which is a constant in
// the syntax. date_part is the same as double precision.
func init() {
	for _, k := range []kind{kDate, kTime, kTimestamp, kTimestampTZ, kInterval} {
		as := k // date_part of a date has its hours, extract has not
		if k == kDate {
			as = kTimestamp
		}
		register(
			function{name: "extract", args: []kind{kString, k}, result: extractType, fails: true, kernel: extractKernel},
			function{name: "date_part", args: []kind{kString, k}, as: []kind{kString, as}, ret: kFloat64, fails: true, kernel: datePartKernel},
		)
	}
}

func extractType(args []*node) (typ, error) {
	if args[0].konst == nil || args[0].konst.constNull() {
		return typ{}, errors.New("extract needs a constant field")
	}
	unit := dateUnit(args[0].konst.text(0))
	if _, err := partOf(unit, args[1].typ.k, 0, interval{}); err == errUnit {
		return typ{}, fmt.Errorf("%s has no field %q", args[1].typ, unit)
	}
	switch unit {
	case "second", "epoch":
		return decimalType(20, 6), nil
	case "milliseconds":
		return decimalType(20, 3), nil
	case "julian":
		return decimalType(36, 20), nil
	}
	return decimalType(20, 0), nil
}

// part is a field's value: n / 10^scale, or infinite with the sign of n. Of a
// Julian day rest is the time of the day in microseconds.
type part struct {
	n, rest  int64
	scale    int32
	infinite bool
}

var errUnit = errors.New("unit")

// partOf takes a field out of a value of kind k: days, microseconds or an
// interval.
func partOf(unit string, k kind, x int64, iv interval) (part, error) {
	switch k {
	case kInterval:
		return intervalPart(unit, iv)
	case kTime:
		return timePart(unit, x)
	case kDate:
		if p, err := datePart(unit, x); err == nil {
			return p, nil
		}
		if unit == "epoch" {
			return part{n: x * 86400}, nil
		}
		return part{}, errUnit
	}
	if p, err := timePart(unit, floorMod(x, dayUS), "epoch"); err == nil {
		return p, nil
	}
	if p, err := datePart(unit, floorDiv(x, dayUS)); err == nil {
		if unit == "julian" {
			p.rest = floorMod(x, dayUS)
		}
		return p, nil
	}
	switch unit {
	case "epoch":
		return part{n: x, scale: 6}, nil
	case "timezone", "timezone_hour", "timezone_minute":
		if k == kTimestampTZ {
			return part{}, nil
		}
		return part{}, errUnit
	}
	return part{}, errUnit
}

func timePart(unit string, us int64, except ...string) (part, error) {
	for _, e := range except {
		if unit == e {
			return part{}, errUnit
		}
	}
	switch unit {
	case "microseconds":
		return part{n: us % minUS}, nil
	case "milliseconds":
		return part{n: us % minUS, scale: 3}, nil
	case "second":
		return part{n: us % minUS, scale: 6}, nil
	case "minute":
		return part{n: us / minUS % 60}, nil
	case "hour":
		return part{n: us / hourUS}, nil
	case "epoch":
		return part{n: us, scale: 6}, nil
	}
	return part{}, errUnit
}

func datePart(unit string, days int64) (part, error) {
	y, m, d := dateOf(days)
	// There is no year 0: before 1 comes -1.
	shown := y
	if y <= 0 {
		shown = y - 1
	}
	n := int64(0)
	switch unit {
	case "day":
		n = d
	case "month":
		n = m
	case "year":
		n = shown
	case "quarter":
		n = (m-1)/3 + 1
	case "decade":
		n = floorDiv(y, 10)
	case "century":
		n = floorDiv(y-1, 100) + 1
		if y <= 0 {
			n = -((-y + 100) / 100)
		}
	case "millennium":
		n = floorDiv(y-1, 1000) + 1
		if y <= 0 {
			n = -((-y + 1000) / 1000)
		}
	case "week":
		_, n = isoWeek(days)
	case "isoyear":
		if n, _ = isoWeek(days); n <= 0 {
			n--
		}
	case "dow":
		n = isoWeekday(days) % 7
	case "isodow":
		n = isoWeekday(days)
	case "doy":
		n = days - daysOf(y, 1, 1) + 1
	case "julian":
		n = days + 2440588
	default:
		return part{}, errUnit
	}
	return part{n: n}, nil
}

func intervalPart(unit string, v interval) (part, error) {
	months, days := int64(v.months), int64(v.days)
	switch unit {
	case "millennium":
		return part{n: months / 12000}, nil
	case "century":
		return part{n: months / 1200}, nil
	case "decade":
		return part{n: months / 120}, nil
	case "year":
		return part{n: months / 12}, nil
	case "quarter":
		return part{n: months%12/3 + 1}, nil
	case "month":
		return part{n: months % 12}, nil
	case "day":
		return part{n: days}, nil
	case "epoch":
		// A year is 365.25 days, the months beyond it 30 days.
		secs := months/12*31557600 + months%12*2592000 + days*86400
		us := secs * secUS
		if us/secUS != secs || (us^(us+v.us))&(v.us^(us+v.us)) < 0 {
			return part{}, fmt.Errorf("epoch of the interval is out of range")
		}
		return part{n: us + v.us, scale: 6}, nil
	}
	return timePart(unit, v.us)
}

// unitOf returns the field asked for in row i, keeping the one before.
func unitOf(v *vec, i int, unit, last *string) string {
	if s := v.text(i & v.mask()); *unit == "" || s != *last {
		*unit, *last = dateUnit(s), s
	}
	return *unit
}

// eachPart calls f with the field of every row that counts.
func eachPart(c *call, out *vec, a []*vec, f func(i int, p part)) {
	k := c.node.args[1].typ.k
	m := a[1].mask()
	var unit, last string
	for i := range c.n {
		if !c.counts(i) {
			continue
		}
		unitOf(a[0], i, &unit, &last)
		var x int64
		var iv interval
		switch k {
		case kInterval:
			iv = of[interval](a[1])[i&m]
		case kDate:
			x = int64(of[int32](a[1])[i&m])
		default:
			x = of[int64](a[1])[i&m]
		}
		p, err := partOf(unit, k, x, iv)
		if err == nil && k != kInterval && k != kTime && infiniteOf(k, x) {
			if !growing(unit) { // a field that comes round has no value
				out.needValid(c.n).clear(i)
				continue
			}
			p = part{n: x, infinite: true}
		}
		switch {
		case err == errUnit:
			c.fail(i, badArgument, "%s has no field %q", k.name(), last)
			continue
		case err != nil:
			c.fail(i, badRange, "%s", err)
			continue
		}
		f(i, p)
	}
}

func extractKernel(c *call, out *vec, a []*vec) {
	r := grow[dec](out, c.n)
	clear(r)
	to := c.node.typ.s
	if unit := dateUnit(a[0].text(0)); unit == "julian" && c.node.args[1].typ.k != kDate {
		extractJulian(c, r, a[1])
		return
	}
	eachPart(c, out, a, func(i int, p part) {
		if p.infinite {
			c.fail(i, badRange, "the value is infinite, a decimal is not")
			return
		}
		d, ok := decOf(p.n).rescale(p.scale, to)
		r[i] = d
		if !ok {
			c.fail(i, badRange, "value out of range")
		}
	})
}

// extractJulian gives the Julian day with its fraction.
func extractJulian(c *call, r []dec, a *vec) {
	x, m := of[int64](a), a.mask()
	for i := range r {
		us := x[i&m]
		if !finite(us) {
			c.fail(i, badRange, "the value is infinite, a decimal is not")
			continue
		}
		whole, _ := decOf(floorDiv(us, dayUS) + 2440588).mul(pow10[20])
		frac, _ := decOf(floorMod(us, dayUS)).div(decOf(dayUS), 20)
		r[i], _ = whole.add(frac)
	}
}

func datePartKernel(c *call, out *vec, a []*vec) {
	r := grow[float64](out, c.n)
	clear(r)
	eachPart(c, out, a, func(i int, p part) {
		if p.infinite {
			r[i] = math.Inf(1)
			if p.n < 0 {
				r[i] = math.Inf(-1)
			}
			return
		}
		if p.scale == 3 { // milliseconds: the sum of two floats, as PostgreSQL has it
			r[i] = float64(p.n/1e6*1e3) + float64(p.n%1e6)/1e3
			return
		}
		r[i] = decOf(p.n).float(p.scale) + float64(p.rest)/float64(dayUS)
	})
}

// infiniteOf says whether x, of kind k, is an infinite date or timestamp.
func infiniteOf(k kind, x int64) bool {
	if k == kDate {
		return !finiteDate(int32(x))
	}
	return !finite(x)
}

// growing says whether a field only grows with time.
func growing(unit string) bool {
	switch unit {
	case "year", "decade", "century", "millennium", "julian", "isoyear", "epoch":
		return true
	}
	return false
}
