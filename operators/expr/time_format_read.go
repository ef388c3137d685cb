package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"frazil/dataflow"
)

func init() {
	describe("date/time", "to_date", "The date that a text gives by a format, as to_char has it.",
		example{"to_date('05 Dec 2024', 'DD Mon YYYY')", "2024-12-05"}, example{"to_date('2024-340', 'YYYY-DDD')", "2024-12-05"})
	describe("date/time", "to_timestamp", "The time so many seconds after 1970 in UTC; or the time that a text gives by a format, as to_char has it, in UTC if it names no offset.",
		example{"to_timestamp(1284352323.5)", "2010-09-13 04:32:03.5+00"},
		example{"to_timestamp('05 Dec 2024 11:30 PM', 'DD Mon YYYY HH12:MI AM')", "2024-12-05 23:30:00+00"})
	register(
		function{name: "to_date", args: []kind{kString, kString}, ret: kDate, fails: true, kernel: toDateKernel},
		function{name: "to_timestamp", args: []kind{kString, kString}, ret: kTimestampTZ, fails: true, kernel: parseTimestampKernel},
	)
}

func toDateKernel(c *call, out *vec, a []*vec) {
	r := grow[int32](out, c.n)
	clear(r)
	eachText(c, a[0], func(i int, s string) *dataflow.Bad {
		var t readTime
		if bad := t.read(s, formatOf(c, a[1], i)); bad != nil {
			return bad
		}
		days := daysOf(t.year, t.month, t.day)
		if days < minDate || days > maxDate {
			return badf(badRange, "date out of range: "+strconv.Quote(s))
		}
		r[i] = int32(days)
		return nil
	})
}

func parseTimestampKernel(c *call, out *vec, a []*vec) {
	r := grow[int64](out, c.n)
	clear(r)
	eachText(c, a[0], func(i int, s string) *dataflow.Bad {
		var t readTime
		if bad := t.read(s, formatOf(c, a[1], i)); bad != nil {
			return bad
		}
		days := daysOf(t.year, t.month, t.day)
		if days >= endTS/dayUS || days < minDate {
			return badf(badRange, "timestamp out of range: "+strconv.Quote(s))
		}
		us := days*dayUS + t.hour*hourUS + t.min*minUS + t.sec*secUS + t.us - t.offset*secUS
		if !validTS(us) {
			return badf(badRange, "timestamp out of range: "+strconv.Quote(s))
		}
		r[i] = us
		return nil
	})
}

// readTime is a date and time as it is read. Fields that did not come are 0.
type readTime struct {
	year, month, day, hour, min, sec, us, offset int64

	f          [fieldCount]int64
	convention convention
	yearDigits int // of a year field: 1 to 4
	twelve     bool
	zoneSign   int64
}

// The fields that a format can set.
const (
	fYear = iota
	fMonth
	fDay
	fDayOfYear
	fWeekday // 1 is Sunday
	fWeek
	fWeekOfMonth
	fJulian
	fCentury
	fBC
	fHour
	fMin
	fSec
	fMilli
	fMicro
	fSeconds // of the day
	fPM
	fZoneHour
	fZoneMin
	fIgnored
	fieldCount
)

// readField says how a field that is a number is read: at most so many digits, into what.
type readField struct{ digits, into int }

var readFields = map[string]readField{
	"HH": {2, fHour}, "HH12": {2, fHour}, "HH24": {2, fHour}, "MI": {2, fMin}, "SS": {2, fSec},
	"MS": {3, fMilli}, "US": {6, fMicro}, "FF1": {1, fMicro}, "FF2": {2, fMicro}, "FF3": {3, fMicro}, "FF4": {4, fMicro}, "FF5": {5, fMicro}, "FF6": {6, fMicro},
	"SSSS": {4, fSeconds}, "SSSSS": {5, fSeconds}, "TZH": {2, fZoneHour}, "TZM": {2, fZoneMin},
	"MM": {2, fMonth}, "DDD": {3, fDayOfYear}, "IDDD": {3, fDayOfYear}, "DD": {2, fDay}, "D": {1, fWeekday}, "ID": {1, fWeekday},
	"WW": {2, fWeek}, "IW": {2, fWeek}, "W": {1, fWeekOfMonth}, "Q": {1, fIgnored}, "CC": {2, fCentury}, "J": {1, fJulian},
	"YYYY": {4, fYear}, "IYYY": {4, fYear}, "YYY": {3, fYear}, "IYY": {3, fYear}, "YY": {2, fYear}, "IY": {2, fYear}, "Y": {1, fYear}, "I": {1, fYear},
}

