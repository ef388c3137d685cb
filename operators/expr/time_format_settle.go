package expr

import (
	"fmt"
	"strconv"

	"frazil/dataflow"
)

// settle makes a date and a time of the fields that were read.
func (t *readTime) settle(s string) *dataflow.Bad {
	if bad := t.settleClock(); bad != nil {
		return bad
	}
	known := t.settleYear()
	if bad := t.settleDate(&known); bad != nil {
		return bad
	}
	switch {
	case known.month && (t.month < 1 || t.month > 12),
		known.day && (t.day < 1 || t.day > 31),
		known.year && known.month && known.day && t.day > monthLength(t.year, t.month),
		t.hour < 0 || t.hour > 23 || t.min < 0 || t.min > 59 || t.sec < 0 || t.sec > 59 || t.us < 0 || t.us >= secUS:
		return badf(badRange, "date or time field out of range: "+strconv.Quote(s))
	}
	if t.zoneSign != 0 {
		h, m := t.f[fZoneHour], t.f[fZoneMin]
		if h < 0 || h > 15 || m < 0 || m > 59 {
			return badf(badRange, "offset out of range: "+strconv.Quote(s))
		}
		t.offset = t.zoneSign * (h*3600 + m*60)
	}
	return nil
}

func (t *readTime) settleClock() *dataflow.Bad {
	if x := t.f[fSeconds]; x != 0 {
		t.hour, t.min, t.sec = x/3600, x/60%60, x%60
	}
	for _, p := range []struct {
		to   *int64
		from int
	}{{&t.hour, fHour}, {&t.min, fMin}, {&t.sec, fSec}} {
		if x := t.f[p.from]; x != 0 {
			*p.to = x
		}
	}
	t.us = t.f[fMilli]*1000 + t.f[fMicro]
	if !t.twelve {
		return nil
	}
	if t.hour < 1 || t.hour > 12 {
		return badf(badCast, fmt.Sprintf("hour %d does not exist on a clock of 12 hours", t.hour))
	}
	switch pm := t.f[fPM] == 1; {
	case pm && t.hour < 12:
		t.hour += 12
	case !pm && t.hour == 12:
		t.hour = 0
	}
	return nil
}

// knownDate says which parts of a date the fields have told.
type knownDate struct{ year, month, day bool }

// settleYear takes the year from its field, from the century, or from both.
func (t *readTime) settleYear() (known knownDate) {
	t.month, t.day = 1, 1
	year, century := t.f[fYear], t.f[fCentury]
	bc := t.f[fBC] == 1
	if bc {
		century = -century
	}
	switch {
	case year != 0 && century != 0 && t.yearDigits <= 2:
		t.year = year % 100
		switch {
		case t.year != 0 && century >= 0:
			t.year += (century - 1) * 100
		case t.year != 0:
			t.year = (century+1)*100 - t.year + 1
		case century >= 0:
			t.year = century * 100
		default:
			t.year = century*100 + 1
		}
	case year != 0:
		t.year = year
		if bc {
			t.year = -year
		}
		if t.year < 0 {
			t.year++
		}
	case century > 0:
		t.year = (century-1)*100 + 1
	case century < 0:
		t.year = century*100 + 1
	default:
		return known
	}
	known.year = true
	return known
}

// settleDate takes month and day from their fields, from weeks, or from the day of the year.
func (t *readTime) settleDate(known *knownDate) *dataflow.Bad {
	all := func(days int64) {
		t.year, t.month, t.day = dateOf(days)
		*known = knownDate{true, true, true}
	}
	if x := t.f[fJulian]; x != 0 {
		all(x - 2440588)
	}
	if w := t.f[fWeek]; w != 0 && t.convention == isoWeekDate {
		days := isoYearStart(t.year) + (w-1)*7
		switch d := t.f[fWeekday]; {
		case d > 1:
			days += d - 2
		case d == 1:
			days += 6
		}
		all(days)
	} else if w != 0 {
		t.f[fDayOfYear] = (w-1)*7 + 1
	}
	if w := t.f[fWeekOfMonth]; w != 0 {
		t.f[fDay] = (w-1)*7 + 1
	}
	if d := t.f[fDay]; d != 0 {
		t.day, known.day = d, true
	}
	if m := t.f[fMonth]; m != 0 {
		t.month, known.month = m, true
	}
	n := t.f[fDayOfYear]
	if n == 0 || t.month > 1 && t.day > 1 {
		return nil
	}
	if t.year == 0 && t.f[fBC] == 0 {
		return badf(badCast, "the day of a year needs the year")
	}
	if t.convention == isoWeekDate {
		all(isoYearStart(t.year) + n - 1)
		return nil
	}
	month := int64(1)
	for month <= 12 && n > monthLength(t.year, month) {
		n -= monthLength(t.year, month)
		month++
	}
	if t.month <= 1 {
		t.month = month
	}
	if t.day <= 1 {
		t.day = n
	}
	known.month, known.day = true, true
	return nil
}

// isoYearStart is the Monday that an ISO year begins with.
func isoYearStart(year int64) int64 {
	fourth := daysOf(year, 1, 4)
	return fourth - isoWeekday(fourth) + 1
}
