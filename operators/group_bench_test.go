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

// BenchmarkChanges runs both halves of steps that give changelogs in one goroutine,
// over batches of 8k rows, half of them of 10 keys, with a barrier after 64 batches.
func BenchmarkChanges(b *testing.B) {
	day := component.Duration(24 * time.Hour)
	for _, c := range []struct {
		name, op string
		cfg      any
	}{
		{"group", "group", &GroupConfig{By: byColumns("k"), ExpireAfter: day, Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(v)"}, {Name: "m", Expr: "max(v)"}}}},
		{"group_distinct", "group", &GroupConfig{By: byColumns("k"), ExpireAfter: day, Aggregate: component.NamedExprs{{Name: "n", Expr: "count(distinct v)"}}}},
		{"top10", "top", &TopConfig{By: []string{"k"}, OrderBy: []string{"v desc"}, Limit: 10, Rank: "r", Ties: "row", ExpireAfter: day}},
		{"dedup_last", "dedup", &DedupConfig{Key: []string{"k"}, Within: day, Keep: keepLast, Order: orderArrival}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkChanges(b, c.op, c.cfg) })
	}
}

func benchmarkChanges(b *testing.B, op string, cfg any) {
	const size, batches = 8192, 64
	rng := rand.New(rand.NewPCG(1, 1))
	r := newChangeRig(b, memory.DefaultAllocator, op, cfg, 1)
	var all []arrow.RecordBatch
	for i := range batches {
		rows := make([]changeRow, size)
		for j := range rows {
			n := int64(i*size + j)
			k := int64(rng.IntN(10))
			if rng.IntN(2) > 0 {
				k = rng.Int64N(100_000)
			}
			rows[j] = changeRow{k: k, v: rng.Int64N(1_000_000), t: n * 100, stamp: n*100 - 1_000_000, pos: n}
		}
		all = append(all, r.batch(rows))
	}
	sink := dataflow.EmitFunc(func(_ context.Context, _ int, b arrow.RecordBatch) error { b.Release(); return nil })
	b.ReportAllocs()
	rows, cpu := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		r.kv = &windowTestKV{}
		r.start(1)
		through := dataflow.EmitFunc(func(ctx context.Context, _ int, b arrow.RecordBatch) error {
			defer b.Release()
			return r.tasks[0].Process(ctx, 0, b, sink)
		})
		began := cpuTime()
		b.StartTimer()
		for _, x := range all {
			if err := r.before.Process(context.Background(), 0, x, through); err != nil {
				b.Fatal(err)
			}
			rows += size
		}
		if err := r.tasks[0].(dataflow.BarrierHandler).OnBarrier(context.Background(), 1, sink); err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime() - began
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(rows), "cpu-ns/row")
}
