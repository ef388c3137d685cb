package state

// View reads what a step had written at the last Write, beside the task that
// owns the key space. It never writes.
type View struct{ kv *TaskKV }

// View returns a view of a step's key space; ok is false for a step that has
// none. Safe for concurrent use with everything but Close.
func (s *Store) View(step string) (v View, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.mu.catalog[step]
	return View{&TaskKV{store: s, step: step, id: id, groups: Groups{Hi: NumGroups}, live: &layer{}}}, ok
}

// Scan visits keys as [KV].Scan does.
func (v View) Scan(group int, lo, hi []byte, visit func(key, value []byte) error) error {
	return v.kv.Scan(group, lo, hi, visit)
}
