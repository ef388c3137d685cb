package expr

import (
	"math"
	"strconv"
	"strings"

	"frazil/dataflow"
)

// intervalUnit says what one of a unit is.
type intervalUnit struct {
	months, days, us int64
}

var intervalUnits = map[string]intervalUnit{
	"microsecond": {us: 1}, "us": {us: 1}, "usec": {us: 1}, "usecond": {us: 1},
	"millisecond": {us: 1000}, "ms": {us: 1000}, "msec": {us: 1000}, "msecond": {us: 1000},
	"second": {us: secUS}, "s": {us: secUS}, "sec": {us: secUS},
	"minute": {us: minUS}, "m": {us: minUS}, "min": {us: minUS},
	"hour": {us: hourUS}, "h": {us: hourUS}, "hr": {us: hourUS},
	"day": {days: 1}, "d": {days: 1}, "week": {days: 7}, "w": {days: 7},
	"month": {months: 1}, "mon": {months: 1}, "year": {months: 12}, "y": {months: 12}, "yr": {months: 12},
	"decade": {months: 120}, "dec": {months: 120}, "century": {months: 1200}, "centurie": {months: 1200}, "c": {months: 1200},
	"millennium": {months: 12000}, "millennia": {months: 12000}, "mil": {months: 12000},
}

func unitNamed(w string) (intervalUnit, bool) {
	var buf [16]byte
	w = lowered(w, buf[:])
	u, ok := intervalUnits[w]
	if !ok && len(w) > 2 {
		u, ok = intervalUnits[strings.TrimSuffix(w, "s")]
	}
	return u, ok
}

// intervalSum adds up the parts of an interval, watching its range.
type intervalSum struct {
	months, days, us float64
	exactUS          int64
	over             bool
}

// add takes whole + frac of a unit; the fraction of a month or day goes into the
// smaller parts, months of 30 days.
func (a *intervalSum) add(whole int64, frac float64, u intervalUnit) {
	switch {
	case u.months > 0:
		months := float64(whole)*float64(u.months) + math.Trunc(frac*float64(u.months)*1e9)/1e9
		if u.months == 1 {
			a.months += float64(whole)
			a.addDays(frac * 30)
			return
		}
		a.months += math.RoundToEven(months)
	case u.days > 0:
		a.days += float64(whole) * float64(u.days)
		a.addDays(frac * float64(u.days))
	default:
		if whole > math.MaxInt64/u.us || whole < math.MinInt64/u.us {
			a.over = true
			return
		}
		x := whole*u.us + int64(math.RoundToEven(frac*float64(u.us)))
		s := a.exactUS + x
		a.over = a.over || (a.exactUS^s)&(x^s) < 0
		a.exactUS = s
	}
}

func (a *intervalSum) addDays(d float64) {
	whole := math.Trunc(d)
	a.days += whole
	a.exactUS += int64(math.RoundToEven((d - whole) * float64(dayUS)))
}

func (a *intervalSum) interval() (interval, bool) {
	fits := func(x float64) bool { return x >= math.MinInt32 && x <= math.MaxInt32 }
	if a.over || !fits(a.months) || !fits(a.days) {
		return interval{}, false
	}
	return interval{int32(a.months), int32(a.days), a.exactUS}, true
}

// parseInterval reads PostgreSQL's form (1 year 2 mons 3 days 04:05:06), with
// units spelled in their usual ways, and ISO 8601's (P1Y2M3DT4H5M6S).
func parseInterval(s string) (interval, *dataflow.Bad) { return parseIntervalAs(s, typ{k: kInterval}) }

// parseIntervalAs reads the text of an interval with the fields of t.
func parseIntervalAs(s string, t typ) (interval, *dataflow.Bad) {
	p := &scanner{s: trimSpace(s)}
	var sum intervalSum
	ok := false
	if p.peek() == 'P' {
		ok = p.isoInterval(&sum)
	} else {
		p.accept("@")
		ok = p.units(&sum, t)
	}
	if !ok {
		return interval{}, notA("interval", s)
	}
	v, fits := sum.interval()
	if !fits {
		return v, badf(badRange, "interval out of range: "+strconv.Quote(s))
	}
	return t.cutInterval(v), nil
}

// signedNumber reads [+-]digits[.digits]; the fraction has the sign of the number.
func (p *scanner) signedNumber() (whole int64, frac float64, signed, ok bool) {
	neg := false
	if p.peek() == '-' || p.peek() == '+' {
		neg = p.peek() == '-'
		signed = true
		p.i++
		p.space()
	}
	whole, n := p.digits()
	start := p.i
	if p.accept(".") {
		for p.more() && digit(p.s[p.i]) {
			p.i++
		}
		frac, _ = strconv.ParseFloat("0"+p.s[start:p.i]+"0", 64)
		if p.i-start > 1 {
			n++
		}
	}
	if neg {
		whole, frac = -whole, -frac
	}
	return whole, frac, signed || neg, n > 0
}

