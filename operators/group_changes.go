package operators

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func durationOf(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

// groupChanges makes changes of the groups that changed.
type groupChanges struct {
	*groupShape
	env    *dataflow.Env
	layout *accLayout
	keys   *keyDecoder
	b      *array.RecordBuilder
	bad    *dataflow.BadRows
	// badPort is the port of results that do not fit.
	badPort int

	former      []uint64 // one row of accumulators, formerHeaps its bytes
	formerHeaps []accHeap
	enc         []byte
	pairs       []groupPair
	n           int // rows in b
	room        int // rows that the batch before had: as many are made room for
}

// groupPair is a change: where its rows stand in the batch, -1 for none.
type groupPair struct {
	before, after int
	// bad is why the row after has no value that fits.
	bad *dataflow.Bad
}

func newGroupChanges(env *dataflow.Env, s *groupShape, layout *accLayout) (*groupChanges, error) {
	keys, err := newKeyDecoder(s.by.schema.Fields())
	if err != nil {
		return nil, err
	}
	return &groupChanges{
		groupShape: s, env: env, layout: layout, keys: keys, b: array.NewRecordBuilder(env.Alloc, s.rows),
		bad: dataflow.NewBadRows(env), badPort: groupBad, former: make([]uint64, layout.stride), formerHeaps: layout.newHeaps(),
	}, nil
}

func (c *groupChanges) release() {
	c.b.Release()
	c.bad.Release()
}

// emit sends the changes of all dirty groups of o.
func (c *groupChanges) emit(ctx context.Context, o *groupKeyed, out dataflow.Emitter) error {
	err := o.table.Dirty(func(e state.Entry) error {
		if o.table.Row(e)[0]&groupDropped != 0 {
			return nil
		}
		if err := c.add(o, e); err != nil {
			return err
		}
		if c.n < windowResultRows {
			return nil
		}
		return c.flush(ctx, out)
	})
	if err != nil {
		return err
	}
	return c.flush(ctx, out)
}

// add appends the row of a group as it was and as it is.
func (c *groupChanges) add(o *groupKeyed, e state.Entry) error {
	p := groupPair{before: -1}
	key, row := o.table.Key(e), o.acc(e)
	if former := o.former(e); former != nil {
		c.enc = c.layout.encode(c.enc[:0], row, o.heaps)
		if c.sameAggregates(former, c.enc) {
			return nil
		}
		clear(c.former)
		for h := range c.formerHeaps {
			c.formerHeaps[h].reset()
		}
		if err := c.layout.merge(c.former, c.formerHeaps, former); err != nil {
			return fmt.Errorf("read the former row of a group: %w", err)
		}
		n := c.n
		bad, err := c.append(key, c.former, c.formerHeaps)
		if err != nil {
			return err
		}
		if bad == nil {
			p.before = n
		}
	}
	p.after = c.n
	var err error
	if p.bad, err = c.append(key, row, o.heaps); err != nil {
		return err
	}
	c.pairs = append(c.pairs, p)
	return nil
}

// sameAggregates compares encoded rows but for their times.
func (c *groupChanges) sameAggregates(a, b []byte) bool {
	end := 8 * c.layout.stride
	times := end - 8*4
	return bytes.Equal(a[:times], b[:times]) && bytes.Equal(a[end:], b[end:])
}

// append adds one row, also if a value does not fit.
func (c *groupChanges) append(key []byte, row []uint64, heaps []accHeap) (bad *dataflow.Bad, err error) {
	if c.n == 0 {
		c.b.Reserve(c.room)
	}
	c.n++
	cols := c.b.Fields()
	by := c.by.schema.NumFields()
	rest, err := c.keys.append(key, cols[:by])
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("decode key %x: %d bytes too many, %w", key, len(rest), err)
	}
	for i, b := range cols[by:] {
		if x := c.layout.result(i, b, row, heaps); x != nil && bad == nil {
			x.Detail = "aggregate " + c.set.aggs[i].name + ": " + x.Detail
			bad = x
		}
	}
	return bad, nil
}

// flush sends the rows so far.
func (c *groupChanges) flush(ctx context.Context, out dataflow.Emitter) error {
	if c.n == 0 {
		return nil
	}
	c.room = c.n
	batch := c.b.NewRecordBatch()
	defer batch.Release()
	var rows []int32
	var ops []uint8
	add := func(row int, op dataflow.Op) { rows, ops = append(rows, int32(row)), append(ops, uint8(op)) }
	for _, p := range c.pairs {
		switch {
		case p.bad != nil:
			c.bad.AddRow(p.bad, batch, p.after)
			if p.before >= 0 {
				add(p.before, dataflow.OpDelete)
			}
		case p.before < 0 && p.after < 0:
		case p.after < 0:
			add(p.before, dataflow.OpDelete)
		case p.before < 0:
			add(p.after, dataflow.OpInsert)
		case !sameRow(batch, p.before, p.after):
			add(p.before, dataflow.OpUpdateBefore)
			add(p.after, dataflow.OpUpdateAfter)
		}
	}
	c.pairs, c.n = c.pairs[:0], 0
	if c.bad.Len() > 0 {
		if err := out.Emit(ctx, c.badPort, c.bad.Flush()); err != nil {
			return err
		}
	}
	return emitChanges(ctx, c.env, c.out, batch, rows, ops, out)
}

// emitChanges sends the named rows of batch with their ops, as rows that the
// step created. schema is that of batch and the system column of changes.
func emitChanges(ctx context.Context, env *dataflow.Env, schema *arrow.Schema, batch arrow.RecordBatch, rows []int32, ops []uint8, out dataflow.Emitter) error {
	if len(rows) == 0 {
		return nil
	}
	env.Fates.Created.Add(int64(len(rows)))
	some, err := statelessTake(env, batch, rows)
	if err != nil {
		return err
	}
	defer some.Release()
	b := array.NewUint8Builder(env.Alloc)
	defer b.Release()
	b.AppendValues(ops, nil)
	op := b.NewArray()
	defer op.Release()
	return out.Emit(ctx, groupOut, array.NewRecordBatch(schema, append(some.Columns()[:len(some.Columns()):len(some.Columns())], op), int64(len(rows))))
}

// sameRow says whether two rows of a batch have the same values.
func sameRow(b arrow.RecordBatch, i, j int) bool {
	for _, c := range b.Columns() {
		if !sameValue(c, i, j) {
			return false
		}
	}
	return true
}

func sameValue(a arrow.Array, i, j int) bool {
	if a.IsNull(i) || a.IsNull(j) {
		return a.IsNull(i) && a.IsNull(j)
	}
	switch a := a.(type) {
	case *array.Int64:
		return a.Value(i) == a.Value(j)
	case *array.Decimal128:
		return a.Value(i) == a.Value(j)
	case *array.Float64: // NaN is equal to itself here.
		return math.Float64bits(a.Value(i)) == math.Float64bits(a.Value(j))
	case *array.String:
		return a.Value(i) == a.Value(j)
	}
	return array.SliceEqual(a, int64(i), int64(i+1), a, int64(j), int64(j+1))
}
