package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// topWindowJudge judges by windows: a row is late if the last of its windows had
// closed at its stamp. One that is late for its first windows only counts in the
// others, and is kept apart from the rows of its pane that count in all.
type topWindowJudge struct {
	*rowJudge
	shape  *topShape
	closed int64 // Env.Closed as the bound batch found it
	ids    []int64
	known  []topCell
	number map[topCell]int64
	partly []int32
}

// topCell is a pane and the end of the first of its windows that counts.
type topCell struct{ start, first int64 }

func newTopWindowJudge(env *dataflow.Env, s *topShape) *topWindowJudge {
	return &topWindowJudge{rowJudge: newRowJudge(env, s.input, s.late, 0), shape: s, number: map[topCell]int64{}}
}

func (j *topWindowJudge) verdicts() []rowMark { return j.marks }
func (j *topWindowJudge) cells() []int64      { return j.ids }

func (j *topWindowJudge) bounds(group []uint32, from, to []int64) {
	for i, g := range group {
		c := j.known[j.ids[i]]
		from[g], to[g] = c.start, c.first
	}
}

// due is when the window that ends at end closes.
func (s *topShape) due(end int64) int64 { return end + s.lateness }

func (j *topWindowJudge) bind(b arrow.RecordBatch) {
	j.times = b.Column(j.timeCol).(*array.Int64).Int64Values()
	j.stamps = b.Column(j.stampCol).(*array.Int64).Int64Values()
	n := len(j.times)
	j.marks, j.ids = slices.Grow(j.marks[:0], n)[:n], slices.Grow(j.ids[:0], n)[:n]
	clear(j.marks)
	j.lateRows, j.badRows, j.known, j.partly = j.lateRows[:0], j.badRows[:0], j.known[:0], j.partly[:0]
	clear(j.number)
	j.closed = int64(j.env.Closed.Get())
	w := j.shape.windows
	var lo, hi, due, id int64
	for i, t := range j.times {
		if t < lo || t >= hi {
			lo, hi = w.pane(t)
			first := w.first(lo)
			due, id = j.shape.due(first), j.cell(topCell{lo, first})
		}
		j.ids[i] = id
		behind := max(j.stamps[i], j.closed)
		switch {
		case due > behind:
		case j.shape.due(w.last(lo)) <= behind:
			j.marks[i] = rowLate
			j.lateRows = append(j.lateRows, int32(i))
		default:
			first := w.first(lo)
			for j.shape.due(first) <= behind {
				first = w.next(first)
			}
			j.ids[i] = j.cell(topCell{lo, first})
			j.partly = append(j.partly, int32(i))
		}
	}
}

func (j *topWindowJudge) cell(c topCell) int64 {
	id, ok := j.number[c]
	if !ok {
		id = int64(len(j.known))
		j.known = append(j.known, c)
		j.number[c] = id
	}
	return id
}

// emit counts all rows of b and sends the late and the bad ones.
func (j *topWindowJudge) emit(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	j.count(b)
	for _, i := range j.partly {
		if j.marks[i] == rowCounts {
			j.env.Fates.PartlyLate.Add(1)
		}
	}
	if len(j.lateRows) > 0 {
		if err := j.emitLateWindows(ctx, b, out); err != nil {
			return err
		}
	}
	return j.emitBad(ctx, b, out)
}

// emitLateWindows sends the late rows with the last of their windows.
func (j *topWindowJudge) emitLateWindows(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	rows, err := dataflow.TakeBatch(j.env.Alloc, b, j.lateRows)
	if err != nil {
		return fmt.Errorf("take late rows: %w", err)
	}
	defer rows.Release()
	users, w := j.shape.users, j.shape.windows
	added := array.NewRecordBuilder(j.env.Alloc, arrow.NewSchema(j.late.Fields()[users:users+4], nil))
	defer added.Release()
	start, end := added.Field(0).(*array.TimestampBuilder), added.Field(1).(*array.TimestampBuilder)
	watermark, lateness := added.Field(2).(*array.TimestampBuilder), added.Field(3).(*array.Int64Builder)
	for _, r := range j.lateRows {
		pane, _ := w.pane(j.times[r])
		last := w.last(pane)
		start.Append(arrow.Timestamp(w.start(last)))
		end.Append(arrow.Timestamp(last))
		if j.stamps[r] == int64(dataflow.MinTime) {
			watermark.AppendNull()
		} else {
			watermark.Append(arrow.Timestamp(j.stamps[r]))
		}
		lateness.Append(max(j.stamps[r], j.closed) - j.shape.due(last))
	}
	extra := added.NewRecordBatch()
	defer extra.Release()
	cols := slices.Concat(rows.Columns()[:users], extra.Columns(), rows.Columns()[users:])
	return out.Emit(ctx, groupLate, array.NewRecordBatch(j.late, cols, rows.NumRows()))
}