func (p *scanner) units(sum *intervalSum, t typ) bool {
	n := 0
	var seen unitSet
	for p.space(); p.more(); p.space() {
		mark := p.i
		if strings.EqualFold(p.s[p.i:], "ago") && n > 0 {
			sum.months, sum.days, sum.exactUS = -sum.months, -sum.days, -sum.exactUS
			return true
		}
		neg := p.peek() == '-'
		whole, frac, _, ok := p.signedNumber()
		if !ok {
			return false
		}
		n++
		switch {
		case p.peek() == ':':
			p.i = mark
			if !seen.add(intervalUnit{us: hourUS}, 0) || !seen.add(intervalUnit{us: minUS}, 0) || !seen.add(intervalUnit{us: secUS}, 0) ||
				!p.clock(sum, neg, t.p == fieldMinuteSecond) {
				return false
			}
		case p.peek() == '-' && frac == 0: // years-months
			p.i++
			m, k := p.digits()
			if k == 0 || m > 11 || p.more() && p.peek() != ' ' || !seen.add(intervalUnit{months: 1}, 0) {
				return false
			}
			if neg {
				m = -m
			}
			sum.months += float64(whole)*12 + float64(m)
		default:
			u, ok := p.unit(t)
			if !ok || !seen.add(u, frac) {
				return false
			}
			sum.add(whole, frac, u)
		}
	}
	return n > 0
}

// unit reads what stands behind a number. Without a word it is a day if a time
// or hours follow, else the smallest field of t.
func (p *scanner) unit(t typ) (intervalUnit, bool) {
	apart := p.space()
	if w := p.word(); w != "" {
		return unitNamed(w)
	}
	if !p.more() {
		return t.bareUnit(), true
	}
	if !apart {
		return intervalUnit{}, false
	}
	mark := p.i
	defer func() { p.i = mark }()
	if _, _, _, ok := p.signedNumber(); !ok {
		return intervalUnit{}, false
	}
	if p.peek() == ':' {
		return intervalUnit{days: 1}, true
	}
	p.space()
	u, ok := unitNamed(p.word())
	if !p.more() && !ok {
		u = t.bareUnit()
	}
	return intervalUnit{days: 1}, u.us == hourUS
}

// unitSet are the units that an interval has had: each may come once.
type unitSet uint16

func (s *unitSet) add(u intervalUnit, frac float64) bool {
	var bit unitSet
	for i, known := range []intervalUnit{{us: 1}, {us: 1000}, {us: secUS}, {us: minUS}, {us: hourUS}, {days: 1}, {days: 7}, {months: 1}, {months: 12}, {months: 120}, {months: 1200}, {months: 12000}} {
		if u == known {
			bit = 1 << i
		}
	}
	if u.us == secUS && frac != 0 { // a second with a fraction has its smaller ones
		bit = 7
	}
	if *s&bit != 0 {
		return false
	}
	*s |= bit
	return true
}

// clock reads [-]H:M[:S[.f]], or [-]M:S[.f] if a text of two parts means that.
func (p *scanner) clock(sum *intervalSum, neg, short bool) bool {
	p.accept("+-")
	p.space()
	h, _ := p.digits()
	p.i++
	m, n := p.digits()
	if n == 0 || m > 59 {
		return false
	}
	var sec, us int64
	if short && p.peek() != ':' {
		h, m, sec = 0, h, m
		if p.accept(".") {
			us = p.fraction()
		}
	} else if p.accept(":") {
		if sec, n = p.digits(); n == 0 || sec > 60 {
			return false
		}
		if p.accept(".") {
			us = p.fraction()
		}
	}
	if h > math.MaxInt64/hourUS-1 {
		sum.over = true
		return true
	}
	t := h*hourUS + m*minUS + sec*secUS + us
	if neg {
		t = -t
	}
	sum.exactUS += t
	return true
}

// isoDate reads years-months-days.
func (p *scanner) isoDate(sum *intervalSum) bool {
	y, n := p.digits()
	if n == 0 || !p.accept("-") {
		return false
	}
	m, n := p.digits()
	if n == 0 || !p.accept("-") {
		return false
	}
	d, n := p.digits()
	if n == 0 {
		return false
	}
	sum.months += float64(y)*12 + float64(m)
	sum.days += float64(d)
	return true
}

func (p *scanner) isoInterval(sum *intervalSum) bool {
	p.i++
	if mark := p.i; !p.isoDate(sum) {
		p.i = mark
	} else if !p.more() || p.accept("T") {
		return !p.more() || p.clock(sum, false, false) && !p.more()
	}
	inTime, n := false, 0
	for p.more() {
		if p.accept("T") {
			inTime = true
			continue
		}
		whole, frac, _, ok := p.signedNumber()
		if !ok || !p.more() {
			return false
		}
		c := p.peek()
		p.i++
		n++
		var u intervalUnit
		switch {
		case c == 'Y' && !inTime:
			u = intervalUnit{months: 12}
		case c == 'M' && !inTime:
			u = intervalUnit{months: 1}
		case c == 'W' && !inTime:
			u = intervalUnit{days: 7}
		case c == 'D' && !inTime:
			u = intervalUnit{days: 1}
		case c == 'H' && inTime:
			u = intervalUnit{us: hourUS}
		case c == 'M' && inTime:
			u = intervalUnit{us: minUS}
		case c == 'S' && inTime:
			u = intervalUnit{us: secUS}
		default:
			return false
		}
		sum.add(whole, frac, u)
	}
	return n > 0
}
