package expr

import (
	"strconv"
	"strings"

	"frazil/dataflow"
)

// moment is what a text of a date and time says.
type moment struct {
	days, us int64 // date, time of day
	infinite int   // 1 or -1: after and before all others
	hasTime  bool
	bc       bool // the years count backwards
	zoned    bool
	offset   int64  // seconds east of UTC, if zone is ""
	zone     string // a zone's name
}

// scanner reads the parts of a date or interval.
type scanner struct {
	s string
	i int
}

func (p *scanner) more() bool { return p.i < len(p.s) }

func (p *scanner) peek() byte {
	if p.more() {
		return p.s[p.i]
	}
	return 0
}

func (p *scanner) accept(set string) bool {
	if p.more() && strings.IndexByte(set, p.s[p.i]) >= 0 {
		p.i++
		return true
	}
	return false
}

func (p *scanner) acceptByte(c byte) bool {
	ok := p.peek() == c && p.more()
	if ok {
		p.i++
	}
	return ok
}

func (p *scanner) space() bool {
	start := p.i
	for p.accept(" \t\n\v\f\r") {
	}
	return p.i > start
}

// digits reads a run of digits, at most 18.
func (p *scanner) digits() (int64, int) {
	start := p.i
	var v int64
	for p.more() && digit(p.s[p.i]) && p.i-start < 18 {
		v = v*10 + int64(p.s[p.i]-'0')
		p.i++
	}
	return v, p.i - start
}

func (p *scanner) word() string {
	start := p.i
	for p.more() && (p.s[p.i]|0x20 >= 'a' && p.s[p.i]|0x20 <= 'z') {
		p.i++
	}
	return p.s[start:p.i]
}

// fraction reads digits behind a point as microseconds, a half to even.
func (p *scanner) fraction() int64 {
	var us int64
	scale := int64(100000)
	start := p.i
	for p.more() && digit(p.s[p.i]) {
		us += int64(p.s[p.i]-'0') * scale
		scale /= 10
		p.i++
	}
	if rest := p.s[start:p.i]; len(rest) > 6 {
		tie := strings.TrimRight(rest[7:], "0") == "" && rest[6] == '5'
		if rest[6] >= '5' && (!tie || us%2 == 1) {
			us++
		}
	}
	return us
}

const isoHint = ": expected ISO 8601, as 2024-01-31 or 2024-01-31 12:30:00+00"

// parseMoment reads a date, a date with a time, or, with timeOnly, a time.
func parseMoment(what, s string, timeOnly bool) (moment, *dataflow.Bad) {
	var m moment
	p := &scanner{s: trimSpace(s)}
	var buf [48]byte
	lower := lowered(p.s, buf[:])
	sign, infinite := infinityNamed(lower)
	switch {
	case lower == "epoch" && !timeOnly, lower == "allballs" && timeOnly:
		return m, nil
	case infinite && !timeOnly:
		m.infinite = sign
		return m, nil
	}
	m.bc = len(p.s) >= 2 && equalFold(p.s[len(p.s)-2:], "bc")
	ok, inRange := p.moment(&m, timeOnly)
	if ok && inRange && m.zone != "" {
		if _, known := zoneNamed(m.zone); !known && strings.Contains(m.zone, "/") {
			return m, badf(badArgument, "unknown time zone "+strconv.Quote(m.zone))
		} else if !known {
			ok = false
		}
	}
	switch {
	case ok && inRange:
		return m, nil
	case !ok && clockWord(lower):
		return m, badf(badCast, "the "+what+" "+strconv.Quote(s)+" reads the clock: a value depends on its row alone")
	case ok, !timeOnly && p.outOfRange():
		return m, badf(badRange, what+" out of range: "+strconv.Quote(s))
	}
	bad := notA(what, s)
	if !timeOnly {
		bad.Detail += isoHint
	}
	return m, bad
}

// moment reads a whole text. The first result is false if it is none, the second if it names
// a date or time that does not exist.
func (p *scanner) moment(m *moment, timeOnly bool) (ok, inRange bool) {
	if timeOnly {
		p.dateBefore()
		return p.timeAndTail(m)
	}
	if ok, inRange = p.date(m); !ok {
		*m, p.i = moment{}, 0
		return p.words(m)
	}
	if !inRange {
		return true, false
	}
	apart := p.space() || p.accept("Tt")
	switch {
	case !p.more():
		return true, true
	case apart && digit(p.peek()):
		return p.timeAndTail(m)
	}
	return p.tail(m), true
}

func (p *scanner) timeAndTail(m *moment) (ok, inRange bool) {
	if ok, inRange = p.time(m); ok && inRange {
		ok = p.tail(m)
	}
	return ok, inRange
}

// dateBefore skips a date in front of a time, which only says when an offset holds, and a T.
func (p *scanner) dateBefore() {
	var m moment
	mark := p.i
	if ok, _ := p.date(&m); ok && p.space() && digit(p.peek()) {
		return
	}
	p.i = mark
	if p.accept("Tt") && !digit(p.peek()) {
		p.i = mark
	}
}

