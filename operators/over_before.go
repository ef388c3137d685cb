package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// overBefore is the half of over in front of the exchange: it takes late and bad
// rows out and adds the key of the partition. It holds nothing between batches.
type overBefore struct {
	*overShape
	env   *dataflow.Env
	judge *rowJudge
	keys  *byFeed
	feed  *aggregateFeed
	stay  []int32 // the rows that go on
}

func newOverBefore(env *dataflow.Env, s *overShape) (*overBefore, error) {
	keys, err := s.by.newFeed(env)
	if err != nil {
		return nil, err
	}
	judge := newRowJudge(env, s.input, s.late, 0)
	judge.grace = 1 // A row at its stamp is in time.
	return &overBefore{overShape: s, env: env, judge: judge, keys: keys, feed: s.set.newFeed(env)}, nil
}

// Process implements dataflow.Operator.
func (o *overBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	o.judge.closed = int64(o.env.Closed.Get())
	o.judge.bind(b)
	defer o.keys.unbind()
	defer o.feed.unbind()
	if err := o.keys.bind(b); err != nil {
		return err
	}
	// The other half computes them again: here only who has a value matters.
	if err := o.feed.bind(b); err != nil {
		return err
	}
	o.keys.failures(o.judge.failed)
	o.feed.failures(o.judge.failed)
	if err := o.emitOthers(ctx, b, out); err != nil {
		return err
	}
	o.stay = o.stay[:0]
	for i, m := range o.judge.marks {
		if m == rowCounts {
			o.stay = append(o.stay, int32(i))
		}
	}
	if len(o.stay) == 0 {
		return nil
	}
	rows, err := o.exchanged(b)
	if err != nil {
		return fmt.Errorf("take rows: %w", err)
	}
	return out.Emit(ctx, groupOut, rows)
}

// emitOthers sends and counts late and bad rows.
func (o *overBefore) emitOthers(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	o.env.Fates.Late.Add(int64(len(o.judge.lateRows)))
	o.env.Fates.Bad.Add(int64(len(o.judge.badRows)))
	if len(o.judge.lateRows) > 0 {
		if err := o.judge.emitLate(ctx, b, out); err != nil {
			return err
		}
	}
	return o.judge.emitBad(ctx, b, out)
}

// exchanged makes the batch for the other half, of the rows that stay.
func (o *overBefore) exchanged(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	rows := b
	if len(o.stay) < int(b.NumRows()) {
		var err error
		if rows, err = dataflow.TakeBatch(o.env.Alloc, b, o.stay); err != nil {
			return nil, err
		}
		defer rows.Release()
	}
	key, hash := o.keys.enc.columns(o.env.Alloc, o.stay)
	defer key.Release()
	defer hash.Release()
	return array.NewRecordBatch(o.exchange, slices.Concat(rows.Columns(), []arrow.Array{key, hash}), int64(len(o.stay))), nil
}

// Close implements dataflow.Operator.
func (o *overBefore) Close() error {
	o.judge.release()
	return nil
}

var _ dataflow.Operator = (*overBefore)(nil)