// formatReader reads a text along a format.
type formatReader struct {
	scanner
	// skipped counts blanks beyond those of the format.
	skipped int
	exact   bool // FX: nothing is skipped
}

// read sets t by a text and a format.
func (t *readTime) read(s string, parts []formatPart) *dataflow.Bad {
	r := &formatReader{scanner: scanner{s: s}}
	for i := range parts {
		if !r.more() {
			break
		}
		p := &parts[i]
		if !r.exact && p.field != "FX" && (p.kind == formatField || i == 0) {
			r.blanks()
		}
		if p.kind != formatField {
			r.between(p)
			continue
		}
		if p.field == "FX" {
			r.exact = true
			continue
		}
		if v := p.counts(); v != anyDate {
			if t.convention != anyDate && t.convention != v {
				return badf(badCast, "a format counts dates either by months or by ISO weeks")
			}
			t.convention = v
		}
		if bad := r.field(t, p, parts[i+1:]); bad != nil {
			return bad
		}
		if !r.exact {
			r.skipped = 0
			r.blanks()
		}
	}
	return t.settle(s)
}

func (r *formatReader) blanks() {
	for r.accept(" \t\n\v\f\r") {
		r.skipped++
	}
}

// between reads what is no field: blanks and punctuation stand for one another, other text for
// any character.
func (r *formatReader) between(p *formatPart) {
	switch {
	case r.exact, p.kind == formatText && r.skipped <= 0:
		r.i += len(firstRunes(r.s[r.i:], 1))
	case p.kind == formatText:
		r.skipped--
	default:
		r.skipped--
		if c := r.peek(); punctuation(c) || strings.IndexByte(" \t\n\v\f\r", c) >= 0 {
			r.i++
			r.skipped++
		}
	}
}

// field reads one field; rest is the format behind it.
func (r *formatReader) field(t *readTime, p *formatPart, rest []formatPart) *dataflow.Bad {
	switch p.field {
	case "AM", "PM":
		t.twelve = true
		return r.choice(t, p, fPM, []string{"am", "pm"}, 0)
	case "AD", "BC":
		return r.choice(t, p, fBC, []string{"ad", "bc"}, 0)
	case "MONTH":
		return r.choice(t, p, fMonth, monthNames, 1)
	case "MON":
		return r.choice(t, p, fMonth, monthShort, 1)
	case "DAY":
		return r.choice(t, p, fWeekday, weekdayNames, 1)
	case "DY":
		return r.choice(t, p, fWeekday, weekdayShort, 1)
	case "RM":
		return r.choice(t, p, fMonth, romanLonger, 1)
	case "TZ", "OF":
		return badf(badArgument, "the field "+p.text+" is for to_char only")
	case "Y,YYY":
		return r.thousands(t, p)
	case "TZH":
		t.zoneSign = 1
		switch c := r.peek(); {
		case c == '+' || c == '-' || c == ' ':
			r.i++
			if c == '-' {
				t.zoneSign = -1
			}
		case r.skipped > 0 && r.i > 0 && r.s[r.i-1] == '-':
			t.zoneSign = -1
		}
	case "TZM":
		if t.zoneSign == 0 {
			t.zoneSign = 1
		}
	}
	return r.number(t, p, rest)
}

var (
	monthShort   = firstThree(monthNames)
	weekdayShort = firstThree(weekdayNames)
	// romanLonger are the months in the order in which they are tried: the longer first.
	romanLonger = []string{"xii", "xi", "x", "ix", "viii", "vii", "vi", "v", "iv", "iii", "ii", "i"}
)

func firstThree(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n[:3]
	}
	return out
}

// choice reads one of several words, whatever its case.
func (r *formatReader) choice(t *readTime, p *formatPart, into int, words []string, first int64) *dataflow.Bad {
	rest := r.s[r.i:]
	for i, w := range words {
		n := len(w)
		if len(p.text) == 4 && strings.Contains(p.text, ".") {
			n = 4
			if len(rest) < 4 || rest[1] != '.' || rest[3] != '.' || !strings.EqualFold(rest[:1]+rest[2:3], w) {
				continue
			}
		} else if len(rest) < n || !strings.EqualFold(rest[:n], w) {
			continue
		}
		r.i += n
		x := int64(i) + first
		if p.field == "RM" {
			x = int64(12 - i)
		}
		return t.set(into, x, p)
	}
	word, _, _ := strings.Cut(rest, " ")
	return badf(badCast, fmt.Sprintf("invalid value %q for %q: expected one of %s", word, p.text, strings.Join(words, ", ")))
}

