package ingest

import (
	"sync"
	"sync/atomic"

	"frazil/dataflow"
)

// Stats is how a stream stands.
type Stats = dataflow.StreamStats

type counters struct {
	accepted, rejected, replayed, forgotten atomic.Int64

	mu      sync.Mutex
	refused map[string]int64
}

func (c *counters) refuse(reason string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused == nil {
		c.refused = map[string]int64{}
	}
	c.refused[reason] += int64(n)
}

// StreamStats implements dataflow.Streamer.
func (s *Stream) StreamStats() Stats {
	b := s.log.Backlog()
	out := Stats{
		Accepted: s.stats.accepted.Load(), Rejected: s.stats.rejected.Load(), Replayed: s.stats.replayed.Load(), Refused: map[string]int64{},
		BacklogRows: b.Rows, BacklogBytes: b.Bytes, Oldest: b.Oldest, Sequence: b.Next - 1, Committed: b.Acked - 1,
	}
	s.stats.mu.Lock()
	for reason, n := range s.stats.refused {
		out.Refused[reason] = n
	}
	s.stats.mu.Unlock()
	if err := s.err(); err != nil {
		out.Broken = err.Error()
	}
	return out
}
