package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// TestTableCompact drops random entries of tables with keys of all lengths, some
// longer than a chunk, and compares what is left with a map.
func TestTableCompact(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 60 {
		words := 1 + rng.IntN(4)
		table, want, next := NewTable(words), map[string]uint64{}, 0
		long := rng.IntN(3) == 0
		for range 1 + rng.IntN(6) {
			for range rng.IntN(1 << rng.IntN(15)) {
				key := fmt.Appendf(nil, "%d%s", next, bytes.Repeat([]byte{'x'}, rng.IntN(40)))
				if long && rng.IntN(500) == 0 {
					key = append(key, make([]byte, rng.IntN(5*8*tableChunk/2))...)
				}
				next++
				e, fresh := table.Upsert(uint64(next)*0x9e3779b97f4a7c15, key)
				if !fresh {
					t.Fatalf("key %d is there before it was added", next)
				}
				table.Row(e)[words-1] = uint64(next)
				want[string(key)] = uint64(next)
			}
			part := rng.IntN(11)
			var last Entry
			kept := 0
			table.Compact(func(e Entry) bool {
				stays := rng.IntN(10) < part
				if !stays {
					delete(want, string(table.Key(e)))
				}
				return stays
			}, func(from, to Entry) {
				if kept > 0 && to <= last || to > from {
					t.Fatalf("an entry goes from %d to %d, the one before is at %d", from, to, last)
				}
				last = to
				kept++
			})
			checkCompacted(t, table, want, kept)
		}
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

func checkCompacted(t *testing.T, table *Table, want map[string]uint64, kept int) {
	t.Helper()
	if table.Len() != len(want) || kept != len(want) {
		t.Fatalf("%d entries, %d were kept, want %d", table.Len(), kept, len(want))
	}
	held := 0
	for _, c := range table.chunks {
		held += len(c)
	}
	if held != table.held {
		t.Errorf("chunks hold %d words, counted are %d", held, table.held)
	}
	for i := range table.Len() {
		e := table.At(i)
		n := table.Row(e)[table.words-1]
		if want[string(table.Key(e))] != n || table.Hash(e) != n*0x9e3779b97f4a7c15 {
			t.Fatalf("entry %d has the row %d, want %d", i, n, want[string(table.Key(e))])
		}
		if at, ok := table.Find(table.Hash(e), table.Key(e)); !ok || at != e {
			t.Fatalf("entry %d is not found", i)
		}
		if table.IsDirty(e) {
			t.Fatalf("entry %d is dirty", i)
		}
	}
}

// TestTableCompactGivesMemoryBack: a table of which little stays holds little.
func TestTableCompactGivesMemoryBack(t *testing.T) {
	table := NewTable(3)
	add := func(n int) {
		for i := range n {
			table.Upsert(uint64(i)*0x9e3779b97f4a7c15, fmt.Appendf(nil, "%d", i))
		}
	}
	add(100)
	small := table.Bytes()
	add(200_000)
	table.Compact(func(e Entry) bool { return table.number(e) < 100 }, func(_, _ Entry) {})
	if got := table.Bytes(); got > 2*small {
		t.Errorf("100 entries hold %d bytes, without the others they held %d", got, small)
	}
	table.Compact(func(Entry) bool { return false }, func(_, _ Entry) {})
	if table.Len() != 0 {
		t.Errorf("%d entries are left", table.Len())
	}
	add(1000)
	if table.Len() != 1000 {
		t.Errorf("%d entries, want 1000", table.Len())
	}
}