// thousands reads a year as 2,024.
func (r *formatReader) thousands(t *readTime, p *formatPart) *dataflow.Bad {
	neg := r.accept("-")
	k, n := r.digits()
	if n == 0 || !r.accept(",") {
		return badf(badCast, fmt.Sprintf("invalid value for %q: expected a year as 2,024", p.text))
	}
	mark := r.i
	y, n := r.digits()
	if n > 3 {
		r.i = mark + 3
		y, _ = strconv.ParseInt(r.s[mark:r.i], 10, 64)
	}
	if n == 0 {
		return badf(badCast, fmt.Sprintf("invalid value for %q: expected a year as 2,024", p.text))
	}
	if y += k * 1000; neg {
		y -= 2 * k * 1000
	}
	if p.ordinal != "" {
		r.i = min(r.i+2, len(r.s))
	}
	t.yearDigits = 4
	return t.set(fYear, y, p)
}

// number reads a field that is a number: exactly its digits if a digit of the next field
// follows, else as many as there are.
func (r *formatReader) number(t *readTime, p *formatPart, rest []formatPart) *dataflow.Bad {
	how := readFields[p.field]
	want := how.digits
	init := r.i
	r.space()
	start := r.i
	open := p.fill || p.ordinal != "" || len(rest) == 0 || rest[0].kind == formatField && !rest[0].number() ||
		rest[0].kind != formatField && !digit(rest[0].text[0])
	end := len(r.s)
	if !open {
		end = start + want
		if end > len(r.s) {
			return badf(badCast, fmt.Sprintf("the text is too short for %q: %d characters are needed, %d remain", p.text, want, len(r.s)-start))
		}
	}
	r.accept("+-")
	for r.i < end && r.more() && digit(r.s[r.i]) {
		r.i++
	}
	text := r.s[start:r.i]
	used := len(text)
	if used == 0 || !digit(text[used-1]) {
		r.i, used = start, 0
	}
	if !open && used > 0 && used < want {
		return badf(badCast, fmt.Sprintf("invalid value %q for %q: %d digits are needed", r.s[start:end], p.text, want))
	}
	if used == 0 {
		r.i = init
		word, _, _ := strings.Cut(r.s[start:], " ")
		return badf(badCast, fmt.Sprintf("invalid value %q for %q: expected a whole number", word, p.text))
	}
	x, err := strconv.ParseInt(text, 10, 64)
	if err != nil || x > math.MaxInt32 || x < math.MinInt32 {
		return badf(badRange, fmt.Sprintf("value for %q out of range: %q", p.text, text))
	}
	x = t.scaled(p, x, r.i-init)
	if p.ordinal != "" {
		r.i = min(r.i+2, len(r.s))
	}
	return t.set(how.into, x, p)
}

// scaled turns the digits of a fraction into its unit, and a year of few digits into the one
// nearest to 2020.
func (t *readTime) scaled(p *formatPart, x int64, n int) int64 {
	switch p.field {
	case "HH", "HH12":
		t.twelve = true
	case "MS":
		for ; n < 3; n++ {
			x *= 10
		}
	case "US", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6":
		for ; n < 6; n++ {
			x *= 10
		}
	case "ID":
		if x++; x > 7 {
			x = 1
		}
	case "YYYY", "IYYY":
		t.yearDigits = 4
	case "YYY", "IYY", "YY", "IY", "Y", "I":
		t.yearDigits = len(strings.TrimPrefix(p.field, "I"))
		if p.field[0] == 'I' {
			t.yearDigits = len(p.field)
		}
		if n < 4 {
			x = nearYear(x)
		}
	}
	return x
}

func nearYear(y int64) int64 {
	switch {
	case y < 70:
		return y + 2000
	case y < 100:
		return y + 1900
	case y < 520:
		return y + 2000
	case y < 1000:
		return y + 1000
	}
	return y
}

// set keeps the value of a field; one that came before must be the same.
func (t *readTime) set(into int, x int64, p *formatPart) *dataflow.Bad {
	if into == fIgnored {
		return nil
	}
	if t.f[into] != 0 && t.f[into] != x {
		return badf(badCast, fmt.Sprintf("%q contradicts a field before", p.text))
	}
	t.f[into] = x
	return nil
}
