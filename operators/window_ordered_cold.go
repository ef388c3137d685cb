package operators

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"frazil/state"
)

// orderedCold is the part of the state of an ordered window that is not in
// memory. When the groups in memory take more than the limit, those that had no
// row for the longest are stored and forgotten; a row brings its group back, and
// so does the moment at which one of its windows is due: see
// window_ordered_notes.go.
type orderedCold struct {
	limit int64 // bytes of groups and of set; 0: everything stays in memory
	// set holds the hashes of the keys that are not in memory.
	set  hashBag
	hand uint32 // where the search for keys to forget goes on
	// next is the first moment at which one of them is due, by key group; first is
	// the least of them.
	next  [state.NumGroups]int64
	first int64
	ahead int64 // groups that are due within so many microseconds come back together
	keys  [][]byte
	notes orderedNotes
}

const orderedNever = math.MaxInt64

// hashBag holds hashes, each as often as it was added. It is open addressing with
// linear probing.
type hashBag struct {
	slots []uint64 // 0: empty. A power of two of them, or none.
	n     int
}

func bagHash(h uint64) uint64 {
	if h == 0 {
		return 1
	}
	return h
}

// bytes is the memory that the bag takes.
func (b *hashBag) bytes() int64 { return 8 * int64(len(b.slots)) }

func (b *hashBag) has(h uint64) bool {
	if b.n == 0 {
		return false
	}
	h = bagHash(h)
	mask := uint64(len(b.slots) - 1)
	for i := h & mask; b.slots[i] != 0; i = (i + 1) & mask {
		if b.slots[i] == h {
			return true
		}
	}
	return false
}

func (b *hashBag) add(h uint64) {
	if 4*(b.n+1) > 3*len(b.slots) {
		old := b.slots
		b.slots, b.n = make([]uint64, max(16, 2*len(old))), 0
		for _, x := range old {
			if x != 0 {
				b.add(x)
			}
		}
	}
	h = bagHash(h)
	mask := uint64(len(b.slots) - 1)
	i := h & mask
	for b.slots[i] != 0 {
		i = (i + 1) & mask
	}
	b.slots[i] = h
	b.n++
}

