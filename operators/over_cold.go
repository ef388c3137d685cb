package operators

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"frazil/state"
)

// Partitions that find no room in memory go to the store, those first that had no
// row for the longest; the next row of one brings it back. Nothing is due when a
// partition ends, so that those in the store are only looked through when it is
// time to sweep. The bytes are a format (docs/state-format.md):
//
//	'c' key = 0x01, the event time of the last row (8, big endian, sign flipped),
//	          then what the log would say of the partition: uvarint of the length,
//	          a value, any number of times
//
// In the log such a partition is gone.
const overColdPrefix = 'c'

// overCold is what the task knows of the partitions in the store.
type overCold struct {
	limit int64 // bytes of memory for partitions; 0: everything stays there
	used  int64 // by those in memory, as far as it is known
	set   hashBag
	hand  int // where the search for partitions to store goes on
	value []byte
	keys  [][]byte
}

// size estimates the memory of a partition, but for that of its entry.
func (l *overLayout) size(f *overFrame) int64 {
	n := 8 * (cap(f.times) + cap(f.rows) + cap(f.sums) + cap(f.back))
	for i := range f.seen {
		n += 64 * len(f.seen[i])
	}
	for h := range f.heaps {
		n += 40 * len(f.heaps[h].values)
		if l.kind != overAll {
			continue
		}
		for _, v := range f.heaps[h].values {
			n += cap(v)
		}
	}
	return int64(n) + overFrameBytes
}

// overFrameBytes is what a partition takes in any case, with its entry and key.
const overFrameBytes = 320

// bring takes a partition in from the store, if it is there.
func (o *overKeyed) bring(f *overFrame, hash uint64, key []byte) error {
	group := state.GroupOf(hash)
	o.buf = append(append(o.buf[:0], overColdPrefix), key...)
	value, err := o.env.State.Get(group, o.buf)
	if errors.Is(err, state.ErrNotFound) {
		return nil // Another key has this hash.
	}
	if err != nil {
		return fmt.Errorf("read a partition: %w", err)
	}
	if err := o.env.State.Delete(group, o.buf); err != nil {
		return fmt.Errorf("take a partition out of the store: %w", err)
	}
	o.cold.set.remove(hash)
	_, rest, err := overColdHead(value)
	for err == nil && len(rest) > 0 {
		var v []byte
		if v, rest, err = cutSized(rest); err == nil {
			err = o.take(f, v)
		}
	}
	if err != nil {
		return fmt.Errorf("partition %x: %w", key, err)
	}
	if o.kind == overAll {
		f.dirty = true
		o.renew(f)
	}
	return nil
}

// overColdHead reads the event time of the last row.
func overColdHead(value []byte) (last int64, rest []byte, err error) {
	if len(value) < 9 || value[0] != overStateVersion {
		return 0, nil, fmt.Errorf("value %x is not one of version %d", value, overStateVersion)
	}
	r := orderedReader{rest: value[1:]}
	last = r.time()
	return last, r.rest, nil
}

// shrink stores partitions while those in memory take more than they may.
func (o *overKeyed) shrink() error {
	c := &o.cold
	if c.limit == 0 || c.used <= c.hot() {
		return nil
	}
	// Twice around: the first time takes the marks of use off.
	for left := 2 * o.table.Len(); left > 0 && c.used > c.hot()/16*15; left-- {
		if c.hand++; c.hand >= o.table.Len() {
			c.hand = 0
		}
		e := o.table.At(c.hand)
		f := o.frameOf(e)
		switch {
		case f == nil || f.open:
		case f.used:
			f.used = false
		default:
			if err := o.unload(e, f); err != nil {
				return err
			}
		}
	}
	o.compact()
	return nil
}

// hot is what the partitions in memory may take: what the hashes of the others
// leave, but a quarter of the limit in any case.
func (c *overCold) hot() int64 { return max(c.limit-c.set.bytes(), c.limit/4) }

// unload stores a partition and forgets it.
func (o *overKeyed) unload(e state.Entry, f *overFrame) error {
	c := &o.cold
	group, key := state.GroupOf(o.table.Hash(e)), o.table.Key(e)
	c.value = appendWindowStart(append(c.value[:0], overStateVersion), f.last)
	err := o.storeAll(e, f, func(_ state.Entry, v []byte) error {
		c.value = append(binary.AppendUvarint(c.value, uint64(len(v))), v...)
		return nil
	})
	if err != nil {
		return err
	}
	o.buf = append(append(o.buf[:0], overColdPrefix), key...)
	if err := o.env.State.Set(group, o.buf, c.value); err != nil {
		return fmt.Errorf("store a partition: %w", err)
	}
	if err := o.log.put(group, key, nil); err != nil {
		return fmt.Errorf("store a partition: %w", err)
	}
	c.set.add(o.table.Hash(e))
	o.drop(e, f)
	return nil
}

// sweepCold removes the partitions of a key group from the store whose last row is
// before gone.
func (o *overKeyed) sweepCold(group int, gone int64) error {
	c := &o.cold
	c.keys = c.keys[:0]
	err := o.env.State.Scan(group, []byte{overColdPrefix}, []byte{overColdPrefix + 1}, func(key, value []byte) error {
		last, _, err := overColdHead(value)
		if err == nil && last < gone {
			c.keys = append(c.keys, slices.Clone(key))
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, key := range c.keys {
		if err := o.env.State.Delete(group, key); err != nil {
			return err
		}
		c.set.remove(keyHash(key[1:]))
	}
	return nil
}

// findCold learns which partitions are in the store.
func (o *overKeyed) findCold() error {
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi; g++ {
		err := o.env.State.Scan(g, []byte{overColdPrefix}, []byte{overColdPrefix + 1}, func(key, _ []byte) error {
			o.cold.set.add(keyHash(key[1:]))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
