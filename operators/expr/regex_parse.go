package expr

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

type rxOp uint8

const (
	rxEmpty  rxOp = iota
	rxSet         // set: one character of it
	rxCat         // subs, one behind the other
	rxAlt         // one of subs
	rxRepeat      // subs[0], min to max times; max -1 is any number
	rxGroup       // subs[0], captured as group
	rxAssert      // text[0]: '^' '$' 'A' 'Z' 'm' 'M' 'y' 'Y', see assertions
)

// What a part prefers where it can match several texts.
const (
	rxLonger  uint8 = 1
	rxShorter uint8 = 2
)

// rx is one part of a parsed regular expression.
type rx struct {
	op       rxOp
	set      runeSet
	subs     []*rx
	min, max int
	prefer   uint8 // rxRepeat; 0: as what is repeated
	group    int
	assert   byte
}

// rxFlags are the options of a regular expression.
type rxFlags struct {
	fold     bool // upper and lower case are the same
	quote    bool // the pattern is a plain text
	expanded bool // white space and comments do not count
	nlStop   bool // . and [^a] match no line break
	nlAnchor bool // ^ and $ match at line breaks
	global   bool // all matches; of functions
}

const (
	rxMostRepeat = 255
	rxMostInsts  = 20000
	rxMostDepth  = 200
)

// set reads option letters. They are those of PostgreSQL's functions and of
// (?..) at the start of a pattern.
func (f *rxFlags) set(letters string) error {
	for _, c := range letters {
		switch c {
		case 'c':
			f.fold = false
		case 'i':
			f.fold = true
		case 'm', 'n':
			f.nlStop, f.nlAnchor = true, true
		case 'p':
			f.nlStop, f.nlAnchor = true, false
		case 's':
			f.nlStop, f.nlAnchor = false, false
		case 'w':
			f.nlStop, f.nlAnchor = false, true
		case 'q':
			f.quote = true
		case 't':
			f.expanded = false
		case 'x':
			f.expanded = true
		case 'g':
			f.global = true
		case 'b', 'e':
			return fmt.Errorf("option %q, an older kind of regular expression, is not supported", c)
		default:
			return fmt.Errorf("invalid regular expression option %q", c)
		}
	}
	return nil
}

// rxParser reads PostgreSQL's advanced regular expressions but for what no
// automaton does: back references and look-around.
type rxParser struct {
	src    string
	i      int
	groups int
	depth  int
	flags  rxFlags
}

func parseRegex(pattern string, flags rxFlags) (*rx, int, error) {
	p := &rxParser{src: pattern, flags: flags}
	if err := p.prefix(); err != nil {
		return nil, 0, err
	}
	if p.flags.quote {
		return p.plain(), 0, nil
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, 0, err
	}
	if p.i < len(p.src) {
		return nil, 0, errors.New("invalid regular expression: parentheses () not balanced")
	}
	return n, p.groups, nil
}

// prefix reads ***=, ***: and (?options).
func (p *rxParser) prefix() error {
	if strings.HasPrefix(p.src, "***=") {
		p.flags.quote = true
		p.i = 4
		return nil
	}
	if strings.HasPrefix(p.src, "***:") {
		p.i = 4
	} else if strings.HasPrefix(p.src, "***") {
		return p.bad("quantifier operand invalid")
	}
	rest := p.src[p.i:]
	if p.flags.quote || len(rest) < 3 || rest[:2] != "(?" || !unicode.IsLetter(rune(rest[2])) {
		return nil
	}
	end := strings.IndexByte(rest, ')')
	if end < 0 {
		return p.bad("invalid embedded option")
	}
	letters := rest[2:end]
	if strings.Trim(letters, "bceimnpqstwx") != "" {
		return p.bad("invalid embedded option")
	}
	p.i += end + 1
	return p.flags.set(letters)
}

func (p *rxParser) bad(what string) error { return errors.New("invalid regular expression: " + what) }

func (p *rxParser) plain() *rx {
	n := &rx{op: rxCat}
	for _, r := range p.src[p.i:] {
		n.subs = append(n.subs, p.char(r))
	}
	return n
}

func (p *rxParser) char(r rune) *rx {
	s := oneRune(r)
	if p.flags.fold {
		if l := unicode.ToLower(r); l != r {
			s = append(s, l, l)
		}
		if u := unicode.ToUpper(r); u != r {
			s = append(s, u, u)
		}
	}
	return &rx{op: rxSet, set: s.tidy()}
}

func (p *rxParser) more() bool {
	for p.flags.expanded && p.i < len(p.src) {
		switch c := p.src[p.i]; {
		case strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			p.i++
		case c == '#':
			n := strings.IndexByte(p.src[p.i:], '\n')
			if n < 0 {
				n = len(p.src) - p.i
			}
			p.i += n
		default:
			return true
		}
	}
	return p.i < len(p.src)
}

func (p *rxParser) at(c byte) bool { return p.i < len(p.src) && p.src[p.i] == c }

