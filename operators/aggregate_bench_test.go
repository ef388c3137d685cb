package operators

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkAggregates feeds batches of 8,192 rows of 100 groups to one aggregate:
// what one row costs in front of the exchange. The accumulators start anew with
// each batch.
func BenchmarkAggregates(b *testing.B) {
	for _, agg := range mergeAggregates {
		b.Run(agg, func(b *testing.B) { benchAggregate(b, agg) })
	}
}

const benchAggregateRows = 8192

func benchAggregate(b *testing.B, agg string) {
	s, l := mergeSet(b, []string{agg})
	splits := &dataflow.SplitTable{}
	rng := rand.New(rand.NewPCG(1, 1))
	rows := mergeRows(rng, benchAggregateRows)
	for i := range rows {
		rows[i].time = int64(i)
	}
	batch := mergeBatch(b, splits, rows)
	defer batch.Release()
	feed := s.newFeed(&dataflow.Env{Alloc: memory.DefaultAllocator, Splits: splits})
	if err := feed.bind(batch); err != nil {
		b.Fatal(err)
	}
	defer feed.unbind()
	groups := make([]uint32, benchAggregateRows)
	for i := range groups {
		groups[i] = 1 + rng.Uint32N(100)
	}
	acc, heaps := make([]uint64, 101*l.stride), l.newHeaps()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		clear(acc)
		for h := range heaps {
			heaps[h].reset()
		}
		feed.update(l, acc, heaps, groups)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchAggregateRows), "ns/row")
}

// BenchmarkDistinct counts distinct values of two columns with four filters each,
// in one group, as Nexmark's q15 does, in front of the exchange and behind it.
func BenchmarkDistinct(b *testing.B) {
	for _, values := range []int64{1000, 100_000, 10_000_000} {
		b.Run(fmt.Sprintf("values=%d", values), func(b *testing.B) { benchDistinct(b, values) })
	}
}

func benchDistinct(b *testing.B, values int64) {
	s, l := mergeSet(b, []string{
		"count(distinct i)", "count(distinct i) filter (where b)", "count(distinct i) filter (where i < 500)", "count(distinct i) filter (where i >= 500)",
		"count(distinct f)", "count(distinct f) filter (where b)", "count(distinct f) filter (where i < 500)", "count(distinct f) filter (where i >= 500)",
	})
	splits := &dataflow.SplitTable{}
	rng := rand.New(rand.NewPCG(1, 1))
	env := &dataflow.Env{Alloc: memory.DefaultAllocator, Splits: splits}
	feed, front, table, sums := s.newFeed(env), s.newDistinctBatch(), s.newDistinctTable(), s.newDistinctSums(l)
	defer sums.release()
	groups := make([]uint32, benchAggregateRows)
	for i := range groups {
		groups[i] = 1
	}
	var batches []arrow.RecordBatch
	for range 16 {
		rows := make([]mergeRow, benchAggregateRows)
		for i := range rows {
			rows[i] = mergeRow{i: rng.Int64N(values), f: float64(rng.Int64N(values)), b: i%2 == 0}
		}
		batch := mergeBatch(b, splits, rows)
		defer batch.Release()
		batches = append(batches, batch)
	}
	var blob []byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := feed.bind(batches[i%len(batches)]); err != nil {
			b.Fatal(err)
		}
		front.collect(feed, groups, 1)
		blob = front.append(blob[:0], 1)
		if err := table.add(1, []byte("key"), blob, nil); err != nil {
			b.Fatal(err)
		}
		feed.unbind()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*benchAggregateRows), "ns/row")
	if err := table.sums(sums); err != nil {
		b.Fatal(err)
	}
}

// TestApproxCountDistinct: the error stays within four standard errors, and small
// counts are right.
func TestApproxCountDistinct(t *testing.T) {
	f := approxCountFunc{kind: keyInt64}
	next := int64(1)
	for _, n := range []int{0, 1, 10, 100, 1000, 5000, 20_000, 100_000, 1_000_000} {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		groups := make([]uint32, 2*n)
		for i := range 2 * n { // each twice
			b.Append(next + int64(i%max(n, 1)))
			groups[i] = 1
		}
		next += int64(n)
		acc := accColumn{rows: make([]uint64, 2), stride: 1, heap: &accHeap{}}
		f.update(acc, groups, taken(t, b))
		out := array.NewInt64Builder(memory.DefaultAllocator)
		if acc.rows[1] == 0 {
			f.result(out, acc.rows[1:])
		} else {
			f.resultBytes(out, acc.rows[1:], acc.heap.get(acc.rows[1]))
		}
		got := taken(t, out).(*array.Int64).Value(0)
		if e := math.Abs(float64(got) - float64(n)); e > 4*0.0081*float64(n) || n <= 10 && e > 0 {
			t.Errorf("%d distinct values: got %d", n, got)
		}
	}
}

// TestApproxPercentile: the answer is within 1/128 of percentile_disc's.
func TestApproxPercentile(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, draw := range []func() float64{
		rng.NormFloat64, func() float64 { return math.Exp(30 * rng.NormFloat64()) }, func() float64 { return float64(rng.IntN(5)) },
	} {
		b := array.NewFloat64Builder(memory.DefaultAllocator)
		groups := make([]uint32, 3001)
		for i := range groups {
			b.Append(draw())
			groups[i] = 1
		}
		values := taken(t, b)
		for _, q := range []float64{0, 0.01, 0.25, 0.5, 0.9, 0.999, 1} {
			want := quantileOf(t, percentileDiscFunc{valuesFunc{kind: keyFloat64}, q}, groups, values)
			got := quantileOf(t, approxPercentileFunc{q}, groups, values)
			if math.Abs(got-want) > math.Abs(want)/128 {
				t.Errorf("quantile %v: got %v, want %v", q, got, want)
			}
		}
	}
}

func quantileOf(t *testing.T, f bytesAggregate, groups []uint32, values arrow.Array) float64 {
	t.Helper()
	acc := accColumn{rows: make([]uint64, 2*f.words()), stride: f.words(), heap: &accHeap{}}
	f.update(acc, groups, values)
	out := array.NewFloat64Builder(memory.DefaultAllocator)
	r := acc.rows[f.words():]
	f.resultBytes(out, r, acc.heap.get(r[0]))
	return taken(t, out).(*array.Float64).Value(0)
}
