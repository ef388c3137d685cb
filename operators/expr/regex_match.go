package expr

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// regex is a regular expression with PostgreSQL's meaning: of the matches that
// begin first the longest, or the shortest where the expression prefers that. It
// takes time in proportion to the text and is used by one goroutine.
type regex struct {
	groups  int
	flags   rxFlags
	root    *rx
	tree    *rxTree
	classes *rxClasses
	any     *rxDFA // finds that there is a match
	here    *rxDFA // finds where it ends
	start   bool   // it matches at the start of the text only
	at      []int  // the groups of the last match: begin, end, -1 for none
	buf     []int
	failed  map[[2]int]int // the loop in which a round failed, by its place and number
	loops   int
	pike    *rxPike
}

// newRegex compiles a pattern.
func newRegex(pattern string, flags rxFlags) (*regex, error) {
	root, groups, err := parseRegex(pattern, flags)
	if err != nil {
		return nil, err
	}
	re := &regex{groups: groups, flags: flags, root: root, tree: treeOf(root), classes: newClasses(root)}
	p, err := compileRx(root, re.classes)
	if err != nil {
		return nil, err
	}
	re.any, re.here = newDFA(p, true), newDFA(p, false)
	re.start = startsAtText(root)
	re.any.head = headOf(root)
	re.at = make([]int, 2*groups+2)
	return re, nil
}

// startsAtText says whether n matches at the start of the text only.
func startsAtText(n *rx) bool {
	switch n.op {
	case rxAssert:
		return n.assert == 'A'
	case rxCat, rxGroup:
		return len(n.subs) > 0 && startsAtText(n.subs[0])
	case rxAlt:
		for _, s := range n.subs {
			if !startsAtText(s) {
				return false
			}
		}
		return true
	}
	return false
}

// headOf is the plain text that every match of n begins with.
func headOf(n *rx) string {
	var b strings.Builder
	subs := []*rx{n}
	if n.op == rxCat {
		subs = n.subs
	}
	for _, s := range subs {
		if s.op != rxSet || len(s.set) != 2 || s.set[0] != s.set[1] {
			break
		}
		b.WriteRune(s.set[0])
	}
	return b.String()
}

// matches says whether s has a match.
func (re *regex) matches(s string) bool {
	d := re.any
	if re.start {
		d = re.here
	}
	end, _ := d.shortest(s, 0)
	return end >= 0
}

// find returns the first match in s that begins at from or behind it; ok is
// false if there is none.
func (re *regex) find(s string, from int) (begin, end int, ok bool) {
	if re.start {
		if from == 0 {
			end, _ = re.end(s, 0)
		}
		return 0, end, from == 0 && end >= 0
	}
	last, cold := re.any.shortest(s, from)
	if last < 0 {
		return 0, 0, false
	}
	spent := 0
	for begin = cold; begin <= last; {
		var stop int
		if end, stop = re.end(s, begin); end >= 0 {
			return begin, end, true
		}
		if spent += stop - begin; spent > 4*(last-cold)+256 {
			break // try all places at once
		}
		begin += runeLen(s, begin)
	}
	if re.pike == nil {
		re.pike = newPike(re.any.prog)
	}
	begin = re.pike.first(s, cold)
	end, _ = re.end(s, begin)
	return begin, end, true
}

// end returns where the match ends that begins at begin; -1 if none does. It was
// looked for up to stop.
func (re *regex) end(s string, begin int) (end, stop int) {
	if re.tree.flags&rxShorter != 0 {
		end, _ = re.here.shortest(s, begin)
		return end, max(end, begin)
	}
	return re.here.longest(s, begin, len(s))
}

