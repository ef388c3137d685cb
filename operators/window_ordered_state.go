package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"frazil/state"
)

// The state of an ordered window is one entry per group that has open windows,
// in the key's group. The bytes are a format (docs/state-format.md):
//
//	key    = 'o', the canonical key (see keyEncoder)
//	value  = 0x01, uvarint of the number of windows, then each of them
//	window = marks: 1 the watermark has passed its end, 2 a result stands in the
//	         changelog
//	         start, end (8 bytes each, big endian, sign bit flipped)
//	         uvarint of the rows since the last result
//	         uvarint of the length, accumulators (see accLayout)
//	         with distinct aggregates: uvarint of the length, the values as a
//	         blob (see distinct.go)
//	         with mark 2: timing (1 byte: 0 early, 1 on time, 2 late), start, end,
//	         uvarint of the length, accumulators of that result
const (
	orderedStatePrefix  = 'o'
	orderedStateVersion = 1
)

// save writes the keys that have changed.
func (w *windowOrdered) save() error {
	s := w.store
	for _, k := range s.dirty {
		if err := w.saveKey(k); err != nil {
			return err
		}
	}
	s.dirty = s.dirty[:0]
	return nil
}

// saveKey writes a key if it has changed. One that was freed has not.
func (w *windowOrdered) saveKey(k uint32) error {
	s := w.store
	e := &s.keys[k]
	if e.marks&orderedKeyDirty == 0 {
		return nil
	}
	e.marks = e.marks&^orderedKeyDirty | orderedKeyStored
	w.buf = append(append(w.buf[:0], orderedStatePrefix), s.key(k)...)
	n := len(w.buf)
	w.buf = s.encode(w.buf, k)
	if err := w.env.State.Set(state.GroupOf(e.hash), w.buf[:n], w.buf[n:]); err != nil {
		return fmt.Errorf("store a group of a window: %w", err)
	}
	return nil
}

// forgetKey removes the entry of a key.
func (w *windowOrdered) forgetKey(k uint32) error {
	e := &w.store.keys[k]
	w.buf = append(append(w.buf[:0], orderedStatePrefix), w.store.key(k)...)
	if err := w.env.State.Delete(state.GroupOf(e.hash), w.buf); err != nil {
		return fmt.Errorf("remove the windows of a group: %w", err)
	}
	return nil
}

// encode appends the value of a key to dst.
func (s *orderedStore) encode(dst []byte, k uint32) []byte {
	n := 0
	for x := s.keys[k].first; x != 0; x = s.windows[x].next {
		n++
	}
	dst = append(dst, orderedStateVersion)
	dst = binary.AppendUvarint(dst, uint64(n))
	for x := s.keys[k].first; x != 0; x = s.windows[x].next {
		w := &s.windows[x]
		dst = append(dst, w.marks)
		dst = appendWindowStart(appendWindowStart(dst, w.start), w.end)
		dst = binary.AppendUvarint(dst, uint64(w.rows))
		dst = s.encodeAcc(dst, s.row(s.accs, x))
		if s.distinct != nil {
			s.buf = s.distinct.encode(s.buf[:0], x)
			dst = append(binary.AppendUvarint(dst, uint64(len(s.buf))), s.buf...)
		}
		if w.marks&orderedShows != 0 {
			shown := &s.shown[x]
			dst = append(dst, byte(shown.timing))
			dst = appendWindowStart(appendWindowStart(dst, shown.start), shown.end)
			dst = s.encodeAcc(dst, s.row(s.shownAccs, x))
		}
	}
	return dst
}

func (s *orderedStore) encodeAcc(dst []byte, acc []uint64) []byte {
	s.buf = s.layout.encode(s.buf[:0], acc, s.heaps)
	dst = binary.AppendUvarint(dst, uint64(len(s.buf)))
	return append(dst, s.buf...)
}

var errOrderedShort = errors.New("the entry ends early")

// decode opens the windows of a stored key.
func (s *orderedStore) decode(k uint32, value []byte) error {
	if len(value) == 0 || value[0] != orderedStateVersion {
		return fmt.Errorf("value %x is not one of version %d", value, orderedStateVersion)
	}
	r := orderedReader{rest: value[1:]}
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		marks := r.byte()
		id := s.add(k, r.time(), r.time())
		s.windows[id].marks = marks
		s.windows[id].rows = int64(r.uvarint())
		if err := s.layout.merge(s.row(s.accs, id), s.heaps, r.bytes()); err != nil {
			return err
		}
		if s.distinct != nil {
			if err := s.distinct.decode(id, r.bytes()); err != nil {
				return err
			}
		}
		if marks&orderedShows == 0 {
			continue
		}
		if s.shown == nil {
			return errors.New("the entry has results, and the step gives no changelog")
		}
		s.shown[id] = orderedShown{timing: orderedTiming(r.byte()), start: r.time(), end: r.time()}
		if err := s.layout.merge(s.row(s.shownAccs, id), s.heaps, r.bytes()); err != nil {
			return err
		}
	}
	if r.short {
		return errOrderedShort
	}
	if len(r.rest) > 0 {
		return fmt.Errorf("%d bytes after the windows", len(r.rest))
	}
	return nil
}

// orderedReader takes values from the front of rest.
type orderedReader struct {
	rest  []byte
	short bool
}

func (r *orderedReader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, 8)
	}
	v := r.rest[:n]
	r.rest = r.rest[n:]
	return v
}

func (r *orderedReader) byte() byte { return r.take(1)[0] }

func (r *orderedReader) time() int64 { return int64(binary.BigEndian.Uint64(r.take(8)) ^ 1<<63) }

func (r *orderedReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.short, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *orderedReader) bytes() []byte { return r.take(int(r.uvarint())) }

// restore opens the windows of the task's key groups, as many as may be in
// memory.
func (w *windowOrdered) restore() error {
	w.clock.read(w.env)
	for g := w.env.Groups.Lo; g < w.env.Groups.Hi; g++ {
		var opened []uint32
		full := false
		err := w.env.State.Scan(g, []byte{orderedStatePrefix}, []byte{orderedStatePrefix + 1}, func(key, value []byte) error {
			k, err := w.open(keyHash(key[1:]), key[1:], value)
			if full = full || w.cold.limit > 0 && w.store.used() > w.cold.limit/2; full {
				opened = append(opened, k)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("restore windows of key group %d: %w", g, err)
		}
		for _, k := range opened {
			if err := w.unload(k); err != nil {
				return err
			}
		}
		if err := w.noteAgain(g); err != nil {
			return err
		}
		w.timers.pack()
	}
	return nil
}

// noteAgain replaces the notes of a key group by those of the groups that did not
// stay in memory when they were restored.
func (w *windowOrdered) noteAgain(group int) error {
	if err := w.findNext(group, []byte{orderedColdPrefix}); err != nil {
		return err
	}
	if w.cold.next[group] != orderedNever {
		w.cold.next[group] = orderedNever
		if err := w.env.State.DeleteRange(group, []byte{orderedColdPrefix}, []byte{orderedColdPrefix + 1}); err != nil {
			return fmt.Errorf("remove old notes: %w", err)
		}
	}
	if err := w.writeNotes(group); err != nil {
		return err
	}
	w.cold.notes.reset()
	return nil
}
