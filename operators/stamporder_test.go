package operators

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// stampedSchema is that of rows which an operator created: no origin.
var stampedSchema = arrow.NewSchema(append(append([]arrow.Field{
	{Name: "v", Type: dataflow.TypeInt64},
}, dataflow.TimeFields()...), arrow.Field{Name: "h", Type: arrow.PrimitiveTypes.Uint64}), nil)

type stampedRow struct{ v, time, stamp int64 }

func stampedBatch(alloc memory.Allocator, rows ...stampedRow) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, stampedSchema)
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(r.v)
		b.Field(1).(*array.Int64Builder).Append(r.time)
		b.Field(2).(*array.Int64Builder).Append(r.stamp)
		b.Field(3).(*array.Uint64Builder).Append(uint64(r.v) * 0x9e3779b97f4a7c15)
	}
	return b.NewRecordBatch()
}

// stampRecorder is an inner operator that writes down what it gets.
type stampRecorder struct{ got []string }

func (o *stampRecorder) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	for _, v := range b.Column(0).(*array.Int64).Int64Values() {
		o.got = append(o.got, fmt.Sprint(v))
	}
	return nil
}

func (o *stampRecorder) OnWatermark(_ context.Context, wm dataflow.Time, _ dataflow.Emitter) error {
	o.got = append(o.got, fmt.Sprintf("wm%d", wm))
	return nil
}

func (o *stampRecorder) OnBarrier(_ context.Context, e dataflow.Epoch, _ dataflow.Emitter) error {
	o.got = append(o.got, e.String())
	return nil
}

func (o *stampRecorder) Close() error { o.got = append(o.got, "closed"); return nil }

func stampEnv(t *testing.T) (*dataflow.Env, *state.Store, *state.TaskKV) {
	t.Helper()
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { alloc.AssertSize(t, 0) })
	s, err := state.Open(t.TempDir(), state.Options{Logger: slog.New(slog.DiscardHandler)})
	dedupMust(t, err)
	t.Cleanup(func() { dedupMust(t, s.Close()) })
	all := state.Groups{Lo: 0, Hi: state.NumGroups}
	kv, err := s.KV("step", all)
	dedupMust(t, err)
	return &dataflow.Env{Alloc: alloc, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}, State: kv, Groups: all}, s, kv
}

func TestStampOrderOfRowsWithoutOriginIsStampTimeContent(t *testing.T) {
	env, s, kv := stampEnv(t)
	ctx := context.Background()
	inner := &stampRecorder{}
	op, err := inStampOrder(env, stampedSchema, "h", inner)
	dedupMust(t, err)
	feed := func(rows ...stampedRow) {
		b := stampedBatch(env.Alloc, rows...)
		defer b.Release()
		dedupMust(t, op.Process(ctx, 0, b, nil))
	}
	feed(stampedRow{5, 1, 30}, stampedRow{3, 2, 20}, stampedRow{2, 1, 20})
	feed(stampedRow{4, 2, 20}, stampedRow{1, 9, 10}, stampedRow{6, 0, 40})
	dedupMust(t, op.(dataflow.WatermarkHandler).OnWatermark(ctx, 20, nil)) // Greater than the stamp, not equal.
	if env.Fates.Held.Load() != 5 {
		t.Fatalf("held %d, want 5", env.Fates.Held.Load())
	}
	dedupMust(t, op.(dataflow.BarrierHandler).OnBarrier(ctx, 7, nil))
	dedupMust(t, s.Write([]*state.Delta{kv.Freeze()}, nil))
	dedupMust(t, op.(dataflow.WatermarkHandler).OnWatermark(ctx, 31, nil))
	dedupMust(t, op.(dataflow.BarrierHandler).OnBarrier(ctx, 8, nil))
	dedupMust(t, s.Write([]*state.Delta{kv.Freeze()}, nil))
	dedupMust(t, op.Close())
	want := "1 wm20 epoch 7 2 3 4 5 wm31 epoch 8 closed"
	if got := strings.Join(inner.got, " "); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}

	inner = &stampRecorder{}
	env.Fates = &dataflow.Fates{}
	op, err = inStampOrder(env, stampedSchema, "h", inner)
	dedupMust(t, err)
	if env.Fates.Held.Load() != 1 {
		t.Fatalf("held %d after the restart, want 1", env.Fates.Held.Load())
	}
	dedupMust(t, op.(dataflow.WatermarkHandler).OnWatermark(ctx, dataflow.MaxTime, nil))
	dedupMust(t, op.(dataflow.BarrierHandler).OnBarrier(ctx, 9, nil))
	if got := inner.got[0]; got != "6" {
		t.Fatalf("got %v, want 6 first", inner.got)
	}
	for g := range state.NumGroups {
		dedupMust(t, kv.Scan(g, nil, nil, func(k, _ []byte) error { t.Errorf("key %q stays in the state", k); return nil }))
	}
	dedupMust(t, op.Close())
}

