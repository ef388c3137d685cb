package operators

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The state of a group over a changelog are entries of the KV under these prefixes.
// The bytes are a format (docs/state-format.md):
//
//	group  'G', canonical key of the group: 0x01, uvarint of the length, the sums
//	       (see accLayout) with the number of rows as the last word, the other
//	       accumulators
//	row    'R', uvarint of the length, canonical key of the group, that of the
//	       input: what the aggregates read (see rowEncoder)
//	index  'I', canonical key of the input: that of the group; only if one task has
//	       all rows
const (
	retractGroupPrefix = 'G'
	retractRowPrefix   = 'R'
	retractIndexPrefix = 'I'

	retractStateVersion = 1
)

// groupRetract is the half of a group over a changelog behind the exchange. In
// memory are the groups that changed since the last barrier, no others.
type groupRetract struct {
	*groupRetractShape
	env    *dataflow.Env
	layout *accLayout
	// table has per group a word of its former value (1 + its place in formers, 0:
	// none), one of its number in the batch (0: not in it), the sums.
	table   *state.Table
	formers []byte
	again   *retractRows // nil if there are only sums
	changes *retractChanges

	// Of the batch: the groups it touches, and what is added to and taken from them:
	// group number n has 2n-1 for the one and 2n for the other.
	touched []state.Entry
	feed    *aggregateFeed
	args    []array.Builder
	sides   []uint32
	rows    []uint64

	chunk []state.Entry
	buf   []byte
	key   []byte
}

// retractChunk is how many changes, and how many groups, are computed at once.
const retractChunk = 4096

func newGroupRetract(env *dataflow.Env, s *groupRetractShape) (*groupRetract, error) {
	layout := s.sumLayout()
	o := &groupRetract{
		groupRetractShape: s, env: env, layout: layout, table: state.NewTable(2 + layout.stride), feed: s.sums.newFeed(env),
	}
	for _, e := range s.set.exprs {
		o.args = append(o.args, array.NewBuilder(env.Alloc, e.Type()))
	}
	if len(s.kept.aggs) > 0 {
		o.again = newRetractRows(env, s)
	}
	var err error
	o.changes, err = newRetractChanges(env, s, layout)
	return o, err
}

// group is the key group of a group.
func (o *groupRetract) group(hash uint64) int {
	if o.oneTask {
		hash = keyHash(nil)
	}
	return state.GroupOf(hash)
}

func (o *groupRetract) acc(e state.Entry) []uint64 { return o.table.Row(e)[2:] }

// rowCount is how many rows accumulators stand for.
func (o *groupRetract) rowCount(acc []uint64) int64 { return int64(acc[o.layout.stride-1]) }

// Process implements dataflow.Operator.
func (o *groupRetract) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	keys, ids, rows := b.Column(retractKey).(*array.Binary), b.Column(retractID).(*array.Binary), b.Column(retractRow).(*array.Binary)
	ops := b.Column(retractOp).(*array.Uint8).Uint8Values()
	for i := range ops {
		op, key, id := dataflow.Op(ops[i]), keys.Value(i), ids.Value(i)
		if o.rowKept && !op.Puts() && i+1 < len(ops) && dataflow.Op(ops[i+1]) == dataflow.OpUpdateAfter &&
			bytes.Equal(id, ids.Value(i+1)) && bytes.Equal(key, keys.Value(i+1)) {
			continue // The next one takes its place.
		}
		if err := o.apply(op, key, id, rows.Value(i)); err != nil {
			return fmt.Errorf("take in a change: %w", err)
		}
		if len(o.sides) >= retractChunk {
			if err := o.settle(); err != nil {
				return err
			}
		}
	}
	return o.settle()
}

// apply takes in one change.
func (o *groupRetract) apply(op dataflow.Op, key, id, row []byte) error {
	switch {
	case !o.rowKept:
		return o.count(key, row, op.Puts())
	case o.oneTask:
		return o.applyByID(op, key, id, row)
	case !op.Puts():
		return o.takeRow(key, id)
	case op == dataflow.OpInsert && !o.forgets:
		return o.putRow(key, id, row, nil, false)
	}
	old, err := o.get(o.rowKey(key, id))
	if err != nil {
		return err
	}
	return o.putRow(key, id, row, old, old != nil)
}

