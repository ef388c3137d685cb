package operators

import (
	"context"
	"errors"
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
	env      *dataflow.Env
	keys     *byFeed
	feed     *aggregateFeed
	distinct *distinctBatch // nil without distinct
	layout   *accLayout
	groups   windowGroups
	bad      *dataflow.BadRows

	timeCol, stampCol int
	// closed is Env.Closed as the batch at hand found it.
	closed int64
	// Of the batch at hand, one per row: the start of its pane, its fate, its
	// group. A row that is late for some of its windows has a number of apart
	// instead of a start.
	panes []int64
	marks []rowMark
	group []uint32
	apart windowApart
	// partly are the rows that are late for some of their windows.
	partly []int32
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
	keys, err := s.groups.newFeed(env)
	if err != nil {
		return nil, err
	}
	w := &windowBefore{
		windowShape: s, env: env, keys: keys, layout: newAccLayout(s.funcs), bad: dataflow.NewBadRows(env),
		timeCol: dataflow.Column(s.input, dataflow.SysTime), stampCol: dataflow.Column(s.input, dataflow.SysStamp),
	}
	w.heaps = w.layout.newHeaps()
	w.feed, w.distinct = s.newFeed(env), s.newDistinctBatch()
	return w, nil
}

// Process implements dataflow.Operator.
func (w *windowBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	n := int(b.NumRows())
	w.panes, w.marks = slices.Grow(w.panes[:0], n)[:n], slices.Grow(w.marks[:0], n)[:n]
	w.group = slices.Grow(w.group[:0], n)[:n]
	w.findLate(b)
	defer w.feed.unbind()
	defer w.keys.unbind()
	if err := errors.Join(w.feed.bind(b), w.keys.bind(b)); err != nil {
		return err
	}
	w.findBad()
	w.groups.find(w)
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

// findLate computes the panes of all rows and marks the late ones.
func (w *windowBefore) findLate(b arrow.RecordBatch) {
	times := b.Column(w.timeCol).(*array.Int64).Int64Values()
	stamps := b.Column(w.stampCol).(*array.Int64).Int64Values()
	clear(w.marks)
	w.lateRows, w.partly = w.lateRows[:0], w.partly[:0]
	w.apart.reset()
	w.closed = int64(w.env.Closed.Get())
	// Neighbouring rows mostly share a pane.
	var lo, hi, due int64
	for i, t := range times {
		if t < lo || t >= hi {
			lo, hi = w.windows.pane(t)
			due = w.due(w.windows.first(lo))
		}
		w.panes[i] = lo
		if behind := max(stamps[i], w.closed); due <= behind {
			w.panes[i] = w.lateRow(i, lo, behind)
		}
	}
}

// lateRow marks a row that is late for the first of its windows at least, and
// returns what stands for its pane.
func (w *windowBefore) lateRow(i int, pane, behind int64) int64 {
	if w.single || w.due(w.windows.last(pane)) <= behind {
		w.marks[i] = rowLate
		w.lateRows = append(w.lateRows, int32(i))
		return pane
	}
	w.partly = append(w.partly, int32(i))
	// The first window that closes later is the first one that holds the moment
	// up to which windows are closed.
	open, _ := w.windows.pane(behind - w.lateness)
	return w.apart.number(pane, w.windows.first(open))
}

// windowApart numbers panes whose rows do not count in all of their windows.
type windowApart struct {
	panes   []windowApartPane
	numbers map[windowApartPane]int64
}

type windowApartPane struct{ start, first int64 }

// windowApartBase is the first number, far from any time.
const windowApartBase = int64(dataflow.MinTime)

func (a *windowApart) reset() {
	if len(a.panes) > 0 {
		a.panes = a.panes[:0]
		clear(a.numbers)
	}
}

// number returns the number of a pane and the first window that counts.
func (a *windowApart) number(start, first int64) int64 {
	p := windowApartPane{start, first}
	n, ok := a.numbers[p]
	if !ok {
		if a.numbers == nil {
			a.numbers = map[windowApartPane]int64{}
		}
		n = windowApartBase + int64(len(a.panes))
		a.numbers[p] = n
		a.panes = append(a.panes, p)
	}
	return n
}

// get returns the pane of a number, if it is one.
func (a *windowApart) get(n int64) (p windowApartPane, ok bool) {
	if i := n - windowApartBase; i >= 0 && i < int64(len(a.panes)) {
		return a.panes[i], true
	}
	return windowApartPane{}, false
}

// findBad marks the rows that have no value for an aggregate they count in. A
// late row is in no aggregate, so it stays late.
func (w *windowBefore) findBad() {
	w.badRows = w.badRows[:0]
	mark := func(row int, bad dataflow.Bad) {
		if w.marks[row] == rowCounts {
			w.marks[row] = rowBad
			w.badRows = append(w.badRows, windowBadRow{row, bad})
		}
	}
	w.keys.failures(mark)
	w.feed.failures(mark)
	slices.SortFunc(w.badRows, func(a, b windowBadRow) int { return a.row - b.row })
	for _, i := range w.partly {
		if w.marks[i] == rowCounts {
			w.env.Fates.PartlyLate.Add(1)
		}
	}
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
	if w.distinct != nil {
		w.distinct.collect(w.feed, w.group, w.groups.n)
	}
}

// emitLate sends the late rows with what makes them late: of several windows the
// last.
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
		last, stamp := w.windows.last(w.panes[r]), stamps.Value(i)
		if w.bounded {
			start.Append(arrow.Timestamp(w.windows.start(last)))
			end.Append(arrow.Timestamp(last))
		} else {
			start.AppendNull()
			end.AppendNull()
		}
		if stamp == int64(dataflow.MinTime) {
			watermark.AppendNull()
		} else {
			watermark.Append(arrow.Timestamp(stamp))
		}
		lateness.Append(max(stamp, w.closed) - w.due(last))
	}
	extra := added.NewRecordBatch()
	defer extra.Release()
	cols := slices.Concat(rows.Columns()[:users], extra.Columns(), rows.Columns()[users:])
	return out.Emit(ctx, windowLate, array.NewRecordBatch(w.late, cols, rows.NumRows()))
}

