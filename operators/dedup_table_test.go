package operators

import (
	"fmt"
	"testing"
	"time"

	"frazil/dataflow"
)

// A table against a list, with few keys and expiry, so that runs are long and
// expired slots are written over.
func TestDedupTableEqualsAListWhileEntriesExpire(t *testing.T) {
	r := dedupSeed(t)
	for range 30 {
		within := 1 + r.Int64N(1000)
		b := newDedupBounds(time.Duration(within) * time.Microsecond)
		var table dedupTable
		type entry struct{ hi, lo uint64 }
		kept := map[entry][]int64{}
		keys, wm := 1+r.IntN(200), int64(0)-r.Int64N(100_000)
		for i := range 20_000 {
			// All keys begin in few slots.
			k := uint64(r.IntN(keys))
			e := entry{k, k % 5}
			at := wm - within + r.Int64N(4*within)
			want := true
			for _, x := range kept[e] {
				if max(x-at, at-x) <= within {
					want = false
				}
			}
			if got := table.pass(b, e.hi, e.lo, dedupTime(dataflow.Time(at))); got != want {
				t.Fatalf("row %d: key %v at %d passes: %v, want %v", i, e, at, got, want)
			}
			if want {
				kept[e] = append(kept[e], at)
			}
			if r.IntN(10) == 0 {
				wm += r.Int64N(within/10 + 2)
				b.keep = dedupTime(dataflow.Time(wm - 2*within))
			}
		}
		// A key has at most 7 rows that count within the 6 bounds that times span.
		if limit := max(dedupMinSlots, 4*7*keys); len(table.slots) > limit {
			t.Fatalf("%d slots for %d keys, want at most %d", len(table.slots), keys, limit)
		}
	}
}

func TestDedupTableGrowsAndLeavesExpiredEntriesBehind(t *testing.T) {
	b := newDedupBounds(time.Microsecond)
	var table dedupTable
	const n = 100_000
	mix := func(i uint64) (uint64, uint64) { return i * 0x9e3779b97f4a7c15, i * 0xbf58476d1ce4e5b9 >> 7 }
	for i := range uint64(n) {
		hi, lo := mix(i)
		if !table.pass(b, hi, lo, dedupTime(dataflow.Time(i))) {
			t.Fatalf("key %d is new", i)
		}
	}
	for i := range uint64(n) {
		hi, lo := mix(i)
		if table.pass(b, hi, lo, dedupTime(dataflow.Time(i))) {
			t.Fatalf("key %d has been forgotten", i)
		}
	}
	if bytes := len(table.slots) * 24; bytes > 96*n {
		t.Fatalf("%d bytes for %d keys", bytes, n)
	}
	b.keep = dedupTime(n - 10)
	table.rebuild(b)
	if table.used != 10 || len(table.slots) > 32 {
		t.Fatalf("%d entries in %d slots are left, want 10", table.used, len(table.slots))
	}
}

func BenchmarkDedupTable(b *testing.B) {
	for _, keys := range []uint64{1 << 16, 1 << 24} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			bounds := newDedupBounds(time.Hour)
			var tables [256]dedupTable
			for i := uint64(0); b.Loop(); i++ {
				k := (i % keys) * 0x9e3779b97f4a7c15
				tables[k>>56].pass(bounds, k, k*0xbf58476d1ce4e5b9>>7, dedupTime(dataflow.Time(i)))
			}
		})
	}
}
