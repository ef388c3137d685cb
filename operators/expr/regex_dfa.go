package expr

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// rxDFA runs an automaton over texts: it keeps the sets of instructions that it
// met as states, with the next state for each class of characters, so that most
// characters cost one look into a table. It is used by one goroutine.
//
// A state is what the text so far leads to, together with what is behind it;
// what assertions say is known only with the next character, so a step decides
// first whether the text before that character matches.
type rxDFA struct {
	prog   *rxProg
	cols   int // classes, and one for the end of the text
	again  bool
	states []rxState        // a state is where its row in next begins: number * cols
	index  map[uint64]int32 // by hash the last state that has it
	sets   []int32          // the instructions of all states
	next   []int32          // at state+class what follows, see rxUnknown
	begin  [5]int32
	head   string  // what each match begins with
	mark   []int32 // by instruction, to visit each once
	round  int32
	stack  []int32
	seen   []int32
	kernel []int32
}

// rxState is a set of instructions, sets[from:to], with what stands before it.
type rxState struct {
	from, to int32
	same     int32 // another state of the same hash, or rxUnknown
	before   uint8
}

// What stands before a place.
const (
	rxAtWord uint8 = 1 << iota
	rxAtLine       // a line break
	rxAtText       // nothing: the start of the text
)

// What follows a state is the next one, shifted by rxShift, and below it whether the
// text so far matches and whether the next state is nothing but the start.
const (
	rxMatched    = 1
	rxFresh      = 2
	rxShift      = 2
	rxUnknown    = -1
	rxDead       = 0
	rxMostStates = 2000
	rxMostCells  = 1 << 17 // of next, and of all sets together
)

// newDFA makes the automaton of p. With again it begins anew at each character.
func newDFA(p *rxProg, again bool) *rxDFA {
	d := &rxDFA{prog: p, cols: p.classes.n + 1, again: again, mark: make([]int32, len(p.insts))}
	d.reset()
	return d
}

func (d *rxDFA) reset() {
	d.states, d.next, d.sets = d.states[:0], d.next[:0], d.sets[:0]
	if d.index == nil {
		d.index = map[uint64]int32{}
	}
	clear(d.index)
	d.begin = [5]int32{rxUnknown, rxUnknown, rxUnknown, rxUnknown, rxUnknown}
	d.state(nil, 0) // rxDead
}

// state returns the number of a set of instructions.
func (d *rxDFA) state(kernel []int32, before uint8) int32 {
	hash := uint64(before) + 1
	for _, k := range kernel {
		hash = bits.RotateLeft64(hash^uint64(k), 27) * 0x9e3779b97f4a7c15
	}
	same, ok := d.index[hash]
	if !ok {
		same = rxUnknown
	}
	for at := same; at != rxUnknown; {
		st := &d.states[int(at)/d.cols]
		if st.before == before && slices.Equal(d.kernelOf(st), kernel) {
			return at
		}
		at = st.same
	}
	s := int32(len(d.next))
	d.index[hash] = s
	from := int32(len(d.sets))
	d.sets = append(d.sets, kernel...)
	d.states = append(d.states, rxState{from, int32(len(d.sets)), same, before})
	for range d.cols {
		d.next = append(d.next, rxUnknown)
	}
	return s
}

func (d *rxDFA) kernelOf(st *rxState) []int32 { return d.sets[st.from:st.to] }

// first returns the state to begin with at s[i].
func (d *rxDFA) first(s string, i int) int32 {
	at, slot := rxAtText, 0
	if i > 0 {
		r, _ := utf8.DecodeLastRuneInString(s[:i])
		at, slot = d.atClass(d.prog.classes.find(r)), 1
		slot += int(at)
	}
	if d.begin[slot] == rxUnknown {
		d.begin[slot] = d.state([]int32{d.prog.start}, at)
	}
	return d.begin[slot]
}

func (d *rxDFA) atClass(class uint16) uint8 {
	var at uint8
	if d.prog.classes.word[class] {
		at |= rxAtWord
	}
	if d.prog.classes.line[class] {
		at |= rxAtLine
	}
	return at
}

// step computes the way from state s over a character of class, the last
// column being the end of the text.
func (d *rxDFA) step(s int32, class int) int32 {
	if len(d.states) > rxMostStates || len(d.next) > rxMostCells || len(d.sets) > rxMostCells {
		st := d.states[int(s)/d.cols]
		d.kernel = append(d.kernel[:0], d.kernelOf(&st)...)
		d.reset()
		s = d.state(d.kernel, st.before)
	}
	st := &d.states[int(s)/d.cols]
	end := class == d.cols-1
	var at uint8
	if !end {
		at = d.atClass(uint16(class))
	}
	matched := d.closure(st, at, end)
	d.kernel = d.kernel[:0]
	d.round++
	if !end {
		for _, pc := range d.seen {
			if in := &d.prog.insts[pc]; in.classes[class] && d.mark[in.x] != d.round {
				d.mark[in.x] = d.round
				d.kernel = append(d.kernel, in.x)
			}
		}
		if d.again && d.mark[d.prog.start] != d.round {
			d.kernel = append(d.kernel, d.prog.start)
		}
	}
	slices.Sort(d.kernel)
	to := int32(rxDead)
	if len(d.kernel) > 0 {
		to = d.state(d.kernel, at) << rxShift
	}
	if len(d.kernel) == 1 && d.kernel[0] == d.prog.start {
		to |= rxFresh
	}
	if matched {
		to |= rxMatched
	}
	d.next[int(s)+class] = to
	return to
}

