package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// groupBefore is the half of a group in front of the exchange. It takes late and
// bad rows out and aggregates the others of each batch, so that one row per
// group goes through the exchange. It holds nothing between batches.
//
// Rows of a group that are further apart than expire_after may belong to
// different parts of it. So a batch is aggregated by group and by stretches of
// event time of that length: two rows of one stretch are in one part for sure.
type groupBefore struct {
	*groupShape
	env    *dataflow.Env
	judge  *rowJudge
	keys   *byFeed
	feed   *aggregateFeed
	layout *accLayout
	groups windowGroups
	values *distinctBatch // nil without distinct

	starts []int64 // number of the stretch, per row
	group  []uint32
	rows   []uint64 // accumulators of the groups, heaps their bytes
	heaps  []accHeap
	enc    []byte
}

func newGroupBefore(env *dataflow.Env, s *groupShape) (*groupBefore, error) {
	keys, err := s.by.newFeed(env)
	if err != nil {
		return nil, err
	}
	layout := s.layout()
	return &groupBefore{
		groupShape: s, env: env, judge: newRowJudge(env, s.input, s.late, s.expire), keys: keys,
		feed: s.set.newFeed(env), values: s.set.newDistinctBatch(), layout: layout, heaps: layout.newHeaps(),
	}, nil
}

// Process implements dataflow.Operator.
func (o *groupBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	o.judge.bind(b)
	defer o.keys.unbind()
	defer o.feed.unbind()
	if err := o.keys.bind(b); err != nil {
		return err
	}
	if err := o.feed.bind(b); err != nil {
		return err
	}
	o.keys.failures(o.judge.failed)
	o.feed.failures(o.judge.failed)
	o.find(b)
	o.accumulate()
	if err := o.judge.emit(ctx, b, out); err != nil {
		return err
	}
	if o.groups.n == 0 {
		return nil
	}
	return out.Emit(ctx, groupOut, o.partials())
}

// find numbers the groups of the batch.
func (o *groupBefore) find(b arrow.RecordBatch) {
	n := int(b.NumRows())
	o.starts, o.group = slices.Grow(o.starts[:0], n)[:n], slices.Grow(o.group[:0], n)[:n]
	assignStretches(o.starts, o.judge.times, o.expire)
	g := &o.groups
	g.reset()
	if ints, ok := o.keys.enc.int64s(); ok {
		g.findInts(o.group, o.starts, o.judge.marks, ints)
		return
	}
	for i, m := range o.judge.marks {
		if m != rowCounts {
			o.group[i] = 0
			continue
		}
		g.buf = o.keys.enc.append(g.buf[:0], i)
		o.group[i] = g.byKey(keyHash(g.buf), o.starts[i], g.buf)
	}
}

// assignStretches writes to dst the number of the stretch of a width that each
// time lies in.
func assignStretches(dst, times []int64, width int64) {
	// Neighbouring rows mostly share a stretch; a division costs more than both
	// comparisons.
	lo, hi, n := int64(0), int64(0), int64(0)
	for i, t := range times {
		if t < lo || t >= hi {
			n = floorDiv(t, width)
			lo = n * width
			hi = lo + width
		}
		dst[i] = n
	}
}

// accumulate fills the accumulators of the groups.
func (o *groupBefore) accumulate() {
	n := (o.groups.n + 1) * o.layout.stride
	o.rows = slices.Grow(o.rows[:0], n)[:n]
	clear(o.rows)
	for h := range o.heaps {
		o.heaps[h].reset()
	}
	o.feed.update(o.layout, o.rows, o.heaps, o.group)
	if o.values != nil {
		o.values.collect(o.feed, o.group, o.groups.n)
	}
	first := len(o.set.funcs)
	for i, flip := range [2]uint64{^uint64(0), 0} {
		extremeInts(o.layout.column(first+i, o.rows, o.heaps), o.group, o.judge.times, flip)
	}
}

// partials returns one row per group in the schema of the exchange.
func (o *groupBefore) partials() arrow.RecordBatch {
	g := &o.groups
	b := array.NewRecordBuilder(o.env.Alloc, o.exchange())
	defer b.Release()
	b.Reserve(g.n)
	b.Field(0).(*array.Uint64Builder).AppendValues(g.hashes[1:], nil)
	key, acc := b.Field(1).(*array.BinaryBuilder), b.Field(2).(*array.BinaryBuilder)
	key.ReserveData(len(g.keys))
	acc.ReserveData(8 * o.layout.stride * g.n)
	for i := 1; i <= g.n; i++ {
		key.Append(g.key(i))
		o.enc = o.layout.encode(o.enc[:0], o.rows[i*o.layout.stride:(i+1)*o.layout.stride], o.heaps)
		acc.Append(o.enc)
		if o.values != nil {
			o.enc = o.values.append(o.enc[:0], uint32(i))
			b.Field(3).(*array.BinaryBuilder).Append(o.enc)
		}
	}
	return b.NewRecordBatch()
}

