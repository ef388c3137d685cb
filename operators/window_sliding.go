package operators

import (
	"slices"
	"sort"

	"frazil/state"
)

// windowSliding puts the panes of overlapping windows together so that an
// accumulator of a pane is touched a fixed number of times, however many panes a
// window has: two stacks in one table.
//
// Each key has two accumulators. The back one is the sum of the panes that came
// since the last turn; a pane that comes is added. The front one is the sum of
// older panes; each of these remembers, per key, what the front was before it was
// added, so that it can be taken away again, the oldest first. When the front is
// used up, the stacks turn: the panes of the back are put into the front, from
// the newest to the oldest.
type windowSliding struct {
	layout *accLayout
	// table has rows of a word of slidingFlags, the front and the back
	// accumulator. Both share heaps.
	table *state.Table
	heaps []accHeap
	// front and back are the panes of the window that fires next, by start.
	front, back []*windowPane
	gone        []*windowPane

	sorter  windowSorter
	sorted  []windowEntry // all keys, also those without accumulators
	alive   []windowEntry
	scratch []uint64
	marks   []int // lengths of heaps without what scratch holds
}

// Flags: which accumulators there are.
const (
	slidingFront = 1 << iota
	slidingBack
)

func newWindowSliding(layout *accLayout) *windowSliding {
	return &windowSliding{
		layout: layout, table: state.NewTable(1 + 2*layout.stride), heaps: layout.newHeaps(),
		marks: make([]int, len(layout.bytes)),
	}
}

// parts are the places of a row of table.
func (s *windowSliding) parts(row []uint64) (flags *uint64, front, back []uint64) {
	n := 1 + s.layout.stride
	return &row[0], row[1:n], row[n:]
}

func (s *windowSliding) empty() bool { return len(s.front)+len(s.back) == 0 }

// enter adds a pane to the window that fires next. Panes mostly come in the
// order of their starts; one of rows that were late for other windows may be
// older.
func (s *windowSliding) enter(p *windowPane) {
	if n := len(s.front); n > 0 && p.start <= s.front[n-1].start {
		s.enterFront(p)
		return
	}
	at := len(s.back)
	for at > 0 && s.back[at-1].start > p.start {
		at--
	}
	s.back = slices.Insert(s.back, at, p)
	for i := range p.table.Len() {
		from := p.table.At(i)
		to, _ := s.table.Upsert(p.table.Hash(from), p.table.Key(from))
		flags, _, back := s.parts(s.table.Row(to))
		*flags |= slidingBack
		s.layout.mergeRow(back, s.heaps, p.table.Row(from), p.heaps)
	}
}

// enterFront adds a pane to the front, below the panes that are older.
func (s *windowSliding) enterFront(p *windowPane) {
	at := sort.Search(len(s.front), func(i int) bool { return s.front[i].start > p.start })
	older := s.front[:at]
	p.makeSaved(s.layout)
	for i := range p.table.Len() {
		from := p.table.At(i)
		hash, key, acc := p.table.Hash(from), p.table.Key(from), p.table.Row(from)
		to, _ := s.table.Upsert(hash, key)
		flags, front, _ := s.parts(s.table.Row(to))
		// What the older panes found is now what they and this one found. The
		// youngest of them tells what this one finds.
		saved, done := p.savedRow(s.layout, i), false
		for j := len(older) - 1; j >= 0; j-- {
			e, ok := older[j].table.Find(hash, key)
			if !ok {
				continue
			}
			x := older[j].savedRow(s.layout, older[j].number(e))
			if !done {
				s.save(saved, p.savedHeaps, x[0], x[1:], older[j].savedHeaps)
				done = true
			}
			x[0] |= slidingFront
			s.layout.mergeRow(x[1:], older[j].savedHeaps, acc, p.heaps)
		}
		if !done {
			s.save(saved, p.savedHeaps, *flags, front, s.heaps)
		}
		*flags |= slidingFront
		s.layout.mergeRow(front, s.heaps, acc, p.heaps)
	}
	s.front = slices.Insert(s.front, at, p)
}

// save keeps a front accumulator, if there is one, as a flag and the accumulator.
func (s *windowSliding) save(dst []uint64, dstHeaps []accHeap, flags uint64, front []uint64, heaps []accHeap) {
	dst[0] = flags & slidingFront
	s.layout.setRow(dst[1:], dstHeaps, front, heaps)
}

