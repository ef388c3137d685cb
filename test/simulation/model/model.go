// Package model says which rows the tables of a simulated pipeline must hold in the
// end. It knows the events, the stamps that the clock's recorded decisions give them,
// and the rules of docs/time.md; it shares no code with the engine.
package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// MinTime is the stamp of a split's first row.
const MinTime int64 = math.MinInt64

// Event is one record of a split. Times are microseconds.
type Event struct {
	Source, Split string
	// Pos counts the records of the split from 0, or from 1.
	Pos int64
	// ID names the event: copies have the same.
	ID  int64
	Key string
	TS  int64
	V   int64
	// Poison: the record is no row.
	Poison bool
	// Stamp is the watermark that its split had just before it; see Stamp.
	Stamp int64
}

// Decision is one of the clock's: from the row at Pos on stamps are Floor or more.
type Decision struct {
	Source, Split string
	Pos, Floor    int64
}

// Stamp gives the events of one split, in their order, their stamps, and leaves out
// what is no row.
func Stamp(events []Event, outOfOrderness int64, floors []Decision) []Event {
	floors = slices.Clone(floors)
	slices.SortFunc(floors, func(a, b Decision) int { return cmp.Compare(a.Pos, b.Pos) })
	wm, top := MinTime, MinTime
	var out []Event
	for _, e := range events {
		if e.Poison {
			continue
		}
		for len(floors) > 0 && floors[0].Pos <= e.Pos {
			wm = max(wm, floors[0].Floor)
			floors = floors[1:]
		}
		e.Stamp = wm
		if e.TS > top {
			top = e.TS
			wm = max(wm, top-outOfOrderness)
		}
		out = append(out, e)
	}
	return out
}

// Ordered sorts by stamp, source, split and position.
func Ordered(events []Event) []Event {
	out := slices.Clone(events)
	slices.SortFunc(out, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Stamp, b.Stamp), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Split, b.Split), cmp.Compare(a.Pos, b.Pos))
	})
	return out
}

func before(t, d int64) int64 {
	if t == MinTime {
		return t
	}
	return t - d
}

// Row is how a table shows an event.
func Row(e Event) string { return fmt.Sprintf("%d|%s|%d|%d", e.ID, e.Key, e.TS, e.V) }

// Rows shows all of them.
func Rows(events []Event) []string {
	var out []string
	for _, e := range events {
		out = append(out, Row(e))
	}
	return out
}

// Dedup keeps the first of the copies that lie within so long of each other.
func Dedup(events []Event, within int64) (passed []Event, late []string) {
	seen := map[int64][]int64{}
	for _, e := range Ordered(events) {
		if e.TS < before(e.Stamp, within) {
			late = append(late, fmt.Sprintf("%s|%d|%d", Row(e), e.Stamp, e.Stamp-within-e.TS))
			continue
		}
		if slices.ContainsFunc(seen[e.ID], func(t int64) bool { return max(t-e.TS, e.TS-t) <= within }) {
			continue
		}
		seen[e.ID] = append(seen[e.ID], e.TS)
		passed = append(passed, e)
	}
	return passed, late
}

// sums are what is aggregated of a group.
type sums struct{ n, sum, lo, hi int64 }

func (s *sums) add(v int64) {
	if s.n == 0 {
		s.lo, s.hi = v, v
	}
	s.n, s.sum, s.lo, s.hi = s.n+1, s.sum+v, min(s.lo, v), max(s.hi, v)
}

func (s *sums) join(o *sums) {
	s.n, s.sum, s.lo, s.hi = s.n+o.n, s.sum+o.sum, min(s.lo, o.lo), max(s.hi, o.hi)
}

func (s *sums) String() string { return fmt.Sprintf("%d|%d|%d|%d", s.n, s.sum, s.lo, s.hi) }

