package operators

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"frazil/dataflow"
	"frazil/state"
)

// The state of over is a keyLog under the canonical key of the partition. The bytes
// are a format (docs/state-format.md). With rows_preceding and range_preceding a
// value is a row, in the order in which they came:
//
//	value = 0x01, the event time (8, big endian, sign flipped), accumulators of
//	        the row (see accLayout), in the order of overLayout, and behind them
//	        its values under distinct
//
// What has left its frame is known by the rows behind it. With unbounded a value is
// what became of the partition since the value before:
//
//	value = 0x01, 1 if the partition began anew or 0, the event time of its last
//	        row (8), uvarint of the length, accumulators, then the new values under
//	        distinct: uvarint of the number of the aggregate, uvarint of the length,
//	        the value
//
// A partition without a value has gone to the store (over_cold.go). Others that
// were dropped stay until the log is written anew: their last row says that they are
// over.
const (
	overLogPrefix    = 'r'
	overStateVersion = 1
)

// restore reads the partitions.
func (o *overKeyed) restore() (err error) {
	if o.log, err = openKeyLog(o.env, overLogPrefix, o.load); err != nil {
		return err
	}
	for i := range o.frames {
		f := &o.frames[i]
		f.unsaved, f.dirty, f.anew, f.values = 0, false, false, f.values[:0]
	}
	o.table.ClearDirty()
	if err := o.findCold(); err != nil {
		return err
	}
	return o.shrink()
}

// load takes in one row of the log.
func (o *overKeyed) load(_ int, key, value []byte) error {
	hash := keyHash(key)
	id, err := o.upsert(hash, key)
	if err != nil {
		return err
	}
	f := &o.frames[id]
	weight, size := o.weight(f), o.sizeOf(f)
	if len(value) == 0 {
		e, _ := o.table.Find(hash, key)
		o.drop(e, f)
		return nil
	}
	if err := o.take(f, value); err != nil {
		return fmt.Errorf("partition %x: %w", key, err)
	}
	o.live[state.GroupOf(hash)] += o.weight(f) - weight
	o.cold.used += o.sizeOf(f) - size
	return nil
}

// take takes in one value of the log.
func (o *overKeyed) take(f *overFrame, value []byte) error {
	if len(value) == 0 || value[0] != overStateVersion {
		return fmt.Errorf("value %x is not one of version %d", value, overStateVersion)
	}
	r := orderedReader{rest: value[1:]}
	if o.kind == overAll {
		if err := o.takeSum(f, &r); err != nil {
			return err
		}
	} else {
		t := r.time()
		clear(o.acc)
		for h := range o.heaps {
			o.heaps[h].reset()
		}
		if err := o.rows.merge(o.acc, o.heaps, r.rest); err != nil {
			return err
		}
		o.add(f, t, o.acc, o.heaps)
	}
	if r.short {
		return errAccShort
	}
	return nil
}

// takeSum takes in what became of a partition with unbounded.
func (o *overKeyed) takeSum(f *overFrame, r *orderedReader) error {
	if r.byte() != 0 {
		o.empty(f)
	}
	f.last, f.some = r.time(), true
	clear(f.back)
	for h := range f.heaps {
		f.heaps[h].reset()
	}
	if err := o.sums.merge(f.back, f.heaps, r.bytes()); err != nil {
		return err
	}
	for len(r.rest) > 0 {
		i, v := r.uvarint(), r.bytes()
		if i >= uint64(len(f.seen)) {
			return fmt.Errorf("a value of distinct aggregate %d, there are %d", i, len(f.seen))
		}
		f.seen[i][string(v)] = 0
	}
	return nil
}

// renew makes a partition with unbounded one of which everything is new.
func (o *overKeyed) renew(f *overFrame) {
	f.anew, f.values = true, f.values[:0]
	for i, seen := range f.seen {
		for _, v := range slices.Sorted(maps.Keys(seen)) {
			f.values = appendOverValue(f.values, i, v)
		}
	}
}