// partials returns one row per group in the schema of the exchange.
func (w *windowBefore) partials() arrow.RecordBatch {
	g := &w.groups
	b := array.NewRecordBuilder(w.env.Alloc, w.exchange())
	defer b.Release()
	b.Reserve(g.n)
	b.Field(0).(*array.Uint64Builder).AppendValues(g.hashes[1:], nil)
	key, acc := b.Field(1).(*array.BinaryBuilder), b.Field(3).(*array.BinaryBuilder)
	key.ReserveData(len(g.keys))
	w.appendPanes(b)
	acc.ReserveData(8 * w.layout.stride * g.n)
	for i := 1; i <= g.n; i++ {
		key.Append(g.key(i))
		w.enc = w.layout.encode(w.enc[:0], w.rows[i*w.layout.stride:(i+1)*w.layout.stride], w.heaps)
		acc.Append(w.enc)
	}
	if w.distinct != nil {
		values := b.Field(len(b.Fields()) - 1).(*array.BinaryBuilder)
		for i := 1; i <= g.n; i++ {
			w.enc = w.distinct.append(w.enc[:0], uint32(i))
			values.Append(w.enc)
		}
	}
	return b.NewRecordBatch()
}

// appendPanes fills the columns that say which pane a group is of.
func (w *windowBefore) appendPanes(b *array.RecordBuilder) {
	starts := b.Field(2).(*array.Int64Builder)
	if w.single {
		starts.AppendValues(w.groups.starts[1:], nil)
		return
	}
	firsts := b.Field(4).(*array.Int64Builder)
	at, first := int64(0), w.windows.first(0)
	for _, start := range w.groups.starts[1:] {
		if p, ok := w.apart.get(start); ok {
			starts.Append(p.start)
			firsts.Append(p.first)
			continue
		}
		if start != at {
			at, first = start, w.windows.first(start)
		}
		starts.Append(start)
		firsts.Append(first)
	}
}

var _ dataflow.Operator = (*windowBefore)(nil)
