package operators

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"frazil/state"
)

// Notes say when the groups that are not in memory are due. Those of groups that
// leave the memory together share an entry of the state, a list in the order of
// the moments (docs/state-format.md):
//
//	key   = 't', the first moment (8 bytes, big endian, sign bit flipped), the
//	        canonical key that is due then
//	value = of each of the others: uvarint of how much later it is due, uvarint of
//	        the length, the canonical key
//
// A note whose group has come back, or is due later by now, says nothing.
const orderedColdPrefix = 't'

// orderedNoteBytes bounds the lists: a list is written anew when a part of it was
// due.
const orderedNoteBytes = 4 << 10

// orderedNotes are those that are not in the state yet.
type orderedNotes struct {
	groups [state.NumGroups][]orderedNote
	keys   []byte
	value  []byte
}

type orderedNote struct {
	at  int64
	key []byte
}

// copy keeps key until reset.
func (n *orderedNotes) copy(key []byte) []byte {
	from := len(n.keys)
	n.keys = append(n.keys, key...)
	return n.keys[from:len(n.keys):len(n.keys)]
}

func (n *orderedNotes) reset() { n.keys = n.keys[:0] }

func (n *orderedNotes) add(group int, at int64, key []byte) {
	n.groups[group] = append(n.groups[group], orderedNote{at, n.copy(key)})
}

// writeNotes moves the notes of a key group to the state.
func (w *windowOrdered) writeNotes(group int) error {
	c := &w.cold
	n := &c.notes
	notes := n.groups[group]
	if len(notes) == 0 {
		return nil
	}
	n.groups[group] = notes[:0]
	slices.SortFunc(notes, func(a, b orderedNote) int { return cmp.Compare(a.at, b.at) })
	c.next[group] = min(c.next[group], notes[0].at)
	c.first = min(c.first, notes[0].at)
	for len(notes) > 0 {
		first := notes[0]
		n.value = n.value[:0]
		for notes = notes[1:]; len(notes) > 0 && len(n.value) < orderedNoteBytes; notes = notes[1:] {
			n.value = appendNote(n.value, uint64(notes[0].at-first.at), notes[0].key)
		}
		w.buf = append(appendWindowStart(append(w.buf[:0], orderedColdPrefix), first.at), first.key...)
		// The group may have been at the head of another list, and come back since.
		others, err := w.env.State.Get(group, w.buf)
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return fmt.Errorf("look for other notes: %w", err)
		}
		n.value = append(n.value, others...)
		if err := w.env.State.Set(group, w.buf, n.value); err != nil {
			return fmt.Errorf("note when groups are due: %w", err)
		}
	}
	return nil
}

func appendNote(dst []byte, later uint64, key []byte) []byte {
	dst = binary.AppendUvarint(dst, later)
	dst = binary.AppendUvarint(dst, uint64(len(key)))
	return append(dst, key...)
}

// readNotes visits the notes of an entry, whose keys it lends.
func readNotes(key, others []byte, visit func(at int64, key []byte)) error {
	head := orderedReader{rest: key[1:]}
	first := head.time()
	visit(first, head.rest)
	r := orderedReader{rest: others}
	for len(r.rest) > 0 {
		at := first + int64(r.uvarint())
		if key := r.bytes(); !r.short {
			visit(at, key)
		}
	}
	if r.short {
		return fmt.Errorf("notes %x: %w", key, errOrderedShort)
	}
	return nil
}
