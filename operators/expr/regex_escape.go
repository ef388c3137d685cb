package expr

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// class returns a named class, in both cases if the case does not count.
func (p *rxParser) class(name string) (runeSet, bool) {
	if p.flags.fold && (name == "upper" || name == "lower") {
		name = "alpha"
	}
	s, ok := runeClasses()[name]
	return s, ok
}

// escape reads what stands behind a backslash. Inside brackets only characters
// and classes are meant.
func (p *rxParser) escape(bracket bool) (*rx, error) {
	if p.i >= len(p.src) {
		return nil, p.bad("invalid escape \\ sequence")
	}
	c := p.src[p.i]
	if !digit(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
		r, n := utf8.DecodeRuneInString(p.src[p.i:])
		p.i += n
		return p.char(r), nil
	}
	p.i++
	if at := strings.IndexByte("abefnrtv", c); at >= 0 {
		return p.char(rune("\a\b\x1b\f\n\r\t\v"[at])), nil
	}
	if name := map[byte]string{'d': "digit", 's': "space", 'w': "word"}[c|0x20]; name != "" {
		s, _ := p.class(name)
		if c < 'a' {
			s = s.negated()
		}
		return &rx{op: rxSet, set: s}, nil
	}
	switch c {
	case 'B':
		return p.char('\\'), nil
	case 'c':
		if p.i < len(p.src) {
			r, n := utf8.DecodeRuneInString(p.src[p.i:])
			p.i += n
			return p.char(r & 0o37), nil
		}
	case 'u':
		return p.code(16, 4, 4)
	case 'U':
		return p.code(16, 8, 8)
	case 'x':
		return p.code(16, 1, 255)
	case 'A', 'Z', 'm', 'M', 'y', 'Y':
		if !bracket {
			return &rx{op: rxAssert, assert: c}, nil
		}
	}
	if digit(c) {
		return p.number(bracket)
	}
	return nil, p.bad("invalid escape \\ sequence")
}

// mostCode is the largest code of PostgreSQL's that is not refused. Those behind the last
// character are found in no text.
const mostCode = 1<<31 - 2

// code reads a character by its code, of 32 bits as there.
func (p *rxParser) code(base, least, most int) (*rx, error) {
	start := p.i
	x := uint32(0)
	for p.i < len(p.src) && p.i-start < most {
		d, err := strconv.ParseInt(p.src[p.i:p.i+1], base, 32)
		if err != nil {
			break
		}
		x = x*uint32(base) + uint32(d)
		p.i++
	}
	if p.i-start < least || x > mostCode {
		return nil, p.bad("invalid escape \\ sequence")
	}
	return p.char(rune(x)), nil
}

// number reads an octal code; what would be a back reference is refused.
func (p *rxParser) number(bracket bool) (*rx, error) {
	p.i--
	end := p.i
	for end < len(p.src) && digit(p.src[end]) {
		end++
	}
	if x, _ := strconv.Atoi(p.src[p.i:end]); p.src[p.i] != '0' && (end == p.i+1 || x > 0 && x <= p.groups) {
		if bracket {
			return nil, p.bad("invalid escape \\ sequence")
		}
		return nil, errors.New("back references as \\1 are not supported in regular expressions")
	}
	x, start := 0, p.i
	for p.i < len(p.src) && p.i-start < 3 && p.src[p.i] >= '0' && p.src[p.i] <= '7' {
		if next := x<<3 | int(p.src[p.i]-'0'); next > 0xff {
			break
		} else {
			x = next
		}
		p.i++
	}
	if p.i == start {
		return nil, p.bad("invalid escape \\ sequence")
	}
	return p.char(rune(x)), nil
}

// bracket reads [abc], [^a-z], [[:alpha:]_] and the word boundaries [[:<:]]
// and [[:>:]].
func (p *rxParser) bracket() (*rx, error) {
	for text, c := range map[string]byte{"[[:<:]]": 'm', "[[:>:]]": 'M'} {
		if strings.HasPrefix(p.src[p.i:], text) {
			p.i += len(text)
			return &rx{op: rxAssert, assert: c}, nil
		}
	}
	p.i++
	not := p.at('^')
	if not {
		p.i++
	}
	var set runeSet
	for first := true; first || !p.at(']'); first = false {
		s, err := p.bracketPart(first)
		if err != nil {
			return nil, err
		}
		set = append(set, s...)
		if p.i >= len(p.src) {
			return nil, p.bad("brackets [] not balanced")
		}
	}
	p.i++
	set = set.tidy()
	if not {
		if p.flags.nlStop {
			set = append(set, '\n', '\n').tidy()
		}
		set = set.negated()
	}
	return &rx{op: rxSet, set: set}, nil
}

func (p *rxParser) bracketPart(first bool) (runeSet, error) {
	rest := p.src[p.i:]
	if name, ok := strings.CutPrefix(rest, "[:"); ok {
		name, _, ok = strings.Cut(name, ":]")
		s, known := p.class(name)
		if !ok || !known {
			return nil, p.bad("invalid character class")
		}
		p.i += len(name) + 4
		if p.at('-') && !strings.HasPrefix(p.src[p.i:], "-]") {
			return nil, p.bad("invalid character range")
		}
		return s, nil
	}
	if strings.HasPrefix(rest, "-") && !first && !strings.HasPrefix(rest, "-]") {
		return nil, p.bad("invalid character range")
	}
	lo, set, err := p.bracketChar(first)
	if err != nil || set != nil {
		return set, err
	}
	if !p.at('-') || strings.HasPrefix(p.src[p.i:], "-]") || p.i+1 >= len(p.src) {
		return p.char(lo).set, nil
	}
	p.i++
	hi, set, err := p.bracketChar(false)
	if err != nil {
		return nil, err
	}
	if set != nil || lo > hi {
		return nil, p.bad("invalid character range")
	}
	set = runeSet{lo, hi}
	if p.flags.fold {
		set = set.folded()
	}
	return set, nil
}

// bracketChar reads one character, or a class escape, of which it returns the
// set.
func (p *rxParser) bracketChar(first bool) (rune, runeSet, error) {
	rest := p.src[p.i:]
	if rest == "" {
		return 0, nil, p.bad("brackets [] not balanced")
	}
	for _, q := range []string{".", "="} {
		if in, ok := strings.CutPrefix(rest, "["+q); ok {
			name, _, ok := strings.Cut(in, q+"]")
			r, n := utf8.DecodeRuneInString(name)
			if !ok || n != len(name) || n == 0 {
				return 0, nil, p.bad("invalid collating element")
			}
			p.i += n + 4
			return r, nil, nil
		}
	}
	if rest[0] == '\\' {
		p.i++
		fold := p.flags.fold
		p.flags.fold = false
		n, err := p.escape(true)
		p.flags.fold = fold
		if err != nil {
			return 0, nil, err
		}
		if strings.IndexByte("dswDSW", rest[1]) >= 0 {
			return 0, slices.Clone(n.set), nil
		}
		return n.set[0], nil, nil
	}
	if rest[0] == ']' && !first {
		return 0, nil, p.bad("invalid character range")
	}
	r, n := utf8.DecodeRuneInString(rest)
	p.i += n
	return r, nil, nil
}
