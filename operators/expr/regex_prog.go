package expr

import (
	"errors"
	"slices"
	"unicode/utf8"
)

// rxClasses divides the characters into classes that a regular expression
// cannot tell apart, so that a table of states needs one column for each.
type rxClasses struct {
	ascii [utf8.RuneSelf]uint16
	cuts  []rune // where a class begins, ascending
	class []uint16
	n     int
	word  []bool // by class
	line  []bool
	sets  map[*rx][]bool // the classes of each set
}

// newClasses collects the sets of n and those that assertions ask about.
func newClasses(n *rx) *rxClasses {
	var nodes []*rx
	var sets []runeSet
	var walk func(n *rx)
	asserts := false
	walk = func(n *rx) {
		if n.op == rxSet {
			nodes, sets = append(nodes, n), append(sets, n.set)
		}
		asserts = asserts || n.op == rxAssert && n.assert != 'A' && n.assert != 'Z'
		for _, s := range n.subs {
			walk(s)
		}
	}
	walk(n)
	if asserts {
		sets = append(sets, runeClasses()["word"], oneRune('\n'))
	}
	c := &rxClasses{sets: map[*rx][]bool{}}
	c.cut(sets)
	in := make([][]bool, len(sets))
	for i := range sets {
		in[i] = make([]bool, c.n)
	}
	for k, lo := range c.cuts {
		for i, s := range sets {
			in[i][c.class[k]] = s.has(lo)
		}
	}
	for i, n := range nodes {
		c.sets[n] = in[i]
	}
	c.word, c.line = make([]bool, c.n), make([]bool, c.n)
	if asserts {
		c.word, c.line = in[len(in)-2], in[len(in)-1]
	}
	for r := range c.ascii {
		c.ascii[r] = c.find(rune(r))
	}
	return c
}

// cut finds the borders of all sets and numbers what lies between them:
// intervals that are in the same sets have the same number.
func (c *rxClasses) cut(sets []runeSet) {
	c.cuts = []rune{0}
	for _, s := range sets {
		for i := 0; i < len(s); i += 2 {
			c.cuts = append(c.cuts, s[i], s[i+1]+1)
		}
	}
	slices.Sort(c.cuts)
	c.cuts = slices.Compact(c.cuts)
	numbers := map[string]uint16{}
	key := make([]byte, (len(sets)+7)/8)
	for _, lo := range c.cuts {
		clear(key)
		for i, s := range sets {
			if s.has(lo) {
				key[i>>3] |= 1 << (i & 7)
			}
		}
		k, ok := numbers[string(key)]
		if !ok {
			k = uint16(len(numbers))
			numbers[string(key)] = k
		}
		c.class = append(c.class, k)
	}
	c.n = len(numbers)
}

func (c *rxClasses) find(r rune) uint16 {
	lo, hi := 0, len(c.cuts)
	for hi-lo > 1 {
		if m := (lo + hi) / 2; c.cuts[m] <= r {
			lo = m
		} else {
			hi = m
		}
	}
	return c.class[lo]
}

// next returns the class of the character at s[i] and how long that is.
func (c *rxClasses) next(s string, i int) (uint16, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return c.ascii[b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return c.find(r), n
}

type rxInstOp uint8

const (
	rxFail rxInstOp = iota
	rxMatch
	rxStep  // one character of classes
	rxSplit // to x and y
	rxNeeds // assert holds
	rxBegin // to x; nothing else leads here
)

type rxInst struct {
	op      rxInstOp
	assert  byte
	x, y    int32
	classes []bool
}

// rxProg is an automaton: it begins at start and has matched at rxMatch, which
// is instruction 1.
type rxProg struct {
	insts   []rxInst
	start   int32
	classes *rxClasses
}

var errRegexSize = errors.New("invalid regular expression: it is too large")

// compileRx makes the automaton of n. It is built from the end, so that each
// part knows what follows it.
func compileRx(n *rx, classes *rxClasses) (*rxProg, error) {
	p := &rxProg{insts: []rxInst{{op: rxFail}, {op: rxMatch}}, classes: classes}
	p.start = p.add(rxInst{op: rxBegin, x: p.build(n, 1)})
	if len(p.insts) > rxMostInsts {
		return nil, errRegexSize
	}
	return p, nil
}

func (p *rxProg) add(i rxInst) int32 {
	p.insts = append(p.insts, i)
	return int32(len(p.insts) - 1)
}

// build adds n in front of next and returns where it begins.
func (p *rxProg) build(n *rx, next int32) int32 {
	if len(p.insts) > rxMostInsts {
		return 0
	}
	switch n.op {
	case rxSet:
		return p.add(rxInst{op: rxStep, x: next, classes: p.classes.sets[n]})
	case rxAssert:
		return p.add(rxInst{op: rxNeeds, x: next, assert: n.assert})
	case rxCat:
		for _, s := range slices.Backward(n.subs) {
			next = p.build(s, next)
		}
	case rxAlt:
		first := p.build(n.subs[len(n.subs)-1], next)
		for i := len(n.subs) - 2; i >= 0; i-- {
			first = p.add(rxInst{op: rxSplit, x: p.build(n.subs[i], next), y: first})
		}
		return first
	case rxGroup:
		return p.build(n.subs[0], next)
	case rxRepeat:
		return p.repeat(n, next)
	}
	return next
}

func (p *rxProg) repeat(n *rx, next int32) int32 {
	if n.max < 0 {
		loop := p.add(rxInst{op: rxSplit, y: next})
		p.insts[loop].x = p.build(n.subs[0], loop)
		next = loop
	} else {
		end := next
		for range n.max - n.min {
			next = p.add(rxInst{op: rxSplit, x: p.build(n.subs[0], next), y: end})
		}
	}
	for range n.min {
		next = p.build(n.subs[0], next)
	}
	return next
}
