package ingest

// Forget drops what is remembered of a request that was answered: the protocol
// says that its producer will not send it again, and may use the key for another
// one (an MQTT packet identifier after its release).
func (s *Stream) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.mu.keys[key]; k != nil && k.done {
		delete(s.mu.keys, key)
	}
}
