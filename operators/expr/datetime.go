package expr

import (
	"math"
	"strconv"
)

// Dates are days, timestamps microseconds since 1970-01-01, in the proleptic
// Gregorian calendar with a year 0 (1 BC).

const (
	secUS  = int64(1e6)
	minUS  = 60 * secUS
	hourUS = 60 * minUS

	// Dates and timestamps start in 4714 BC as PostgreSQL's; dates end where its
	// do, timestamps with the microseconds that fit 64 bits, in the year 294247.
	minDate = int64(-2440588)             // 4714-11-24 BC
	maxDate = int64(2147483493 - 2440588) // 5874897-12-31
	minTS   = -210866803200 * secUS
	endTS   = math.MaxInt64
)

// floorDiv and floorMod round towards minus infinity.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

// daysOf counts the days from 1970-01-01 to a date; month and day may be out of
// their range. Years are counted from March, so that the leap day comes last.
func daysOf(year, month, day int64) int64 {
	year += floorDiv(month-1, 12)
	month = floorMod(month-1, 12) + 1
	if month <= 2 {
		year--
		month += 12
	}
	return 365*year + floorDiv(year, 4) - floorDiv(year, 100) + floorDiv(year, 400) + (153*(month-3)+2)/5 + day - 1 - 719468
}

// dateOf is the inverse of daysOf.
func dateOf(days int64) (year, month, day int64) {
	z := days + 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = doy - (153*mp+2)/5 + 1
	month = mp + 3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func leap(y int64) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

func monthLength(y, m int64) int64 {
	switch m {
	case 2:
		if leap(y) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// addMonths moves a day by months, to the last day of the month at most.
func addMonths(days, months int64) int64 {
	y, m, d := dateOf(days)
	m += months
	y += floorDiv(m-1, 12)
	m = floorMod(m-1, 12) + 1
	return daysOf(y, m, min(d, monthLength(y, m)))
}

// isoWeek returns the ISO year and week of a day.
func isoWeek(days int64) (year, week int64) {
	thursday := days - isoWeekday(days) + 4
	year, _, _ = dateOf(thursday)
	return year, (thursday-daysOf(year, 1, 1))/7 + 1
}

// isoWeekday is 1 for Monday to 7 for Sunday.
func isoWeekday(days int64) int64 { return floorMod(days+3, 7) + 1 }

func validTS(us int64) bool { return us >= minTS && us < endTS }

// addInterval adds months, then days, then time.
func addInterval(us int64, v interval) (int64, bool) {
	days, rest := floorDiv(us, dayUS), floorMod(us, dayUS)
	if v.months != 0 {
		days = addMonths(days, int64(v.months))
		if days < minTS/dayUS-1 || days > endTS/dayUS { // days that bring it back come too late
			return 0, false
		}
	}
	days += int64(v.days)
	if days > math.MaxInt64/dayUS-2 || days < math.MinInt64/dayUS+2 {
		return 0, false
	}
	r := days*dayUS + rest
	s := r + v.us
	if (r^s)&(v.us^s) < 0 {
		return 0, false
	}
	return s, validTS(s)
}

func append2(dst []byte, x int64) []byte { return append(dst, byte('0'+x/10%10), byte('0'+x%10)) }

// appendFraction writes .ffffff without trailing zeros, nothing for 0.
func appendFraction(dst []byte, us int64) []byte {
	if us == 0 {
		return dst
	}
	dst = append(dst, '.')
	for scale := int64(100000); us > 0; scale /= 10 {
		dst = append(dst, byte('0'+us/scale))
		us %= scale
	}
	return dst
}

func appendTime(dst []byte, us int64) []byte {
	dst = append(append2(dst, us/hourUS), ':')
	dst = append(append2(dst, us/minUS%60), ':')
	dst = append2(dst, us/secUS%60)
	return appendFraction(dst, us%secUS)
}

// appendYMD writes the date without its era and says whether it is BC.
func appendYMD(dst []byte, days int64) ([]byte, bool) {
	y, m, d := dateOf(days)
	bc := y <= 0
	if bc {
		y = 1 - y
	}
	if y < 1000 {
		dst = append(dst, '0')
	}
	if y < 100 {
		dst = append(dst, '0')
	}
	if y < 10 {
		dst = append(dst, '0')
	}
	dst = append(strconv.AppendInt(dst, y, 10), '-')
	dst = append(append2(dst, m), '-')
	return append2(dst, d), bc
}

func appendDate(dst []byte, days int64) []byte {
	if !finiteDate(int32(days)) {
		return appendInfinity(dst, days > 0)
	}
	dst, bc := appendYMD(dst, days)
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

// appendTimestamp writes us; zone is "" or "+00".
func appendTimestamp(dst []byte, us int64, zone string) []byte {
	if !finite(us) {
		return appendInfinity(dst, us > 0)
	}
	dst, bc := appendYMD(dst, floorDiv(us, dayUS))
	dst = appendTime(append(dst, ' '), floorMod(us, dayUS))
	dst = append(dst, zone...)
	if bc {
		dst = append(dst, " BC"...)
	}
	return dst
}

func appendInterval(dst []byte, v interval) []byte {
	start := len(dst)
	before := false
	part := func(x int64, unit string) {
		if x == 0 {
			return
		}
		if len(dst) > start {
			dst = append(dst, ' ')
		}
		if before && x > 0 {
			dst = append(dst, '+')
		}
		dst = append(strconv.AppendInt(dst, x, 10), ' ')
		dst = append(dst, unit...)
		if x != 1 {
			dst = append(dst, 's')
		}
		before = x < 0
	}
	part(int64(v.months/12), "year")
	part(int64(v.months%12), "mon")
	part(int64(v.days), "day")
	if len(dst) > start && v.us == 0 {
		return dst
	}
	if len(dst) > start {
		dst = append(dst, ' ')
	}
	us := uint64(v.us)
	if v.us < 0 {
		dst = append(dst, '-')
		us = -us
	} else if before {
		dst = append(dst, '+')
	}
	h := us / uint64(hourUS)
	if h < 10 {
		dst = append(dst, '0')
	}
	dst = append(strconv.AppendUint(dst, h, 10), ':')
	rest := int64(us % uint64(hourUS))
	dst = append(append2(dst, rest/minUS), ':')
	dst = append2(dst, rest/secUS%60)
	return appendFraction(dst, rest%secUS)
}
