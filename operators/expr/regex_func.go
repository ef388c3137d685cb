package expr

import (
	"errors"
	"strings"
)

func init() {
	s, i := kString, kInt32
	for _, op := range []struct {
		name      string
		fold, not bool
	}{{"~", false, false}, {"~*", true, false}, {"!~", false, true}, {"!~*", true, true}} {
		u := rxUse{pattern: 1, flags: -1, base: rxFlags{fold: op.fold}}
		register(function{name: op.name, args: []kind{s, s}, result: u.result(tBool), fails: true, kernel: u.test(op.not)})
	}
	for n, args := range [][]kind{{s, s}, {s, s, s}} {
		u := rxUse{name: "regexp_like", pattern: 1, flags: []int{-1, 2}[n]}
		register(function{name: u.name, args: args, result: u.result(tBool), fails: true, kernel: u.test(false)})
	}
	add := func(u rxUse, t typ, k func(rxUse) kernel, args ...kind) {
		u.pattern = 1
		register(function{name: u.name, args: args, result: u.result(t), fails: true, kernel: k(u)})
	}
	replace := rxUse{name: "regexp_replace", flags: -1, global: true, start: -1, nth: -1}
	add(replace, tString, rxUse.replace, s, s, s)
	replace.flags = 3
	add(replace, tString, rxUse.replace, s, s, s, s)
	replace.flags, replace.start = -1, 3
	add(replace, tString, rxUse.replace, s, s, s, i)
	replace.nth = 4
	add(replace, tString, rxUse.replace, s, s, s, i, i)
	replace.flags = 5
	add(replace, tString, rxUse.replace, s, s, s, i, i, s)

	count := []kind{s, s, i, s}
	for n := 2; n <= len(count); n++ {
		u := rxUse{name: "regexp_count", flags: 3, start: 2}
		add(u.upTo(n), tInt32, rxUse.count, count[:n]...)
	}
	instr := []kind{s, s, i, i, i, s, i}
	for n := 2; n <= len(instr); n++ {
		u := rxUse{name: "regexp_instr", flags: 5, start: 2, nth: 3, ending: 4, part: 6}
		add(u.upTo(n), tInt32, rxUse.instr, instr[:n]...)
	}
	substr := []kind{s, s, i, i, s, i}
	for n := 2; n <= len(substr); n++ {
		u := rxUse{name: "regexp_substr", flags: 4, start: 2, nth: 3, ending: -1, part: 5}
		add(u.upTo(n), tString, rxUse.substr, substr[:n]...)
	}
	u := rxUse{name: "substring", flags: -1}
	add(u, tString, rxUse.first, s, s)
	similar := rxUse{name: "substring", flags: -1, similar: true}
	add(similar, tString, rxUse.first, s, s, s)
	register(function{name: "similar_to_escape", args: []kind{s}, ret: s, fails: true, kernel: similarKernel},
		function{name: "similar_to_escape", args: []kind{s, s}, ret: s, fails: true, kernel: similarKernel})
}

// rxUse says which operands of a function mean what: -1 for those that it has
// not.
type rxUse struct {
	name           string
	pattern, flags int
	base           rxFlags
	global         bool // the option g is allowed
	start, nth     int
	ending, part   int
	similar        bool // operands 1 and 2 are a pattern of similar to and its escape
}

// upTo leaves out what an overload of n operands does not have.
func (u rxUse) upTo(n int) rxUse {
	for _, p := range []*int{&u.flags, &u.start, &u.nth, &u.ending, &u.part} {
		if *p >= n {
			*p = -1
		}
	}
	return u
}

// result is the type of the result. Constant patterns are compiled here, so that
// a mistake is found before anything runs.
func (u rxUse) result(t typ) func(args []*node) (typ, error) {
	return func(args []*node) (typ, error) {
		text := func(k int) (string, bool) {
			if k < 0 {
				return "", true
			}
			a := args[k]
			if a.konst == nil || a.konst.constNull() || a.end == 0 {
				return "", false
			}
			return a.konst.text(0), true
		}
		flags, ok := text(u.flags)
		if !ok {
			return t, nil
		}
		f, err := u.options(flags)
		if err != nil {
			return t, errAt(args[u.flags].pos, "%s", err.Error())
		}
		pattern, ok := text(u.pattern)
		if !ok || u.similar {
			return t, nil
		}
		if _, err := newRegex(pattern, f); err != nil {
			return t, errAt(args[u.pattern].pos, "%s", err.Error())
		}
		return t, nil
	}
}

// options reads the flags of a function.
func (u rxUse) options(flags string) (rxFlags, error) {
	f := u.base
	if flags != "" && digit(flags[0]) && u.name == "regexp_replace" && u.start < 0 {
		return f, errors.New("invalid regular expression option " + flags[:1] + ": cast it to int32 if it is the place to start at")
	}
	if err := f.set(flags); err != nil {
		return f, err
	}
	if f.global && !u.global {
		return f, errors.New(u.name + " does not support the option g")
	}
	return f, nil
}