// runeLen is the length of the character at s[i]; 1 at the end.
func runeLen(s string, i int) int {
	if i >= len(s) {
		return 1
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return n
}

// capture finds the groups of a match and returns begin and end of the match and
// of each group. They are valid until the next call.
func (re *regex) capture(s string, begin, end int) []int {
	for i := range re.at {
		re.at[i] = -1
	}
	re.at[0], re.at[1] = begin, end
	if re.groups > 0 {
		re.buf = re.buf[:0]
		re.dissect(re.tree, s, begin, end)
	}
	return re.at
}

func (re *regex) dfa(t *rxTree) *rxDFA {
	if t.dfa == nil {
		// A part is never larger than the whole, which was compiled.
		p, _ := compileRx(t.node, re.classes)
		t.dfa = newDFA(p, false)
	}
	return t.dfa
}

// dissect finds the groups of t, which matches s[begin:end].
func (re *regex) dissect(t *rxTree, s string, begin, end int) {
	if t.flags&rxCapture == 0 {
		return
	}
	switch t.op {
	case rxPair:
		mid := re.divide(t, s, begin, end)
		re.dissect(t.kids[0], s, begin, mid)
		re.dissect(t.kids[1], s, mid, end)
	case rxChoice:
		for _, k := range t.kids {
			if re.dfa(k).exact(s, begin, end) {
				re.dissect(k, s, begin, end)
				break
			}
		}
	case rxLoop:
		re.loop(t, s, begin, end)
	case rxAround:
		re.dissect(t.kids[0], s, begin, end)
	}
	if t.group > 0 {
		re.at[2*t.group], re.at[2*t.group+1] = begin, end
	}
}

// divide finds where the first of a pair ends.
func (re *regex) divide(t *rxTree, s string, begin, end int) int {
	start := len(re.buf)
	re.buf = re.dfa(t.kids[0]).ends(re.buf, s, begin, end)
	mids := re.buf[start:]
	re.buf = re.buf[:start]
	if len(mids) == 1 {
		return mids[0]
	}
	if t.kids[0].flags&rxShorter == 0 {
		slices.Reverse(mids)
	}
	behind := re.dfa(t.kids[1])
	for _, mid := range mids {
		if behind.exact(s, mid, end) {
			return mid
		}
	}
	return begin // not reached: the pair matches
}

// loop finds the last round of a repeated part.
func (re *regex) loop(t *rxTree, s string, begin, end int) {
	if t.min == 0 && begin == end && (t.kids[0].flags&rxShorter != 0 || !re.dfa(t.kids[0]).exact(s, begin, end)) {
		return // no round at all
	}
	least, most := max(t.min, 1), end-begin
	if t.max >= 0 {
		most = min(most, t.max)
	}
	l := rxRounds{re: re, kid: t.kids[0], s: s, end: end, least: least, most: max(most, least), loop: re.nextLoop()}
	last, ok := l.from(begin, 1)
	if !ok {
		return
	}
	for _, g := range t.groups {
		re.at[2*g], re.at[2*g+1] = -1, -1
	}
	re.dissect(t.kids[0], s, last, end)
}

// rxRounds divides a text among the rounds of a loop.
type rxRounds struct {
	re          *regex
	kid         *rxTree
	s           string
	end         int
	least, most int
	loop        int
}

// nextLoop numbers the loops that are divided: re.failed says in which one a round failed last,
// so that it need not be emptied for each.
func (re *regex) nextLoop() int {
	if re.failed == nil || len(re.failed) > 1<<16 {
		re.failed = map[[2]int]int{}
	}
	re.loops++
	return re.loops
}

// from finds rounds from number k on for the text from i on and returns where
// the last one begins.
func (l *rxRounds) from(i, k int) (last int, ok bool) {
	key := [2]int{i, k}
	if l.re.failed[key] == l.loop {
		return 0, false
	}
	start := len(l.re.buf)
	l.re.buf = l.re.dfa(l.kid).ends(l.re.buf, l.s, i, l.end)
	ends := l.re.buf[start:]
	defer func() { l.re.buf = l.re.buf[:start] }()
	if l.kid.flags&rxShorter == 0 {
		slices.Reverse(ends)
	}
	for _, e := range ends {
		switch {
		case e == l.end:
			if k >= l.least {
				return i, true
			}
		case k >= l.most, e == i && (k >= l.least || l.least-k < l.end-e):
		default:
			if last, ok := l.from(e, k+1); ok {
				return last, true
			}
		}
	}
	l.re.failed[key] = l.loop
	return 0, false
}

// rxPike finds where the first match begins by following all places at once.
type rxPike struct {
	prog     *rxProg
	dfa      *rxDFA // for what stands before a place
	now, new []rxThread
	mark     []int
	round    int
}

type rxThread struct {
	pc    int32
	begin int
}

func newPike(p *rxProg) *rxPike {
	return &rxPike{prog: p, dfa: newDFA(p, false), mark: make([]int, len(p.insts))}
}

// first returns where the first match at from or behind it begins; there is one.
func (p *rxPike) first(s string, from int) int {
	best, c := -1, p.prog.classes
	p.now = p.now[:0]
	d := p.dfa
	before := d.states[int(d.first(s, from))/d.cols].before
	for i := from; ; {
		if best < 0 { // threads of earlier places come first
			p.now = append(p.now, rxThread{p.prog.start, i})
		}
		class, n, after := uint16(0), 0, uint8(0)
		if i < len(s) {
			class, n = c.next(s, i)
			after = d.atClass(class)
		}
		p.round++
		p.new = p.new[:0]
		for _, t := range p.now {
			if best < 0 || t.begin < best {
				best = p.follow(t, class, before, after, n == 0, best)
			}
		}
		if n == 0 || best >= 0 && len(p.new) == 0 {
			return best
		}
		p.now, p.new = p.new, p.now
		before = after
		i += n
	}
}

// follow takes a thread over one character.
func (p *rxPike) follow(t rxThread, class uint16, before, after uint8, end bool, best int) int {
	if p.mark[t.pc] == p.round {
		return best
	}
	p.mark[t.pc] = p.round
	in := &p.prog.insts[t.pc]
	switch in.op {
	case rxMatch:
		return t.begin
	case rxStep:
		if !end && in.classes[class] {
			p.new = append(p.new, rxThread{in.x, t.begin})
		}
	case rxSplit:
		best = p.follow(rxThread{in.x, t.begin}, class, before, after, end, best)
		best = p.follow(rxThread{in.y, t.begin}, class, before, after, end, best)
	case rxBegin:
		return p.follow(rxThread{in.x, t.begin}, class, before, after, end, best)
	case rxNeeds:
		if holds(in.assert, before, after, end) {
			return p.follow(rxThread{in.x, t.begin}, class, before, after, end, best)
		}
	}
	return best
}