// date reads Y-M-D, YYYYMMDD, the day of a year as YYYY-DDD, or a Julian day as J2451187.
func (p *scanner) date(m *moment) (ok, inRange bool) {
	if p.accept("Jj") {
		x, n := p.digits()
		m.days = x - 2440588
		return n > 0 && n < 10, m.days <= maxDate
	}
	y, n := p.digits()
	var mon, day int64
	switch sep := p.peek(); {
	case n == 8 && sep != '-' && sep != '/':
		y, mon, day = y/10000, y/100%100, y%100
	case n < 3 || n > 7 || !p.accept("-/."):
		return false, false
	default:
		var k int
		if mon, k = p.digits(); k == 3 && n == 4 {
			m.days = daysOf(m.yearOf(y), 1, 1) + mon - 1
			return true, y > 0 && mon > 0 && mon <= 366
		}
		if k == 0 || k > 2 || !p.acceptByte(sep) {
			return false, false
		}
		if day, k = p.digits(); k == 0 || k > 2 {
			return false, false
		}
	}
	year := m.yearOf(y)
	if y == 0 || mon < 1 || mon > 12 || day < 1 || day > monthLength(year, mon) {
		return true, false
	}
	m.days = daysOf(year, mon, day)
	return true, true
}

// yearOf is the year in which there is a year 0: 1 BC.
func (m *moment) yearOf(y int64) int64 {
	if m.bc {
		return 1 - y
	}
	return y
}

// time reads H:M[:S[.f]], HHMM or HHMMSS[.f], and am or pm.
func (p *scanner) time(m *moment) (ok, inRange bool) {
	h, n := p.digits()
	var mi, sec, us int64
	switch {
	case n == 4 && p.peek() != ':':
		h, mi = h/100, h%100
	case n == 6 && p.peek() != ':':
		h, mi, sec = h/10000, h/100%100, h%100
		if p.accept(".") {
			us = p.fraction()
		}
	case n < 1 || n > 2 || !p.accept(":"):
		return false, false
	default:
		var k int
		// As in PostgreSQL, 12: at the end is 12:00.
		if mi, k = p.digits(); k > 2 || k == 0 && p.more() {
			return false, false
		}
		if p.accept(":") {
			if sec, k = p.digits(); k > 2 || k == 0 && p.more() {
				return false, false
			}
			if p.accept(".") {
				us = p.fraction()
			}
		}
	}
	mark := p.i
	p.space()
	var buf [8]byte
	switch half := lowered(p.word(), buf[:]); half {
	case "am", "pm":
		if h < 1 || h > 12 {
			return true, false
		}
		h %= 12
		if half == "pm" {
			h += 12
		}
	default:
		p.i = mark
	}
	m.us = h*hourUS + mi*minUS + sec*secUS + us
	m.hasTime = true
	return true, mi < 60 && sec <= 60 && m.us <= dayUS
}

// tail reads what may follow: a zone and BC or AD.
func (p *scanner) tail(m *moment) bool {
	p.space()
	if p.more() && !p.era(m) && !p.zoneOf(m) {
		return false
	}
	p.space()
	if p.more() && !p.era(m) {
		return false
	}
	return !p.more()
}

func (p *scanner) era(m *moment) bool {
	rest := p.s[p.i:]
	if len(rest) != 2 || !equalFold(rest, "bc") && !equalFold(rest, "ad") {
		return false
	}
	p.i = len(p.s)
	return true
}

// zoneOf reads Z, +HH, +HHMM, +HH:MM, +HH:MM:SS or a name.
func (p *scanner) zoneOf(m *moment) bool {
	m.zoned = true
	if p.peek() == '+' || p.peek() == '-' {
		off, ok := p.offset()
		m.offset = off
		return ok
	}
	start := p.i
	if c := p.peek() | 0x20; c < 'a' || c > 'z' {
		return false
	}
	for p.more() && p.s[p.i] != ' ' {
		p.i++
	}
	m.zone = p.s[start:p.i]
	if strings.EqualFold(m.zone, "z") {
		m.zone = ""
	}
	return true
}

func (p *scanner) offset() (int64, bool) {
	neg := p.peek() == '-'
	p.i++
	h, n := p.digits()
	var mi, sec int64
	switch {
	case n == 4:
		h, mi = h/100, h%100
	case n < 1 || n > 2:
		return 0, false
	case p.accept(":"):
		if mi, n = p.digits(); n != 2 {
			return 0, false
		}
		if p.accept(":") {
			if sec, n = p.digits(); n != 2 {
				return 0, false
			}
		}
	}
	if h > 15 || mi > 59 || sec > 59 {
		return 0, false
	}
	off := h*3600 + mi*60 + sec
	if neg {
		off = -off
	}
	return off, true
}

func parseDate(s string) (int32, *dataflow.Bad) {
	m, bad := parseMoment("date", s, false)
	switch m.infinite {
	case 1:
		return lastDate, nil
	case -1:
		return firstDate, nil
	}
	if bad == nil && (m.days < minDate || m.days > maxDate) {
		bad = badf(badRange, "date out of range: "+strconv.Quote(s))
	}
	return int32(m.days), bad
}

func parseTime(s string) (int64, *dataflow.Bad) {
	m, bad := parseMoment("time", s, true)
	return m.us, bad
}

func parseTimestamp(s string, zoned bool) (int64, *dataflow.Bad) {
	what := "timestamp"
	if zoned {
		what = "timestamptz"
	}
	m, bad := parseMoment(what, s, false)
	if bad != nil {
		return 0, bad
	}
	switch m.infinite {
	case 1:
		return lastTS, nil
	case -1:
		return firstTS, nil
	}
	if m.days >= endTS/dayUS || m.days < minDate {
		return 0, badf(badRange, what+" out of range: "+strconv.Quote(s))
	}
	us := m.days*dayUS + m.us
	if zoned && m.zone != "" {
		z, _ := zoneNamed(m.zone)
		us = z.toUTC(us)
	} else if zoned {
		us -= m.offset * secUS
	}
	if !validTS(us) {
		return 0, badf(badRange, what+" out of range: "+strconv.Quote(s))
	}
	return us, nil
}
