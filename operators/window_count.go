package operators

// countRow puts row i into the open window of its group, which is full with its
// last row. A row that is older than what the group may be quiet for cannot open
// a window: it is late.
func (w *windowOrdered) countRow(i int) error {
	s := w.store
	t := w.times[i]
	k, err := w.find(w.hashes[i], w.keys.Value(i))
	if err != nil {
		return err
	}
	if k == 0 {
		if due := t + w.keep; due <= w.stamps[i] {
			return w.late.add(i, t, t, w.stamps[i]-due)
		}
		k = s.upsert(w.hashes[i], w.keys.Value(i))
	}
	id := s.keys[k].first
	if id == 0 {
		id = s.add(k, t, t)
		w.timers.set(t+w.keep, id)
	}
	x := &s.windows[id]
	x.start, x.end = min(x.start, t), max(x.end, t)
	w.put(i, 0, id)
	if x.rows < w.count {
		return nil
	}
	if err := w.add(i + 1); err != nil {
		return err
	}
	if err := w.give(id, timingOnTime, w.rowStamp()); err != nil {
		return err
	}
	return w.drop(id)
}
