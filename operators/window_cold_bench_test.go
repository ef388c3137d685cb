package operators

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkWindowOrderedCold has a million sessions open of which a tenth fits
// the memory, on a real store with an epoch every 256k rows. Each key comes back
// once: the worst order there is for what is kept in memory.
func BenchmarkWindowOrderedCold(b *testing.B) {
	const size, keys, rounds = 8192, 1 << 20, 2
	cfg := WindowConfig{
		Session: &SessionWindow{Gap: component.Duration(10 * time.Second)}, By: byColumns("k"),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(k)"}},
	}
	feed := newWindowFeed([]arrow.Field{{Name: "k", Type: dataflow.TypeInt64}}, 0, 1)
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: feed.schema}}, Names: []string{"rows"}}
	ctx := context.Background()
	var cpu time.Duration
	total, results := 0, 0
	sink := dataflow.EmitFunc(func(_ context.Context, _ int, b arrow.RecordBatch) error {
		results += int(b.NumRows())
		b.Release()
		return nil
	})
	for b.Loop() {
		store, err := state.Open(b.TempDir(), state.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		env := &dataflow.Env{
			Step: "win", Tasks: 1, Alloc: memory.DefaultAllocator, Groups: state.GroupsOf(0, 1), Memory: 16 << 20,
			Fates: &dataflow.Fates{}, Closed: dataflow.NewClosedUpTo(dataflow.MinTime), Splits: &dataflow.SplitTable{}, Now: time.Now,
		}
		env.Splits.ID("rows", "0")
		kv, err := store.KV("win", env.Groups)
		if err != nil {
			b.Fatal(err)
		}
		env.State = kv
		before, err := newWindowOrderedBefore(ctx, env, in, cfg)
		if err != nil {
			b.Fatal(err)
		}
		op, err := newWindowOrdered(ctx, env, in, cfg)
		if err != nil {
			b.Fatal(err)
		}
		through := dataflow.EmitFunc(func(ctx context.Context, _ int, b arrow.RecordBatch) error {
			defer b.Release()
			return op.Process(ctx, 0, b, sink)
		})
		began := cpuTime()
		results = 0
		for at := 0; at < keys*rounds; at += size {
			rows := make([]windowTestRow, size)
			for i := range rows {
				rows[i] = windowTestRow{windowT + int64(at+i)*4, []any{int64((at + i) % keys)}}
			}
			batch := feed.batch(memory.DefaultAllocator, 0, rows)
			if err := before.Process(ctx, 0, batch, through); err != nil {
				b.Fatal(err)
			}
			batch.Release()
			if err := op.(dataflow.WatermarkHandler).OnWatermark(ctx, feed.watermark(), sink); err != nil {
				b.Fatal(err)
			}
			if at%(256<<10) == 0 {
				if err := op.(dataflow.BarrierHandler).OnBarrier(ctx, 1, sink); err != nil {
					b.Fatal(err)
				}
				if err := store.Write([]*state.Delta{kv.Freeze()}, nil); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := op.(dataflow.WatermarkHandler).OnWatermark(ctx, dataflow.MaxTime, sink); err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime() - began
		total += keys * rounds
		if results != keys {
			b.Errorf("%d sessions, want %d", results, keys)
		}
		if err := op.Close(); err != nil {
			b.Fatal(err)
		}
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(total), "cpu-ns/row")
}
