package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"frazil/state"
)

// Groups that find no room in memory are moved, at a barrier, to entries of their
// own in the KV: those that had no row since the last time first. A row brings its
// group back. Its entry stays then, and says nothing while the log has the group.
// The bytes are a format (docs/state-format.md):
//
//	key   = 'c', the canonical key
//	value = as in the log, which says that the key is gone
//
// Of each of these groups memory has 2 to 4 bytes of a filter. Those that have
// expired are found by reading all of a key group from time to time.
//
// With distinct aggregates all groups stay in memory.
const groupColdPrefix = 'c'

// groupCold is what memory has of the groups that are not there.
type groupCold struct {
	limit  int64 // bytes for groups and filters; 0: everything stays in memory
	groups [state.NumGroups]groupColdPart
	bytes  int64 // of filters
	heap   int64 // what a value in a heap takes on average
	moved  int   // groups that left the memory
	keys   [][]byte
}

// groupColdPart is a key group.
type groupColdPart struct {
	// filters hold the keys, each as many as all before it.
	filters []*state.Filter
	n, room int   // keys in filters, and how many there may be
	first   int64 // no entry has a last row before it
}

// groupColdLeast is for how many keys the first filter of a key group is.
const groupColdLeast = 256

func (p *groupColdPart) has(hash uint64) bool {
	for i := len(p.filters) - 1; i >= 0; i-- {
		if p.filters[i].Has(hash) {
			return true
		}
	}
	return false
}

// note adds a group whose last row is at a time.
func (c *groupCold) note(hash uint64, last int64) {
	p := &c.groups[state.GroupOf(hash)]
	if len(p.filters) == 0 || last < p.first {
		p.first = last
	}
	if p.has(hash) {
		return
	}
	if p.n == p.room {
		more := max(p.room, groupColdLeast)
		p.filters, p.room = append(p.filters, state.NewFilter(more)), p.room+more
		c.bytes += p.filters[len(p.filters)-1].Bytes()
	}
	p.filters[len(p.filters)-1].Add(hash)
	p.n++
}

// clear forgets a key group.
func (c *groupCold) clear(group int) {
	p := &c.groups[group]
	for _, f := range p.filters {
		c.bytes -= f.Bytes()
	}
	*p = groupColdPart{}
}

// hot is what the groups in memory may take: what the filters leave, but a quarter
// of the limit in any case.
func (c *groupCold) hot() int64 { return max(c.limit-c.bytes, c.limit/4) }

// used estimates what the groups in memory take.
func (o *groupKeyed) used() int64 {
	n := o.table.Bytes()
	for i := range o.heaps {
		n += int64(len(o.heaps[i].values)) * (24 + o.cold.heap)
	}
	return n
}

// measure finds out what values in heaps take.
func (o *groupKeyed) measure() {
	n, bytes := int64(0), int64(0)
	for i := range o.heaps {
		n += int64(len(o.heaps[i].values))
		for _, v := range o.heaps[i].values {
			bytes += int64(cap(v))
		}
	}
	o.cold.heap = bytes / max(n, 1)
}

// excess is how much of it is beyond what there may be.
func (o *groupKeyed) excess() int64 {
	if o.cold.limit == 0 {
		return 0
	}
	return max(0, o.used()-o.cold.hot())
}

// openCold finds the groups that are in the KV.
func (o *groupKeyed) openCold() error {
	if o.values == nil {
		o.cold.limit = o.env.Memory
	}
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi; g++ {
		err := o.env.State.Scan(g, []byte{groupColdPrefix}, []byte{groupColdPrefix + 1}, func(key, value []byte) error {
			last, err := o.lastOf(value)
			o.cold.note(keyHash(key[1:]), last)
			return err
		})
		if err != nil {
			return fmt.Errorf("find groups of key group %d: %w", g, err)
		}
	}
	return nil
}

// lastOf is the time of the last row of a stored group.
func (o *groupKeyed) lastOf(value []byte) (int64, error) {
	if len(value) == 0 || value[0] != groupStateVersion {
		return 0, fmt.Errorf("the group %x is not of version %d", value, groupStateVersion)
	}
	acc, _, err := cutSized(value[1:])
	if err != nil {
		return 0, err
	}
	_, last, err := o.span(acc)
	return last, err
}

func (o *groupKeyed) coldKey(key []byte) []byte {
	o.key = append(append(o.key[:0], groupColdPrefix), key...)
	return o.key
}

// wake brings a group back that may be in the KV, into its entry, which is empty.
func (o *groupKeyed) wake(e state.Entry, hash uint64, key []byte) error {
	if !o.cold.groups[state.GroupOf(hash)].has(hash) {
		return nil
	}
	value, err := o.env.State.Get(state.GroupOf(hash), o.coldKey(key))
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read a group: %w", err)
	}
	return o.decode(e, key, value)
}

