package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// windowBefore is the half of a window in front of the exchange. It takes late
// and bad rows out and aggregates the others of each batch by window and key, so
// that one row per group goes through the exchange. It holds nothing between
// batches.
type windowBefore struct {
	*windowShape
	env    *dataflow.Env
	keys   *keyEncoder
	feed   *aggregateFeed
	layout *accLayout
	groups windowGroups
	bad    *dataflow.BadRows

	timeCol, stampCol int
	// closed is Env.Closed as the batch at hand found it.
	closed int64
	// Of the batch at hand, one per row: its window's start, its fate, its
	// group.
	starts []int64
	marks  []rowMark
	group  []uint32
	// rows holds the accumulators of the groups, heaps their bytes.
	rows     []uint64
	heaps    []accHeap
	lateRows []int32
	badRows  []windowBadRow
	enc      []byte
}

type rowMark uint8

const (
	rowCounts rowMark = iota
	rowLate
	rowBad
)

type windowBadRow struct {
	row int
	bad dataflow.Bad
}

func newWindowBefore(env *dataflow.Env, s *windowShape) (*windowBefore, error) {
	keys, err := newKeyEncoder(s.input, s.by)
	if err != nil {
		return nil, err
	}
	w := &windowBefore{
		windowShape: s, env: env, keys: keys, layout: newAccLayout(s.funcs), bad: dataflow.NewBadRows(env),
		timeCol: dataflow.Column(s.input, dataflow.SysTime), stampCol: dataflow.Column(s.input, dataflow.SysStamp),
	}
	w.heaps = w.layout.newHeaps()
	w.feed = s.newFeed(env)
	return w, nil
}

// Process implements dataflow.Operator.
func (w *windowBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	n := int(b.NumRows())
	w.starts, w.marks = slices.Grow(w.starts[:0], n)[:n], slices.Grow(w.marks[:0], n)[:n]
	w.group = slices.Grow(w.group[:0], n)[:n]
	w.findLate(b)
	defer w.feed.unbind()
	if err := w.feed.bind(b); err != nil {
		return err
	}
	w.findBad()
	w.groups.find(w, b)
	w.accumulate()
	w.env.Fates.Late.Add(int64(len(w.lateRows)))
	w.env.Fates.Bad.Add(int64(len(w.badRows)))
	w.env.Fates.Absorbed.Add(int64(n - len(w.lateRows) - len(w.badRows)))
	if len(w.lateRows) > 0 {
		if err := w.emitLate(ctx, b, out); err != nil {
			return err
		}
	}
	if len(w.badRows) > 0 {
		for _, r := range w.badRows {
			w.bad.AddRow(&r.bad, b, r.row)
		}
		if err := out.Emit(ctx, windowBad, w.bad.Flush()); err != nil {
			return err
		}
	}
	if w.groups.n == 0 {
		return nil
	}
	return out.Emit(ctx, windowOut, w.partials())
}

// Close implements dataflow.Operator.
func (w *windowBefore) Close() error {
	w.bad.Release()
	return nil
}

// findLate computes the windows of all rows and marks the late ones.
func (w *windowBefore) findLate(b arrow.RecordBatch) {
	times := b.Column(w.timeCol).(*array.Int64).Int64Values()
	stamps := b.Column(w.stampCol).(*array.Int64).Int64Values()
	w.windows.assign(w.starts, times)
	clear(w.marks)
	w.lateRows = w.lateRows[:0]
	w.closed = int64(w.env.Closed.Get())
	keep := w.due(0)
	for i, start := range w.starts {
		if start+keep <= max(stamps[i], w.closed) {
			w.marks[i] = rowLate
			w.lateRows = append(w.lateRows, int32(i))
		}
	}
}

// findBad marks the rows that have no value for an aggregate they count in. A
// late row is in no aggregate, so it stays late.
func (w *windowBefore) findBad() {
	w.badRows = w.badRows[:0]
	w.feed.failures(func(row int, bad dataflow.Bad) {
		if w.marks[row] == rowCounts {
			w.marks[row] = rowBad
			w.badRows = append(w.badRows, windowBadRow{row, bad})
		}
	})
	slices.SortFunc(w.badRows, func(a, b windowBadRow) int { return a.row - b.row })
}

// accumulate fills the accumulators of the groups that find found.
func (w *windowBefore) accumulate() {
	n := (w.groups.n + 1) * w.layout.stride
	w.rows = slices.Grow(w.rows[:0], n)[:n]
	clear(w.rows)
	for h := range w.heaps {
		w.heaps[h].reset()
	}
	w.feed.update(w.layout, w.rows, w.heaps, w.group)
}

// emitLate sends the late rows with what makes them late.
func (w *windowBefore) emitLate(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	rows, err := dataflow.TakeBatch(w.env.Alloc, b, w.lateRows)
	if err != nil {
		return fmt.Errorf("take late rows: %w", err)
	}
	defer rows.Release()
	users := len(dataflow.UserFields(w.input))
	added := array.NewRecordBuilder(w.env.Alloc, arrow.NewSchema(w.late.Fields()[users:users+4], nil))
	defer added.Release()
	start, end := added.Field(0).(*array.TimestampBuilder), added.Field(1).(*array.TimestampBuilder)
	watermark, lateness := added.Field(2).(*array.TimestampBuilder), added.Field(3).(*array.Int64Builder)
	stamps := rows.Column(w.stampCol).(*array.Int64)
	for i, r := range w.lateRows {
		from, stamp := w.starts[r], stamps.Value(i)
		start.Append(arrow.Timestamp(from))
		end.Append(arrow.Timestamp(w.windows.end(from)))
		if stamp == int64(dataflow.MinTime) {
			watermark.AppendNull()
		} else {
			watermark.Append(arrow.Timestamp(stamp))
		}
		lateness.Append(max(stamp, w.closed) - w.due(from))
	}
	extra := added.NewRecordBatch()
	defer extra.Release()
	cols := slices.Concat(rows.Columns()[:users], extra.Columns(), rows.Columns()[users:])
	return out.Emit(ctx, windowLate, array.NewRecordBatch(w.late, cols, rows.NumRows()))
}

// partials returns one row per group in the schema of the exchange.
func (w *windowBefore) partials() arrow.RecordBatch {
	g := &w.groups
	b := array.NewRecordBuilder(w.env.Alloc, windowExchange)
	defer b.Release()
	b.Reserve(g.n)
	b.Field(0).(*array.Uint64Builder).AppendValues(g.hashes[1:], nil)
	key, acc := b.Field(1).(*array.BinaryBuilder), b.Field(3).(*array.BinaryBuilder)
	key.ReserveData(len(g.keys))
	b.Field(2).(*array.Int64Builder).AppendValues(g.starts[1:], nil)
	acc.ReserveData(8 * w.layout.stride * g.n)
	for i := 1; i <= g.n; i++ {
		key.Append(g.key(i))
		w.enc = w.layout.encode(w.enc[:0], w.rows[i*w.layout.stride:(i+1)*w.layout.stride], w.heaps)
		acc.Append(w.enc)
	}
	return b.NewRecordBatch()
}

var _ dataflow.Operator = (*windowBefore)(nil)
