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

// windowOrderedBefore is the half of an ordered window in front of the exchange.
// It evaluates the groups, arguments and filters, takes out bad rows and those
// that are late whatever happens behind it, and sends of the others only what is
// needed there. It holds nothing between batches.
type windowOrderedBefore struct {
	*orderedShape
	env   *dataflow.Env
	feed  *aggregateFeed
	keys  *byFeed
	bad   *dataflow.BadRows
	users *arrow.Schema
	rows  rowWriter

	time, stamp int // columns
	marks       []rowMark
	bads        []windowBadRow
	gone        lateRows
	stay        []int32 // the rows that go on
}

func newOrderedBefore(env *dataflow.Env, s *orderedShape) (*windowOrderedBefore, error) {
	keys, err := s.groups.newFeed(env)
	if err != nil {
		return nil, err
	}
	return &windowOrderedBefore{
		orderedShape: s, env: env, feed: s.newFeed(env), keys: keys, bad: dataflow.NewBadRows(env),
		gone: lateRows{bounded: s.bounded}, rows: rowWriter{schema: arrow.NewSchema(dataflow.UserFields(s.input), nil)},
		users: arrow.NewSchema(dataflow.UserFields(s.input), nil),
		time:  dataflow.Column(s.input, dataflow.SysTime), stamp: dataflow.Column(s.input, dataflow.SysStamp),
	}, nil
}

// Process implements dataflow.Operator.
func (w *windowOrderedBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	n := int(b.NumRows())
	w.marks = slices.Grow(w.marks[:0], n)[:n]
	clear(w.marks)
	closed := int64(w.env.Closed.Get())
	if w.kind == orderedAligned {
		w.findLate(b, closed)
	}
	defer w.feed.unbind()
	defer w.keys.unbind()
	if err := errors.Join(w.feed.bind(b), w.keys.bind(b)); err != nil {
		return err
	}
	w.findBad()
	if err := w.emitOthers(ctx, b, out); err != nil {
		return err
	}
	w.stay = w.stay[:0]
	for i, m := range w.marks {
		if m == rowCounts {
			w.stay = append(w.stay, int32(i))
		}
	}
	if len(w.stay) == 0 {
		return nil
	}
	rest, err := w.exchanged(b, closed)
	if err != nil {
		return err
	}
	return out.Emit(ctx, windowOut, rest)
}

// Close implements dataflow.Operator.
func (w *windowOrderedBefore) Close() error {
	w.bad.Release()
	return nil
}

// findLate marks the rows that are late for all of their windows.
func (w *windowOrderedBefore) findLate(b arrow.RecordBatch, closed int64) {
	w.gone.reset()
	times := b.Column(w.time).(*array.Int64).Int64Values()
	stamps := b.Column(w.stamp).(*array.Int64).Int64Values()
	partly := int64(0)
	for i, t := range times {
		behind := max(stamps[i], closed)
		windows, late := 0, 0
		var lastStart, lastEnd int64
		w.windowsOf(t, func(start, end int64) {
			windows++
			if end+w.keep <= behind {
				late++
			}
			if windows == 1 || end > lastEnd {
				lastStart, lastEnd = start, end
			}
		})
		switch {
		case late == windows:
			w.marks[i] = rowLate
			w.gone.add(i, lastStart, lastEnd, behind-lastEnd-w.keep)
		case late > 0:
			partly++
		}
	}
	w.env.Fates.PartlyLate.Add(partly)
	w.env.Fates.Late.Add(int64(len(w.gone.rows)))
}

// findBad marks the rows that have no value for an aggregate they count in.
func (w *windowOrderedBefore) findBad() {
	w.bads = w.bads[:0]
	mark := func(row int, bad dataflow.Bad) {
		if w.marks[row] == rowCounts {
			w.marks[row] = rowBad
			w.bads = append(w.bads, windowBadRow{row, bad})
		}
	}
	w.keys.failures(mark)
	w.feed.failures(mark)
	slices.SortFunc(w.bads, func(a, b windowBadRow) int { return a.row - b.row })
	w.env.Fates.Bad.Add(int64(len(w.bads)))
}

// emitOthers sends late and bad rows.
func (w *windowOrderedBefore) emitOthers(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	if len(w.gone.rows) > 0 {
		rows, err := dataflow.TakeBatch(w.env.Alloc, b, w.gone.rows)
		if err != nil {
			return fmt.Errorf("take late rows: %w", err)
		}
		defer rows.Release()
		users := w.users.NumFields()
		added := w.gone.columns(w.env, w.late, users, rows.Column(w.stamp).(*array.Int64))
		late := array.NewRecordBatch(w.late, slices.Concat(rows.Columns()[:users], added, rows.Columns()[users:]), rows.NumRows())
		for _, c := range added {
			c.Release()
		}
		if err := out.Emit(ctx, windowLate, late); err != nil {
			return err
		}
	}
	if len(w.bads) == 0 {
		return nil
	}
	for _, r := range w.bads {
		w.bad.AddRow(&r.bad, b, r.row)
	}
	return out.Emit(ctx, windowBad, w.bad.Flush())
}

// exchanged makes the batch for the other half, of the rows that stay.
func (w *windowOrderedBefore) exchanged(b arrow.RecordBatch, closed int64) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, 0, w.exchange.NumFields())
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	keys, hashes := w.keys.enc.columns(w.env.Alloc, w.stay)
	defer hashes.Release()
	cols = append(cols, keys)
	take := func(a arrow.Array) error {
		if len(w.stay) == int(b.NumRows()) {
			a.Retain()
			cols = append(cols, a)
			return nil
		}
		t, err := dataflow.TakeArray(w.env.Alloc, a, w.stay)
		if err == nil {
			cols = append(cols, t)
		}
		return err
	}
	for i, a := range w.feed.args {
		if err := take(a); err != nil {
			return nil, fmt.Errorf("take values of %s: %w", w.exprs[i], err)
		}
	}
	if w.cols.row >= 0 {
		whole, err := w.wholeRows(b, closed)
		if err != nil {
			return nil, fmt.Errorf("write a row that may be late: %w", err)
		}
		cols = append(cols, whole)
	}
	for _, f := range dataflow.SysFields(w.input) {
		if err := take(b.Column(dataflow.Column(w.input, f.Name))); err != nil {
			return nil, fmt.Errorf("take %s: %w", f.Name, err)
		}
	}
	return array.NewRecordBatch(w.exchange, append(slices.Clone(cols), hashes), int64(len(w.stay))), nil
}

// wholeRows makes the column of the rows that the other half may find late: a
// session or a count window that is open then may still take them. The others
// are null.
func (w *windowOrderedBefore) wholeRows(b arrow.RecordBatch, closed int64) (arrow.Array, error) {
	out := array.NewBinaryBuilder(w.env.Alloc, arrow.BinaryTypes.Binary)
	defer out.Release()
	times := b.Column(w.time).(*array.Int64).Int64Values()
	stamps := b.Column(w.stamp).(*array.Int64).Int64Values()
	span := w.gap + w.keep
	none := 0
	for _, i := range w.stay {
		if times[i]+span > max(stamps[i], closed) {
			none++
			continue
		}
		out.AppendNulls(none)
		none = 0
		row, err := w.rows.row(w.env, b, int64(i))
		if err != nil {
			return nil, err
		}
		out.Append(row)
	}
	out.AppendNulls(none)
	return out.NewArray(), nil
}

var _ dataflow.Operator = (*windowOrderedBefore)(nil)