// Windows is the result of windows of one size: one row per key and window, and the
// late rows with the last window that held them.
func Windows(events []Event, size, slide, lateness int64) (rows, late []string) {
	type group struct {
		key        string
		start, end int64
	}
	groups := map[group]*sums{}
	for _, e := range events {
		first := floorDiv(e.TS-size, slide)*slide + slide
		in := false
		var start int64
		for start = first; start <= e.TS; start += slide {
			if start+size+lateness <= e.Stamp {
				continue
			}
			in = true
			g := group{e.Key, start, start + size}
			if groups[g] == nil {
				groups[g] = &sums{}
			}
			groups[g].add(e.V)
		}
		if !in {
			start -= slide
			late = append(late, lateRow(e, start, start+size, lateness))
		}
	}
	for g, s := range groups {
		rows = append(rows, fmt.Sprintf("%s|%d|%d|%s", g.key, g.start, g.end, s))
	}
	return rows, late
}

func lateRow(e Event, start, end, lateness int64) string {
	return fmt.Sprintf("%s|%d|%d|%d|%d", Row(e), start, end, e.Stamp, e.Stamp-end-lateness)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Sessions is the result of windows that end one gap after their last row.
func Sessions(events []Event, gap, lateness int64) (rows, late []string) {
	type session struct {
		start, end int64
		sums
	}
	open := map[string][]*session{}
	give := func(key string, s *session) {
		rows = append(rows, fmt.Sprintf("%s|%d|%d|%s", key, s.start, s.end, &s.sums))
	}
	for _, e := range Ordered(events) {
		mine := &session{start: e.TS, end: e.TS + gap}
		mine.add(e.V)
		var rest []*session
		joined := false
		for _, s := range open[e.Key] {
			switch {
			case s.end+lateness <= e.Stamp:
				give(e.Key, s)
			case s.start <= e.TS+gap && e.TS <= s.end:
				mine.start, mine.end = min(mine.start, s.start), max(mine.end, s.end)
				mine.join(&s.sums)
				joined = true
			default:
				rest = append(rest, s)
			}
		}
		if !joined && mine.end+lateness <= e.Stamp {
			late = append(late, lateRow(e, mine.start, mine.end, lateness))
			open[e.Key] = rest
			continue
		}
		open[e.Key] = append(rest, mine)
	}
	for key, list := range open {
		for _, s := range list {
			give(key, s)
		}
	}
	return rows, late
}

// Groups is the table of one row per key.
func Groups(events []Event) []string {
	groups := map[string]*sums{}
	for _, e := range events {
		if groups[e.Key] == nil {
			groups[e.Key] = &sums{}
		}
		groups[e.Key].add(e.V)
	}
	var out []string
	for key, s := range groups {
		out = append(out, key+"|"+s.String())
	}
	return out
}

// Fold applies changes, rows that begin with their kind, to a table whose first
// column is the key. It says what does not fit.
func Fold(table map[string]string, changes []string) error {
	for _, c := range changes {
		op, row, _ := cut(c)
		key, _, _ := cut(row)
		have, there := table[key]
		switch op {
		case "insert":
			if there {
				return fmt.Errorf("insert of %q, and %q is there", row, have)
			}
			table[key] = row
		case "update_before", "delete":
			if have != row {
				return fmt.Errorf("%s of %q, and %q is there", op, row, have)
			}
			delete(table, key)
		case "update_after":
			if there {
				return fmt.Errorf("update_after of %q, and %q is there", row, have)
			}
			table[key] = row
		default:
			return fmt.Errorf("%q is no change", c)
		}
	}
	return nil
}

func cut(s string) (head, tail string, ok bool) {
	for i := range len(s) {
		if s[i] == '|' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// Diff says how got differs from want as bags; "" if not.
func Diff(got, want []string) string {
	count := map[string]int{}
	for _, r := range want {
		count[r]--
	}
	for _, r := range got {
		count[r]++
	}
	var more, less []string
	for r, n := range count {
		switch {
		case n > 0:
			more = append(more, fmt.Sprintf("%+d %s", n, r))
		case n < 0:
			less = append(less, fmt.Sprintf("%+d %s", n, r))
		}
	}
	if len(more)+len(less) == 0 {
		return ""
	}
	slices.Sort(more)
	slices.Sort(less)
	out := fmt.Sprintf("%d rows, want %d; %d too many, %d missing", len(got), len(want), len(more), len(less))
	for _, l := range [][]string{more, less} {
		for _, r := range l[:min(len(l), 6)] {
			out += "\n    " + r
		}
	}
	return out
}
