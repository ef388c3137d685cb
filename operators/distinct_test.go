package operators

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// distinctCases pair an aggregate with one that gives the same on rows without
// repetitions.
var distinctCases = []struct {
	agg, plain string
	value      func(mergeRow) any
	filtered   bool
}{
	{"count(distinct i)", "count(i)", func(r mergeRow) any { return r.i }, false},
	{"count(distinct i) filter (where b)", "count(i)", func(r mergeRow) any { return r.i }, true},
	{"sum(distinct f)", "sum(f)", func(r mergeRow) any { return r.f }, false},
	{"avg(distinct d) filter (where b)", "avg(d)", func(r mergeRow) any { return r.d }, true},
	{"var_pop(distinct i)", "var_pop(i)", func(r mergeRow) any { return r.i }, false},
	{"array_agg(distinct s)", "array_agg(s order by s)", func(r mergeRow) any { return r.s }, false},
	{"array_agg(distinct s order by s desc) filter (where b)", "array_agg(s order by s desc)", func(r mergeRow) any { return r.s }, true},
	{"string_agg(distinct s, '|')", "string_agg(s, '|' order by s)", func(r mergeRow) any { return r.s }, false},
	{"count(distinct s)", "count(s)", func(r mergeRow) any { return r.s }, false},
	{"max(distinct i)", "max(i)", func(r mergeRow) any { return r.i }, false},
	{"approx_percentile(distinct f, 0.5)", "approx_percentile(f, 0.5)", func(r mergeRow) any { return r.f }, false},
	{"sum(i)", "sum(i)", nil, false},
}

// TestDistinctValues: values that come in batches to several tables, some of them
// stored and restored, give what aggregates without distinct give for each value
// once.
func TestDistinctValues(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var aggs []string
	for _, c := range distinctCases {
		aggs = append(aggs, c.agg)
	}
	for range 60 {
		rows := mergeRows(rng, rng.IntN(400))
		got := distinctRun(t, rng, aggs, rows)
		for i, c := range distinctCases {
			want := distinctModel(t, rng, c.plain, rows, c.value, c.filtered)
			if !mergeSame(want, got[i]) {
				t.Errorf("%s:\n got %.300s\nwant %.300s", c.agg, got[i], want)
			}
		}
		if t.Failed() {
			return
		}
	}
}

