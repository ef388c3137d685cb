package operators

import (
	"context"
	"encoding/binary"
	"fmt"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The state of a top over a changelog is one value per row of the input's table in
// a keyLog. The bytes are a format (docs/state-format.md):
//
//	key   = uvarint of the length and the canonical key of the group, the canonical
//	        key of the row in the input; the first is empty where one task has all
//	        rows
//	value = 0x01, uvarint of the length and the key of the group where one task has
//	        all rows (else empty), the item (see topWire)
const (
	topUpdatesPrefix  = 'r'
	topUpdatesVersion = 1
)

// topUpdatesKeyed is the half of a top over a changelog behind the exchange. It
// keeps all rows of each group, and the first ones of them in order; at each
// barrier it gives the changes of the first rows.
type topUpdatesKeyed struct {
	*topShape
	env   *dataflow.Env
	table topRowTable
	// dirty are the groups that changed since the last barrier; formers are their
	// first rows as they were.
	dirty   []uint32
	formers []topItem
	shown   []topItem // of one group, at a barrier
	live    [state.NumGroups]int
	log     *keyLog
	changes *topChanges
	key     []byte // of the row at hand in the table
	buf     []byte
}

func newTopUpdates(env *dataflow.Env, s *topShape) (*topUpdatesKeyed, error) {
	o := &topUpdatesKeyed{topShape: s, env: env, changes: newTopChanges(env, s)}
	o.table.init(s.limit)
	var err error
	if o.log, err = openKeyLog(env, topUpdatesPrefix, o.load); err != nil {
		o.changes.release()
		return nil, fmt.Errorf("restore rows: %w", err)
	}
	for _, g := range o.dirty {
		o.table.refill(g)
		o.table.groups[g].dirty = false
		o.table.dropEmpty(g)
	}
	o.dirty, o.formers = o.dirty[:0], o.formers[:0]
	o.table.settle()
	return o, nil
}

// load takes in one row of the log.
func (o *topUpdatesKeyed) load(_ int, key, value []byte) error {
	group, id, err := cutSized(key)
	if err != nil {
		return fmt.Errorf("row %x: %w", key, err)
	}
	if len(value) == 0 {
		o.remove(group, id)
		return nil
	}
	if value[0] != topUpdatesVersion {
		return fmt.Errorf("row %x has version %d, this program knows %d", key, value[0], topUpdatesVersion)
	}
	of, item, err := cutSized(value[1:])
	if err != nil {
		return fmt.Errorf("row %x: %w", key, err)
	}
	if o.updates.oneTask {
		group = of
	}
	w, rest, err := cutTopWire(item)
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("row %x: an item with %d bytes behind it: %w", key, len(rest), err)
	}
	o.table.setStored(o.put(keyHash(group), group, id, &w))
	return nil
}

// rowKey makes o.key that of a row in the table, and returns its hash: its top
// bits are the key group's.
func (o *topUpdatesKeyed) rowKey(group, id []byte) (hash uint64) {
	if o.updates.oneTask {
		group = nil
	}
	o.key = binary.AppendUvarint(o.key[:0], uint64(len(group)))
	o.key = append(append(o.key, group...), id...)
	return keyHash(o.key)>>8 | uint64(state.GroupOf(keyHash(group)))<<56
}

// Process implements dataflow.Operator.
func (o *topUpdatesKeyed) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	keys, ids, items := b.Column(1).(*array.Binary), b.Column(2).(*array.Binary), b.Column(3).(*array.Binary)
	for i := range int(b.NumRows()) {
		item := items.Value(i)
		if len(item) == 0 {
			o.remove(keys.Value(i), ids.Value(i))
			continue
		}
		w, rest, err := cutTopWire(item)
		if err != nil || len(rest) > 0 {
			return fmt.Errorf("take in the changes of a batch: an item with %d bytes behind it: %w", len(rest), err)
		}
		key := keys.Value(i)
		o.put(keyHash(key), key, ids.Value(i), &w)
	}
	return nil
}