// applyByID is apply where the row may take the place of one of another group.
func (o *groupRetract) applyByID(op dataflow.Op, key, id, row []byte) error {
	at := append([]byte{retractIndexPrefix}, id...)
	was, err := o.get(at)
	if err != nil {
		return err
	}
	same := was != nil && op.Puts() && bytes.Equal(was, key)
	if was != nil && !same {
		if err := o.takeRow(was, id); err != nil {
			return err
		}
		if err := o.env.State.Delete(o.group(0), at); err != nil {
			return err
		}
	}
	if !op.Puts() {
		return nil
	}
	var old []byte
	if same {
		if old, err = o.get(o.rowKey(key, id)); err != nil {
			return err
		}
	} else if err := o.env.State.Set(o.group(0), at, key); err != nil {
		return err
	}
	return o.putRow(key, id, row, old, same)
}

// get reads an entry, in the key group of the last key that rowKey was asked for or
// of all; it returns nil if there is none.
func (o *groupRetract) get(key []byte) ([]byte, error) {
	hash := uint64(0)
	if key[0] == retractRowPrefix {
		n, w := binary.Uvarint(key[1:])
		hash = keyHash(key[1+w : 1+w+int(n)])
	}
	v, err := o.env.State.Get(o.group(hash), key)
	if errors.Is(err, state.ErrNotFound) {
		return nil, nil
	}
	if v == nil && err == nil {
		v = []byte{}
	}
	return v, err
}

// rowKey is valid until the next call.
func (o *groupRetract) rowKey(key, id []byte) []byte {
	o.key = append(o.key[:0], retractRowPrefix)
	o.key = binary.AppendUvarint(o.key, uint64(len(key)))
	o.key = append(append(o.key, key...), id...)
	return o.key
}

// takeRow takes a row away, if it is there.
func (o *groupRetract) takeRow(key, id []byte) error {
	old, err := o.get(o.rowKey(key, id))
	if err != nil || old == nil {
		return err
	}
	if err := o.count(key, old, false); err != nil {
		return err
	}
	return o.env.State.Delete(o.group(keyHash(key)), o.rowKey(key, id))
}

// putRow puts a row in the place of old, if that was there.
func (o *groupRetract) putRow(key, id, row, old []byte, there bool) error {
	if there {
		if bytes.Equal(old, row) {
			return nil
		}
		if err := o.count(key, old, false); err != nil {
			return err
		}
	}
	if err := o.count(key, row, true); err != nil {
		return err
	}
	return o.env.State.Set(o.group(keyHash(key)), o.rowKey(key, id), row)
}

// count notes a row to be added to or taken from a group.
func (o *groupRetract) count(key, row []byte, add bool) error {
	e, err := o.touch(key)
	if err != nil {
		return err
	}
	side := 2 * uint32(o.table.Row(e)[1])
	if add {
		side--
	}
	o.sides = append(o.sides, side)
	return decodeRow(row, o.args)
}

// touch returns the entry of a group, with a number in the batch.
func (o *groupRetract) touch(key []byte) (state.Entry, error) {
	hash := keyHash(key)
	e, fresh := o.table.Upsert(hash, key)
	if fresh {
		if err := o.load(e); err != nil {
			return 0, fmt.Errorf("group %x: %w", key, err)
		}
	}
	if n := &o.table.Row(e)[1]; *n == 0 {
		o.touched = append(o.touched, e)
		*n = uint64(len(o.touched))
	}
	return e, nil
}

// load reads a group that has not changed since the last barrier.
func (o *groupRetract) load(e state.Entry) error {
	value, err := o.env.State.Get(o.group(o.table.Hash(e)), o.groupKey(e))
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	sums, _, err := cutRetractState(value)
	if err != nil {
		return err
	}
	o.table.Row(e)[0] = uint64(len(o.formers) + 1)
	o.formers = binary.AppendUvarint(o.formers, uint64(len(value)))
	o.formers = append(o.formers, value...)
	return o.layout.merge(o.acc(e), nil, sums)
}

func (o *groupRetract) groupKey(e state.Entry) []byte {
	o.key = append(append(o.key[:0], retractGroupPrefix), o.table.Key(e)...)
	return o.key
}

// cutRetractState takes the entry of a group apart.
func cutRetractState(value []byte) (sums, kept []byte, err error) {
	if len(value) == 0 || value[0] != retractStateVersion {
		return nil, nil, fmt.Errorf("the entry %x is not of version %d", value[:min(1, len(value))], retractStateVersion)
	}
	return cutSized(value[1:])
}

