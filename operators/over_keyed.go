package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// overKeyed is the half of over behind the exchange, inside [inTimeOrder]: it gets
// rows in the order of their event times and gives them back with their results.
//
// With range_preceding and unbounded the results of a row follow when all rows of
// its time have come, which may be in several batches: what waits for that is open.
// Nothing is open behind a watermark.
type overKeyed struct {
	*overLayout
	env    *dataflow.Env
	leaves *overLeaves
	table  *state.Table // per partition 1 + the index of its frame, 0: dropped
	frames []overFrame
	free   []uint32 // frames that belong to no partition
	// dropped are the entries of table without a frame.
	dropped int
	live    [state.NumGroups]int // rows of the log that are needed
	log     *keyLog
	cold    overCold
	buf     []byte

	open []overOpen
	b    *array.RecordBuilder
	bads []windowBadRow // of them
	bad  *dataflow.BadRows
	at   []uint32 // the frames of the rows of the batch at hand

	wm    dataflow.Time
	swept int64 // the watermark of the last sweep, in steps
	given int64 // the greatest event time so far
}

// overOpen is a batch whose rows from on have no results yet, and their frames.
type overOpen struct {
	batch arrow.RecordBatch
	from  int
	at    []uint32
}

// Columns of the exchange, counted from its end.
const (
	overKeyBack  = 2
	overHashBack = 1
)

func newOverKeyed(env *dataflow.Env, s *overShape) (*overKeyed, error) {
	l := newOverLayout(s)
	o := &overKeyed{
		overLayout: l, env: env, leaves: newOverLeaves(env, l), table: state.NewTable(1),
		b: array.NewRecordBuilder(env.Alloc, s.results), bad: dataflow.NewBadRows(env),
		wm: dataflow.MinTime, swept: int64(dataflow.MinTime), given: int64(dataflow.MinTime),
	}
	o.cold.limit = env.Memory
	if err := o.restore(); err != nil {
		o.b.Release()
		return nil, fmt.Errorf("restore partitions: %w", err)
	}
	return o, nil
}

// upsert returns the frame of a partition, which may have been in the store.
func (o *overKeyed) upsert(hash uint64, key []byte) (id uint32, err error) {
	e, fresh := o.table.Upsert(hash, key)
	word := &o.table.Row(e)[0]
	if *word != 0 {
		id = uint32(*word - 1)
		o.frames[id].used = true
		return id, nil
	}
	if !fresh {
		o.dropped--
	}
	if n := len(o.free); n > 0 {
		id, o.free = o.free[n-1], o.free[:n-1]
	} else {
		id = uint32(len(o.frames))
		o.frames = append(o.frames, o.newFrame())
	}
	*word = uint64(id) + 1
	f := &o.frames[id]
	f.used = true
	if o.cold.set.has(hash) {
		err = o.bring(f, hash, key)
	}
	o.live[state.GroupOf(hash)] += o.weight(f)
	o.cold.used += o.sizeOf(f)
	return id, err
}

// drop forgets a partition.
func (o *overKeyed) drop(e state.Entry, f *overFrame) {
	o.live[state.GroupOf(o.table.Hash(e))] -= o.weight(f)
	o.cold.used -= o.sizeOf(f)
	word := &o.table.Row(e)[0]
	o.free = append(o.free, uint32(*word-1))
	*word = 0
	*f = o.newFrame()
	o.dropped++
}

// weight is how many rows of the log a partition needs.
func (o *overKeyed) weight(f *overFrame) int {
	if o.kind == overAll {
		return 1
	}
	return f.kept()
}

// Process implements dataflow.Operator.
func (o *overKeyed) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	n := int(b.NumRows())
	times := b.Column(dataflow.Column(o.exchange, dataflow.SysTime)).(*array.Int64).Int64Values()
	if err := o.leaves.make(b); err != nil {
		return err
	}
	cols := b.Columns()
	hashes := cols[len(cols)-overHashBack].(*array.Uint64).Uint64Values()
	keys := cols[len(cols)-overKeyBack].(*array.Binary)
	o.at = slices.Grow(o.at[:0], n)[:n]
	for from := 0; from < n; {
		if from%windowWarm == 0 {
			o.table.Warm(hashes[from:min(from+windowWarm, n)])
		}
		to := o.peers(times, from)
		if len(o.open) > 0 && times[from] != o.given {
			if err := o.finish(ctx, out); err != nil {
				return err
			}
		}
		for i := from; i < to; i++ {
			var err error
			if o.at[i], err = o.upsert(hashes[i], keys.Value(i)); err != nil {
				return err
			}
			f := &o.frames[o.at[i]]
			weight, size := o.weight(f), o.sizeOf(f)
			o.add(f, times[i], o.leaves.leaf(i), o.leaves.bytes)
			o.live[state.GroupOf(hashes[i])] += o.weight(f) - weight
			o.cold.used += o.sizeOf(f) - size
		}
		o.given = times[from]
		if to == n && o.kind != overRows {
			b.Retain()
			o.open = append(o.open, overOpen{b, from, slices.Clone(o.at[from:])})
			for _, id := range o.at[from:] {
				o.frames[id].open = true
			}
			return o.shrink()
		}
		if err := o.finish(ctx, out); err != nil {
			return err
		}
		o.results(from, o.at[from:to])
		from = to
	}
	if err := o.emit(ctx, b, out); err != nil {
		return err
	}
	return o.shrink()
}