// put puts a row into a group, in the place of the one with its id.
func (o *topUpdatesKeyed) put(groupHash uint64, group, id []byte, w *topWire) state.Entry {
	hash := o.rowKey(group, id)
	g := o.table.group(groupHash, group)
	e, fresh := o.table.rows.Upsert(hash, o.key)
	if fresh || !o.table.has(e) {
		o.live[state.GroupOf(hash)]++
	} else {
		o.touch(o.table.groupOf(e))
		o.table.take(e)
	}
	o.touch(g)
	o.table.put(g, e, fresh, w)
	return e
}

// remove takes a row away, if it is there.
func (o *topUpdatesKeyed) remove(group, id []byte) {
	hash := o.rowKey(group, id)
	e, ok := o.table.rows.Find(hash, o.key)
	if !ok || !o.table.has(e) {
		return
	}
	o.table.rows.Upsert(hash, o.key) // It is dirty now.
	o.live[state.GroupOf(hash)]--
	o.touch(o.table.groupOf(e))
	o.table.take(e)
}

// touch copies the first rows of a group as they are at the first change after a
// barrier.
func (o *topUpdatesKeyed) touch(g uint32) {
	x := &o.table.groups[g]
	if x.dirty {
		return
	}
	x.dirty, x.former = true, len(o.formers)
	o.formers = o.table.first(o.formers, x)
	x.formers = len(o.formers) - x.former
	o.dirty = append(o.dirty, g)
}

// OnBarrier implements dataflow.BarrierHandler: it gives the changes since the last
// barrier and writes what changed.
func (o *topUpdatesKeyed) OnBarrier(ctx context.Context, _ dataflow.Epoch, out dataflow.Emitter) error {
	for _, g := range o.dirty {
		o.table.refill(g)
		x := &o.table.groups[g]
		o.shown = o.table.first(o.shown[:0], x)
		was := o.formers[x.former : x.former+x.formers]
		if err := o.changes.compare(ctx, &o.table.lists, was, o.shown, out); err != nil {
			return err
		}
		x.dirty = false
		o.table.dropEmpty(g)
	}
	if err := o.changes.flush(ctx, out); err != nil {
		return err
	}
	o.dirty, o.formers = o.dirty[:0], o.formers[:0]
	if err := o.table.rows.Dirty(o.store); err != nil {
		return fmt.Errorf("store rows: %w", err)
	}
	o.table.settle()
	err := o.log.rewrite(o.env, &o.live, o.table.rows, func(e state.Entry) error {
		if !o.table.has(e) {
			return nil
		}
		return o.store(e)
	})
	if err != nil {
		return err
	}
	return o.log.flush()
}

func (o *topUpdatesKeyed) store(e state.Entry) error {
	key, group := o.table.rows.Key(e), state.GroupOf(o.table.rows.Hash(e))
	if !o.table.has(e) {
		if !o.table.stored(e) {
			return nil
		}
		o.table.setStored(e)
		return o.log.put(group, key, nil)
	}
	o.table.setStored(e)
	o.buf = append(o.buf[:0], topUpdatesVersion)
	var of []byte
	if o.updates.oneTask {
		of = o.table.keys.Key(o.table.groups[o.table.groupOf(e)].entry)
	}
	o.buf = append(binary.AppendUvarint(o.buf, uint64(len(of))), of...)
	it := o.table.item(e)
	o.buf = appendTopWire(o.buf, o.table.lists.wireOf(&it))
	return o.log.put(group, key, o.buf)
}

// UnwrittenBytes implements dataflow.Unwritten.
func (o *topUpdatesKeyed) UnwrittenBytes() int64 {
	return int64(len(o.formers))*topItemBytes + o.table.taken
}

// Close implements dataflow.Operator.
func (o *topUpdatesKeyed) Close() error {
	o.changes.release()
	return nil
}

var (
	_ dataflow.Operator       = (*topUpdatesKeyed)(nil)
	_ dataflow.BarrierHandler = (*topUpdatesKeyed)(nil)
	_ dataflow.Unwritten      = (*topUpdatesKeyed)(nil)
)
