package operators

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"frazil/dataflow"
	"frazil/state"
)

// Groups that find no room in memory are, at a barrier, moved to entries of their
// own in the KV, those first that have had no row for the longest. A row brings its
// group back; the watermark finds those that expire, since the entries stand in the
// order of the step at which they do. The bytes are a format
// (docs/state-format.md):
//
//	key   = 'x', the step (8 bytes, big endian, sign bit flipped; see topDue), the
//	        canonical key
//	value = as in the log, which says that the key is gone
const topColdPrefix = 'x'

// topCold is what memory has of the groups that are not there.
type topCold struct {
	limit int64 // bytes for groups and steps; 0: everything stays in memory
	// steps says where a group stands by the hash of its key. Of groups with one hash
	// all but one stay in memory.
	steps map[uint64]int64
	first int64 // no group expires before it
	key   []byte
}

// topColdBytes is about what an entry of steps takes.
const topColdBytes = 32

func (c *topCold) init(limit int64) {
	c.limit, c.steps, c.first = limit, map[uint64]int64{}, int64(dataflow.MaxTime)
}

func (c *topCold) note(hash uint64, step int64) {
	c.steps[hash] = step
	c.first = min(c.first, step)
}

// keyOf is the key of a group's entry, to be read until the next call.
func (c *topCold) keyOf(step int64, key []byte) []byte {
	c.key = binary.BigEndian.AppendUint64(append(c.key[:0], topColdPrefix), uint64(step)^1<<63)
	c.key = append(c.key, key...)
	return c.key
}

// room is what the groups in memory may take: what the steps of the others leave,
// but a quarter of the limit in any case.
func (c *topCold) room() int64 {
	return max(c.limit-topColdBytes*int64(len(c.steps)), c.limit/4)
}

// used is the memory that the groups in memory take.
func (o *topKeyed) used() int64 {
	return o.table.Bytes() + topItemBytes*int64(cap(o.lists.items)) + o.lists.bytes.size
}

// excess is how much of it a barrier is to free.
func (o *topKeyed) excess() int64 {
	if o.cold.limit == 0 {
		return 0
	}
	return max(0, o.used()-o.cold.room()*2/3)
}

// restoreCold notes the groups that are not in memory.
func (o *topKeyed) restoreCold() error {
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi; g++ {
		err := o.env.State.Scan(g, []byte{topColdPrefix}, []byte{topColdPrefix + 1}, func(key, _ []byte) error {
			if len(key) < 9 {
				return fmt.Errorf("entry %x is none of a group", key)
			}
			o.cold.note(keyHash(key[9:]), int64(binary.BigEndian.Uint64(key[1:])^1<<63))
			return nil
		})
		if err != nil {
			return fmt.Errorf("find groups of key group %d: %w", g, err)
		}
	}
	return nil
}

// wake brings a group back, if it is in the KV, into its entry, which has no rows.
func (o *topKeyed) wake(e state.Entry, hash uint64, key []byte) error {
	step, ok := o.cold.steps[hash]
	if !ok {
		return nil
	}
	at, group := o.cold.keyOf(step, key), state.GroupOf(hash)
	value, err := o.env.State.Get(group, at)
	if errors.Is(err, state.ErrNotFound) { // Another key has this hash.
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the rows of a group: %w", err)
	}
	if err := o.decode(e, key, value); err != nil {
		return err
	}
	delete(o.cold.steps, hash)
	if err := o.env.State.Delete(group, at); err != nil {
		return fmt.Errorf("take a group back: %w", err)
	}
	return nil
}

// shrink moves groups to the KV if they take more memory than they may. It is called
// at a barrier, when all are as the log has them. What stays takes half of that,
// since it is copied then.
func (o *topKeyed) shrink() error {
	if o.excess() == 0 {
		return nil
	}
	cut, atCut := o.coldest(o.cold.room() / 3)
	for i := range o.table.Len() {
		e := o.table.At(i)
		if o.table.Row(e)[0]&groupDropped != 0 {
			continue
		}
		step := o.due.at(readTopPart(o.table.Row(e)).last)
		if step > cut || step == cut && atCut <= 0 {
			continue
		}
		if step == cut {
			atCut -= o.bytesOf(e)
		}
		if err := o.unload(e, step); err != nil {
			return err
		}
	}
	o.rebuild()
	return nil
}

