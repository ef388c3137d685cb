package ingest

import "sync/atomic"

type counters struct {
	accepted, rejected, refused, replayed atomic.Int64
}

// Stats are counts since the process started, and what waits for a commit.
type Stats struct {
	// Accepted and Rejected count records, Refused and Replayed requests.
	Accepted, Rejected, Refused, Replayed int64
	// BacklogRows and BacklogBytes are durable and not committed.
	BacklogRows, BacklogBytes int64
	// Oldest is when the oldest of them arrived, in microseconds; 0: none.
	Oldest int64
	// Sequence is the number of the last durable record.
	Sequence uint64
}

// Stats returns the counts.
func (s *Stream) Stats() Stats {
	b := s.log.Backlog()
	return Stats{
		Accepted: s.stats.accepted.Load(), Rejected: s.stats.rejected.Load(), Refused: s.stats.refused.Load(), Replayed: s.stats.replayed.Load(),
		BacklogRows: b.Rows, BacklogBytes: b.Bytes, Oldest: b.Oldest, Sequence: b.Next - 1,
	}
}
