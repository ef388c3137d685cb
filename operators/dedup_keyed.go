package operators

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The entries of the tables are in a state.Log under this prefix, one row of 24
// bytes each, big endian: the two halves of the key's hash, then the event time
// with its sign bit flipped. See docs/state-format.md.
const (
	dedupLogPrefix   = 'l'
	dedupRowWidth    = 24
	dedupMinBucketUs = 1_000_000
)

// dedup is the half behind the exchange: it takes rows in the order in which
// they come, or, inside [inStampOrder], in stamp order.
type dedup struct {
	env    *dataflow.Env
	within time.Duration
	out    *arrow.Schema
	hi, lo int // columns
	time   int
	bounds dedupBounds
	tables [state.NumGroups]dedupTable
	log    *state.Log
	oldest int64 // start of the oldest bucket in log
	row    [dedupRowWidth]byte
	rows   []int32
	warm   uint64 // see touch
	spill  dedupSpill
}

func newDedup(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg DedupConfig) (dataflow.Operator, error) {
	schema := in.Inputs[0].Schema
	o := &dedup{
		env: env, within: cfg.Within.D(), out: schema, bounds: newDedupBounds(cfg.Within.D()),
		hi: schema.NumFields(), lo: schema.NumFields() + 1, time: dataflow.Column(schema, dataflow.SysTime),
		oldest: int64(dataflow.MinTime), spill: dedupSpill{budget: env.Memory},
	}
	var err error
	o.spill.runs, err = state.OpenRuns(env.State, env.Groups, state.RunsOptions{Prefix: dedupRunPrefix, RowWidth: dedupRowWidth})
	if err != nil {
		return nil, fmt.Errorf("restore keys: %w", err)
	}
	o.log, err = state.OpenLog(env.State, env.Groups, dedupLogOptions(o.within), o.load)
	if err != nil {
		return nil, fmt.Errorf("restore keys: %w", err)
	}
	if err := o.grown(o.countSlots()); err != nil {
		return nil, err
	}
	if cfg.Order == orderEvent {
		return inStampOrder(env, dedupExchange(schema), dedupHi, o)
	}
	return o, nil
}

// dedupLogOptions: a quarter of the bound makes buckets that expire soon enough
// and stay few.
func dedupLogOptions(within time.Duration) state.LogOptions {
	return state.LogOptions{
		Prefix: dedupLogPrefix, RowWidth: dedupRowWidth,
		Bucket: max(within.Microseconds()/4, dedupMinBucketUs),
	}
}

func (o *dedup) load(group int, row []byte) error {
	hi, lo, at := binary.BigEndian.Uint64(row), binary.BigEndian.Uint64(row[8:]), binary.BigEndian.Uint64(row[16:])
	if state.GroupOf(hi) != group || at == 0 {
		return fmt.Errorf("key %016x at %d does not belong to key group %d", hi, at, group)
	}
	o.tables[group].load(o.bounds, hi, lo, at)
	return nil
}

// Process implements dataflow.Operator.
func (o *dedup) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	if err := o.judge(b); err != nil {
		return err
	}
	n, passed := b.NumRows(), int64(len(o.rows))
	o.env.Fates.Passed.Add(passed)
	o.env.Fates.Duplicate.Add(n - passed)
	if passed == 0 {
		return nil
	}
	// Without the key's columns; no values are copied.
	whole := array.NewRecordBatch(o.out, b.Columns()[:o.hi], n)
	if passed == n {
		return out.Emit(ctx, dedupOut, whole)
	}
	defer whole.Release()
	some, err := dataflow.TakeBatch(o.env.Alloc, whole, o.rows)
	if err != nil {
		return err
	}
	return out.Emit(ctx, dedupOut, some)
}

// judge fills rows with those of b that are no duplicates, and remembers them.
func (o *dedup) judge(b arrow.RecordBatch) error {
	his := b.Column(o.hi).(*array.Uint64).Uint64Values()
	los := b.Column(o.lo).(*array.Uint64).Uint64Values()[:len(his)]
	times := b.Column(o.time).(*array.Int64).Int64Values()[:len(his)]
	o.rows = o.rows[:0]
	for from := 0; from < len(his); from += dedupBlock {
		to := min(from+dedupBlock, len(his))
		o.touch(his[from:to], los[from:to])
		for i := from; i < to; i++ {
			if err := o.judgeRow(i, his[i], los[i], times[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// dedupBlock is how many rows are looked up together.
const dedupBlock = 256

// touch reads the first slot of each key. Large tables lie in main memory; these
// loads do not depend on each other, so that the processor waits for many of
// them at once, where one look-up after the other would wait for each. The sum
// keeps the compiler from leaving them out.
func (o *dedup) touch(his, los []uint64) {
	for i, hi := range his {
		group := state.GroupOf(hi)
		if s := o.tables[group].slots; len(s) > 0 {
			o.warm += s[los[i]&uint64(len(s)-1)].time
		}
		o.spill.runs.Warm(group, los[i])
	}
}

func (o *dedup) judgeRow(i int, hi, lo uint64, t int64) error {
	group, at := state.GroupOf(hi), dedupTime(dataflow.Time(t))
	if o.spill.runs.Group(group) > 0 {
		if cold, err := o.isCold(group, hi, lo, at); cold || err != nil {
			return err
		}
	}
	table := &o.tables[group]
	slots := len(table.slots)
	if !table.pass(o.bounds, hi, lo, at) {
		return nil
	}
	o.rows = append(o.rows, int32(i))
	binary.BigEndian.PutUint64(o.row[:], hi)
	binary.BigEndian.PutUint64(o.row[8:], lo)
	binary.BigEndian.PutUint64(o.row[16:], at)
	if err := o.log.Append(group, t, o.row[:]); err != nil || len(table.slots) == slots {
		return err
	}
	return o.grown(len(table.slots) - slots)
}

// countSlots counts those of all tables.
func (o *dedup) countSlots() int {
	n := 0
	for g := range o.tables {
		n += len(o.tables[g].slots)
	}
	return n
}

// OnWatermark forgets what cannot decide any more. A drain does not: the next
// run goes on from the watermark before it.
func (o *dedup) OnWatermark(_ context.Context, wm dataflow.Time, _ dataflow.Emitter) error {
	if wm == dataflow.MaxTime || wm == dataflow.MinTime {
		return nil
	}
	keep := wm.Sub(2 * o.within)
	if keep == dataflow.MinTime {
		return nil
	}
	o.bounds.keep = max(o.bounds.keep, dedupTime(keep))
	oldest := o.log.Oldest(int64(keep))
	if oldest <= o.oldest {
		return nil
	}
	o.oldest = oldest
	if err := o.log.Expire(int64(keep)); err != nil {
		return err
	}
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi; g++ {
		if t := &o.tables[g]; t.used > dedupMinSlots && t.used > 2*o.log.Rows(g) {
			t.rebuild(o.bounds)
		}
	}
	o.spill.slots = int64(o.countSlots())
	return o.spill.runs.Expire(o.bounds.keep)
}

// OnBarrier implements dataflow.BarrierHandler.
func (o *dedup) OnBarrier(context.Context, dataflow.Epoch, dataflow.Emitter) error {
	return o.log.Flush()
}

// Close implements dataflow.Operator.
func (o *dedup) Close() error { return nil }

var (
	_ dataflow.Operator         = (*dedup)(nil)
	_ dataflow.WatermarkHandler = (*dedup)(nil)
	_ dataflow.BarrierHandler   = (*dedup)(nil)
)
