package operators

import (
	"context"
	"log/slog"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// dedupNumbers makes a batch whose keys are the given numbers, all a microsecond
// apart from time on.
func dedupNumbers(keys []int64, time int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, dedupNumberSchema)
	defer b.Release()
	for i, k := range keys {
		b.Field(0).(*array.Int64Builder).Append(k)
		b.Field(1).(*array.Int64Builder).Append(time + int64(i))
		b.Field(2).(*array.Int64Builder).Append(int64(dataflow.MinTime))
		b.Field(3).(*array.Int32Builder).Append(0)
		b.Field(4).(*array.Int64Builder).Append(time + int64(i))
	}
	return b.NewRecordBatch()
}

var dedupNumberSchema = arrow.NewSchema(append([]arrow.Field{{Name: "k", Type: dataflow.TypeInt64}}, dataflow.SystemFields(true)...), nil)

// 300,000 keys under a ceiling for a tenth of them: each passes once, a copy of
// each is found, wherever it is, and the memory stays below the ceiling. Then the
// step is made anew from what was written and finds all copies again.
func TestDedupKeepsMoreKeysThanItsMemoryHolds(t *testing.T) {
	const keys, batch, ceiling = 300_000, 4096, 1 << 20
	ctx := context.Background()
	s, err := state.Open(t.TempDir(), state.Options{Logger: slog.New(slog.DiscardHandler)})
	dedupMust(t, err)
	defer s.Close()
	groups := state.Groups{Lo: 0, Hi: state.NumGroups}
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: dedupNumberSchema}}}
	cfg := DedupConfig{Key: []string{"k"}, Within: component.Duration(24 * 3600e9), Order: orderArrival}
	var kv *state.TaskKV
	var o *dedup
	var before dataflow.Operator
	open := func() {
		kv, err = s.KV("once", groups)
		dedupMust(t, err)
		env := &dataflow.Env{Alloc: memory.DefaultAllocator, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}, State: kv, Groups: groups, Memory: ceiling}
		before, err = newDedupBefore(ctx, env, in, cfg)
		dedupMust(t, err)
		op, err := newDedup(ctx, env, in, cfg)
		dedupMust(t, err)
		o = op.(*dedup)
	}
	seen := map[int64]int{}
	sink := dataflow.EmitFunc(func(_ context.Context, _ int, r arrow.RecordBatch) error {
		for _, k := range r.Column(0).(*array.Int64).Int64Values() {
			seen[k]++
		}
		r.Release()
		return nil
	})
	exchange := dataflow.EmitFunc(func(ctx context.Context, _ int, r arrow.RecordBatch) error {
		defer r.Release()
		return o.Process(ctx, 0, r, sink)
	})
	at, epoch := int64(0), 0
	feed := func(step int64) {
		for k := int64(0); k < keys; k += batch * step {
			var some []int64
			for i := int64(0); i < batch && k+i*step < keys; i++ {
				some = append(some, k+i*step)
			}
			b := dedupNumbers(some, at)
			at += batch
			dedupMust(t, before.Process(ctx, 0, b, exchange))
			b.Release()
			if held := o.spill.slots*dedupSlotBytes + o.spill.runs.Bytes(); held > ceiling {
				t.Fatalf("%d bytes of keys are in memory, the ceiling is %d", held, ceiling)
			}
			if epoch++; epoch%7 == 0 {
				dedupMust(t, o.OnBarrier(ctx, dataflow.Epoch(epoch), sink))
				dedupMust(t, s.Write([]*state.Delta{kv.Freeze()}, []byte("m")))
			}
		}
	}
	open()
	feed(1)
	moved := o.spill.moved
	if moved < keys/2 {
		t.Errorf("%d keys were moved to the store", moved)
	}
	feed(3) // A third of the copies.
	dedupMust(t, o.OnBarrier(ctx, dataflow.Epoch(epoch), sink))
	dedupMust(t, s.Write([]*state.Delta{kv.Freeze()}, []byte("m")))
	open()
	feed(1)
	for k := int64(0); k < keys; k++ {
		if seen[k] != 1 {
			t.Fatalf("key %d passed %d times", k, seen[k])
		}
	}
	// All of it expires.
	dedupMust(t, o.OnWatermark(ctx, dataflow.Time(at+3*24*3600e6), sink))
	if o.spill.runs.Len() != 0 || o.log.Len() != 0 || o.spill.runs.Bytes() != 0 {
		t.Errorf("%d rows in runs, %d in the log after all have expired", o.spill.runs.Len(), o.log.Len())
	}
	dedupMust(t, s.Write([]*state.Delta{kv.Freeze()}, []byte("m")))
	open()
	if o.spill.runs.Len() != 0 || o.log.Len() != 0 {
		t.Errorf("%d rows in runs, %d in the log are back", o.spill.runs.Len(), o.log.Len())
	}
}