// former is the value of a group at the last barrier, nil without one.
func (o *groupRetract) former(e state.Entry) []byte {
	at := o.table.Row(e)[0]
	if at == 0 {
		return nil
	}
	n, w := binary.Uvarint(o.formers[at-1:])
	from := int(at) - 1 + w
	return o.formers[from : from+int(n)]
}

// settle brings the changes of the batch into the sums.
func (o *groupRetract) settle() error {
	if len(o.touched) == 0 {
		return nil
	}
	args := make([]arrow.Array, len(o.args))
	for i, b := range o.args {
		args[i] = b.NewArray()
		defer args[i].Release()
	}
	size := (2*len(o.touched) + 1) * o.layout.stride
	o.rows = slices.Grow(o.rows[:0], size)[:size]
	clear(o.rows)
	o.feed.bindArgs(args, nil)
	o.feed.update(o.layout, o.rows, nil, o.sides)
	o.feed.unbind()
	countFunc{}.update(o.layout.column(len(o.sums.funcs), o.rows, nil), o.sides, nil)
	for i, e := range o.touched {
		acc, at := o.acc(e), (2*i+1)*o.layout.stride
		plus, minus := o.rows[at:at+o.layout.stride], o.rows[at+o.layout.stride:at+2*o.layout.stride]
		for f, fn := range o.layout.funcs {
			off := o.layout.offs[f]
			fn.merge(acc[off:], plus[off:])
			fn.(invertibleAggregate).negate(minus[off:])
			fn.merge(acc[off:], minus[off:])
		}
		o.table.Row(e)[1] = 0
	}
	o.touched, o.sides = o.touched[:0], o.sides[:0]
	return nil
}

// OnBarrier implements dataflow.BarrierHandler: it gives the changes since the last
// barrier and writes what changed.
func (o *groupRetract) OnBarrier(ctx context.Context, _ dataflow.Epoch, out dataflow.Emitter) error {
	for i := 0; i < o.table.Len(); i += retractChunk {
		o.chunk = o.chunk[:0]
		for j := i; j < min(i+retractChunk, o.table.Len()); j++ {
			o.chunk = append(o.chunk, o.table.At(j))
		}
		if err := o.give(); err != nil {
			return err
		}
		if err := o.changes.flush(ctx, out); err != nil {
			return err
		}
	}
	o.table.Reset()
	o.formers = o.formers[:0]
	return nil
}

// give writes the groups of the chunk, and their changes.
func (o *groupRetract) give() error {
	if o.again != nil {
		if err := o.again.compute(o); err != nil {
			return fmt.Errorf("read the rows of groups: %w", err)
		}
	}
	for i, e := range o.chunk {
		former, acc := o.former(e), o.acc(e)
		group := o.group(o.table.Hash(e))
		if o.rowCount(acc) == 0 {
			if former == nil {
				continue
			}
			if err := o.env.State.Delete(group, o.groupKey(e)); err != nil {
				return err
			}
			if err := o.changes.add(o.table.Key(e), former, nil); err != nil {
				return err
			}
			continue
		}
		o.buf = append(o.buf[:0], retractStateVersion)
		o.buf = appendSized(o.buf, func(dst []byte) []byte { return o.layout.encode(dst, acc, nil) })
		if o.again != nil {
			o.buf = o.again.layout.encode(o.buf, o.again.row(i), o.again.heaps)
		}
		if bytes.Equal(o.buf, former) {
			continue
		}
		if err := o.env.State.Set(group, o.groupKey(e), o.buf); err != nil {
			return err
		}
		if err := o.changes.add(o.table.Key(e), former, o.buf); err != nil {
			return err
		}
	}
	return nil
}

// UnwrittenBytes implements dataflow.Unwritten.
func (o *groupRetract) UnwrittenBytes() int64 {
	return int64(len(o.formers)) + int64(o.table.Len())*int64(8*(2+o.layout.stride)+64)
}

// Close implements dataflow.Operator.
func (o *groupRetract) Close() error {
	for _, b := range o.args {
		b.Release()
	}
	o.changes.release()
	if o.again != nil {
		o.again.release()
	}
	return nil
}

var (
	_ dataflow.Operator       = (*groupRetract)(nil)
	_ dataflow.BarrierHandler = (*groupRetract)(nil)
	_ dataflow.Unwritten      = (*groupRetract)(nil)
)