// leave takes away the panes that begin before from and returns them. The result
// is valid until the next call.
func (s *windowSliding) leave(from int64) []*windowPane {
	s.gone = s.gone[:0]
	for {
		if len(s.front) == 0 {
			n := 0
			for n < len(s.back) && s.back[n].start < from {
				n++
			}
			if n == 0 {
				break
			}
			s.gone = append(s.gone, s.back[:n]...)
			s.back = slices.Delete(s.back, 0, n)
			s.turn()
		}
		if len(s.front) == 0 || s.front[0].start >= from {
			break
		}
		s.takeAway(s.front[0])
		s.gone = append(s.gone, s.front[0])
		s.front = slices.Delete(s.front, 0, 1)
	}
	return s.gone
}

// turn makes the back the front, which is empty.
func (s *windowSliding) turn() {
	s.table.Reset()
	s.sorted = s.sorted[:0]
	for h := range s.heaps {
		s.heaps[h].reset()
	}
	for _, p := range slices.Backward(s.back) {
		p.makeSaved(s.layout)
		for i := range p.table.Len() {
			from := p.table.At(i)
			to, _ := s.table.Upsert(p.table.Hash(from), p.table.Key(from))
			flags, front, _ := s.parts(s.table.Row(to))
			s.save(p.savedRow(s.layout, i), p.savedHeaps, *flags, front, s.heaps)
			*flags |= slidingFront
			s.layout.mergeRow(front, s.heaps, p.table.Row(from), p.heaps)
		}
	}
	s.front, s.back = s.back, s.front
}

// takeAway takes the oldest pane away from the front.
func (s *windowSliding) takeAway(p *windowPane) {
	for i := range p.table.Len() {
		from := p.table.At(i)
		to, ok := s.table.Find(p.table.Hash(from), p.table.Key(from))
		if !ok {
			continue
		}
		flags, front, _ := s.parts(s.table.Row(to))
		saved := p.savedRow(s.layout, i)
		*flags = *flags&^slidingFront | saved[0]
		s.layout.setRow(front, s.heaps, saved[1:], p.savedHeaps)
	}
}

// entries returns the keys of the window in the order of their bytes. The result
// is valid until the next change.
func (s *windowSliding) entries() []windowEntry {
	if len(s.sorted) != s.table.Len() {
		s.sorted = s.sorter.sort(s.table)
	}
	s.alive = s.alive[:0]
	for _, e := range s.sorted {
		if s.table.Row(e.entry)[0] != 0 {
			s.alive = append(s.alive, e)
		}
	}
	return s.alive
}

// rows implements windowRows: a key with both accumulators gets a row of its own
// until done.
func (s *windowSliding) rows(dst [][]uint64, entries []windowEntry) [][]uint64 {
	for h := range s.heaps {
		s.marks[h] = len(s.heaps[h].values)
	}
	n := len(entries) * s.layout.stride
	s.scratch = slices.Grow(s.scratch[:0], n)[:0]
	for _, e := range entries {
		flags, front, back := s.parts(s.table.Row(e.entry))
		switch *flags {
		case slidingFront:
			dst = append(dst, front)
		case slidingBack:
			dst = append(dst, back)
		default:
			at := len(s.scratch)
			s.scratch = s.scratch[:at+s.layout.stride]
			row := s.scratch[at:]
			clear(row)
			s.layout.mergeRow(row, s.heaps, front, s.heaps)
			s.layout.mergeRow(row, s.heaps, back, s.heaps)
			dst = append(dst, row)
		}
	}
	return dst
}

// done implements windowRows.
func (s *windowSliding) done() {
	for h := range s.heaps {
		s.heaps[h].values = s.heaps[h].values[:s.marks[h]]
	}
}

// mergeRow adds the accumulators src to dst.
func (l *accLayout) mergeRow(dst []uint64, dstHeaps []accHeap, src []uint64, srcHeaps []accHeap) {
	for i, f := range l.funcs {
		off := l.offs[i]
		f.merge(dst[off:], src[off:])
	}
	for h, b := range l.bytes {
		if w := src[b.off]; w != 0 {
			b.fn.mergeBytes(dst[b.off:], &dstHeaps[h], srcHeaps[h].get(w))
		}
	}
}

// setRow makes the accumulators dst those of src.
func (l *accLayout) setRow(dst []uint64, dstHeaps []accHeap, src []uint64, srcHeaps []accHeap) {
	if len(l.bytes) == 0 {
		copy(dst, src)
		return
	}
	kept := l.scratch
	for h, b := range l.bytes {
		kept[h] = dst[b.off]
	}
	copy(dst, src)
	for h, b := range l.bytes {
		w := src[b.off]
		if w == 0 {
			continue
		}
		if dst[b.off] = kept[h]; kept[h] == 0 {
			dst[b.off] = dstHeaps[h].add(srcHeaps[h].get(w))
		} else {
			dstHeaps[h].set(kept[h], srcHeaps[h].get(w))
		}
	}
}
