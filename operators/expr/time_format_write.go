package expr

import (
	"strconv"
	"strings"
)

func init() {
	describe("date/time", "to_char", "A timestamp, an interval or a time written by a format: YYYY year, MM month, Month its name, DD day, Day its name, HH24 or HH12 with AM hour, MI minute, SS second, MS, US; FM in front leaves out padding, TH behind makes an ordinal, text stands in double quotes.",
		example{"to_char(timestamp '2024-02-16 20:38:40', 'YYYY-MM-DD HH24:MI:SS')", "2024-02-16 20:38:40"},
		example{"to_char(timestamp '2024-02-16 20:38:40', 'FMDay, DDth FMMonth YYYY, HH12:MI AM')", "Friday, 16th February 2024, 08:38 PM"},
		example{"to_char(interval '15h 2m 12s', 'HH24:MI:SS')", "15:02:12"})
	for _, k := range []kind{kTimestamp, kTimestampTZ, kInterval} {
		register(function{name: "to_char", args: []kind{k, kString}, ret: kString, fails: true, kernel: timeToCharKernel})
	}
}

// clockTime is a moment or an interval in fields. Of an interval the years may be negative, and
// there is no day of the week.
type clockTime struct {
	year, month, day   int64
	hour, min, sec     int64
	us                 int64
	yearDay, days      int64
	interval, zoneless bool
}

// timeToCharKernel writes nothing for an infinite time and an empty format: null.
func timeToCharKernel(c *call, out *vec, a []*vec) {
	k, m := c.node.args[0].typ.k, a[0].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		parts := formatOf(c, a[1], i)
		var t clockTime
		if k == kInterval {
			t = intervalClock(of[interval](a[0])[i&m])
		} else {
			us := of[int64](a[0])[i&m]
			if !finite(us) {
				out.needValid(c.n).clear(i)
				return dst
			}
			t = momentClock(us)
			t.zoneless = k == kTimestamp
		}
		if len(parts) == 0 && a[1].text(i&a[1].mask()) == "" {
			out.needValid(c.n).clear(i)
			return dst
		}
		for j := range parts {
			p := &parts[j]
			if p.kind != formatField {
				dst = append(dst, p.text...)
				continue
			}
			if t.interval && p.calendar() {
				c.fail(i, badCast, "an interval has no %s: it is not tied to dates", p.text)
				return dst
			}
			dst = t.field(dst, p)
		}
		return dst
	})
}

// momentClock takes a timestamp apart.
func momentClock(us int64) clockTime {
	days, rest := floorDiv(us, dayUS), floorMod(us, dayUS)
	t := clockTime{days: days, hour: rest / hourUS, min: rest / minUS % 60, sec: rest / secUS % 60, us: rest % secUS}
	t.year, t.month, t.day = dateOf(days)
	t.yearDay = days - daysOf(t.year, 1, 1) + 1
	return t
}

func intervalClock(v interval) clockTime {
	t := clockTime{interval: true, year: int64(v.months / 12), month: int64(v.months % 12), day: int64(v.days),
		hour: v.us / hourUS, min: v.us / minUS % 60, sec: v.us / secUS % 60, us: v.us % secUS}
	t.yearDay = (t.year*12+t.month)*30 + t.day
	return t
}

// calendar says whether a field needs a date.
func (p *formatPart) calendar() bool {
	switch p.field {
	case "AD", "BC", "MONTH", "MON", "DAY", "DY", "D", "ID", "TZ", "TZH", "TZM", "OF":
		return true
	}
	return false
}

// shownYear has no year 0: before 1 comes 1 BC.
func (t *clockTime) shownYear(y int64) int64 {
	if !t.interval && y <= 0 {
		return 1 - y
	}
	return y
}