// coldest says which groups are to go for the others to take no more than room:
// those that expire before the step cut, and as many bytes of those that do so then.
func (o *topKeyed) coldest(room int64) (cut, atCut int64) {
	sizes, free := map[int64]int64{}, -room
	for i := range o.table.Len() {
		e := o.table.At(i)
		if row := o.table.Row(e); row[0]&groupDropped == 0 {
			n := o.bytesOf(e)
			sizes[o.due.at(readTopPart(row).last)] += n
			free += n
		}
	}
	cut = int64(dataflow.MinTime)
	for _, step := range slices.Sorted(maps.Keys(sizes)) {
		if free <= 0 {
			break
		}
		cut, atCut = step, free
		free -= sizes[step]
	}
	return cut, atCut
}

// bytesOf is about what a group takes in memory.
func (o *topKeyed) bytesOf(e state.Entry) int64 {
	n := int64(8*(1+topWords) + len(o.table.Key(e)) + 32)
	items := o.lists.of(readTopPart(o.table.Row(e)).list)
	for i := range items {
		n += topItemBytes + int64(items[i].place+items[i].value)
	}
	return n
}

// unload moves a group to the KV.
func (o *topKeyed) unload(e state.Entry, step int64) error {
	hash, key := o.table.Hash(e), o.table.Key(e)
	if _, taken := o.cold.steps[hash]; taken {
		return nil
	}
	group := state.GroupOf(hash)
	o.encode(e)
	if err := o.env.State.Set(group, o.cold.keyOf(step, key), o.buf); err != nil {
		return fmt.Errorf("move a group to the store: %w", err)
	}
	if err := o.log.put(group, key, nil); err != nil {
		return fmt.Errorf("move a group to the store: %w", err)
	}
	o.cold.note(hash, step)
	o.drop(e)
	return nil
}

// rebuild makes table and lists anew, at a barrier.
func (o *topKeyed) rebuild() {
	o.remakeTable()
	old := o.lists
	o.lists = topLists{limit: old.limit, ties: old.ties}
	for i := range o.table.Len() {
		row := o.table.Row(o.table.At(i))
		p := readTopPart(row)
		p.list = o.lists.copyOf(&old, p.list)
		p.write(row)
	}
	for _, parts := range o.older {
		for i := range parts {
			parts[i].list = o.lists.copyOf(&old, parts[i].list)
		}
	}
}

// expireCold drops the groups in the KV that expire up to a step.
func (o *topKeyed) expireCold(ctx context.Context, step int64, out dataflow.Emitter) error {
	c := &o.cold
	if step < c.first {
		return nil
	}
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi; g++ {
		lo := []byte{topColdPrefix}
		hi := slices.Clone(c.keyOf(step+1, nil))
		any := false
		err := o.env.State.Scan(g, lo, hi, func(key, value []byte) error {
			any = true
			delete(c.steps, keyHash(key[9:]))
			return o.forgetCold(ctx, key[9:], value, out)
		})
		if err != nil {
			return fmt.Errorf("drop the groups that are due: %w", err)
		}
		if !any {
			continue
		}
		if err := o.env.State.DeleteRange(g, lo, hi); err != nil {
			return fmt.Errorf("drop the groups that are due: %w", err)
		}
	}
	c.first = int64(dataflow.MaxTime)
	for _, at := range c.steps {
		c.first = min(c.first, at)
	}
	return nil
}

// forgetCold deletes the rows of a group in the KV from the table.
func (o *topKeyed) forgetCold(ctx context.Context, key, value []byte, out dataflow.Emitter) error {
	if o.last {
		return nil
	}
	var shown topList
	err := o.eachPart(key, value, func(i int, p topPart) {
		if i == 0 {
			shown = p.list
		} else {
			o.lists.clear(&p.list)
		}
	})
	if err != nil {
		return err
	}
	if err := o.changes.compare(ctx, &o.lists, o.lists.of(shown), nil, out); err != nil {
		return err
	}
	o.lists.clear(&shown)
	return nil
}
