package dataflow

// Streamer is what a push source's Serve returns beside io.Closer if it takes
// records into a write-ahead log: it shows how it stands. Safe for concurrent use.
type Streamer interface {
	StreamStats() StreamStats
}

// StreamStats is how a push stream stands. Counts are since the process started.
type StreamStats struct {
	// Accepted counts records that became durable, Rejected those that were
	// answered as not decodable.
	Accepted int64 `json:"accepted"`
	Rejected int64 `json:"rejected"`
	// Replayed counts requests that were retries and answered as the first one.
	Replayed int64 `json:"replayed"`
	// Refused counts requests that were refused for now, by reason: bytes, rows,
	// age, queue, disk_full, broken, preview.
	Refused map[string]int64 `json:"refused"`
	// BacklogRows and BacklogBytes are durable and not committed; Oldest is when
	// the oldest of them arrived, in microseconds since 1970, 0 without one.
	BacklogRows  int64 `json:"backlog_rows"`
	BacklogBytes int64 `json:"backlog_bytes"`
	Oldest       int64 `json:"oldest"`
	// Sequence is the number of the last durable record, Committed of the last one
	// that is in every table.
	Sequence  uint64 `json:"sequence"`
	Committed uint64 `json:"committed"`
	// BytesWritten went to the log, in Syncs writes that were synced.
	BytesWritten int64 `json:"bytes_written"`
	Syncs        int64 `json:"syncs"`
	// DiskBytes is what the log takes on the disk.
	DiskBytes int64 `json:"disk_bytes"`
	// Keys are idempotency keys that are remembered; KeysForgotten counts those
	// that were given up before their time because there were too many.
	Keys          int64 `json:"keys"`
	KeysForgotten int64 `json:"keys_forgotten"`
	// Counts are what the protocol counts beside, by name: retained_skipped,
	// reconnects.
	Counts map[string]int64 `json:"counts,omitempty"`
	// Trouble says in words what is wrong on the producers' side, one thing each:
	// not connected to the broker, a session that was lost. It turns health red.
	Trouble []string `json:"trouble,omitempty"`
	// Broken says why nothing is taken now, until the log has been opened anew; ""
	// when all is well.
	Broken string `json:"broken,omitempty"`
}