// field writes one field.
func (t *clockTime) field(dst []byte, p *formatPart) []byte {
	switch p.field {
	case "FX":
		return dst
	case "AM", "PM":
		return p.half(dst, t.hour%24 >= 12, "AM", "PM")
	case "AD", "BC":
		return p.half(dst, t.year <= 0, "AD", "BC")
	case "MONTH":
		return p.name(dst, monthNames[t.month-1], 9)
	case "MON":
		return p.name(dst, monthNames[t.month-1][:3], 0)
	case "DAY":
		return p.name(dst, weekdayNames[isoWeekday(t.days)%7], 9)
	case "DY":
		return p.name(dst, weekdayNames[isoWeekday(t.days)%7][:3], 0)
	case "RM":
		return t.roman(dst, p)
	case "TZ":
		if t.zoneless {
			return dst
		}
		return p.like(dst, "UTC")
	case "TZH", "OF":
		return append(dst, "+00"...)
	case "Q":
		if t.month == 0 {
			return dst
		}
	case "Y,YYY":
		return p.order(t.thousands(dst), dst)
	}
	x, width := t.number(p)
	if p.fill && !p.fixedWidth() {
		width = 0
	}
	return p.order(appendPadded(dst, x, width), dst)
}

// number is the value of a field that is a number, and its least width; in most fields a sign
// stands in front of as many digits.
func (t *clockTime) number(p *formatPart) (x int64, width int) {
	switch p.field {
	case "HH", "HH12":
		if x = t.hour % 12; x == 0 {
			x = 12
		}
		return x, besideSign(t.hour, 2)
	case "HH24":
		return t.hour, besideSign(t.hour, 2)
	case "MI":
		return t.min, besideSign(t.min, 2)
	case "SS":
		return t.sec, besideSign(t.sec, 2)
	case "MS", "FF3":
		return t.us / 1000, 3
	case "US", "FF6":
		return t.us, 6
	case "FF1":
		return t.us / 100000, 1
	case "FF2":
		return t.us / 10000, 2
	case "FF4":
		return t.us / 100, 4
	case "FF5":
		return t.us / 10, 5
	case "SSSS", "SSSSS":
		return t.hour*3600 + t.min*60 + t.sec, 0
	case "TZM":
		return 0, 2
	}
	return t.dateNumber(p)
}

func besideSign(x int64, width int) int {
	if x < 0 {
		width++
	}
	return width
}

// dateNumber is the value of a field of the date.
func (t *clockTime) dateNumber(p *formatPart) (x int64, width int) {
	switch p.field {
	case "IYYY", "IYY", "IY", "I", "IDDD", "IW":
		return t.weekNumber(p)
	case "YYYY":
		return t.shownYear(t.year), besideSign(t.shownYear(t.year), 4)
	case "YYY":
		return t.shownYear(t.year) % 1000, besideSign(t.shownYear(t.year), 3)
	case "YY":
		return t.shownYear(t.year) % 100, besideSign(t.shownYear(t.year), 2)
	case "Y":
		return t.shownYear(t.year) % 10, 1
	case "MM":
		return t.month, besideSign(t.month, 2)
	case "DD":
		return t.day, 2
	case "DDD":
		return t.yearDay, 3
	case "D":
		return isoWeekday(t.days)%7 + 1, 0
	case "ID":
		return isoWeekday(t.days), 0
	case "W":
		return (t.day-1)/7 + 1, 0
	case "WW":
		return (t.yearDay-1)/7 + 1, 2
	case "Q":
		return (t.month-1)/3 + 1, 0
	case "J":
		return t.dayCount() + 2440588, 0
	case "CC":
		return t.century(), besideSign(t.century(), 2)
	}
	return 0, 0
}

// weekNumber is the value of a field of the ISO week.
func (t *clockTime) weekNumber(p *formatPart) (x int64, width int) {
	year, week := isoWeek(t.dayCount())
	year = t.shownYear(year)
	shown := t.shownYear(t.year)
	switch p.field {
	case "IYYY":
		return year, besideSign(shown, 4)
	case "IYY":
		return year % 1000, besideSign(shown, 3)
	case "IY":
		return year % 100, besideSign(shown, 2)
	case "I":
		return year % 10, 1
	case "IDDD":
		return (week-1)*7 + isoWeekday(t.dayCount()), 3
	}
	return week, 2
}

