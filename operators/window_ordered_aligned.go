package operators

// windowsOf visits the windows of a time.
func (s *orderedShape) windowsOf(t int64, visit func(start, end int64)) {
	visitWindows(s.windows, t, visit)
}

// alignedRow puts row i into those of its windows for which it is not late.
func (w *windowOrdered) alignedRow(i int) error {
	behind := max(w.stamps[i], w.closed)
	key, err := w.find(w.hashes[i], w.keys.Value(i))
	if err != nil {
		return err
	}
	w.touched = w.touched[:0]
	w.windowsOf(w.times[i], func(start, end int64) {
		if end+w.keep <= behind {
			return
		}
		id := w.store.windowAt(key, start, end)
		if id == 0 {
			id = w.begin(i, start, end)
			key = w.store.windows[id].key
		}
		w.put(i, len(w.touched), id)
		w.touched = append(w.touched, id)
	})
	for _, id := range w.touched {
		if err := w.after(i, id, false); err != nil {
			return err
		}
	}
	return nil
}

// windowAt returns a window of a key by its bounds, or 0.
func (s *orderedStore) windowAt(k uint32, start, end int64) uint32 {
	if k == 0 {
		return 0
	}
	id := s.keys[k].first
	for id != 0 && (s.windows[id].start != start || s.windows[id].end != end) {
		id = s.windows[id].next
	}
	return id
}
