package expr

import "strings"

// Dates with the name of the month: January 5, 2024; 5-Jan-2024; Mon Jan 01 10:20:30 2024.
// The year has three digits or more, so that it is not taken for the day.

var monthNames = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}

var weekdayNames = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}

// nameIn finds a word among names, whole or the first three letters; sept, tues, weds, thur
// and thurs as well. It is -1 if there is none.
func nameIn(names []string, word string) int {
	var buf [16]byte
	word = lowered(word, buf[:])
	for i, n := range names {
		if word == n || word == n[:3] {
			return i
		}
		switch word {
		case "sept", "tues", "thur", "thurs":
			if strings.HasPrefix(n, word) {
				return i
			}
		case "weds":
			if n == "wednesday" {
				return i
			}
		}
	}
	return -1
}

// wordy is a date as it is put together.
type wordy struct {
	year, month, day int64
	bc               bool
}

// words reads a whole text with the name of the month in it. The first result is false if it
// is none, the second if the date does not exist.
func (p *scanner) words(m *moment) (ok, inRange bool) {
	var d wordy
	inRange = true
	for p.separators(); p.more(); p.separators() {
		switch c := p.peek(); {
		case digit(c):
			if mark := p.i; p.clockAhead() {
				if m.hasTime {
					return false, true
				}
				fine, fits := p.time(m)
				if !fine {
					return false, true
				}
				inRange = inRange && fits
			} else if p.i = mark; !p.dayOrYear(&d) {
				return false, true
			}
		case (c == '+' || c == '-') && m.hasTime && !m.zoned:
			m.zoned = true
			if m.offset, ok = p.offset(); !ok {
				return false, true
			}
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			if !p.dateWord(m, &d) {
				return false, true
			}
		default:
			return false, true
		}
	}
	if d.month == 0 || d.day == 0 || d.year == 0 {
		return false, true
	}
	if d.bc {
		d.year = 1 - d.year
	}
	if d.day > monthLength(d.year, d.month) {
		return true, false
	}
	m.days = daysOf(d.year, d.month, d.day)
	return true, inRange
}

// separators skips blanks and commas.
func (p *scanner) separators() {
	for p.accept(" \t\n\v\f\r,") {
	}
}

// clockAhead says whether digits with a colon behind them stand here.
func (p *scanner) clockAhead() bool {
	mark := p.i
	p.digits()
	clock := p.peek() == ':'
	p.i = mark
	return clock
}

// dayOrYear reads a number: a day if it has one or two digits, else a year.
func (p *scanner) dayOrYear(d *wordy) bool {
	x, n := p.digits()
	switch {
	case n <= 2 && d.day == 0 && x > 0:
		d.day = x
	case n > 2 && n < 8 && d.year == 0 && x > 0:
		d.year = x
	default:
		return false
	}
	p.join()
	return true
}

// join skips what may stand between the parts of 5-Jan-2024.
func (p *scanner) join() {
	mark := p.i
	if !p.accept("-/.") {
		return
	}
	if c := p.peek(); !digit(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
		p.i = mark
	}
}

// dateWord reads the name of a month or a weekday, an era, or a zone.
func (p *scanner) dateWord(m *moment, d *wordy) bool {
	mark := p.i
	w := p.word()
	if i := nameIn(monthNames, w); i >= 0 {
		if d.month != 0 {
			return false
		}
		d.month = int64(i) + 1
		p.join()
		return true
	}
	if nameIn(weekdayNames, w) >= 0 {
		return true
	}
	var buf [8]byte
	switch lowered(w, buf[:]) {
	case "bc":
		d.bc = true
		return true
	case "ad":
		return true
	}
	if !m.hasTime || m.zoned {
		return false
	}
	p.i = mark
	return p.zoneOf(m)
}

// clockWord says whether PostgreSQL would look at the clock for a text.
func clockWord(lower string) bool {
	switch lower {
	case "now", "today", "tomorrow", "yesterday":
		return true
	}
	return false
}

// outOfRange says whether PostgreSQL takes a text that is no date here for one that does not
// exist: too many digits, or a month or day first that is none.
func (p *scanner) outOfRange() bool {
	p.i = 0
	first, n := p.digits()
	if !p.more() {
		return n == 2 || n > 6
	}
	if n > 2 || !p.accept("-/") {
		return false
	}
	second, k := p.digits()
	return k > 0 && k < 3 && p.accept("-/") && (first > 12 || second > 31)
}