// dayCount is the day of the fields, of an interval as if they were a date.
func (t *clockTime) dayCount() int64 {
	if !t.interval {
		return t.days
	}
	// PostgreSQL's arithmetic, which is no calendar for months below 1.
	y, m := t.year+4800, t.month+1
	if t.month <= 2 {
		y, m = y-1, m+12
	}
	return y*365 - 32167 + y/4 - y/100 + y/400 + 7834*m/256 + t.day - 2440588
}

func (t *clockTime) century() int64 {
	switch {
	case t.interval:
		return t.year / 100
	case t.year > 0:
		return (t.year-1)/100 + 1
	}
	return t.year/100 - 1
}

func (t *clockTime) thousands(dst []byte) []byte {
	y := t.shownYear(t.year)
	dst = append(strconv.AppendInt(dst, y/1000, 10), ',')
	return appendPadded(dst, y%1000, 3)
}

// roman writes the month in Roman numerals; 12 months of an interval are a year.
func (t *clockTime) roman(dst []byte, p *formatPart) []byte {
	if t.month == 0 && t.year == 0 {
		return dst
	}
	m := t.month
	switch {
	case m == 0 && t.year >= 0:
		m = 12
	case m == 0:
		m = 1
	case m < 0:
		m += 13
	}
	return p.pad(p.like(dst, romanMonths[m-1]), len(dst), 4)
}

var romanMonths = [...]string{"I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"}

// appendPadded writes x with zeros in front until it has the width, its sign included.
func appendPadded(dst []byte, x int64, width int) []byte {
	if x < 0 {
		dst = append(dst, '-')
		x = -x
		width--
	}
	for n := digits(x); n < width; n++ {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, x, 10)
}

// digits counts those of a number that is not negative.
func digits(x int64) int {
	n := 1
	for ; x >= 10; x /= 10 {
		n++
	}
	return n
}

// fixedWidth says whether fill mode changes nothing: digits behind the point.
func (p *formatPart) fixedWidth() bool {
	return p.field == "MS" || p.field == "US" || p.field == "TZM" || strings.HasPrefix(p.field, "FF")
}

// like writes an upper-case text, in lower case if the field was.
func (p *formatPart) like(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if p.text[0] >= 'a' {
			c += 32
		}
		dst = append(dst, c)
	}
	return dst
}

// half chooses between two texts, with points if the field had them.
func (p *formatPart) half(dst []byte, second bool, a, b string) []byte {
	if second {
		a = b
	}
	if len(p.text) < 4 {
		return p.like(dst, a)
	}
	dst = append(p.like(dst, a[:1]), '.')
	return append(p.like(dst, a[1:]), '.')
}

// name writes a name in upper case, in lower case or with a capital, as the field was.
func (p *formatPart) name(dst []byte, s string, width int) []byte {
	from := len(dst)
	switch {
	case p.text[0] >= 'a':
		dst = append(dst, s...)
	case p.text[1] >= 'a':
		dst = append(dst, s[0]-32)
		dst = append(dst, s[1:]...)
	default:
		for i := range len(s) {
			dst = append(dst, s[i]-32)
		}
	}
	return p.pad(dst, from, width)
}

// pad writes blanks behind a text that begins at from, unless the field says not to.
func (p *formatPart) pad(dst []byte, from, width int) []byte {
	for !p.fill && !p.short && len(dst)-from < width {
		dst = append(dst, ' ')
	}
	return dst
}

// order writes the ending of an ordinal behind the number that dst has more than before.
func (p *formatPart) order(dst, before []byte) []byte {
	if p.ordinal == "" {
		return dst
	}
	end := "th"
	if n := len(dst); len(dst)-len(before) < 2 || dst[n-2] != '1' {
		switch dst[n-1] {
		case '1':
			end = "st"
		case '2':
			end = "nd"
		case '3':
			end = "rd"
		}
	}
	if p.ordinal == "TH" {
		end = strings.ToUpper(end)
	}
	return append(dst, end...)
}
