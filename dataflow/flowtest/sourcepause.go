package flowtest

import (
	"testing"

	"frazil/dataflow"
)

// sourcePause checks a source that is a dataflow.Pauser: a paused split gives
// nothing while the others go on, and afterwards goes on where it stood.
func sourcePause(t *testing.T, u SourceUnderTest) {
	r := openSource(t, u)
	p, ok := r.src.(dataflow.Pauser)
	if !ok {
		t.Skip("the source does not hold splits back")
	}
	begin := r.begin()
	held := r.splits[0]
	for _, split := range r.splits {
		if u.Records[split] > u.Records[held] {
			held = split
		}
	}
	p.Pause("no such split")
	p.Resume("no such split")
	for _, split := range r.splits {
		r.assign(split, begin[split], nil)
	}
	h := r.got[held]
	r.until(oneRow, func() bool { return len(h.items)+h.skipped > 0 })
	rest := func() bool {
		for split, o := range r.got {
			if split != held && (len(o.items)+o.skipped < u.Records[split] || !o.caughtUp || u.Ends && !o.ended) {
				return false
			}
		}
		return true
	}
	for range 2 {
		p.Pause(held)
		p.Pause(held)
		n, at := len(h.items)+h.skipped, h.next
		h.caughtUp = false
		r.until(oneRow, rest)
		for range 20 {
			r.poll(dataflow.PollLimit{Rows: 100, Bytes: 1 << 20, WaitMicros: 5000})
		}
		if m := len(h.items) + h.skipped; m != n || h.caughtUp || h.ended || h.next.Compare(at) != 0 {
			t.Fatalf("split %s gave %d records and went from %s to %s while it was paused; caught up %v, ended %v", held, m-n, at, h.next, h.caughtUp, h.ended)
		}
		p.Resume(held)
		p.Resume(held)
		if m := min(n+1, u.Records[held]); m > n {
			r.until(oneRow, func() bool { return len(h.items)+h.skipped >= m })
		}
	}
	r.until(oneRow, func() bool { return h.caughtUp && (!u.Ends || h.ended) })
	if n := len(h.items) + h.skipped; n != u.Records[held] {
		t.Fatalf("split %s gave %d records in all, want %d", held, n, u.Records[held])
	}
	again := openSource(t, u)
	if all := again.whole(u, held); !sameItems(h.items, all.items) {
		t.Fatalf("split %s, paused on the way, gave\n%q, want\n%q", held, h.items, all.items)
	}
	// A split that is assigned anew is not paused.
	r = openSource(t, u)
	r.assign(held, begin[held], nil)
	r.src.(dataflow.Pauser).Pause(held)
	must(t, r.src.Unassign(t.Context(), []dataflow.Split{held}))
	r.assign(held, begin[held], r.end(u, held))
	h = r.got[held]
	r.until(oneRow, func() bool { return h.ended || h.atUntil })
	if n := len(h.items) + h.skipped; n != u.Records[held] {
		t.Fatalf("split %s, assigned anew while it was paused, gave %d records, want %d", held, n, u.Records[held])
	}
}
