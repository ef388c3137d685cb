package operators

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkWindow runs both halves in one goroutine over batches of 8k rows
// with a watermark after each: 10 us apart, so that a window of 10 s holds a
// million rows, or 100 us apart, so that there are results for every other row.
func BenchmarkWindow(b *testing.B) {
	ten := component.Duration(10 * time.Second)
	exprs := func(text ...string) (out component.NamedExprs) {
		for i, e := range text {
			out = append(out, component.NamedExpr{Name: fmt.Sprint("x", i), Expr: e})
		}
		return out
	}
	for _, c := range []struct {
		name string
		keys int
		gap  int64 // microseconds between rows
		cfg  WindowConfig
	}{
		{"count_int64", 1000, 10, WindowConfig{AlignedWindows: testTumbling(ten), By: byColumns("dev"), Aggregate: exprs("count(*)")}},
		{"count_int64", 100_000, 10, WindowConfig{AlignedWindows: testTumbling(ten), By: byColumns("dev"), Aggregate: exprs("count(*)")}},
		{"count_int64", 10_000_000, 10, WindowConfig{AlignedWindows: testTumbling(ten), By: byColumns("dev"), Aggregate: exprs("count(*)")}},
		{"count_results", 100_000, 100, WindowConfig{AlignedWindows: testTumbling(ten), By: byColumns("dev"), Aggregate: exprs("count(*)")}},
		{"four_strings", 1000, 10, WindowConfig{AlignedWindows: testTumbling(ten), By: byColumns("site", "name"), Aggregate: exprs("sum(temp)", "avg(temp)", "min(temp)", "max(temp)")}},
		{"four_strings", 100_000, 10, WindowConfig{AlignedWindows: testTumbling(ten), By: byColumns("site", "name"), Aggregate: exprs("sum(temp)", "avg(temp)", "min(temp)", "max(temp)")}},
	} {
		b.Run(fmt.Sprintf("%s/keys=%d", c.name, c.keys), func(b *testing.B) { benchmarkWindow(b, c.cfg, c.keys, c.gap) })
	}
}

// BenchmarkWindowPanes has panes of 1 s with 1,000 rows of 100 keys, so that 100
// results come a second: a row must cost the same whether a window has 5, 60 or
// 3,600 panes. It measures batches of 8k rows after the state has its full size.
func BenchmarkWindowPanes(b *testing.B) {
	aggs := component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "sum", Expr: "sum(temp)"}}
	for _, panes := range []int{1, 5, 60, 3600} {
		cfg := WindowConfig{AlignedWindows: testHopping(Width(fmt.Sprint(panes, "s")), "1s"), By: byColumns("dev"), Aggregate: aggs}
		b.Run(fmt.Sprintf("panes=%d", panes), func(b *testing.B) { benchmarkPanes(b, cfg, 2*panes) })
	}
}

func benchmarkPanes(b *testing.B, cfg WindowConfig, warm int) {
	const size, gap = 8192, 1000
	rng := rand.New(rand.NewPCG(1, 1))
	feed := newWindowFeed([]arrow.Field{{Name: "dev", Type: dataflow.TypeInt64}, {Name: "temp", Type: dataflow.TypeFloat64}}, 0, 1)
	rows := make([]windowTestRow, size)
	for i := range rows {
		rows[i] = windowTestRow{windowT, []any{int64(rng.IntN(100)), rng.Float64() * 100}}
	}
	base := feed.batch(memory.DefaultAllocator, 0, rows)
	r := newWindowRig(b, memory.DefaultAllocator, feed.schema, cfg)
	r.start(1)
	op, ctx := r.tasks[0], context.Background()
	sink := dataflow.EmitFunc(func(_ context.Context, _ int, b arrow.RecordBatch) error { b.Release(); return nil })
	through := dataflow.EmitFunc(func(ctx context.Context, _ int, b arrow.RecordBatch) error {
		defer b.Release()
		return op.Process(ctx, 0, b, sink)
	})
	now := int64(windowT)
	times := array.NewInt64Builder(memory.DefaultAllocator)
	step := func() {
		for range size {
			times.Append(now)
			now += gap
		}
		at := times.NewArray()
		defer at.Release()
		cols := slices.Clone(base.Columns())
		cols[2], cols[3] = at, at
		batch := array.NewRecordBatch(feed.schema, cols, size)
		defer batch.Release()
		if err := r.before.Process(ctx, 0, batch, through); err != nil {
			b.Fatal(err)
		}
		if err := op.OnWatermark(ctx, dataflow.Time(now-gap), sink); err != nil {
			b.Fatal(err)
		}
	}
	for now < windowT+int64(warm)*windowSe {
		step()
	}
	b.ReportAllocs()
	b.ResetTimer()
	began, n := cpuTime(), 0
	for b.Loop() {
		step()
		n++
	}
	b.ReportMetric(float64((cpuTime()-began).Nanoseconds())/float64(n*size), "cpu-ns/row")
	r.stop()
}

func benchmarkWindow(b *testing.B, cfg WindowConfig, keys int, gap int64) {
	const size, batches = 8192, 128
	fields := []arrow.Field{
		{Name: "dev", Type: dataflow.TypeInt64}, {Name: "site", Type: dataflow.TypeString},
		{Name: "name", Type: dataflow.TypeString}, {Name: "temp", Type: dataflow.TypeFloat64},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	feed := newWindowFeed(fields, 0, 1)
	r := newWindowRig(b, memory.DefaultAllocator, feed.schema, cfg)
	var all []arrow.RecordBatch
	var wms []dataflow.Time
	for i := range batches {
		rows := make([]windowTestRow, size)
		for j := range rows {
			k := rng.IntN(keys)
			rows[j] = windowTestRow{windowT + int64(i*size+j)*gap, []any{int64(k), fmt.Sprintf("site-%03d", k%100), fmt.Sprintf("device-%07d", k), rng.Float64() * 100}}
		}
		all = append(all, feed.batch(memory.DefaultAllocator, 0, rows))
		wms = append(wms, feed.watermark())
	}
	ctx, sink := context.Background(), dataflow.EmitFunc(func(_ context.Context, _ int, b arrow.RecordBatch) error { b.Release(); return nil })
	b.ReportAllocs()
	b.ResetTimer()
	rows, cpu := 0, time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		r.wm = dataflow.MinTime
		r.kv, r.closed = &windowTestKV{}, dataflow.NewClosedUpTo(dataflow.MinTime)
		r.start(1)
		op := r.tasks[0]
		began := cpuTime()
		b.StartTimer()
		through := dataflow.EmitFunc(func(ctx context.Context, _ int, b arrow.RecordBatch) error {
			defer b.Release()
			return op.Process(ctx, 0, b, sink)
		})
		for i, batch := range all {
			if err := r.before.Process(ctx, 0, batch, through); err != nil {
				b.Fatal(err)
			}
			if err := op.OnWatermark(ctx, wms[i], sink); err != nil {
				b.Fatal(err)
			}
		}
		if err := op.OnWatermark(ctx, dataflow.MaxTime, sink); err != nil {
			b.Fatal(err)
		}
		rows += size * batches
		b.StopTimer()
		cpu += cpuTime() - began
		r.stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(rows), "cpu-ns/row")
}

// cpuTime is what this process has used so far, the collector's work included:
// the wall says little on a shared machine.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