// A run may be killed again before its first watermark has come, with an epoch in
// between: rows that were taken long before do not come back.
func TestRowsThatWereTakenStayAwayWithoutAWatermark(t *testing.T) {
	env, s, kv := stampEnv(t)
	ctx := context.Background()
	var op dataflow.Operator
	open := func() *stampRecorder {
		inner := &stampRecorder{}
		env.Fates = &dataflow.Fates{}
		var err error
		op, err = inStampOrder(env, stampedSchema, "h", inner)
		dedupMust(t, err)
		return inner
	}
	epoch := func(e dataflow.Epoch) {
		dedupMust(t, op.(dataflow.BarrierHandler).OnBarrier(ctx, e, nil))
		dedupMust(t, s.Write([]*state.Delta{kv.Freeze()}, nil))
	}
	open()
	b := stampedBatch(env.Alloc, stampedRow{1, 1, 10}, stampedRow{2, 1, 20}, stampedRow{3, 1, 30})
	dedupMust(t, op.Process(ctx, 0, b, nil))
	b.Release()
	epoch(1)
	dedupMust(t, op.(dataflow.WatermarkHandler).OnWatermark(ctx, 15, nil))
	epoch(2)
	dedupMust(t, op.Close())
	open()
	epoch(3)
	dedupMust(t, op.Close())
	inner := open()
	if n := env.Fates.Held.Load(); n != 2 {
		t.Errorf("held %d, want 2", n)
	}
	dedupMust(t, op.(dataflow.WatermarkHandler).OnWatermark(ctx, 25, nil))
	if got := strings.Join(inner.got, " "); got != "2 wm25" {
		t.Errorf("got %s, want 2 wm25", got)
	}
	dedupMust(t, op.Close())
}

func TestRowBelowTheWatermarkIsABrokenPromise(t *testing.T) {
	env, _, _ := stampEnv(t)
	op, err := inStampOrder(env, stampedSchema, "h", &stampRecorder{})
	dedupMust(t, err)
	dedupMust(t, op.(dataflow.WatermarkHandler).OnWatermark(context.Background(), 100, nil))
	b := stampedBatch(env.Alloc, stampedRow{1, 1, 99})
	defer b.Release()
	if err := op.Process(context.Background(), 0, b, nil); err == nil {
		t.Fatal("no error")
	}
	dedupMust(t, op.Close())
}

// A long hold: rows are written again only as their sets double.
func TestHeldRowsStayInFewSets(t *testing.T) {
	env, s, kv := stampEnv(t)
	ctx := context.Background()
	op, err := inStampOrder(env, stampedSchema, "h", &stampRecorder{})
	dedupMust(t, err)
	var written int64
	for epoch := range 200 {
		b := stampedBatch(env.Alloc, stampedRow{int64(epoch), 0, int64(epoch)}, stampedRow{int64(epoch) + 1000, 0, int64(epoch)})
		dedupMust(t, op.Process(ctx, 0, b, nil))
		b.Release()
		dedupMust(t, op.(dataflow.BarrierHandler).OnBarrier(ctx, dataflow.Epoch(epoch+1), nil))
		d := kv.Freeze()
		written += d.Bytes()
		dedupMust(t, s.Write([]*state.Delta{d}, nil))
		if n := len(op.(*stampOrder).state.sets); n > 9 {
			t.Fatalf("%d sets for %d epochs", n, epoch+1)
		}
	}
	t.Logf("%d bytes written for 400 rows", written)
	dedupMust(t, op.Close())
}