// groupColdSlice is the part of the limit that leaves at one barrier if that is more
// than the excess: what leaves is a change of the state, and takes as much memory
// until it is durable.
const groupColdSlice = 8

// choose marks the groups that are to leave the memory, if they take too much of it:
// the excess and some more, but at least three quarters of what they may take stay.
func (o *groupKeyed) choose() (any bool) {
	if o.cold.limit == 0 {
		return false
	}
	o.measure()
	if o.excess() == 0 {
		return false
	}
	used := o.used()
	bytes := max(o.excess(), min(used-o.cold.hot()/4*3, o.cold.limit/groupColdSlice))
	leave := int(float64(o.table.Len()-o.dropped)*float64(bytes)/float64(used)) + 1
	// Those without a row since the last time, then the oldest.
	for _, used := range []uint64{0, groupUsed} {
		for i := 0; i < o.table.Len() && leave > 0; i++ {
			mark := &o.table.Row(o.table.At(i))[0]
			if *mark&(groupDropped|groupLeaves) == 0 && *mark&groupUsed == used {
				*mark |= groupLeaves
				leave--
				any = true
			}
		}
	}
	for i := range o.table.Len() {
		o.table.Row(o.table.At(i))[0] &^= groupUsed
	}
	return any
}

// shrink moves the groups to the KV that choose has marked. Nothing is dirty.
func (o *groupKeyed) shrink() error {
	for i := range o.table.Len() {
		e := o.table.At(i)
		mark := o.table.Row(e)[0]
		if mark&groupLeaves == 0 {
			continue
		}
		hash, key := o.table.Hash(e), o.table.Key(e)
		o.encode(e)
		if err := o.env.State.Set(state.GroupOf(hash), o.coldKey(key), o.buf); err != nil {
			return fmt.Errorf("move a group to the store: %w", err)
		}
		if mark&groupLogged != 0 {
			if err := o.log.put(state.GroupOf(hash), key, nil); err != nil {
				return err
			}
		}
		_, last, _ := o.times(o.acc(e))
		o.cold.note(hash, last)
		o.cold.moved++
		delete(o.older, e)
		o.drop(e)
	}
	o.compact()
	return nil
}

// groupColdGone is how many groups one barrier drops; the next one goes on.
const groupColdGone = 1 << 16

// sweepCold drops groups in the KV whose last row is not after gone.
func (o *groupKeyed) sweepCold(gone int64) error {
	dropped := 0
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi && dropped < groupColdGone; g++ {
		if p := &o.cold.groups[g]; p.n == 0 || p.first > gone {
			continue
		}
		o.cold.clear(g)
		o.cold.keys = o.cold.keys[:0]
		err := o.env.State.Scan(g, []byte{groupColdPrefix}, []byte{groupColdPrefix + 1}, func(key, value []byte) error {
			last, err := o.lastOf(value)
			if err != nil {
				return err
			}
			if last > gone {
				o.cold.note(keyHash(key[1:]), last)
				return nil
			}
			o.cold.keys = append(o.cold.keys, append([]byte(nil), key...))
			return nil
		})
		if err != nil {
			return err
		}
		dropped += len(o.cold.keys)
		for _, key := range o.cold.keys {
			if err := o.env.State.Delete(g, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget drops a group from the state.
func (o *groupKeyed) forget(hash uint64, key []byte) error {
	g := state.GroupOf(hash)
	if o.cold.groups[g].has(hash) {
		if err := o.env.State.Delete(g, o.coldKey(key)); err != nil {
			return err
		}
	}
	return o.log.put(g, key, nil)
}

// decode takes the value of a group into its entry, which is empty.
func (o *groupKeyed) decode(e state.Entry, key, value []byte) error {
	if len(value) == 0 || value[0] != groupStateVersion {
		return fmt.Errorf("group %x has version %x, this program knows %d", key, value[:min(1, len(value))], groupStateVersion)
	}
	for i, rest := 0, value[1:]; len(rest) > 0; i++ {
		acc, next, err := cutSized(rest)
		if err != nil {
			return fmt.Errorf("group %x: %w", key, errAccShort)
		}
		rest = next
		number := uint64(0)
		if o.values != nil {
			if len(acc) < 8 {
				return fmt.Errorf("group %x: %w", key, errAccShort)
			}
			number, acc = binary.BigEndian.Uint64(acc), acc[8:]
			o.values.next = max(o.values.next, number)
		}
		first, last, err := o.span(acc)
		if err != nil {
			return fmt.Errorf("group %x: %w", key, err)
		}
		if i > 0 {
			o.older[e] = append(o.older[e], groupPart{first, last, number, append([]byte(nil), acc...)})
			continue
		}
		if err := o.layout.merge(o.acc(e), o.heaps, acc); err != nil {
			return fmt.Errorf("group %x: %w", key, err)
		}
		o.setNumber(e, number)
	}
	o.table.Row(e)[0] = groupShown
	return nil
}