// remove takes one h out, which is in b.
func (b *hashBag) remove(h uint64) {
	h = bagHash(h)
	mask := uint64(len(b.slots) - 1)
	i := h & mask
	for b.slots[i] != h {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; b.slots[j] != 0; j = (j + 1) & mask {
		if (j-b.slots[j])&mask >= (j-i)&mask {
			b.slots[i] = b.slots[j]
			i = j
		}
	}
	b.slots[i] = 0
	b.n--
}

func (c *orderedCold) init(limit, span int64) {
	c.limit, c.first, c.ahead, c.hand = limit, orderedNever, max(span/4, 1), 1
	for g := range c.next {
		c.next[g] = orderedNever
	}
}

// used estimates the memory that the groups in memory take.
func (s *orderedStore) used() int64 {
	perKey := int64(32 + 16 + 8 + (len(s.arena)-s.dead)/max(s.live, 1))
	perWindow := int64(56 + 24 + 8*s.layout.stride)
	if s.shown != nil {
		perWindow += int64(24 + 8*s.layout.stride)
	}
	n := perKey*int64(s.live) + perWindow*int64(s.open)
	for h := range s.heaps {
		n += 64 * int64(len(s.heaps[h].values)-s.garbage[h])
	}
	if s.distinct != nil {
		n += 96 * int64(s.distinct.values)
	}
	return n
}

// find returns a key that has windows, or 0. It brings it back from the state.
func (w *windowOrdered) find(hash uint64, key []byte) (uint32, error) {
	if k := w.store.find(hash, key); k != 0 || !w.cold.set.has(hash) {
		return k, nil
	}
	k, err := w.load(hash, key)
	if k != 0 && err == nil {
		e := &w.store.keys[k]
		e.marks |= orderedKeyNoted
		e.noted = w.firstDue(k)
	}
	return k, err
}

// load brings a key back that may not be in memory.
func (w *windowOrdered) load(hash uint64, key []byte) (uint32, error) {
	w.buf = append(append(w.buf[:0], orderedStatePrefix), key...)
	value, err := w.env.State.Get(state.GroupOf(hash), w.buf)
	if errors.Is(err, state.ErrNotFound) {
		return 0, nil // Another key has this hash.
	}
	if err != nil {
		return 0, fmt.Errorf("read a group of a window: %w", err)
	}
	w.cold.set.remove(hash)
	return w.open(hash, key, value)
}

// open takes in the entry of a key.
func (w *windowOrdered) open(hash uint64, key, value []byte) (uint32, error) {
	s := w.store
	k := s.upsert(hash, key)
	s.keys[k].marks |= orderedKeyStored | orderedKeyUsed
	if err := s.decode(k, value); err != nil {
		return 0, fmt.Errorf("key %x: %w", key, err)
	}
	for id := s.keys[k].first; id != 0; id = s.windows[id].next {
		x := &s.windows[id]
		w.timers.set(w.due(x), id)
		if x.rows > 0 && x.marks&orderedFired == 0 {
			w.clock.wait(id)
		}
	}
	return k, nil
}

// hot is what the groups in memory may take: what the hashes of the others leave,
// but a quarter of the limit in any case.
func (c *orderedCold) hot() int64 { return max(c.limit-c.set.bytes(), c.limit/4) }

// shrink stores and forgets groups while they take more than they may. No rows
// may wait to be added. It makes room for little more than is needed: what it
// stores are changes that wait for an epoch, and many at once would take more
// memory than the groups did.
func (w *windowOrdered) shrink() error {
	s := w.store
	if w.cold.limit == 0 || s.used() <= w.cold.hot() {
		return nil
	}
	// Twice around: the first time takes the marks of use off.
	for left := 2 * len(s.keys); left > 0 && s.used() > w.cold.hot()/16*15; left-- {
		k := w.cold.hand
		if w.cold.hand++; int(w.cold.hand) >= len(s.keys) {
			w.cold.hand = 1
		}
		if int(k) >= len(s.keys) || s.keys[k].marks&orderedKeyLive == 0 {
			continue
		}
		if e := &s.keys[k]; e.marks&orderedKeyUsed != 0 {
			e.marks &^= orderedKeyUsed
			continue
		}
		if err := w.unload(k); err != nil {
			return err
		}
	}
	w.timers.pack()
	for g := w.env.Groups.Lo; g < w.env.Groups.Hi; g++ {
		if err := w.writeNotes(g); err != nil {
			return err
		}
	}
	w.cold.notes.reset()
	return nil
}

// unload stores a key if it has changed, notes when it is due and forgets it. The
// notes still have to be written.
func (w *windowOrdered) unload(k uint32) error {
	s := w.store
	if err := w.saveKey(k); err != nil {
		return err
	}
	hash := s.keys[k].hash
	if at := w.firstDue(k); s.keys[k].marks&orderedKeyNoted == 0 || s.keys[k].noted != at {
		w.cold.notes.add(state.GroupOf(hash), at, s.key(k))
	}
	w.cold.set.add(hash)
	for id := s.keys[k].first; id != 0; {
		next := s.windows[id].next
		s.release(id)
		id = next
	}
	s.keys[k].first = 0
	s.forget(k)
	return nil
}

// firstDue is when the first of the windows of a key is due.
func (w *windowOrdered) firstDue(k uint32) int64 {
	at := int64(orderedNever)
	for id := w.store.keys[k].first; id != 0; id = w.store.windows[id].next {
		at = min(at, w.due(&w.store.windows[id]))
	}
	return at
}

// wake brings the keys of a key group back that are due up to a time, and some
// that are due soon.
func (w *windowOrdered) wake(group int, to int64) error {
	c := &w.cold
	if to < orderedNever-c.ahead {
		to += c.ahead
	}
	lo, hi := []byte{orderedColdPrefix}, []byte{orderedColdPrefix + 1}
	if to < orderedNever {
		hi = appendWindowStart([]byte{orderedColdPrefix}, to+1)
	}
	c.keys = c.keys[:0]
	err := w.env.State.Scan(group, lo, hi, func(key, others []byte) error {
		return readNotes(key, others, func(at int64, key []byte) {
			hash := keyHash(key)
			if k := w.store.find(hash, key); k != 0 {
				w.store.keys[k].marks &^= orderedKeyNoted
				return
			}
			switch {
			case at <= to:
				c.keys = append(c.keys, c.notes.copy(key))
			case c.set.has(hash):
				c.notes.add(group, at, key)
			}
		})
	})
	if err != nil {
		return fmt.Errorf("find the groups that are due: %w", err)
	}
	if err := w.env.State.DeleteRange(group, lo, hi); err != nil {
		return fmt.Errorf("remove what was due: %w", err)
	}
	if err := w.loadDue(group); err != nil {
		return err
	}
	if err := w.writeNotes(group); err != nil {
		return err
	}
	c.notes.reset()
	return w.findNext(group, hi)
}

// loadDue brings the keys of a key group back that wake has found. Reading all
// entries in their order costs less than looking up more than some of them.
func (w *windowOrdered) loadDue(group int) error {
	c := &w.cold
	if len(c.keys) == 0 {
		return nil
	}
	if all := c.set.n / (w.env.Groups.Hi - w.env.Groups.Lo); orderedFewDue*len(c.keys) < all {
		for _, key := range c.keys {
			if hash := keyHash(key); c.set.has(hash) && w.store.find(hash, key) == 0 {
				if _, err := w.load(hash, key); err != nil {
					return err
				}
			}
		}
		return nil
	}
	slices.SortFunc(c.keys, bytes.Compare)
	rest := c.keys
	lo := append([]byte{orderedStatePrefix}, rest[0]...)
	hi := append(append([]byte{orderedStatePrefix}, rest[len(rest)-1]...), 0)
	err := w.env.State.Scan(group, lo, hi, func(key, value []byte) error {
		key = key[1:]
		for len(rest) > 0 && bytes.Compare(rest[0], key) < 0 {
			rest = rest[1:]
		}
		if len(rest) == 0 || !bytes.Equal(rest[0], key) {
			return nil
		}
		hash := keyHash(key)
		if !c.set.has(hash) || w.store.find(hash, key) != 0 {
			return nil
		}
		c.set.remove(hash)
		_, err := w.open(hash, key, value)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the groups that are due: %w", err)
	}
	return nil
}

// orderedFewDue: up to one key of so many is looked up by itself.
const orderedFewDue = 16

var errOrderedFound = errors.New("found")

// findNext finds the first moment at which a key of a key group is due, at or
// behind lo.
func (w *windowOrdered) findNext(group int, lo []byte) error {
	c := &w.cold
	c.next[group] = orderedNever
	err := w.env.State.Scan(group, lo, []byte{orderedColdPrefix + 1}, func(key, _ []byte) error {
		r := orderedReader{rest: key[1:]}
		c.next[group] = r.time()
		return errOrderedFound
	})
	if err != nil && !errors.Is(err, errOrderedFound) {
		return fmt.Errorf("find the next group that is due: %w", err)
	}
	return nil
}
