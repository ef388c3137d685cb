package kafka

import "frazil/dataflow"

// Pause implements dataflow.Pauser. What is in the split's queue stays there, and
// one more answer of the broker may join it; then the client fetches the
// partition no more. It is not told at once, since it throws away what it has
// fetched of a paused partition: a split that is paused and resumed again and
// again would be fetched twice.
func (s *source) Pause(splits ...dataflow.Split) {
	s.poll.Lock()
	defer s.poll.Unlock()
	for _, name := range splits {
		if sp := s.poll.byName[name]; sp != nil && !sp.paused {
			if !sp.held() {
				s.poll.buffered -= sp.queued()
			}
			sp.paused = true
		}
	}
}

// Resume implements dataflow.Pauser. Where the log ends is not known any more.
func (s *source) Resume(splits ...dataflow.Split) {
	s.poll.Lock()
	defer s.poll.Unlock()
	for _, name := range splits {
		sp := s.poll.byName[name]
		if sp == nil || !sp.paused {
			continue
		}
		sp.paused, sp.end, sp.caughtUp, sp.stalled = false, -1, false, 0
		if sp.held() {
			continue
		}
		s.poll.buffered += sp.queued()
		s.fetchAgain(sp)
	}
}

// held: what waits in its queue does not count as the next thing to read.
func (sp *split) held() bool { return sp.paused || sp.lack != nil }

// holdFetch keeps the client from fetching a split that is held.
func (s *source) holdFetch(sp *split) {
	if !sp.unfetched {
		sp.unfetched = true
		s.client.PauseFetchPartitions(map[string][]int32{sp.topic: {sp.partition}})
	}
}

// fetchAgain undoes holdFetch.
func (s *source) fetchAgain(sp *split) {
	if sp.unfetched {
		sp.unfetched = false
		s.client.ResumeFetchPartitions(map[string][]int32{sp.topic: {sp.partition}})
	}
}

// queued is the bytes of the records that wait.
func (sp *split) queued() int64 {
	var n int64
	for _, f := range sp.queue {
		n += f.bytes
	}
	return n
}

var _ dataflow.Pauser = (*source)(nil)
