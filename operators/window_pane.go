package operators

import (
	"encoding/binary"
	"fmt"
	"sort"

	"frazil/dataflow"
	"frazil/state"
)

// The state of a window is one entry per pane and key in the key's group. The
// bytes are a format (docs/state-format.md). A time is 8 bytes, big endian, sign
// bit flipped.
//
// Where a pane is a window:
//
//	key   = 'w', start of the window, the canonical key (see keyEncoder)
//	value = 0x01, then the accumulators (see accLayout)
//
// Where windows share panes:
//
//	key   = 'p', start of the pane, end of the first window that it counts in,
//	        the canonical key
//	value = 0x01, then the accumulators
//	key   = 'f'
//	value = 0x01, end of the last window that has fired
//
// Where aggregates are distinct, also a state.Log with the prefix 'd' and buckets
// of 1 us, in which the rows of a pane have its start as their time. A row is the
// start of the pane and, where windows share panes, the end of the first window,
// then that of a distinctTable.
const (
	windowStatePrefix    = 'w'
	windowPanePrefix     = 'p'
	windowFiredKey       = 'f'
	windowStateVersion   = 1
	windowDistinctPrefix = 'd'
)

// windowPane holds the accumulators of the rows of a pane. Rows of one pane that
// were late for some of its windows are kept apart, by the first window that they
// count in.
type windowPane struct {
	start int64
	// first is the end of the first window that the rows count in.
	first  int64
	table  *state.Table
	heaps  []accHeap
	stored [state.NumGroups]bool // groups with entries in the KV
	// distinct holds the values under distinct, nil without any.
	distinct *distinctTable
	// saved has, while the pane is in the front of a windowSliding, a flag and an
	// accumulator per entry.
	saved      []uint64
	savedHeaps []accHeap
}

// makeSaved makes saved, of zeros.
func (p *windowPane) makeSaved(l *accLayout) {
	n := p.table.Len() * (1 + l.stride)
	if cap(p.saved) < n {
		p.saved = make([]uint64, n)
	} else {
		p.saved = p.saved[:n]
		clear(p.saved)
	}
	if p.savedHeaps == nil {
		p.savedHeaps = l.newHeaps()
	}
	for h := range p.savedHeaps {
		p.savedHeaps[h].reset()
	}
}

// savedRow is the part of saved for the entry with a number.
func (p *windowPane) savedRow(l *accLayout, number int) []uint64 {
	n := 1 + l.stride
	return p.saved[number*n : (number+1)*n]
}

// number is the place of an entry in the order of insertion, in which entries
// grow.
func (p *windowPane) number(e state.Entry) int {
	return sort.Search(p.table.Len(), func(i int) bool { return p.table.At(i) >= e })
}

// rows implements windowRows.
func (p *windowPane) rows(dst [][]uint64, entries []windowEntry) [][]uint64 {
	for _, e := range entries {
		dst = append(dst, p.table.Row(e.entry))
	}
	return dst
}

// done implements windowRows.
func (p *windowPane) done() {}

// appendWindowStart writes a time so that bytes have its order.
func appendWindowStart(dst []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(t)^1<<63)
}

func windowTime(src []byte) int64 { return int64(binary.BigEndian.Uint64(src) ^ 1<<63) }

// prefix is the beginning of the keys of a pane, or with after 1 what lies just
// behind all of them.
func (s *windowShape) prefix(dst []byte, p *windowPane, after int64) []byte {
	if s.single {
		return appendWindowStart(append(dst, windowStatePrefix), p.start+after)
	}
	return appendWindowStart(appendWindowStart(append(dst, windowPanePrefix), p.start), p.first+after)
}

// restore takes in what the state holds of a key group.
func (w *windowKeyed) restore(group int) error {
	prefix, times := byte(windowStatePrefix), 1
	if !w.single {
		prefix, times = windowPanePrefix, 2
		if err := w.restoreFired(group); err != nil {
			return err
		}
	}
	return w.env.State.Scan(group, []byte{prefix}, []byte{prefix + 1}, func(key, value []byte) error {
		if len(key) < 1+8*times || len(value) < 1 || value[0] != windowStateVersion {
			return fmt.Errorf("entry %x is not one of a window of version %d", key, windowStateVersion)
		}
		start := windowTime(key[1:])
		first := w.last.first
		switch {
		case !w.single:
			first = windowTime(key[9:])
		case start != w.last.start:
			first = w.windows.first(start)
		}
		p := w.pane(start, first)
		p.stored[group] = true
		key = key[1+8*times:]
		e, _ := p.table.Upsert(keyHash(key), key)
		return w.layout.merge(p.table.Row(e), p.heaps, value[1:])
	})
}