func (p *rxParser) alternatives() (*rx, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > rxMostDepth {
		return nil, p.bad("nested too deeply")
	}
	var subs []*rx
	for {
		n, err := p.branch()
		if err != nil {
			return nil, err
		}
		subs = append(subs, n)
		if !p.more() || !p.at('|') {
			break
		}
		p.i++
	}
	if len(subs) == 1 {
		return subs[0], nil
	}
	return &rx{op: rxAlt, subs: subs}, nil
}

func (p *rxParser) branch() (*rx, error) {
	n := &rx{op: rxCat}
	for p.more() && !p.at('|') && !p.at(')') {
		if strings.HasPrefix(p.src[p.i:], "(?#") {
			end := strings.IndexByte(p.src[p.i:], ')')
			if end < 0 {
				return nil, p.bad("parentheses () not balanced")
			}
			p.i += end + 1
			continue
		}
		atom, err := p.atom()
		if err != nil {
			return nil, err
		}
		if atom.op != rxAssert {
			if atom, err = p.quantified(atom); err != nil {
				return nil, err
			}
		}
		n.subs = append(n.subs, atom)
	}
	if p.at(')') && p.depth == 1 {
		return nil, p.bad("parentheses () not balanced")
	}
	return n, nil
}

func (p *rxParser) atom() (*rx, error) {
	c := p.src[p.i]
	switch c {
	case '(':
		return p.parens()
	case '[':
		return p.bracket()
	case '.':
		p.i++
		all := runeSet{0, unicode.MaxRune}
		if p.flags.nlStop {
			all = oneRune('\n').negated()
		}
		return &rx{op: rxSet, set: all}, nil
	case '^', '$':
		p.i++
		if !p.flags.nlAnchor {
			c = map[byte]byte{'^': 'A', '$': 'Z'}[c]
		}
		return &rx{op: rxAssert, assert: c}, nil
	case '*', '+', '?':
		return nil, p.bad("quantifier operand invalid")
	case '{':
		if p.i+1 < len(p.src) && digit(p.src[p.i+1]) {
			return nil, p.bad("quantifier operand invalid")
		}
	case '\\':
		p.i++
		return p.escape(false)
	}
	r, n := utf8.DecodeRuneInString(p.src[p.i:])
	p.i += n
	return p.char(r), nil
}

func (p *rxParser) parens() (*rx, error) {
	rest := p.src[p.i:]
	group := 0
	switch {
	case strings.HasPrefix(rest, "(?:"):
		p.i += 3
	case strings.HasPrefix(rest, "(?="), strings.HasPrefix(rest, "(?!"), strings.HasPrefix(rest, "(?<="), strings.HasPrefix(rest, "(?<!"):
		return nil, errors.New("look-around as in (?=...) is not supported in regular expressions")
	case strings.HasPrefix(rest, "(?"):
		return nil, p.bad("quantifier operand invalid")
	default:
		p.i++
		p.groups++
		group = p.groups
	}
	n, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.at(')') {
		return nil, p.bad("parentheses () not balanced")
	}
	p.i++
	if group > 0 {
		n = &rx{op: rxGroup, subs: []*rx{n}, group: group}
	}
	return n, nil
}

// quantified reads what may stand behind an atom: * + ? {2} {2,} {2,3}, each
// with a ? for the shortest.
func (p *rxParser) quantified(atom *rx) (*rx, error) {
	if !p.more() {
		return atom, nil
	}
	n := &rx{op: rxRepeat, subs: []*rx{atom}, max: -1, prefer: rxLonger}
	exact := false
	switch c := p.src[p.i]; {
	case c == '*':
	case c == '+':
		n.min = 1
	case c == '?':
		n.max = 1
	case c == '{' && p.i+1 < len(p.src) && digit(p.src[p.i+1]):
		var err error
		if exact, err = p.bounds(n); err != nil {
			return nil, err
		}
	default:
		return atom, nil
	}
	p.i++
	if p.at('?') {
		p.i++
		n.prefer = rxShorter
	}
	if exact {
		n.prefer = 0
	}
	return n, nil
}

// bounds reads {m}, {m,} or {m,n} up to its closing brace.
func (p *rxParser) bounds(n *rx) (exact bool, err error) {
	p.i++
	number := func() (int, bool) {
		x, start := 0, p.i
		for p.i < len(p.src) && digit(p.src[p.i]) && x <= rxMostRepeat {
			x = 10*x + int(p.src[p.i]-'0')
			p.i++
		}
		return x, p.i > start && x <= rxMostRepeat
	}
	var ok bool
	if n.min, ok = number(); !ok {
		return false, p.bad("invalid repetition count(s)")
	}
	n.max, exact = n.min, true
	if p.at(',') {
		p.i++
		n.max, exact = -1, false
		if p.i < len(p.src) && digit(p.src[p.i]) {
			if n.max, ok = number(); !ok || n.max < n.min {
				return false, p.bad("invalid repetition count(s)")
			}
		}
	}
	if p.i >= len(p.src) {
		return false, p.bad("braces {} not balanced")
	}
	if !p.at('}') {
		return false, p.bad("invalid repetition count(s)")
	}
	return exact, nil
}
