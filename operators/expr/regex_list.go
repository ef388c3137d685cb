package expr

import "unsafe"

func init() {
	s := kString
	for n, args := range [][]kind{{s, s}, {s, s, s}} {
		flags := []int{-1, 2}[n]
		match := rxUse{name: "regexp_match", pattern: 1, flags: flags}
		split := rxUse{name: "regexp_split_to_array", pattern: 1, flags: flags}
		register(function{name: match.name, args: args, result: match.result(tTexts), fails: true, kernel: match.match()},
			function{name: split.name, args: args, result: split.result(tTexts), fails: true, kernel: split.split()})
	}
	describe("pattern", "regexp_match", "The groups of the first match, or the match if there are none; null without a match.",
		example{`regexp_match('foobarbequebaz', '(bar)(beque)')`, "{bar,beque}"}, example{`regexp_match('foobar', 'o+')`, "{oo}"})
	describe("pattern", "regexp_split_to_array", "The parts of the text between the matches.",
		example{`regexp_split_to_array('hello world', '\s+')`, "{hello,world}"})
}

// eachList makes a list of texts for every row with an expression.
func (u rxUse) eachList(c *call, out *vec, a []*vec, f func(l *lists, i int, s string, re *regex)) {
	r := u.rows(c, a)
	l := newLists(out, tString, c.n)
	for i := range c.n {
		if c.counts(i) {
			if re := r.regex(i); re != nil {
				f(l, i, r.text(0, i), re)
			}
		}
		l.end()
	}
	l.done()
}

func (l *lists) part(s string) { l.text(unsafe.Slice(unsafe.StringData(s), len(s))) }

func (u rxUse) match() kernel {
	return func(c *call, out *vec, a []*vec) {
		u.eachList(c, out, a, func(l *lists, i int, s string, re *regex) {
			begin, end, ok := re.find(s, 0)
			if !ok {
				out.needValid(c.n).clear(i)
				return
			}
			at := re.capture(s, begin, end)
			if re.groups > 0 {
				at = at[2:]
			}
			for ; len(at) > 0; at = at[2:] {
				if at[0] < 0 {
					l.null()
					continue
				}
				l.part(s[at[0]:at[1]])
			}
		})
	}
}

func (u rxUse) split() kernel {
	return func(c *call, out *vec, a []*vec) {
		u.eachList(c, out, a, func(l *lists, i int, s string, re *regex) {
			done, last := 0, 0 // what is in the list, and where the last match ends
			for from := 0; from <= len(s); {
				begin, end, ok := re.find(s, from)
				if !ok {
					break
				}
				// A match of nothing counts only between two characters.
				if begin < len(s) && end > last {
					l.part(s[done:begin])
					done = end
				}
				last = end
				from = following(s, begin, end)
			}
			l.part(s[done:])
		})
	}
}
