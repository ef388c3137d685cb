package operators

import (
	"context"
	"fmt"
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
// Partitions that were dropped stay until the log is written anew: their last row
// says that they are over.
const (
	overLogPrefix    = 'r'
	overStateVersion = 1
)

// load takes in one row of the log.
func (o *overKeyed) load(_ int, key, value []byte) error {
	if len(value) == 0 || value[0] != overStateVersion {
		return fmt.Errorf("partition %x has %x, which is not of version %d", key, value, overStateVersion)
	}
	hash := keyHash(key)
	f := &o.frames[o.upsert(hash, key)]
	before := o.weight(f)
	r := orderedReader{rest: value[1:]}
	var err error
	if o.kind == overAll {
		err = o.loadSum(f, &r)
	} else {
		t := r.time()
		clear(o.acc)
		for h := range o.heaps {
			o.heaps[h].reset()
		}
		if err = o.rows.merge(o.acc, o.heaps, r.rest); err == nil {
			o.add(f, t, o.acc, o.heaps)
		}
	}
	if r.short && err == nil {
		err = errAccShort
	}
	if err != nil {
		return fmt.Errorf("partition %x: %w", key, err)
	}
	o.live[state.GroupOf(hash)] += o.weight(f) - before
	return nil
}

// loadSum takes in what became of a partition with unbounded.
func (o *overKeyed) loadSum(f *overFrame, r *orderedReader) error {
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

// saved makes nothing new.
func (o *overKeyed) saved() {
	for i := range o.frames {
		f := &o.frames[i]
		f.unsaved, f.dirty, f.anew, f.values = 0, false, false, f.values[:0]
	}
	o.table.ClearDirty()
}

// OnBarrier implements dataflow.BarrierHandler.
func (o *overKeyed) OnBarrier(context.Context, dataflow.Epoch, dataflow.Emitter) error {
	err := o.table.Dirty(func(e state.Entry) error { return o.store(e) })
	if err != nil {
		return fmt.Errorf("store partitions: %w", err)
	}
	o.table.ClearDirty()
	o.sweep()
	if err := o.log.rewrite(o.env, &o.live, o.table, o.storeAll); err != nil {
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

// store writes what is new of a partition.
func (o *overKeyed) store(e state.Entry) error {
	f := o.frameOf(e)
	switch {
	case f == nil:
		return nil
	case o.kind != overAll:
		return o.storeRows(e, f, f.unsaved)
	case f.dirty:
		return o.storeSum(e, f)
	}
	return nil
}

// storeAll writes a partition as if all of it were new.
func (o *overKeyed) storeAll(e state.Entry) error {
	f := o.frameOf(e)
	if f == nil {
		return nil
	}
	if o.kind != overAll {
		return o.storeRows(e, f, f.kept())
	}
	f.anew, f.values = true, f.values[:0]
	for i, seen := range f.seen {
		values := make([]string, 0, len(seen))
		for v := range seen {
			values = append(values, v)
		}
		slices.Sort(values)
		for _, v := range values {
			f.values = appendOverValue(f.values, i, v)
		}
	}
	return o.storeSum(e, f)
}

// storeRows writes the last n rows of a frame.
func (o *overKeyed) storeRows(e state.Entry, f *overFrame, n int) error {
	group, key := state.GroupOf(o.table.Hash(e)), o.table.Key(e)
	for i := len(f.times) - n; i < len(f.times); i++ {
		o.buf = appendWindowStart(append(o.buf[:0], overStateVersion), f.times[i])
		o.buf = o.rows.encode(o.buf, f.rows[i*o.rows.stride:(i+1)*o.rows.stride], f.heaps)
		if err := o.log.put(group, key, o.buf); err != nil {
			return err
		}
	}
	f.unsaved = 0
	return nil
}

// storeSum writes a partition with unbounded.
func (o *overKeyed) storeSum(e state.Entry, f *overFrame) error {
	anew := byte(0)
	if f.anew {
		anew = 1
	}
	o.buf = appendWindowStart(append(o.buf[:0], overStateVersion, anew), f.last)
	o.buf = appendSized(o.buf, func(dst []byte) []byte { return o.sums.encode(dst, f.back, f.heaps) })
	o.buf = append(o.buf, f.values...)
	f.dirty, f.anew, f.values = false, false, f.values[:0]
	return o.log.put(state.GroupOf(o.table.Hash(e)), o.table.Key(e), o.buf)
}

// sweep drops the partitions whose rows nobody will see any more: rows that still
// come have at least the watermark as their event time.
func (o *overKeyed) sweep() {
	if o.wm == dataflow.MinTime {
		return
	}
	step := int64(o.wm) / expiryStep(o.keep)
	if step <= o.swept {
		return
	}
	o.swept = step
	gone := int64(o.wm.Sub(durationOf(o.keep)))
	dropped := 0
	for i := range o.table.Len() {
		e := o.table.At(i)
		f := o.frameOf(e)
		if f == nil {
			dropped++
			continue
		}
		if f.last >= gone {
			continue
		}
		o.live[state.GroupOf(o.table.Hash(e))] -= o.weight(f)
		word := &o.table.Row(e)[0]
		o.free = append(o.free, uint32(*word-1))
		*f = o.newFrame()
		*word = 0
		dropped++
	}
	o.table.ClearDirty()
	if 2*dropped > o.table.Len() {
		o.compact()
	}
}

// compact makes the table anew without the partitions that were dropped. Nothing is
// dirty.
func (o *overKeyed) compact() {
	old := o.table
	o.table = state.NewTable(1)
	for i := range old.Len() {
		if e := old.At(i); old.Row(e)[0] != 0 {
			n, _ := o.table.Upsert(old.Hash(e), old.Key(e))
			o.table.Row(n)[0] = old.Row(e)[0]
		}
	}
	o.table.ClearDirty()
}