// sizeOf is size where it matters.
func (o *overKeyed) sizeOf(f *overFrame) int64 {
	if o.cold.limit == 0 {
		return 0
	}
	return o.size(f)
}

// peers returns the end of the rows that get their results together with that at
// from.
func (o *overKeyed) peers(times []int64, from int) int {
	to := from + 1
	if o.kind == overRows {
		return to
	}
	for to < len(times) && times[to] == times[from] {
		to++
	}
	return to
}

// results makes those of rows from on of a batch, whose frames are at.
func (o *overKeyed) results(from int, at []uint32) {
	for i, id := range at {
		if bad := o.result(&o.frames[id], o.b); bad != nil {
			o.bads = append(o.bads, windowBadRow{from + i, *bad})
		}
	}
}

// finish gives what is open.
func (o *overKeyed) finish(ctx context.Context, out dataflow.Emitter) error {
	for len(o.open) > 0 {
		x := o.open[0]
		o.results(x.from, x.at)
		for _, id := range x.at {
			o.frames[id].open = false
		}
		err := o.emit(ctx, x.batch, out)
		x.batch.Release()
		o.open = slices.Delete(o.open, 0, 1)
		if err != nil {
			return err
		}
	}
	return nil
}

// emit sends the rows of b with the results that were made.
func (o *overKeyed) emit(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	made := o.b.NewRecordBatch()
	defer made.Release()
	users := len(dataflow.UserFields(o.input))
	cols := slices.Concat(b.Columns()[:users], made.Columns())
	for _, f := range dataflow.SysFields(o.input) {
		name := f.Name
		if name == dataflow.SysStamp {
			name = dataflow.SysTime
		}
		cols = append(cols, b.Column(dataflow.Column(o.exchange, name)))
	}
	n := b.NumRows()
	whole := array.NewRecordBatch(o.out, cols, n)
	o.env.Fates.Passed.Add(n - int64(len(o.bads)))
	if len(o.bads) == 0 {
		return out.Emit(ctx, groupOut, whole)
	}
	defer whole.Release()
	o.env.Fates.Bad.Add(int64(len(o.bads)))
	good := make([]int32, 0, n)
	bads := o.bads
	for i := range int(n) {
		if len(bads) > 0 && bads[0].row == i {
			o.bad.AddRow(&bads[0].bad, b, i)
			bads = bads[1:]
			continue
		}
		good = append(good, int32(i))
	}
	o.bads = o.bads[:0]
	if err := out.Emit(ctx, groupBad, o.bad.Flush()); err != nil || len(good) == 0 {
		return err
	}
	some, err := dataflow.TakeBatch(o.env.Alloc, whole, good)
	if err != nil {
		return fmt.Errorf("take rows: %w", err)
	}
	return out.Emit(ctx, groupOut, some)
}

// OnWatermark implements dataflow.WatermarkHandler. A drain gives rows that the
// watermark had not passed; Closed remembers it, so that rows which come for their
// times in a later run are late. It drops nothing.
func (o *overKeyed) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	if err := o.finish(ctx, out); err != nil {
		return err
	}
	if wm != dataflow.MaxTime {
		o.wm = wm
		return nil
	}
	if o.env.Closed != nil && o.given != int64(dataflow.MinTime) {
		o.env.Closed.Raise(dataflow.Time(o.given + 1))
	}
	return nil
}

// Close implements dataflow.Operator.
func (o *overKeyed) Close() error {
	for _, x := range o.open {
		x.batch.Release()
	}
	o.open = nil
	o.b.Release()
	o.bad.Release()
	return nil
}

var (
	_ dataflow.Operator         = (*overKeyed)(nil)
	_ dataflow.WatermarkHandler = (*overKeyed)(nil)
	_ dataflow.BarrierHandler   = (*overKeyed)(nil)
)
