package operators

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkOver runs both halves of over in one goroutine, over 64 batches of 8k rows
// of 1,000 partitions a microsecond apart, with a watermark behind each batch and a
// barrier at the end. What a row costs must not depend on how many rows it sees.
func BenchmarkOver(b *testing.B) {
	simple := component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "a", Expr: "avg(v)"}, {Name: "m", Expr: "max(f)"}}
	rows := func(n int64, aggs component.NamedExprs) OverConfig {
		return OverConfig{RowsPreceding: n, ExpireAfter: component.Duration(time.Hour), Aggregate: aggs}
	}
	for _, c := range []struct {
		name string
		cfg  OverConfig
	}{
		{"rows=10", rows(10, simple)},
		{"rows=100", rows(100, simple)},
		{"rows=400", rows(400, simple)},
		{"rows=100/text", rows(100, component.NamedExprs{{Name: "m", Expr: "max(s)"}})},
		{"rows=100/distinct", rows(100, component.NamedExprs{{Name: "n", Expr: "count(distinct v)"}})},
		{"rows=100/median", rows(100, component.NamedExprs{{Name: "n", Expr: "percentile_cont(0.5) within group (order by f)"}})},
		{"rows=100/about", rows(100, component.NamedExprs{{Name: "n", Expr: "approx_count_distinct(v)"}})},
		{"range=100ms", OverConfig{RangePreceding: component.Duration(100 * time.Millisecond), Aggregate: simple}},
		{"unbounded", OverConfig{Unbounded: &OverUnbounded{ExpireAfter: component.Duration(time.Hour)}, Aggregate: simple}},
	} {
		c.cfg.By = byColumns("k")
		b.Run(c.name, func(b *testing.B) { benchmarkOver(b, c.cfg) })
	}
}

func benchmarkOver(b *testing.B, cfg OverConfig) {
	const size, batches = 8192, 64
	rng := rand.New(rand.NewPCG(1, 1))
	r := newOverRig(b, memory.DefaultAllocator, cfg)
	var all []arrow.RecordBatch
	for i := range batches {
		rows := make([]overRow, size)
		for j := range rows {
			n := int64(i*size + j)
			rows[j] = overRow{
				k: rng.Int64N(1000), v: rng.Int64N(1_000_000), f: rng.Float64(), s: string(rune('a' + rng.IntN(26))),
				t: n, stamp: n - 1000, pos: n,
			}
		}
		all = append(all, overBatch(r.alloc, rows))
	}
	sink := dataflow.EmitFunc(func(_ context.Context, _ int, b arrow.RecordBatch) error { b.Release(); return nil })
	ctx := context.Background()
	b.ReportAllocs()
	rows, cpu := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		r.kv = &windowTestKV{}
		r.start(1, int64(dataflow.MinTime))
		task := r.tasks[0]
		through := dataflow.EmitFunc(func(ctx context.Context, _ int, b arrow.RecordBatch) error {
			defer b.Release()
			return task.Process(ctx, 0, b, sink)
		})
		began := cpuTime()
		b.StartTimer()
		for i, x := range all {
			if err := r.before.Process(ctx, 0, x, through); err != nil {
				b.Fatal(err)
			}
			if err := task.(dataflow.WatermarkHandler).OnWatermark(ctx, dataflow.Time((i+1)*size-1000), sink); err != nil {
				b.Fatal(err)
			}
			rows += size
		}
		if err := task.(dataflow.BarrierHandler).OnBarrier(ctx, 1, sink); err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime() - began
	}
	r.close()
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(rows), "cpu-ns/row")
}
