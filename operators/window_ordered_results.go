package operators

import (
	"context"
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// orderedTiming says how a result stands to the end of its window. The numbers
// are part of the state's format.
type orderedTiming uint8

const (
	timingEarly orderedTiming = iota
	timingOnTime
	timingLate
)

var orderedTimings = [...]string{timingEarly: "early", timingOnTime: "on_time", timingLate: "late"}

// orderedResult is a row to be given.
type orderedResult struct {
	key        []byte
	start, end int64
	timing     orderedTiming
	acc        []uint64
	heaps      []accHeap
	stamp      int64
	op         dataflow.Op // only of a changelog
}

// orderedResults makes rows of results and sends them on in batches.
type orderedResults struct {
	*orderedShape
	env    *dataflow.Env
	layout *accLayout
	keys   *keyDecoder
	b      *array.RecordBuilder
	bad    *dataflow.BadRows
	ops    []uint8
	n      int
	failed []windowBadRow
}

func newOrderedResults(env *dataflow.Env, s *orderedShape, layout *accLayout) (*orderedResults, error) {
	keys, err := newKeyDecoder(s.groups.schema.Fields())
	if err != nil {
		return nil, err
	}
	return &orderedResults{
		orderedShape: s, env: env, layout: layout, keys: keys,
		b: array.NewRecordBuilder(env.Alloc, s.out), bad: dataflow.NewBadRows(env),
	}, nil
}

func (r *orderedResults) release() {
	r.b.Release()
	r.bad.Release()
}

// add appends a result; ok is false if one of its values does not fit its type:
// it will leave by "bad".
func (r *orderedResults) add(x *orderedResult) (ok bool, err error) {
	cols := r.b.Fields()
	rest, err := r.keys.append(x.key, cols[:len(r.by)])
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes too many", len(rest))
	}
	if err != nil {
		return false, fmt.Errorf("decode key %x: %w", x.key, err)
	}
	cols = cols[len(r.by):]
	if r.bounded {
		cols[0].(*array.TimestampBuilder).Append(arrow.Timestamp(x.start))
		cols[1].(*array.TimestampBuilder).Append(arrow.Timestamp(x.end))
		cols = cols[2:]
	}
	if r.updates {
		cols[0].(*array.StringBuilder).Append(orderedTimings[x.timing])
		cols = cols[1:]
	}
	ok = true
	for a := range r.aggs {
		bad := r.layout.result(a, cols[a], x.acc, x.heaps)
		if bad != nil && ok {
			bad.Detail = "aggregate " + r.aggs[a].name + ": " + bad.Detail
			r.failed = append(r.failed, windowBadRow{r.n, *bad})
			ok = false
		}
	}
	cols = cols[len(r.aggs):]
	cols[0].(*array.Int64Builder).Append(r.eventTime(x.end))
	cols[1].(*array.Int64Builder).Append(x.stamp)
	if r.changelog {
		r.ops = append(r.ops, uint8(x.op))
	}
	r.n++
	return ok, nil
}

// flush sends what was added. A row with a value that does not fit leaves by
// "bad"; it has no other fate than having been created.
func (r *orderedResults) flush(ctx context.Context, out dataflow.Emitter) error {
	if r.n == 0 {
		return nil
	}
	if r.changelog {
		r.b.Field(r.out.NumFields()-1).(*array.Uint8Builder).AppendValues(r.ops, nil)
	}
	batch := r.b.NewRecordBatch()
	r.env.Fates.Created.Add(int64(r.n))
	failed := r.failed
	r.n, r.ops, r.failed = 0, r.ops[:0], r.failed[:0]
	if len(failed) == 0 {
		return out.Emit(ctx, windowOut, batch)
	}
	defer batch.Release()
	next := 0
	for _, f := range failed {
		r.bad.AddRow(&f.bad, batch, f.row)
		if err := out.Emit(ctx, windowOut, batch.NewSlice(int64(next), int64(f.row))); err != nil {
			return err
		}
		next = f.row + 1
	}
	if err := out.Emit(ctx, windowOut, batch.NewSlice(int64(next), batch.NumRows())); err != nil {
		return err
	}
	return out.Emit(ctx, windowBad, r.bad.Flush())
}
