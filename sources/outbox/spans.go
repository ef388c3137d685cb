package outbox

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// spans are numbers, as ranges in ascending order that do not touch.
type spans []span

// span holds the numbers from lo to before hi; forever: all from lo on.
type span struct{ lo, hi uint64 }

const forever = math.MaxUint64

// allNumbers is the span of all.
func allNumbers() spans { return spans{{0, forever}} }

// from are those of s from lo on.
func (s spans) from(lo uint64) spans { return s.and(spans{{lo, forever}}) }

// and are the numbers in both.
func (s spans) and(t spans) spans {
	out := spans{}
	for i, j := 0, 0; i < len(s) && j < len(t); {
		if lo, hi := max(s[i].lo, t[j].lo), min(s[i].hi, t[j].hi); lo < hi {
			out = append(out, span{lo, hi})
		}
		if s[i].hi < t[j].hi {
			i++
		} else {
			j++
		}
	}
	return out
}

// or are the numbers in one or both.
func (s spans) or(t spans) spans {
	all := slices.Concat(s, t)
	slices.SortFunc(all, func(a, b span) int {
		switch {
		case a.lo < b.lo:
			return -1
		case a.lo > b.lo:
			return 1
		}
		return 0
	})
	out := spans{}
	for _, x := range all {
		if n := len(out); n > 0 && x.lo <= out[n-1].hi {
			out[n-1].hi = max(out[n-1].hi, x.hi)
			continue
		}
		out = append(out, x)
	}
	return out
}

// not are all other numbers.
func (s spans) not() spans {
	out, next := spans{}, uint64(0)
	for _, x := range s {
		if next < x.lo {
			out = append(out, span{next, x.lo})
		}
		next = x.hi
	}
	if next < forever {
		out = append(out, span{next, forever})
	}
	return out
}

// spansOf makes spans of numbers; it sorts them.
func spansOf(numbers []uint64) spans {
	slices.Sort(numbers)
	out := spans{}
	for _, x := range numbers {
		if n := len(out); n > 0 && x <= out[n-1].hi {
			out[n-1].hi = max(out[n-1].hi, x+1)
			continue
		}
		out = append(out, span{x, x + 1})
	}
	return out
}

func (s spans) has(x uint64) bool {
	i, _ := slices.BinarySearchFunc(s, x, func(a span, x uint64) int {
		if a.hi <= x {
			return -1
		}
		return 1
	})
	return i < len(s) && s[i].lo <= x
}

// String is 3,5-9,20-: the last one is without an end.
func (s spans) String() string {
	var b []byte
	for i, x := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, x.lo, 10)
		switch {
		case x.hi == forever:
			b = append(b, '-')
		case x.hi > x.lo+1:
			b = strconv.AppendUint(append(b, '-'), x.hi-1, 10)
		}
	}
	return string(b)
}

func parseSpans(text string) (spans, error) {
	out := spans{}
	if text == "" {
		return out, nil
	}
	for _, part := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(part, "-")
		lo, err := strconv.ParseUint(first, 10, 63)
		hi := lo
		switch {
		case ranged && last == "":
			hi = forever - 1
		case ranged && err == nil:
			hi, err = strconv.ParseUint(last, 10, 63)
		}
		if err != nil || hi < lo || len(out) > 0 && lo <= out[len(out)-1].hi {
			return nil, fmt.Errorf("ranges %.200q: expected them ascending, as 3,5-9,20-", text)
		}
		out = append(out, span{lo, hi + 1})
	}
	return out, nil
}