// rxCache keeps the compiled expressions of a node.
type rxCache struct {
	last    *rxEntry
	entries map[[2]string]*rxEntry
}

type rxEntry struct {
	pattern, flags string
	re             *regex
	err            error
}

// rxMostCached bounds how many patterns from a column are kept.
const rxMostCached = 64

func (k *rxCache) get(u rxUse, pattern, flags string) *rxEntry {
	if e := k.last; e != nil && e.pattern == pattern && e.flags == flags {
		return e
	}
	e := k.entries[[2]string{pattern, flags}]
	if e == nil {
		if len(k.entries) >= rxMostCached || k.entries == nil {
			k.entries = map[[2]string]*rxEntry{}
		}
		e = &rxEntry{pattern: strings.Clone(pattern), flags: strings.Clone(flags)}
		var f rxFlags
		if f, e.err = u.options(e.flags); e.err == nil {
			e.re, e.err = newRegex(e.pattern, f)
		}
		k.entries[[2]string{e.pattern, e.flags}] = e
	}
	k.last = e
	return e
}

// rxRows is one run of a function of regular expressions.
type rxRows struct {
	u     rxUse
	c     *call
	a     []*vec
	cache *rxCache
	konst *regex // of constant operands
	buf   []byte
}

func (u rxUse) rows(c *call, a []*vec) *rxRows {
	r, ok := c.slot.cache.(*rxRows)
	if !ok {
		r = &rxRows{u: u, cache: &rxCache{}}
		c.slot.cache = r
	}
	r.c, r.a, r.konst = c, a, nil
	if !u.similar && a[u.pattern].konst && (u.flags < 0 || a[u.flags].konst) {
		flags := ""
		if u.flags >= 0 {
			flags = a[u.flags].text(0)
		}
		r.konst = r.cache.get(u, a[u.pattern].text(0), flags).re
	}
	return r
}

// regex returns the expression of row i; nil if it is bad, and the row fails.
func (r *rxRows) regex(i int) *regex {
	if r.konst != nil {
		return r.konst
	}
	flags := ""
	if r.u.flags >= 0 {
		flags = r.text(r.u.flags, i)
	}
	pattern := r.text(r.u.pattern, i)
	if r.u.similar {
		var err error
		if r.buf, err = similarPattern(r.buf[:0], pattern, r.text(2, i)); err != nil {
			r.c.fail(i, badArgument, "%s", err.Error())
			return nil
		}
		pattern = view(r.buf)
	}
	e := r.cache.get(r.u, pattern, flags)
	if e.err != nil {
		r.c.fail(i, badArgument, "%s", e.err.Error())
	}
	return e.re
}

func (r *rxRows) text(k, i int) string { return r.a[k].text(i & r.a[k].mask()) }

// number returns operand k of row i, or otherwise if there is none. A value
// below least fails the row.
func (r *rxRows) number(k, i, otherwise, least int, what string) (int, bool) {
	if k < 0 {
		return otherwise, true
	}
	x := int(of[int32](r.a[k])[i&r.a[k].mask()])
	if x < least {
		r.c.fail(i, badArgument, "%s is %d, at least %d is needed", what, x, least)
		return 0, false
	}
	return x, true
}

// from returns where row i's search begins, in bytes; behind the end if the
// text is shorter.
func (r *rxRows) from(i int) (int, bool) {
	n, ok := r.number(r.u.start, i, 1, 1, "the place to start at")
	if n == 1 {
		return 0, ok
	}
	s, at := r.text(0, i), 0
	for ; n > 1; n-- {
		if at >= len(s) {
			return len(s) + 1, ok
		}
		at += runeLen(s, at)
	}
	return at, ok
}

// test is for ~ and its kin.
func (u rxUse) test(not bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		r := u.rows(c, a)
		m := a[0].mask()
		b := growBits(out, c.n)
		b.fill(0)
		for i := range c.n {
			if !c.counts(i) {
				continue
			}
			if re := r.regex(i); re != nil && re.matches(a[0].text(i&m)) != not {
				b.set(i)
			}
		}
	}
}

// following returns where to search behind a match.
func following(s string, begin, end int) int {
	if begin == end {
		return end + runeLen(s, end)
	}
	return end
}

func (u rxUse) count() kernel {
	return func(c *call, out *vec, a []*vec) {
		r, n := u.rows(c, a), grow[int32](out, c.n)
		for i := range n {
			n[i] = 0
			if !c.counts(i) {
				continue
			}
			re := r.regex(i)
			from, ok := r.from(i)
			if re == nil || !ok {
				continue
			}
			for s := r.text(0, i); from <= len(s); {
				begin, end, ok := re.find(s, from)
				if !ok {
					break
				}
				n[i]++
				from = following(s, begin, end)
			}
		}
	}
}

