package expr

import "strings"

// Formats of to_char, to_date and to_timestamp for dates and times, as in PostgreSQL's chapter
// "Data Type Formatting Functions".

// formatKind says what one part of a format is.
type formatKind uint8

const (
	formatField formatKind = iota
	formatText
	formatSpace
	formatSeparator // punctuation
)

// convention is how a field counts dates: a format uses one.
type convention uint8

const (
	anyDate convention = iota
	gregorian
	isoWeekDate
)

// formatPart is a field or one character of a format.
type formatPart struct {
	kind  formatKind
	text  string // of a field its name as it was written
	field string // its name in upper case, A.M. as AM
	// Fill mode leaves out padding; an ordinal is written with st, nd, rd, th.
	fill, short bool
	ordinal     string // "", "th" or "TH"
}

// formatFields are the fields by their first letter, the longer ones first.
var formatFields = func() map[byte][]formatPart {
	out := map[byte][]formatPart{}
	add := func(f string) {
		out[f[0]] = append(out[f[0]], formatPart{text: f, field: strings.ReplaceAll(strings.ToUpper(f), ".", "")})
	}
	for _, f := range []string{
		"A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "Day", "Dy", "D",
		"FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J",
		"MI", "MM", "MONTH", "MON", "MS", "Month", "Mon", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS",
		"TZH", "TZM", "TZ", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
	} {
		add(f)
		if strings.ToUpper(f) == f {
			add(strings.ToLower(f))
		}
	}
	return out
}()

// parseFormat takes a format apart and appends its parts.
func parseFormat(out []formatPart, s string) []formatPart {
	for i := 0; i < len(s); {
		var p formatPart
		p.fill, p.short, i = formatPrefix(s, i)
		if i == len(s) {
			break
		}
		if f := fieldAt(s[i:]); f.text != "" {
			p.text, p.field = f.text, f.field
			i += len(f.text)
			if o := s[i:min(i+2, len(s))]; o == "TH" || o == "th" {
				p.ordinal = o
				i += 2
			} else if o == "SP" || o == "sp" {
				i += 2
			}
			out = append(out, p)
			continue
		}
		if s[i] == '"' {
			out, i = quotedFormat(out, s, i+1)
			continue
		}
		if s[i] == '\\' && i+1 < len(s) && s[i+1] == '"' {
			i++
		}
		n := len(firstRunes(s[i:], 1))
		p = formatPart{kind: formatText, text: s[i : i+n]}
		switch c := s[i]; {
		case strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			p.kind = formatSpace
		case punctuation(c):
			p.kind = formatSeparator
		}
		out = append(out, p)
		i += n
	}
	return out
}

// formatPrefix reads FM and TM.
func formatPrefix(s string, i int) (fill, short bool, next int) {
	switch s[i:min(i+2, len(s))] {
	case "FM", "fm":
		return true, false, i + 2
	case "TM", "tm":
		return false, true, i + 2
	}
	return false, false, i
}

func fieldAt(s string) (f formatPart) {
	for _, f := range formatFields[s[0]] {
		if strings.HasPrefix(s, f.text) {
			return f
		}
	}
	return f
}

// quotedFormat reads text in double quotes, a character at a time.
func quotedFormat(out []formatPart, s string, i int) ([]formatPart, int) {
	for i < len(s) {
		if s[i] == '"' {
			return out, i + 1
		}
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		n := len(firstRunes(s[i:], 1))
		out = append(out, formatPart{kind: formatText, text: s[i : i+n]})
		i += n
	}
	return out, i
}

func punctuation(c byte) bool {
	return c > ' ' && c < 0x7f && !digit(c) && (c|0x20 < 'a' || c|0x20 > 'z')
}

// counts says in which convention a field counts.
func (p *formatPart) counts() convention {
	switch p.field {
	case "DDD", "DD", "D", "MM", "MONTH", "MON", "RM", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y":
		return gregorian
	case "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I":
		return isoWeekDate
	}
	return anyDate
}

// number says whether a field begins with a digit.
func (p *formatPart) number() bool {
	switch p.field {
	case "AD", "AM", "BC", "PM", "DAY", "DY", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FX", "MONTH", "MON", "OF", "RM", "TZH", "TZ":
		return false
	}
	return true
}

// formatOf returns the parsed format of row i, kept from the row before.
func formatOf(c *call, a *vec, i int) []formatPart {
	s := a.text(i & a.mask())
	f, _ := c.slot.cache.(*keptFormat)
	if f == nil {
		f = &keptFormat{}
		c.slot.cache = f
	}
	if string(f.text) != s {
		f.text = append(f.text[:0], s...)
		f.parts = parseFormat(f.parts[:0], view(f.text))
	}
	return f.parts
}

type keptFormat struct {
	text  []byte
	parts []formatPart
}