func distinctModel(t *testing.T, rng *rand.Rand, plain string, rows []mergeRow, value func(mergeRow) any, filtered bool) string {
	var once []mergeRow
	seen := map[string]bool{}
	for _, r := range rows {
		if filtered && r.b != true {
			continue
		}
		if value != nil {
			key := fmt.Sprintf("%d %#v", r.group, value(r))
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		once = append(once, r)
	}
	s, l := mergeSet(t, []string{plain})
	return mergeInto(t, rng, s, l, once, 1)[0]
}

func distinctRun(t *testing.T, rng *rand.Rand, aggs []string, rows []mergeRow) []string {
	s, l := mergeSet(t, aggs)
	splits := &dataflow.SplitTable{}
	feed, batch := s.newFeed(&dataflow.Env{Alloc: memory.DefaultAllocator, Splits: splits}), s.newDistinctBatch()
	tables := []*distinctTable{s.newDistinctTable(), s.newDistinctTable()}
	total := make([]uint64, 4*l.stride)
	heaps := l.newHeaps()
	key := func(g int) []byte { return appendKeyInt64(nil, int64(g)) }
	incremental := s.newDistinctSums(l)
	defer incremental.release()
	batches := 1 + rng.IntN(8)
	for i := range batches {
		part := rows[len(rows)*i/batches : len(rows)*(i+1)/batches]
		b := mergeBatch(t, splits, part)
		if err := feed.bind(b); err != nil {
			t.Fatal(err)
		}
		groups := make([]uint32, len(part))
		for k, r := range part {
			groups[k] = uint32(r.group)
		}
		feed.update(l, total, heaps, groups)
		batch.collect(feed, groups, 3)
		feed.unbind()
		b.Release()
		at := rng.IntN(2)
		for g := 1; g <= 3; g++ {
			blob := batch.append(nil, uint32(g))
			if err := tables[at].add(keyHash(key(g)), key(g), blob, nil); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(3) == 0 {
			tables[at] = distinctRestored(t, s, tables[at])
		}
	}
	tables[0].union(tables[1])
	if err := tables[0].sums(incremental); err != nil {
		t.Fatal(err)
	}
	return mergeResults(t, s, l, func(g, agg int) ([]uint64, []accHeap) {
		if s.aggs[agg].distinct {
			return incremental.row(keyHash(key(g)), key(g)), incremental.heaps
		}
		return total[g*l.stride : (g+1)*l.stride], heaps
	})
}

// distinctRestored stores a table and reads it back.
func distinctRestored(t *testing.T, s *aggregateSet, x *distinctTable) *distinctTable {
	t.Helper()
	y := s.newDistinctTable()
	n := 0
	err := x.store([]byte("p"), func(group int, row []byte) error {
		n++
		if row[0] != 'p' || group < 0 || group >= state.NumGroups {
			t.Errorf("row %x of group %d", row, group)
		}
		return y.restore(row[1:])
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.store(nil, func(int, []byte) error { t.Error("stored twice"); return nil }); err != nil {
		t.Fatal(err)
	}
	y.clean()
	// What changed before is stored only once, so the rest has to be taken over.
	y.union(x)
	if n > x.Len() || y.Len() != x.Len() {
		t.Errorf("%d values stored, %d restored, of %d", n, y.Len(), x.Len())
	}
	return y
}

// TestDistinctTellsWhatIsFresh: a value is told once per aggregate that has not
// counted it.
func TestDistinctTellsWhatIsFresh(t *testing.T) {
	s, l := mergeSet(t, []string{"count(distinct i)", "count(distinct i) filter (where b)", "sum(distinct i)"})
	splits := &dataflow.SplitTable{}
	feed, batch, table := s.newFeed(&dataflow.Env{Alloc: memory.DefaultAllocator, Splits: splits}), s.newDistinctBatch(), s.newDistinctTable()
	_ = l
	for _, c := range []struct {
		rows []mergeRow
		want string
	}{
		{[]mergeRow{{i: int64(7)}, {i: int64(7)}, {i: nil, b: true}}, "101"},
		{[]mergeRow{{i: int64(7), b: false}}, ""},
		{[]mergeRow{{i: int64(7), b: true}}, "10"},
		{[]mergeRow{{i: int64(8), b: true}, {i: int64(7), b: true}}, "111"},
	} {
		b := mergeBatch(t, splits, c.rows)
		if err := feed.bind(b); err != nil {
			t.Fatal(err)
		}
		groups := make([]uint32, len(c.rows))
		for i := range groups {
			groups[i] = 1
		}
		batch.collect(feed, groups, 1)
		feed.unbind()
		b.Release()
		got := ""
		if err := table.add(1, []byte("k"), batch.append(nil, 1), func(_ int, _ []byte, mask uint64) { got += fmt.Sprintf("%b", mask) }); err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%v: fresh %q, want %q", c.rows, got, c.want)
		}
	}
}

func TestBrokenDistinctValues(t *testing.T) {
	s, _ := mergeSet(t, []string{"count(distinct i)"})
	table := s.newDistinctTable()
	for _, blob := range [][]byte{nil, {1}, {1, 1}, {1, 1, keyValue, 0, 0}, {0, 0}, {1, 1, keyNull, 7}} {
		if err := table.add(1, []byte("k"), blob, nil); err == nil {
			t.Errorf("%x: no error", blob)
		}
	}
	for _, row := range [][]byte{nil, {0}, {0, 1}, {1, 1, 1, 'k', keyNull}, {0, 2, 1, 'k', keyNull}} {
		if err := table.restore(row); err == nil {
			t.Errorf("%x: no error", row)
		}
	}
}