// Close implements dataflow.Operator.
func (o *groupBefore) Close() error {
	o.judge.release()
	return nil
}

var _ dataflow.Operator = (*groupBefore)(nil)

// rowJudge sorts the rows of batches into those that count, late and bad ones,
// for steps that keep keys for a time: a row is late if its event time plus that
// time is not above its stamp.
type rowJudge struct {
	env         *dataflow.Env
	input, late *arrow.Schema
	keep        int64
	grace       int64 // rows are late only this much later
	closed      int64 // as if no stamp were lower
	timeCol     int
	stampCol    int
	bad         *dataflow.BadRows

	times, stamps []int64 // of the bound batch
	marks         []rowMark
	lateRows      []int32
	badRows       []windowBadRow
}

func newRowJudge(env *dataflow.Env, input, late *arrow.Schema, keep int64) *rowJudge {
	return &rowJudge{
		env: env, input: input, late: late, keep: keep, closed: int64(dataflow.MinTime), bad: dataflow.NewBadRows(env),
		timeCol: dataflow.Column(input, dataflow.SysTime), stampCol: dataflow.Column(input, dataflow.SysStamp),
	}
}

// bind looks at the times of b, which it borrows until emit.
func (j *rowJudge) bind(b arrow.RecordBatch) {
	n := int(b.NumRows())
	j.times = b.Column(j.timeCol).(*array.Int64).Int64Values()
	j.stamps = b.Column(j.stampCol).(*array.Int64).Int64Values()
	j.marks = slices.Grow(j.marks[:0], n)[:n]
	clear(j.marks)
	j.lateRows, j.badRows = j.lateRows[:0], j.badRows[:0]
	for i, t := range j.times {
		if t+j.keep+j.grace <= max(j.stamps[i], j.closed) {
			j.marks[i] = rowLate
			j.lateRows = append(j.lateRows, int32(i))
		}
	}
}

// failed marks a row bad, unless it is late or bad already.
func (j *rowJudge) failed(row int, bad dataflow.Bad) {
	if j.marks[row] == rowCounts {
		j.marks[row] = rowBad
		j.badRows = append(j.badRows, windowBadRow{row, bad})
	}
}

// emit counts all rows of b and sends the late and the bad ones.
func (j *rowJudge) emit(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	j.count(b)
	if len(j.lateRows) > 0 {
		if err := j.emitLate(ctx, b, out); err != nil {
			return err
		}
	}
	return j.emitBad(ctx, b, out)
}

func (j *rowJudge) count(b arrow.RecordBatch) {
	late, bad := len(j.lateRows), len(j.badRows)
	j.env.Fates.Late.Add(int64(late))
	j.env.Fates.Bad.Add(int64(bad))
	j.env.Fates.Absorbed.Add(b.NumRows() - int64(late+bad))
}

func (j *rowJudge) emitBad(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	if len(j.badRows) == 0 {
		return nil
	}
	slices.SortFunc(j.badRows, func(a, b windowBadRow) int { return a.row - b.row })
	for _, r := range j.badRows {
		j.bad.AddRow(&r.bad, b, r.row)
	}
	return out.Emit(ctx, groupBad, j.bad.Flush())
}

func (j *rowJudge) emitLate(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	rows, err := dataflow.TakeBatch(j.env.Alloc, b, j.lateRows)
	if err != nil {
		return fmt.Errorf("take late rows: %w", err)
	}
	defer rows.Release()
	users := len(dataflow.UserFields(j.input))
	added := array.NewRecordBuilder(j.env.Alloc, arrow.NewSchema(j.late.Fields()[users:users+2], nil))
	defer added.Release()
	watermark, lateness := added.Field(0).(*array.TimestampBuilder), added.Field(1).(*array.Int64Builder)
	for _, r := range j.lateRows {
		watermark.Append(arrow.Timestamp(j.stamps[r]))
		lateness.Append(max(j.stamps[r], j.closed) - j.times[r] - j.keep)
	}
	extra := added.NewRecordBatch()
	defer extra.Release()
	cols := slices.Concat(rows.Columns()[:users], extra.Columns(), rows.Columns()[users:])
	return out.Emit(ctx, groupLate, array.NewRecordBatch(j.late, cols, rows.NumRows()))
}

func (j *rowJudge) release() { j.bad.Release() }
