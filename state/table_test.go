package state

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTableAgainstMap runs random upserts, look-ups, barriers and resets on a
// table and on Go maps. The weak hashes make slots and tags collide.
func TestTableAgainstMap(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	ms := maphash.MakeSeed()
	hashes := map[string]func(string) uint64{
		"good":      func(s string) uint64 { return maphash.String(ms, s) },
		"same slot": func(s string) uint64 { return maphash.String(ms, s) &^ 0xfff },
		"same tag":  func(s string) uint64 { return maphash.String(ms, s) & 0xfff },
		"one":       func(string) uint64 { return 7 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			keys := 3000
			if name == "one" {
				keys = 200
			}
			tableModel(t, rng, keys, hash)
		})
	}
}

func tableModel(t *testing.T, rng *rand.Rand, keys int, hash func(string) uint64) {
	const words = 3
	table := NewTable(words)
	model, dirty := map[string][words]uint64{}, map[string]bool{}
	for op := range 20000 {
		k := rng.IntN(keys)
		key := strings.Repeat("k", k%20) + strings.TrimPrefix(fmt.Sprint(k), "0") // one of them is empty
		if k%900 == 1 {
			key += strings.Repeat("large", k*40) // as large as a chunk, or larger
		}
		h := hash(key)
		switch r := rng.IntN(1000); {
		case r == 0:
			table.Reset()
			clear(model)
			clear(dirty)
		case r < 4:
			tableCheck(t, table, model, dirty, hash)
			table.ClearDirty()
			clear(dirty)
		case r < 300:
			e, ok := table.Find(h, []byte(key))
			want, known := model[key]
			if ok != known || ok && !slices.Equal(table.Row(e), want[:]) {
				t.Fatalf("op %d: find %s: %v, want %v %v", op, key, ok, known, want)
			}
		default:
			e, fresh := table.Upsert(h, []byte(key))
			want, known := model[key]
			row := table.Row(e)
			if fresh == known || !slices.Equal(row, want[:]) {
				t.Fatalf("op %d: upsert %s: fresh %v, row %v, want %v", op, key, fresh, row, want)
			}
			w := rng.IntN(words)
			row[w] += uint64(op)
			want[w] += uint64(op)
			model[key], dirty[key] = want, true
		}
	}
	tableCheck(t, table, model, dirty, hash)
}

func tableCheck(t *testing.T, table *Table, model map[string][3]uint64, dirty map[string]bool, hash func(string) uint64) {
	t.Helper()
	if table.Len() != len(model) {
		t.Fatalf("%d entries, want %d", table.Len(), len(model))
	}
	marked := map[string]bool{}
	if err := table.Dirty(func(e Entry) error { marked[string(table.Key(e))] = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range table.Len() {
		e := table.At(i)
		key := string(table.Key(e))
		want, ok := model[key]
		if !ok || !slices.Equal(table.Row(e), want[:]) || table.Hash(e) != hash(key) {
			t.Fatalf("entry %d %s: %v, want %v", e, key, table.Row(e), want)
		}
		if table.IsDirty(e) != dirty[key] || marked[key] != dirty[key] {
			t.Fatalf("entry %d %s: dirty %v, visited %v, want %v", e, key, table.IsDirty(e), marked[key], dirty[key])
		}
	}
}

func TestTableDirtyStops(t *testing.T) {
	table := NewTable(0)
	for i := range 100 {
		table.Upsert(uint64(i), []byte{byte(i)})
	}
	stop, n := errors.New("stop"), 0
	err := table.Dirty(func(Entry) error {
		if n++; n == 70 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 70 {
		t.Fatalf("got %v after %d", err, n)
	}
}

func TestTableLookUpAllocatesNothing(t *testing.T) {
	table := NewTable(2)
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key %d", i)
		table.Upsert(maphash.Bytes(tableSeed, keys[i]), keys[i])
	}
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		k := keys[i%len(keys)]
		e, _ := table.Upsert(maphash.Bytes(tableSeed, k), k)
		table.Row(e)[0]++
		i++
	}); n != 0 {
		t.Fatalf("%v allocations per look-up", n)
	}
}

var tableSeed = maphash.MakeSeed()

func BenchmarkTable(b *testing.B) {
	for _, n := range []int{1000, 100_000, 2_000_000} {
		b.Run(fmt.Sprint(n, "keys"), func(b *testing.B) {
			keys, hashes := benchKeys(n)
			table := NewTable(2)
			for i, k := range keys {
				table.Upsert(hashes[i], k)
			}
			b.ResetTimer()
			j := 0
			for range b.N {
				e, _ := table.Upsert(hashes[j], keys[j])
				table.Row(e)[0]++
				if j++; j == n {
					j = 0
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}

// BenchmarkTableFill adds keys to an empty table.
func BenchmarkTableFill(b *testing.B) {
	for _, n := range []int{1000, 100_000, 2_000_000} {
		b.Run(fmt.Sprint(n, "keys"), func(b *testing.B) {
			keys, hashes := benchKeys(n)
			b.ReportAllocs()
			for b.Loop() {
				table := NewTable(6)
				for i, k := range keys {
					table.Upsert(hashes[i], k)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
		})
	}
}

// benchKeys makes keys of 14 bytes, in no order, and their hashes.
func benchKeys(n int) (keys [][]byte, hashes []uint64) {
	keys, hashes = make([][]byte, n), make([]uint64, n)
	arena := make([]byte, 0, n*16)
	for i := range keys {
		lo := len(arena)
		arena = fmt.Appendf(arena, "device%08d", i)
		keys[i] = arena[lo:len(arena):len(arena)]
		hashes[i] = maphash.Bytes(tableSeed, keys[i])
	}
	rand.Shuffle(n, func(i, j int) {
		keys[i], keys[j] = keys[j], keys[i]
		hashes[i], hashes[j] = hashes[j], hashes[i]
	})
	return keys, hashes
}