// closure leaves in d.seen the steps that can follow a state, given the next
// character, and says whether it has matched.
func (d *rxDFA) closure(st *rxState, after uint8, end bool) bool {
	d.round++
	d.seen = d.seen[:0]
	d.stack = append(d.stack[:0], d.kernelOf(st)...)
	matched := false
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.mark[pc] == d.round {
			continue
		}
		d.mark[pc] = d.round
		switch in := &d.prog.insts[pc]; in.op {
		case rxMatch:
			matched = true
		case rxStep:
			d.seen = append(d.seen, pc)
		case rxSplit:
			d.stack = append(d.stack, in.x, in.y)
		case rxBegin:
			d.stack = append(d.stack, in.x)
		case rxNeeds:
			if holds(in.assert, st.before, after, end) {
				d.stack = append(d.stack, in.x)
			}
		}
	}
	return matched
}

// holds says whether an assertion is true between two characters.
func holds(assert byte, before, after uint8, end bool) bool {
	wb, wa := before&rxAtWord != 0, after&rxAtWord != 0
	switch assert {
	case 'A':
		return before&rxAtText != 0
	case '^':
		return before&(rxAtText|rxAtLine) != 0
	case 'Z':
		return end
	case '$':
		return end || after&rxAtLine != 0
	case 'm':
		return !wb && wa
	case 'M':
		return wb && !wa
	case 'y':
		return wb != wa
	}
	return wb == wa // Y
}

// after returns what follows state st over the character at s[i], and how long
// that is: 0 at the end of the text.
func (d *rxDFA) after(st int32, s string, i int) (to int32, n int) {
	class := d.cols - 1
	if i < len(s) {
		if b := s[i]; b < utf8.RuneSelf {
			class, n = int(d.prog.classes.ascii[b]), 1
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			class = int(d.prog.classes.find(r))
		}
	}
	if to = d.next[int(st)+class]; to == rxUnknown {
		to = d.step(st, class)
	}
	return to, n
}

// shortest returns the first end of a match that begins at i, or, with again, at
// i or behind it; -1 if there is none. cold is a place no match begins before.
func (d *rxDFA) shortest(s string, i int) (end, cold int) {
	if i = d.skip(s, i); i < 0 {
		return -1, 0
	}
	st, classes, next := d.first(s, i), &d.prog.classes.ascii, d.next
	cold = i
	for i < len(s) {
		b, n := s[i], 1
		to := int32(rxUnknown)
		if b < utf8.RuneSelf {
			to = next[int(st)+int(classes[b])]
		}
		if to == rxUnknown {
			to, n = d.after(st, s, i)
			next = d.next
		}
		if to&rxMatched != 0 {
			return i, cold
		}
		st = to >> rxShift
		if st == rxDead {
			return -1, cold
		}
		i += n
		if to&rxFresh != 0 {
			if d.head != "" {
				if i = d.skip(s, i); i < 0 {
					return -1, 0
				}
				st = d.first(s, i)
				next = d.next
			}
			cold = i
		}
	}
	if to, _ := d.after(st, s, i); to&rxMatched != 0 {
		return i, cold
	}
	return -1, cold
}

// skip returns the first place at i or behind it where a match can begin; -1 if
// there is none.
func (d *rxDFA) skip(s string, i int) int {
	if d.head == "" {
		return i
	}
	k := strings.Index(s[i:], d.head)
	if k < 0 {
		return -1
	}
	return i + k
}

// longest returns the last end, at most most, of a match that begins at i; -1
// if there is none, and where it stopped to look.
func (d *rxDFA) longest(s string, i, most int) (end, stop int) {
	st, classes, next := d.first(s, i), &d.prog.classes.ascii, d.next
	end = -1
	for {
		n := 1
		to := int32(rxUnknown)
		if i < len(s) && s[i] < utf8.RuneSelf {
			to = next[int(st)+int(classes[s[i]])]
		}
		if to == rxUnknown {
			to, n = d.after(st, s, i)
			next = d.next
		}
		if to&rxMatched != 0 {
			end = i
		}
		st = to >> rxShift
		if n == 0 || st == rxDead || i >= most {
			return end, i
		}
		i += n
	}
}

// ends appends every end up to most of a match that begins at i.
func (d *rxDFA) ends(out []int, s string, i, most int) []int {
	for st := d.first(s, i); ; {
		to, n := d.after(st, s, i)
		if to&rxMatched != 0 {
			out = append(out, i)
		}
		st = to >> rxShift
		if n == 0 || st == rxDead || i >= most {
			return out
		}
		i += n
	}
}

// exact says whether s[i:end] is a match.
func (d *rxDFA) exact(s string, i, end int) bool {
	last, _ := d.longest(s, i, end)
	return last == end
}
