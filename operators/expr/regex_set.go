package expr

import (
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// runeSet is a set of characters: pairs of first and last, ascending, apart.
type runeSet []rune

func oneRune(r rune) runeSet { return runeSet{r, r} }

// tidy sorts pairs and joins those that touch.
func (s runeSet) tidy() runeSet {
	type pair struct{ lo, hi rune }
	ps := make([]pair, 0, len(s)/2)
	for i := 0; i < len(s); i += 2 {
		ps = append(ps, pair{s[i], s[i+1]})
	}
	slices.SortFunc(ps, func(a, b pair) int { return int(a.lo - b.lo) })
	out := s[:0:0]
	for _, p := range ps {
		if n := len(out); n > 0 && p.lo <= out[n-1]+1 {
			out[n-1] = max(out[n-1], p.hi)
			continue
		}
		out = append(out, p.lo, p.hi)
	}
	return out
}

// negated returns what a tidy set lacks.
func (s runeSet) negated() runeSet {
	var out runeSet
	next := rune(0)
	for i := 0; i < len(s); i += 2 {
		if s[i] > next {
			out = append(out, next, s[i]-1)
		}
		next = s[i+1] + 1
	}
	if next <= unicode.MaxRune {
		out = append(out, next, unicode.MaxRune)
	}
	return out
}

// without returns a tidy set less another tidy one.
func (s runeSet) without(t runeSet) runeSet {
	return append(s.negated(), t...).tidy().negated()
}

// folded adds the other case of every character. Characters that have one are
// few: those of the set are looked for among them.
func (s runeSet) folded() runeSet {
	out := slices.Clone(s)
	for _, r := range casedRunes() {
		if !s.has(r) {
			continue
		}
		for _, o := range []rune{unicode.ToLower(r), unicode.ToUpper(r)} {
			if o != r {
				out = append(out, o, o)
			}
		}
	}
	return out.tidy()
}

// has says whether a tidy set holds r.
func (s runeSet) has(r rune) bool {
	lo, hi := 0, len(s)/2
	for lo < hi {
		m := (lo + hi) / 2
		switch {
		case r < s[2*m]:
			hi = m
		case r > s[2*m+1]:
			lo = m + 1
		default:
			return true
		}
	}
	return false
}

// casedRunes are the characters that have another case.
var casedRunes = sync.OnceValue(func() []rune {
	var out []rune
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r == 0xd800 {
			r = 0xe000
		}
		if unicode.ToLower(r) != r || unicode.ToUpper(r) != r {
			out = append(out, r)
		}
		if r > 0x1ffff { // nothing behind the second plane has a case
			break
		}
	}
	return out
})

func tables(ts ...*unicode.RangeTable) runeSet {
	var s runeSet
	for _, t := range ts {
		for _, r := range t.R16 {
			s = appendStride(s, rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range t.R32 {
			s = appendStride(s, rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return s.tidy()
}

func appendStride(s runeSet, lo, hi, stride rune) runeSet {
	if stride == 1 {
		return append(s, lo, hi)
	}
	for r := lo; r <= hi; r += stride {
		s = append(s, r, r)
	}
	return s
}

// runeClasses are the named classes of regular expressions, as PostgreSQL has
// them in the locale C.UTF-8.
var runeClasses = sync.OnceValue(func() map[string]runeSet {
	digit := runeSet{'0', '9'}
	nd := tables(unicode.Nd).without(runeSet{0, utf8.RuneSelf - 1})
	alpha := append(tables(unicode.L, unicode.Nl, unicode.Other_Alphabetic), nd...).tidy()
	alnum := append(slices.Clone(alpha), digit...).tidy()
	space := tables(unicode.White_Space).without(runeSet{0x85, 0x85, 0xa0, 0xa0, 0x2007, 0x2007, 0x202f, 0x202f})
	printed := tables(unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Zs, unicode.Cf, unicode.Co)
	graph := printed.without(space)
	titles := runeSet{0x1c5, 0x1c5, 0x1c8, 0x1c8, 0x1cb, 0x1cb, 0x1f2, 0x1f2}
	return map[string]runeSet{
		"alpha": alpha, "digit": digit, "alnum": alnum, "space": space, "graph": graph, "print": printed,
		"punct": graph.without(alnum),
		"upper": tables(unicode.Lu, unicode.Lt, unicode.Other_Uppercase),
		"lower": append(tables(unicode.Ll, unicode.Other_Lowercase), titles...).tidy(),
		"cntrl": tables(unicode.Cc), "blank": {'\t', '\t', ' ', ' '},
		"xdigit": {'0', '9', 'A', 'F', 'a', 'f'}, "ascii": {0, 0x7f},
		"word": append(slices.Clone(alnum), '_', '_').tidy(),
	}
})
