package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// windowBefore is the half of a window in front of the exchange. It takes late
// and bad rows out and aggregates the others of each batch by window and key, so
// that one row per group goes through the exchange. It holds nothing between
// batches.
type windowBefore struct {
	*windowShape
	env    *dataflow.Env
	keys   *keyEncoder
	evals  []*expr.Evaluator
	layout *accLayout
	groups windowGroups
	bad    *dataflow.BadRows

	timeCol, stampCol int
	// closed is Env.Closed as the batch at hand found it.
	closed int64
	// Of the batch at hand, one per row: its window's start, its fate, its
	// group; masked is the group of rows that count in one aggregate.
	starts []int64
	marks  []rowMark
	group  []uint32
	masked []uint32
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
	for _, e := range s.exprs {
		w.evals = append(w.evals, e.NewEvaluator(env.Alloc))
	}
	return w, nil
}

// Process implements dataflow.Operator.
func (w *windowBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	n := int(b.NumRows())
	w.starts, w.marks = slices.Grow(w.starts[:0], n)[:n], slices.Grow(w.marks[:0], n)[:n]
	w.group, w.masked = slices.Grow(w.group[:0], n)[:n], slices.Grow(w.masked[:0], n)[:n]
	w.findLate(b)
	args := make([]arrow.Array, len(w.evals))
	defer func() {
		for _, a := range args {
			if a != nil {
				a.Release()
			}
		}
	}()
	if err := w.evaluate(b, args); err != nil {
		return err
	}
	w.groups.find(w, b)
	w.accumulate(args)
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

// evaluate computes arguments and filters into args and marks the rows that
// have no value for one that counts: an argument does only where the filter is
// true. A late row is in no aggregate, so it stays late.
func (w *windowBefore) evaluate(b arrow.RecordBatch, args []arrow.Array) error {
	w.badRows = w.badRows[:0]
	var failed [][]expr.RowError
	for i, ev := range w.evals {
		a, errs, err := ev.Eval(b)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", w.exprs[i], err)
		}
		args[i] = a
		if len(errs) > 0 && failed == nil {
			failed = make([][]expr.RowError, len(w.evals))
		}
		if failed != nil {
			failed[i] = errs
		}
	}
	if failed == nil {
		return nil
	}
	for _, agg := range w.aggs {
		var filter *array.Boolean
		if agg.filter >= 0 {
			filter = args[agg.filter].(*array.Boolean)
			w.markBad(agg.name, failed[agg.filter], nil)
		}
		if agg.arg >= 0 {
			w.markBad(agg.name, failed[agg.arg], filter)
		}
	}
	slices.SortFunc(w.badRows, func(a, b windowBadRow) int { return a.row - b.row })
	return nil
}

func (w *windowBefore) markBad(name string, errs []expr.RowError, filter *array.Boolean) {
	for _, e := range errs {
		if w.marks[e.Row] != rowCounts || filter != nil && !(filter.IsValid(e.Row) && filter.Value(e.Row)) {
			continue
		}
		w.marks[e.Row] = rowBad
		w.badRows = append(w.badRows, windowBadRow{e.Row, dataflow.Bad{Reason: e.Bad.Reason, Detail: "aggregate " + name + ": " + e.Bad.Detail}})
	}
}

// accumulate fills the accumulators of the groups that find found.
func (w *windowBefore) accumulate(args []arrow.Array) {
	n := (w.groups.n + 1) * w.layout.stride
	w.rows = slices.Grow(w.rows[:0], n)[:n]
	clear(w.rows)
	for h := range w.heaps {
		w.heaps[h].reset()
	}
	for i, agg := range w.aggs {
		groups := w.group
		var arg arrow.Array
		if agg.filter >= 0 {
			groups = maskFilter(w.masked, groups, args[agg.filter].(*array.Boolean))
		}
		if agg.arg >= 0 {
			arg = args[agg.arg]
			groups = maskNulls(w.masked, groups, arg)
		}
		w.funcs[i].update(w.layout.column(i, w.rows, w.heaps), groups, arg)
	}
}

// maskNulls returns groups with the nulls of a in group 0, in dst if there are
// any. dst may be groups.
func maskNulls(dst, groups []uint32, a arrow.Array) []uint32 {
	if a.NullN() == 0 {
		return groups
	}
	valid, off := a.NullBitmapBytes(), a.Data().Offset()
	if len(valid) == 0 { // an array of type null
		clear(dst)
		return dst
	}
	for i, g := range groups {
		if !bitutil.BitIsSet(valid, off+i) {
			g = 0
		}
		dst[i] = g
	}
	return dst
}

// maskFilter returns groups, in dst, with the rows in group 0 where filter is
// not true.
func maskFilter(dst, groups []uint32, filter *array.Boolean) []uint32 {
	bits, off := filter.Data().Buffers()[1].Bytes(), filter.Data().Offset()
	for i, g := range groups {
		if !bitutil.BitIsSet(bits, off+i) {
			g = 0
		}
		dst[i] = g
	}
	return maskNulls(dst, dst, filter)
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
