package operators

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var dedupBidSchema = arrow.NewSchema(append([]arrow.Field{
	{Name: "auction", Type: dataflow.TypeInt64}, {Name: "bidder", Type: dataflow.TypeInt64}, {Name: "price", Type: dataflow.TypeInt64},
	{Name: "channel", Type: dataflow.TypeString}, {Name: "url", Type: dataflow.TypeString},
	{Name: "date_time", Type: dataflow.TypeTimestampTZ}, {Name: "extra", Type: dataflow.TypeString},
}, dataflow.SystemFields(true)...), nil)

// dedupBids makes one batch of bids from row n on, one every 10 microseconds; a
// tenth of them are copies of a row shortly before.
func dedupBids(b *array.RecordBuilder, n, rows int) arrow.RecordBatch {
	i64 := func(c int, v int64) { b.Field(c).(*array.Int64Builder).Append(v) }
	str := func(c int, v string) { b.Field(c).(*array.StringBuilder).Append(v) }
	for i := n; i < n+rows; i++ {
		k := i
		if i%10 == 9 {
			k = i - 5
		}
		t := int64(k) * 10
		i64(0, int64(k)*7919%1_000_003)
		i64(1, int64(k))
		i64(2, int64(i)*31)
		str(3, "Google")
		str(4, "https://www.nexmark.com/qvkt/xwbq/item.htm?query=1")
		b.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(t))
		str(6, "aslkdjflaksjdflkasjdlfkjasldkfjalskdjflaskdjflaksjdflkajsdlkfjaslkdfjalskdfjlaksj")
		i64(7, t)
		i64(8, int64(n)*10-1000)
		b.Field(9).(*array.Int32Builder).Append(0)
		i64(10, int64(i))
	}
	return b.NewRecordBatch()
}

func dedupCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDedup runs both halves over bids of which 9 in 10 have a new key, in
// batches of 8k rows, with a durable barrier every million rows. One iteration
// is one row; cpu-s/M is what the halves and the store take, without making the
// rows.
func BenchmarkDedup(b *testing.B) {
	for _, order := range []string{orderArrival, orderEvent} {
		for _, within := range []time.Duration{time.Second, time.Hour} {
			b.Run(fmt.Sprintf("order=%s/within=%s", order, within), func(b *testing.B) { benchmarkDedup(b, order, within) })
		}
	}
}

func benchmarkDedup(b *testing.B, order string, within time.Duration) {
	ctx := context.Background()
	s, err := state.Open(b.TempDir(), state.Options{Logger: slog.New(slog.DiscardHandler)})
	dedupMust(b, err)
	defer s.Close()
	kv, err := s.KV("once", state.Groups{Lo: 0, Hi: state.NumGroups})
	dedupMust(b, err)
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: dedupBidSchema}}}
	cfg := DedupConfig{Key: []string{"auction", "bidder"}, Within: component.Duration(within), Order: order}
	env := &dataflow.Env{Alloc: memory.DefaultAllocator, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}, State: kv, Groups: state.Groups{Lo: 0, Hi: state.NumGroups}}
	env.Splits.ID("bids", "0")
	before, err := newDedupBefore(ctx, env, in, cfg)
	dedupMust(b, err)
	keyed, err := newDedup(ctx, env, in, cfg)
	dedupMust(b, err)
	var passed int64
	sink := dataflow.EmitFunc(func(_ context.Context, _ int, r arrow.RecordBatch) error {
		passed += r.NumRows()
		r.Release()
		return nil
	})
	exchange := dataflow.EmitFunc(func(ctx context.Context, _ int, r arrow.RecordBatch) error {
		defer r.Release()
		return keyed.Process(ctx, 0, r, sink)
	})
	const rows = 8192
	builder := array.NewRecordBuilder(memory.DefaultAllocator, dedupBidSchema)
	defer builder.Release()
	var used time.Duration
	n, epoch := 0, 0
	b.ResetTimer()
	for n < b.N {
		b.StopTimer()
		batch := dedupBids(builder, n, rows)
		b.StartTimer()
		start := dedupCPU()
		dedupMust(b, before.Process(ctx, 0, batch, exchange))
		batch.Release()
		n += rows
		dedupMust(b, keyed.(dataflow.WatermarkHandler).OnWatermark(ctx, dataflow.Time(n*10-1000), sink))
		if n/1_000_000 > epoch {
			epoch = n / 1_000_000
			dedupMust(b, keyed.(dataflow.BarrierHandler).OnBarrier(ctx, dataflow.Epoch(epoch), sink))
			dedupMust(b, s.Write([]*state.Delta{kv.Freeze()}, []byte("m")))
		}
		used += dedupCPU() - start
	}
	b.StopTimer()
	dedupMust(b, keyed.(dataflow.WatermarkHandler).OnWatermark(ctx, dataflow.MaxTime, sink))
	if want := int64(n) - int64((n)/10); passed != want {
		b.Fatalf("%d rows passed, want %d", passed, want)
	}
	b.ReportMetric(used.Seconds()/float64(n)*1e6, "cpu-s/M")
	dedupMust(b, keyed.Close())
}
