package operators

import "frazil/dataflow"

// row puts row i of the batch at hand into its windows.
func (w *windowOrdered) row(i int) error {
	switch w.kind {
	case orderedSession:
		return w.sessionRow(i)
	case orderedCount:
		return w.countRow(i)
	}
	return w.alignedRow(i)
}

// sessionRow puts row i into the session that it overlaps or touches, joining
// two that it stands between; without one it begins a session of its own, unless
// that would be over already.
func (w *windowOrdered) sessionRow(i int) error {
	s := w.store
	start := w.times[i]
	end := start + w.gap
	k, err := w.find(w.hashes[i], w.keys.Value(i))
	if err != nil {
		return err
	}
	id, other := w.sessionsAt(k, start, end)
	if id == 0 {
		due := end + w.keep
		if due <= max(w.stamps[i], w.closed) {
			return w.late.add(i, start, end, max(w.stamps[i], w.closed)-due)
		}
		id = w.begin(i, start, end)
		w.put(i, 0, id)
		return w.after(i, id, false)
	}
	revise := false // a result was given that does not hold any more
	if other != 0 {
		if id, revise, err = w.join(i, id, other); err != nil {
			return err
		}
	}
	x := &s.windows[id]
	x.start, x.end = min(x.start, start), max(x.end, end)
	if x.marks&orderedFired != 0 && x.end > w.now {
		// The session goes on: it will be over once more.
		x.marks &^= orderedFired
		revise = true
		w.timers.set(x.end, id)
	}
	w.put(i, 0, id)
	return w.after(i, id, revise)
}

// sessionsAt finds the sessions of a key that overlap or touch the time from
// start to end: none, one or two of them.
func (w *windowOrdered) sessionsAt(k uint32, start, end int64) (id, other uint32) {
	if k == 0 {
		return 0, 0
	}
	for x := w.store.keys[k].first; x != 0; x = w.store.windows[x].next {
		if s := &w.store.windows[x]; s.start <= end && start <= s.end {
			id, other = x, id
		}
	}
	return id, other
}

// join makes two sessions one: the one that began first stays.
func (w *windowOrdered) join(i int, a, b uint32) (id uint32, revise bool, err error) {
	s := w.store
	if s.windows[b].start < s.windows[a].start {
		a, b = b, a
	}
	if err := w.settle(i, b); err != nil {
		return 0, false, err
	}
	x, y := &s.windows[a], &s.windows[b]
	if err := s.join(a, b); err != nil {
		return 0, false, err
	}
	if y.marks&orderedShows != 0 {
		if err := w.takeBack(b, dataflow.OpDelete, w.rowStamp()); err != nil {
			return 0, false, err
		}
		revise = true
	}
	x.end = max(x.end, y.end)
	x.rows += y.rows
	if y.rows > 0 && x.since == 0 {
		w.clock.wait(a)
	}
	if x.marks&orderedFired != 0 && y.marks&orderedFired == 0 {
		revise = true
		x.marks &^= orderedFired
		w.timers.set(x.end, a)
	}
	s.unlink(b)
	s.release(b)
	return a, revise, nil
}

// begin opens a window for row i.
func (w *windowOrdered) begin(i int, start, end int64) uint32 {
	s := w.store
	id := s.add(s.upsert(w.hashes[i], w.keys.Value(i)), start, end)
	x := &s.windows[id]
	if w.updates && end <= w.now {
		x.marks |= orderedFired
	}
	w.timers.set(w.due(x), id)
	return id
}

// after gives the result that row i, the last one put into a window, calls for.
func (w *windowOrdered) after(i int, id uint32, revise bool) error {
	if !w.updates {
		return nil
	}
	x := &w.store.windows[id]
	timing := timingEarly
	switch {
	case x.marks&orderedFired != 0:
		timing = timingLate
	case revise && w.changelog:
	case w.earlyRows > 0 && x.rows >= w.earlyRows:
	default:
		w.clock.wait(id)
		return nil
	}
	if err := w.add(i + 1); err != nil {
		return err
	}
	return w.give(id, timing, w.rowStamp())
}