// OnBarrier implements dataflow.BarrierHandler.
func (o *overKeyed) OnBarrier(context.Context, dataflow.Epoch, dataflow.Emitter) error {
	if err := o.table.Dirty(o.store); err != nil {
		return fmt.Errorf("store partitions: %w", err)
	}
	o.table.ClearDirty()
	if err := o.sweep(); err != nil {
		return fmt.Errorf("drop partitions: %w", err)
	}
	err := o.log.rewrite(o.env, &o.live, o.table, func(e state.Entry) error {
		if f := o.frameOf(e); f != nil {
			return o.storeAll(e, f, o.put)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return o.log.flush()
}

// frameOf returns the frame of an entry, nil if it was dropped.
func (o *overKeyed) frameOf(e state.Entry) *overFrame {
	word := o.table.Row(e)[0]
	if word == 0 {
		return nil
	}
	return &o.frames[word-1]
}

// put writes a value of a partition to the log.
func (o *overKeyed) put(e state.Entry, value []byte) error {
	return o.log.put(state.GroupOf(o.table.Hash(e)), o.table.Key(e), value)
}

// store writes what is new of a partition.
func (o *overKeyed) store(e state.Entry) error {
	f := o.frameOf(e)
	switch {
	case f == nil:
		return nil
	case o.kind != overAll:
		return o.storeRows(e, f, f.unsaved, o.put)
	case f.dirty:
		return o.storeSum(e, f, o.put)
	}
	return nil
}

// storeAll writes a partition as if all of it were new.
func (o *overKeyed) storeAll(e state.Entry, f *overFrame, put func(state.Entry, []byte) error) error {
	if o.kind != overAll {
		return o.storeRows(e, f, f.kept(), put)
	}
	o.renew(f)
	return o.storeSum(e, f, put)
}

// storeRows writes the last n rows of a frame.
func (o *overKeyed) storeRows(e state.Entry, f *overFrame, n int, put func(state.Entry, []byte) error) error {
	for i := len(f.times) - n; i < len(f.times); i++ {
		o.buf = appendWindowStart(append(o.buf[:0], overStateVersion), f.times[i])
		o.buf = o.rows.encode(o.buf, f.rows[i*o.rows.stride:(i+1)*o.rows.stride], f.heaps)
		if err := put(e, o.buf); err != nil {
			return err
		}
	}
	f.unsaved = 0
	return nil
}

// storeSum writes a partition with unbounded.
func (o *overKeyed) storeSum(e state.Entry, f *overFrame, put func(state.Entry, []byte) error) error {
	anew := byte(0)
	if f.anew {
		anew = 1
	}
	o.buf = appendWindowStart(append(o.buf[:0], overStateVersion, anew), f.last)
	o.buf = appendSized(o.buf, func(dst []byte) []byte { return o.sums.encode(dst, f.back, f.heaps) })
	o.buf = append(o.buf, f.values...)
	f.dirty, f.anew, f.values = false, false, f.values[:0]
	return put(e, o.buf)
}

// sweep drops the partitions whose rows nobody will see any more: rows that still
// come have at least the watermark as their event time.
func (o *overKeyed) sweep() error {
	if o.wm == dataflow.MinTime {
		return nil
	}
	step := int64(o.wm) / expiryStep(o.keep)
	if step <= o.swept {
		return nil
	}
	o.swept = step
	gone := int64(o.wm.Sub(durationOf(o.keep)))
	for i := range o.table.Len() {
		e := o.table.At(i)
		if f := o.frameOf(e); f != nil && f.last < gone {
			o.drop(e, f)
		}
	}
	o.compact()
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi && o.cold.set.n > 0; g++ {
		if err := o.sweepCold(g, gone); err != nil {
			return err
		}
	}
	return nil
}

// compact makes the table anew without the partitions that were dropped, if these
// are the most. All that stay count as changed then; their frames know better.
func (o *overKeyed) compact() {
	if 2*o.dropped <= o.table.Len() {
		return
	}
	old := o.table
	o.table, o.dropped = state.NewTable(1), 0
	for i := range old.Len() {
		if e := old.At(i); old.Row(e)[0] != 0 {
			n, _ := o.table.Upsert(old.Hash(e), old.Key(e))
			o.table.Row(n)[0] = old.Row(e)[0]
		}
	}
}
