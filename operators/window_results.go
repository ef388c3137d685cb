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

// windowResultRows bounds a batch of results.
const windowResultRows = 8192

// windowResults makes rows of the accumulators of fired windows.
type windowResults struct {
	*windowShape
	env    *dataflow.Env
	layout *accLayout
	keys   *keyDecoder
	b      *array.RecordBuilder
	bad    *dataflow.BadRows
	sorter windowSorter
	failed []windowBadRow
	rows   [][]uint64
	// sums are the accumulators of distinct values of the window that fires, nil
	// without any; union is for windows of several panes.
	sums  *distinctSums
	union *distinctTable
}

// windowFired is a window that gives its results.
type windowFired struct {
	start, end int64
	// entries are those of table that have a result, in their order; of them src
	// has the accumulators.
	entries []windowEntry
	table   *state.Table
	heaps   []accHeap
	src     windowRows
	panes   []*windowPane
}

// windowRows has the accumulators of entries.
type windowRows interface {
	// rows appends them to dst. They are valid until done.
	rows(dst [][]uint64, entries []windowEntry) [][]uint64
	done()
}

func newWindowResults(env *dataflow.Env, s *windowShape, layout *accLayout) (*windowResults, error) {
	keys, err := newKeyDecoder(s.groups.schema.Fields())
	if err != nil {
		return nil, err
	}
	return &windowResults{
		windowShape: s, env: env, layout: layout, keys: keys,
		b: array.NewRecordBuilder(env.Alloc, s.out), bad: dataflow.NewBadRows(env),
		sums: s.newDistinctSums(layout), union: s.newDistinctTable(),
	}, nil
}

func (r *windowResults) release() {
	r.b.Release()
	r.bad.Release()
	if r.sums != nil {
		r.sums.release()
	}
}

// pane sends the rows of a window that is one pane.
func (r *windowResults) pane(ctx context.Context, p *windowPane, out dataflow.Emitter) error {
	return r.emit(ctx, windowFired{p.start, p.first, r.sorter.sort(p.table), p.table, p.heaps, p, []*windowPane{p}}, out)
}

// emit sends the rows of a window in the order of their keys' bytes.
func (r *windowResults) emit(ctx context.Context, f windowFired, out dataflow.Emitter) error {
	if err := r.sumDistinct(f.panes); err != nil {
		return err
	}
	rest := f.entries
	r.env.Fates.Created.Add(int64(len(rest)))
	for len(rest) > 0 {
		n := min(len(rest), windowResultRows)
		batch, err := r.batch(&f, rest[:n])
		f.src.done()
		if err != nil {
			return err
		}
		rest = rest[n:]
		if len(r.failed) == 0 {
			err = out.Emit(ctx, windowOut, batch)
		} else {
			err = r.emitParts(ctx, batch, out)
			batch.Release()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sumDistinct makes sums of the distinct values of panes.
func (r *windowResults) sumDistinct(panes []*windowPane) error {
	if r.sums == nil {
		return nil
	}
	r.sums.reset()
	if len(panes) == 1 {
		return panes[0].distinct.sums(r.sums)
	}
	r.union.reset()
	for _, p := range panes {
		r.union.union(p.distinct)
	}
	return r.union.sums(r.sums)
}

// batch makes the rows of some entries. failed then lists the rows with a value
// that does not fit its type.
func (r *windowResults) batch(f *windowFired, entries []windowEntry) (arrow.RecordBatch, error) {
	r.failed = r.failed[:0]
	r.b.Reserve(len(entries))
	cols := r.b.Fields()
	by := cols[:len(r.by)]
	for _, e := range entries {
		key := f.table.Key(e.entry)
		rest, err := r.keys.append(key, by)
		if err != nil {
			return nil, fmt.Errorf("decode key %x: %w", key, err)
		}
		if len(rest) > 0 {
			return nil, fmt.Errorf("decode key %x: %d bytes too many", key, len(rest))
		}
	}
	// The moment that time makes a row at is due - 1us, and the step holds its
	// watermark back by the allowed lateness: its stamp is due - 1us - Delay.
	stamp := f.end - 1
	cols = cols[len(r.by):]
	if r.bounded {
		start, ends := cols[0].(*array.TimestampBuilder), cols[1].(*array.TimestampBuilder)
		for range entries {
			start.UnsafeAppend(arrow.Timestamp(f.start))
			ends.UnsafeAppend(arrow.Timestamp(f.end))
		}
		cols = cols[2:]
	}
	aggs, sys := cols[:len(r.aggs)], cols[len(r.aggs):]
	times, stamps := sys[0].(*array.Int64Builder), sys[1].(*array.Int64Builder)
	for range entries {
		times.UnsafeAppend(f.end - 1)
		stamps.UnsafeAppend(stamp)
	}
	r.rows = f.src.rows(r.rows[:0], entries)
	for a, b := range aggs {
		for i, row := range r.rows {
			heaps := f.heaps
			if r.aggs[a].distinct {
				e := entries[i].entry
				row, heaps = r.sums.row(f.table.Hash(e), f.table.Key(e)), r.sums.heaps
			}
			if bad := r.layout.result(a, b, row, heaps); bad != nil {
				bad.Detail = "aggregate " + r.aggs[a].name + ": " + bad.Detail
				r.failed = append(r.failed, windowBadRow{i, *bad})
			}
		}
	}
	return r.b.NewRecordBatch(), nil
}

// emitParts sends failed rows to "bad", each with its first reason, and the
// others on. A failed row has no other fate than having been created.
func (r *windowResults) emitParts(ctx context.Context, batch arrow.RecordBatch, out dataflow.Emitter) error {
	slices.SortStableFunc(r.failed, func(a, b windowBadRow) int { return a.row - b.row })
	next := 0
	for _, f := range r.failed {
		if f.row < next {
			continue
		}
		r.bad.AddRow(&f.bad, batch, f.row)
		if next < f.row {
			if err := out.Emit(ctx, windowOut, batch.NewSlice(int64(next), int64(f.row))); err != nil {
				return err
			}
		}
		next = f.row + 1
	}
	if n := int(batch.NumRows()); next < n {
		if err := out.Emit(ctx, windowOut, batch.NewSlice(int64(next), int64(n))); err != nil {
			return err
		}
	}
	return out.Emit(ctx, windowBad, r.bad.Flush())
}