// openValues restores the distinct values of all panes.
func (w *windowKeyed) openValues() (err error) {
	if len(w.distinct) == 0 {
		return nil
	}
	times := 2
	if w.single {
		times = 1
	}
	w.values, err = state.OpenLog(w.env.State, w.env.Groups, state.LogOptions{Prefix: windowDistinctPrefix, Bucket: 1}, func(_ int, row []byte) error {
		if len(row) < 8*times {
			return errDistinctShort
		}
		start := windowTime(row)
		first := w.last.first
		switch {
		case !w.single:
			first = windowTime(row[8:])
		case start != w.last.start:
			first = w.windows.first(start)
		}
		return w.pane(start, first).distinct.restore(row[8*times:])
	})
	if err != nil {
		return fmt.Errorf("restore distinct values: %w", err)
	}
	return nil
}

// flushValues writes what store has put into the log of distinct values.
func (w *windowKeyed) flushValues() error {
	if w.values == nil {
		return nil
	}
	return w.values.Flush()
}

// expireValues drops the distinct values of the panes that begin before from.
func (w *windowKeyed) expireValues(from int64) error {
	if w.values == nil {
		return nil
	}
	return w.values.Expire(from)
}

// restoreFired reads which windows have fired. All key groups know the same.
func (w *windowKeyed) restoreFired(group int) error {
	return w.env.State.Scan(group, []byte{windowFiredKey}, []byte{windowFiredKey + 1}, func(key, value []byte) error {
		if len(key) != 1 || len(value) != 9 || value[0] != windowStateVersion {
			return fmt.Errorf("entry %x is not the last window of version %d", key, windowStateVersion)
		}
		w.fired = max(w.fired, windowTime(value[1:]))
		return nil
	})
}

// storeFired writes which windows have fired.
func (w *windowKeyed) storeFired() error {
	if w.single || w.fired == w.firedStored {
		return nil
	}
	value := appendWindowStart([]byte{windowStateVersion}, w.fired)
	for g := w.env.Groups.Lo; g < w.env.Groups.Hi; g++ {
		if err := w.env.State.Set(g, []byte{windowFiredKey}, value); err != nil {
			return fmt.Errorf("store the last window: %w", err)
		}
	}
	w.firedStored = w.fired
	return nil
}

// store writes the changed entries of a pane.
func (w *windowKeyed) store(p *windowPane) error {
	err := p.table.Dirty(func(e state.Entry) error {
		group := state.GroupOf(p.table.Hash(e))
		p.stored[group] = true
		w.buf = append(w.prefix(w.buf[:0], p, 0), p.table.Key(e)...)
		n := len(w.buf)
		w.buf = w.layout.encode(append(w.buf, windowStateVersion), p.table.Row(e), p.heaps)
		return w.env.State.Set(group, w.buf[:n], w.buf[n:])
	})
	if err != nil {
		return fmt.Errorf("store the window of %s: %w", dataflow.Time(p.start), err)
	}
	p.table.ClearDirty()
	if p.distinct == nil {
		return nil
	}
	return p.distinct.store(w.prefix(nil, p, 0)[1:], func(group int, row []byte) error {
		return w.values.Append(group, p.start, row)
	})
}

// forget removes a pane, none of whose windows is open, from the state.
func (w *windowKeyed) forget(p *windowPane) error {
	lo, hi := w.prefix(nil, p, 0), w.prefix(nil, p, 1)
	for g, stored := range p.stored {
		if !stored {
			continue
		}
		if err := w.env.State.DeleteRange(g, lo, hi); err != nil {
			return fmt.Errorf("remove a fired window from key group %d: %w", g, err)
		}
	}
	return nil
}
