package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"

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
}

func newWindowResults(env *dataflow.Env, s *windowShape, layout *accLayout) (*windowResults, error) {
	keys, err := newKeyDecoder(s.out.Fields()[:len(s.by)])
	if err != nil {
		return nil, err
	}
	return &windowResults{
		windowShape: s, env: env, layout: layout, keys: keys,
		b: array.NewRecordBuilder(env.Alloc, s.out), bad: dataflow.NewBadRows(env),
	}, nil
}

func (r *windowResults) release() {
	r.b.Release()
	r.bad.Release()
}

// emit sends the rows of a window in the order of their keys' bytes.
func (r *windowResults) emit(ctx context.Context, o *openWindow, out dataflow.Emitter) error {
	rest := r.sorter.sort(o.table)
	r.env.Fates.Created.Add(int64(len(rest)))
	for len(rest) > 0 {
		n := min(len(rest), windowResultRows)
		batch, err := r.batch(o, rest[:n])
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

// batch makes the rows of some entries. failed then lists the rows with a value
// that does not fit its type.
func (r *windowResults) batch(o *openWindow, entries []windowEntry) (arrow.RecordBatch, error) {
	r.failed = r.failed[:0]
	r.b.Reserve(len(entries))
	cols := r.b.Fields()
	by := cols[:len(r.by)]
	for _, e := range entries {
		key := o.table.Key(e.entry)
		rest, err := r.keys.append(key, by)
		if err != nil {
			return nil, fmt.Errorf("decode key %x: %w", key, err)
		}
		if len(rest) > 0 {
			return nil, fmt.Errorf("decode key %x: %d bytes too many", key, len(rest))
		}
	}
	end := r.windows.end(o.start)
	// The moment that time makes a row at is due - 1us, and the step holds its
	// watermark back by the allowed lateness: its stamp is due - 1us - Delay.
	stamp := end - 1
	cols = cols[len(r.by):]
	start, ends := cols[0].(*array.TimestampBuilder), cols[1].(*array.TimestampBuilder)
	aggs, sys := cols[2:2+len(r.aggs)], cols[2+len(r.aggs):]
	times, stamps := sys[0].(*array.Int64Builder), sys[1].(*array.Int64Builder)
	for range entries {
		start.UnsafeAppend(arrow.Timestamp(o.start))
		ends.UnsafeAppend(arrow.Timestamp(end))
		times.UnsafeAppend(end - 1)
		stamps.UnsafeAppend(stamp)
	}
	for a, b := range aggs {
		for i, e := range entries {
			if bad := r.layout.result(a, b, o.table.Row(e.entry), o.heaps); bad != nil {
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
