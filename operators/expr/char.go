package expr

import "strings"

// char says whether t is PostgreSQL's char(n). Its values are kept without the
// blanks at their end, which neither comparisons nor conversions see there.
func (t typ) char() bool { return t.k == kString && t.s == 1 }

// cut shortens a text to what t holds.
func (t typ) cut(s string) string {
	if t.p > 0 {
		s = firstRunes(s, int(t.p))
	}
	if t.char() {
		s = strings.TrimRight(s, " ")
	}
	return s
}

// charLiterals reads a literal that is compared with a char(n) as one.
func charLiterals(op string, args []*node) {
	if !comparisons[op] || len(args) != 2 {
		return
	}
	for i, a := range args {
		if b := args[1-i]; a.unknown && !a.null && !b.unknown && b.typ.char() {
			n := *a
			n.text = strings.TrimRight(a.text, " ")
			args[i] = &n
		}
	}
}

// allChar says whether all of args are char(n) or literals.
func allChar(args []*node) bool {
	for _, a := range args {
		if !a.unknown && !a.typ.char() {
			return false
		}
	}
	return true
}
