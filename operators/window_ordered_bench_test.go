package operators

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkWindowOrdered runs both halves in one goroutine over batches of 8k
// rows with a watermark after each. Sessions of Nexmark's kind: bidders of whom
// some are hot, coming and going; and many keys that stay.
func BenchmarkWindowOrdered(b *testing.B) {
	sec := func(n int) component.Duration { return component.Duration(n) * component.Duration(time.Second) }
	count := component.NamedExprs{{Name: "n", Expr: "count(*)"}}
	sums := component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(v)"}, {Name: "m", Expr: "max(v)"}}
	session := func(aggs component.NamedExprs) WindowConfig {
		return WindowConfig{Session: &SessionWindow{Gap: sec(10)}, By: byColumns("k"), Aggregate: aggs}
	}
	updates := WindowConfig{AlignedWindows: AlignedWindows{Tumbling: "10s"}, By: byColumns("k"), Aggregate: sums, AllowedLateness: sec(60), Emit: emitUpdates}
	early := updates
	early.Early = &EarlyResults{Rows: 10}
	for _, c := range []struct {
		name string
		cfg  WindowConfig
		keys int   // alive at a time
		gap  int64 // microseconds between rows
	}{
		{"session_count_hot", session(count), 0, 100},
		{"session_count", session(count), 100_000, 100},
		{"session_sums", session(sums), 100_000, 100},
		{"session_results", session(count), 100_000, 1000},
		{"updates", updates, 10_000, 100},
		{"early_rows", early, 10_000, 100},
		{"count_rows", WindowConfig{Count: &CountWindow{Rows: 100, ExpireAfter: sec(3600)}, By: byColumns("k"), Aggregate: sums}, 10_000, 100},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkOrdered(b, c.cfg, c.keys, c.gap) })
	}
}

// benchmarkOrdered: with keys 0 the keys are Nexmark's bidders: three quarters of
// the rows of the hot one of each hundred, the others among the newest thousand.
func benchmarkOrdered(b *testing.B, cfg WindowConfig, keys int, gap int64) {
	const size, batches = 8192, 128
	rng := rand.New(rand.NewPCG(1, 1))
	feed := newWindowFeed([]arrow.Field{{Name: "k", Type: dataflow.TypeInt64}, {Name: "v", Type: dataflow.TypeInt64}}, 4_000_000, 1)
	var all []arrow.RecordBatch
	var wms []dataflow.Time
	for i := range batches {
		rows := make([]windowTestRow, size)
		for j := range rows {
			n := int64(i*size + j)
			var k int64
			switch newest := n / 46; {
			case keys > 0:
				k = rng.Int64N(int64(keys))
			case rng.IntN(4) > 0:
				k = newest / 100 * 100
			default:
				k = max(0, newest-rng.Int64N(1000))
			}
			rows[j] = windowTestRow{windowT + n*gap, []any{k, rng.Int64N(1e6)}}
		}
		all = append(all, feed.batch(memory.DefaultAllocator, 0, rows))
		wms = append(wms, feed.watermark())
	}
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: feed.schema}}, Names: []string{"rows"}}
	ctx := context.Background()
	results := 0
	sink := dataflow.EmitFunc(func(_ context.Context, _ int, b arrow.RecordBatch) error {
		results += int(b.NumRows())
		b.Release()
		return nil
	})
	b.ReportAllocs()
	b.ResetTimer()
	rows, cpu := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		env := &dataflow.Env{
			Step: "win", Tasks: 1, Alloc: memory.DefaultAllocator, State: &windowTestKV{}, Groups: state.GroupsOf(0, 1),
			Fates: &dataflow.Fates{}, Closed: dataflow.NewClosedUpTo(dataflow.MinTime), Splits: &dataflow.SplitTable{}, Now: time.Now,
		}
		env.Splits.ID("rows", "0")
		before, err := newWindowOrderedBefore(ctx, env, in, cfg)
		if err != nil {
			b.Fatal(err)
		}
		op, err := newWindowOrdered(ctx, env, in, cfg)
		if err != nil {
			b.Fatal(err)
		}
		results = 0
		began := cpuTime()
		b.StartTimer()
		through := dataflow.EmitFunc(func(ctx context.Context, _ int, b arrow.RecordBatch) error {
			defer b.Release()
			return op.Process(ctx, 0, b, sink)
		})
		for i, batch := range all {
			if err := before.Process(ctx, 0, batch, through); err != nil {
				b.Fatal(err)
			}
			if err := op.(dataflow.WatermarkHandler).OnWatermark(ctx, wms[i], sink); err != nil {
				b.Fatal(err)
			}
		}
		if err := op.(dataflow.WatermarkHandler).OnWatermark(ctx, dataflow.MaxTime, sink); err != nil {
			b.Fatal(err)
		}
		rows += size * batches
		b.StopTimer()
		cpu += cpuTime() - began
		if err := op.Close(); err != nil {
			b.Fatal(err)
		}
		if err := before.Close(); err != nil {
			b.Fatal(fmt.Errorf("close: %w", err))
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(rows), "cpu-ns/row")
	b.ReportMetric(1000*float64(results)/(size*batches), "results/1000rows")
}