func TestDamagedWaitingRowsAreAnError(t *testing.T) {
	env, _, kv := stampEnv(t)
	op, err := inStampOrder(env, stampedSchema, "h", &stampRecorder{})
	dedupMust(t, err)
	b := stampedBatch(env.Alloc, stampedRow{1, 1, 1})
	dedupMust(t, op.Process(context.Background(), 0, b, nil))
	b.Release()
	dedupMust(t, op.(dataflow.BarrierHandler).OnBarrier(context.Background(), 1, nil))
	dedupMust(t, op.Close())
	var group int
	var key, value []byte
	for g := range state.NumGroups {
		dedupMust(t, kv.Scan(g, stampBlobs, stampBlobsE, func(k, v []byte) error {
			group, key, value = g, slices.Clone(k), slices.Clone(v)
			return nil
		}))
	}
	for n := 0; n < len(value)-8; n += 7 { // The last 8 bytes only end the stream.
		dedupMust(t, kv.Set(group, key, value[:n]))
		if _, err := inStampOrder(env, stampedSchema, "h", &stampRecorder{}); err == nil {
			t.Fatalf("no error for %d of %d bytes", n, len(value))
		}
	}
}

func TestDedupPlan(t *testing.T) {
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: dedupTestSchema}}, Names: []string{"readings"}}
	hour := component.Duration(time.Hour)
	p, err := planDedup(in, DedupConfig{Key: []string{"device", "seq"}, Within: hour, Order: orderArrival})
	dedupMust(t, err)
	if !p.Keyed || p.RouteBy != "_key_hi" || p.Delay != 0 || p.NotReplayable == "" || !p.ByOrder || !strings.Contains(p.State, "2h") {
		t.Fatalf("plan %+v", p)
	}
	if !p.Ports[0].Stream.Schema.Equal(dedupTestSchema) || p.Ports[1].Name != "late" {
		t.Fatalf("ports %+v", p.Ports)
	}
	e, err := planDedup(in, DedupConfig{Key: []string{"device", "seq"}, Within: hour, Order: orderEvent})
	dedupMust(t, err)
	if e.NotReplayable != "" || e.ByOrder || e.Fingerprint == p.Fingerprint {
		t.Fatalf("plan %+v", e)
	}
	untimed := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: arrow.NewSchema(append(slices.Clone(dedupTestUser), dataflow.SystemFields(false)...), nil)}}, Names: []string{"readings"}}
	for want, f := range map[string]func() error{
		`key[1]: unknown column "sqe"; did you mean "seq"?`: func() error {
			_, err := planDedup(in, DedupConfig{Key: []string{"device", "sqe"}, Within: hour})
			return err
		},
		`key[0]: unknown column "_time"`: func() error { _, err := planDedup(in, DedupConfig{Key: []string{"_time"}, Within: hour}); return err },
		`key[1]: column "seq" is named twice`: func() error {
			_, err := planDedup(in, DedupConfig{Key: []string{"seq", "seq"}, Within: hour})
			return err
		},
		`key: name at least one column`:     func() error { _, err := planDedup(in, DedupConfig{Within: hour}); return err },
		`within: the bound must be above 0`: func() error { _, err := planDedup(in, DedupConfig{Key: []string{"seq"}}); return err },
		`key: column "doc" is json`:         func() error { _, err := planDedup(in, DedupConfig{Key: []string{"doc"}, Within: hour}); return err },
		`the rows of "readings" have none`: func() error {
			_, err := planDedup(untimed, DedupConfig{Key: []string{"seq"}, Within: hour})
			return err
		},
		`key: column "list" of type list<int64>`: func() error { _, err := planDedup(in, DedupConfig{Key: []string{"list"}, Within: hour}); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