// nthMatch finds the match that row i asks for: the place of it or of the group
// asked for; -1 if there is none.
func (r *rxRows) nthMatch(i int, s string) (begin, end int) {
	re := r.regex(i)
	from, ok1 := r.from(i)
	n, ok2 := r.number(r.u.nth, i, 1, 1, "the number of the match")
	part, ok3 := r.number(r.u.part, i, 0, 0, "the number of the group")
	if re == nil || !ok1 || !ok2 || !ok3 || part > re.groups {
		return -1, -1
	}
	for from <= len(s) {
		begin, end, ok := re.find(s, from)
		if !ok {
			break
		}
		if n--; n == 0 {
			at := re.capture(s, begin, end)
			return at[2*part], at[2*part+1]
		}
		from = following(s, begin, end)
	}
	return -1, -1
}

func (u rxUse) instr() kernel {
	return func(c *call, out *vec, a []*vec) {
		r, n := u.rows(c, a), grow[int32](out, c.n)
		for i := range n {
			n[i] = 0
			if !c.counts(i) {
				continue
			}
			ending, ok := r.number(u.ending, i, 0, 0, "whether the end is meant")
			if ok && ending > 1 {
				c.fail(i, badArgument, "whether the end is meant is %d, expected 0 or 1", ending)
				continue
			}
			s := r.text(0, i)
			begin, end := r.nthMatch(i, s)
			if begin < 0 {
				continue
			}
			if ending == 1 {
				begin = end
			}
			n[i] = int32(runes(s[:begin])) + 1
		}
	}
}

func (u rxUse) substr() kernel {
	return func(c *call, out *vec, a []*vec) {
		r := u.rows(c, a)
		eachValue(c, out, func(dst []byte, i int) []byte {
			s := r.text(0, i)
			begin, end := r.nthMatch(i, s)
			if begin < 0 {
				out.needValid(c.n).clear(i)
				return dst
			}
			return append(dst, s[begin:end]...)
		})
	}
}

// first is substring by a pattern: the first group if there is one.
func (u rxUse) first() kernel {
	return func(c *call, out *vec, a []*vec) {
		r := u.rows(c, a)
		eachValue(c, out, func(dst []byte, i int) []byte {
			re := r.regex(i)
			if re == nil {
				return dst
			}
			s := r.text(0, i)
			begin, end, ok := re.find(s, 0)
			if ok && re.groups > 0 {
				at := re.capture(s, begin, end)
				begin, end, ok = at[2], at[3], at[2] >= 0
			}
			if !ok {
				out.needValid(c.n).clear(i)
				return dst
			}
			return append(dst, s[begin:end]...)
		})
	}
}

func (u rxUse) replace() kernel {
	return func(c *call, out *vec, a []*vec) {
		r := u.rows(c, a)
		eachValue(c, out, func(dst []byte, i int) []byte {
			re := r.regex(i)
			from, ok1 := r.from(i)
			nth, ok2 := r.number(u.nth, i, -1, 0, "the number of the match")
			if re == nil || !ok1 || !ok2 {
				return dst
			}
			if nth < 0 {
				if nth = 1; re.flags.global {
					nth = 0
				}
			}
			start := len(dst)
			dst = re.replace(dst, r.text(0, i), r.text(2, i), from, nth)
			if size := len(dst) - start; size > maxText {
				tooLarge(c, i, int64(size))
				return dst[:start]
			}
			return dst
		})
	}
}

// replace appends s with match number nth behind from replaced, 0 for all. It
// stops when the text becomes too large.
func (re *regex) replace(dst []byte, s, by string, from, nth int) []byte {
	done, start := 0, len(dst)
	plain := strings.IndexByte(by, '\\') < 0
	for k := 1; from <= len(s) && len(dst)-start <= maxText; k++ {
		begin, end, ok := re.find(s, from)
		if !ok {
			break
		}
		from = following(s, begin, end)
		if nth > 0 && k < nth {
			continue
		}
		dst = append(dst, s[done:begin]...)
		if plain {
			dst = append(dst, by...)
		} else {
			dst = appendReplacement(dst, by, s, re.capture(s, begin, end))
		}
		done = end
		if nth > 0 {
			break
		}
	}
	return append(dst, s[done:]...)
}

// appendReplacement writes by with \1 to \9 and \& replaced by what matched.
func appendReplacement(dst []byte, by, s string, at []int) []byte {
	for {
		k := strings.IndexByte(by, '\\')
		if k < 0 || k+1 >= len(by) {
			return append(dst, by...)
		}
		dst = append(dst, by[:k]...)
		group := -1
		switch c := by[k+1]; {
		case c >= '1' && c <= '9':
			group = int(c - '0')
		case c == '&':
			group = 0
		case c == '\\':
			dst = append(dst, '\\')
		default: // an ordinary character
			dst = append(dst, '\\')
			by = by[k+1:]
			continue
		}
		if group >= 0 && 2*group < len(at) && at[2*group] >= 0 {
			dst = append(dst, s[at[2*group]:at[2*group+1]]...)
		}
		by = by[k+2:]
	}
}
