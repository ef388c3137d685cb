package ingest

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"frazil/dataflow"
)

// Stats is how a stream stands.
type Stats = dataflow.StreamStats

type counters struct {
	accepted, rejected, replayed atomic.Int64

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

// refused counts a request that was refused.
func (s *Stream) refused(err error) {
	var busy *BusyError
	switch {
	case errors.As(err, &busy):
		s.stats.refuse(busy.Reason, 1)
	case errors.Is(err, ErrUnavailable):
		s.stats.refuse("broken", 1)
	}
}

// StreamStats implements dataflow.Streamer.
func (s *Stream) StreamStats() Stats {
	b := s.log.Backlog()
	out := Stats{
		Accepted: s.stats.accepted.Load(), Rejected: s.stats.rejected.Load(), Replayed: s.stats.replayed.Load(),
		BacklogRows: b.Rows, BacklogBytes: b.Bytes, Oldest: b.Oldest, Sequence: b.Next - 1, Committed: b.Acked - 1, DiskBytes: b.Disk,
	}
	s.stats.mu.Lock()
	out.Refused = maps.Clone(s.stats.refused)
	s.stats.mu.Unlock()
	if out.Refused == nil {
		out.Refused = map[string]int64{}
	}
	out.BytesWritten, out.Syncs = s.log.Written()
	out.Keys, out.KeysForgotten = s.keys.Count()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.mu.broken, s.mu.trouble); err != nil {
		out.Broken = err.Error()
	}
	return out
}
