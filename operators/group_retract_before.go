package operators

import (
	"context"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// groupRetractBefore is the half of a group over a changelog in front of the
// exchange: it finds the group of each change, and what the aggregates read of it.
type groupRetractBefore struct {
	*groupRetractShape
	env  *dataflow.Env
	keys *byFeed
	feed *aggregateFeed
	ids  *keyEncoder
	row  rowEncoder
	op   int
	bad  *dataflow.BadRows

	failed  []bool
	badRows []windowBadRow
	one     uint64 // the hash of everything if one task has all rows
	buf     []byte
	nulls   []byte
}

func newGroupRetractBefore(env *dataflow.Env, s *groupRetractShape) (*groupRetractBefore, error) {
	keys, err := s.by.newFeed(env)
	if err != nil {
		return nil, err
	}
	ids, err := newKeyEncoder(s.input, s.id)
	if err != nil {
		return nil, err
	}
	return &groupRetractBefore{
		groupRetractShape: s, env: env, keys: keys, feed: s.set.newFeed(env), ids: ids,
		op: dataflow.Column(s.input, dataflow.SysOp), bad: dataflow.NewBadRows(env), one: keyHash(nil),
	}, nil
}

// Process implements dataflow.Operator.
func (o *groupRetractBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	defer o.keys.unbind()
	defer o.feed.unbind()
	if err := o.keys.bind(b); err != nil {
		return err
	}
	if err := o.feed.bind(b); err != nil {
		return err
	}
	o.ids.bind(b)
	ops := b.Column(o.op).(*array.Uint8).Uint8Values()
	o.judge(len(ops))
	changes := o.changes(ops)
	bad := o.takeBad(b, ops)
	o.env.Fates.Bad.Add(int64(o.bad.Len()))
	o.env.Fates.Absorbed.Add(b.NumRows() - int64(o.bad.Len()))
	if bad {
		if err := out.Emit(ctx, retractBad, o.bad.Flush()); err != nil {
			changes.Release()
			return err
		}
	}
	return out.Emit(ctx, groupOut, changes)
}

// judge finds the rows that no group can take in.
func (o *groupRetractBefore) judge(n int) {
	o.failed = slices.Grow(o.failed[:0], n)[:n]
	clear(o.failed)
	o.badRows = o.badRows[:0]
	note := func(row int, bad dataflow.Bad) {
		if !o.failed[row] {
			o.failed[row] = true
			o.badRows = append(o.badRows, windowBadRow{row, bad})
		}
	}
	o.keys.failures(note)
	o.feed.failures(note)
}

// takeBad takes the bad rows that a change puts. What takes one away is not bad
// again: it has been left out then as well.
func (o *groupRetractBefore) takeBad(b arrow.RecordBatch, ops []uint8) bool {
	slices.SortFunc(o.badRows, func(a, b windowBadRow) int { return a.row - b.row })
	for _, r := range o.badRows {
		if dataflow.Op(ops[r.row]).Puts() {
			o.bad.AddRow(&r.bad, b, r.row)
		}
	}
	return o.bad.Len() > 0
}

// changes returns one row per change in the schema of the exchange.
func (o *groupRetractBefore) changes(ops []uint8) arrow.RecordBatch {
	o.bindRow(len(ops))
	b := array.NewRecordBuilder(o.env.Alloc, retractExchange)
	defer b.Release()
	b.Reserve(len(ops))
	hash, op := b.Field(retractHash).(*array.Uint64Builder), b.Field(retractOp).(*array.Uint8Builder)
	key, id, row := b.Field(retractKey).(*array.BinaryBuilder), b.Field(retractID).(*array.BinaryBuilder), b.Field(retractRow).(*array.BinaryBuilder)
	for i, what := range ops {
		puts := dataflow.Op(what).Puts()
		if o.failed[i] {
			if !o.forgets {
				continue
			}
			// It may take the place of a row that was good.
			what, puts = uint8(dataflow.OpDelete), false
		}
		o.buf = o.keys.enc.append(o.buf[:0], i)
		key.Append(o.buf)
		if o.oneTask {
			hash.Append(o.one)
		} else {
			hash.Append(keyHash(o.buf))
		}
		o.buf = o.ids.append(o.buf[:0], i)
		id.Append(o.buf)
		op.Append(what)
		o.buf = o.buf[:0]
		if puts || !o.rowKept {
			o.buf = o.row.append(o.buf, i)
		}
		row.Append(o.buf)
	}
	return b.NewRecordBatch()
}

// bindRow makes the arguments of the aggregates what row reads.
func (o *groupRetractBefore) bindRow(n int) {
	o.row.cols = o.row.cols[:0]
	for _, a := range o.feed.args {
		if _, ok := a.(*array.Null); ok {
			o.nulls = slices.Grow(o.nulls[:0], n/8+1)[:n/8+1]
			clear(o.nulls)
			o.row.cols = append(o.row.cols, rowColumn{valid: o.nulls})
			continue
		}
		o.row.cols = append(o.row.cols, newRowColumn(a))
	}
}

// Close implements dataflow.Operator.
func (o *groupRetractBefore) Close() error {
	o.bad.Release()
	return nil
}

var _ dataflow.Operator = (*groupRetractBefore)(nil)
