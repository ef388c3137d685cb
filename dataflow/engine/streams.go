package engine

import (
	"slices"
	"strings"
	"time"
)

// Stream is how rows come from one source to one of the sinks that it feeds.
type Stream struct {
	// Name is the source step, Table the sink's target as people know it, Sink its
	// step.
	Name  string `json:"stream_name"`
	Table string `json:"table_name"`
	Sink  string `json:"sink"`
	// Status is one of the Stream constants.
	Status string `json:"status"`
	// RowsIngested were accepted (push sources) or read since the pipeline first
	// started; BytesWritten went to the table since this process started.
	RowsIngested int64 `json:"rows_ingested"`
	BytesWritten int64 `json:"bytes_written"`
	// LagMillis is how long the oldest record that is not in the table has waited; 0
	// where none does.
	LagMillis int64 `json:"lag_ms"`
	// LastFlush is when the table last got rows from this process; nil: not yet.
	LastFlush *time.Time `json:"last_flush_time"`
	// BufferRows and BufferBytes are accepted or read, and not in the table. Bytes
	// are known of push sources only.
	BufferRows  int64 `json:"buffer_rows"`
	BufferBytes int64 `json:"buffer_bytes"`
	// WALSequence is the number of the last durable record of a push source; nil for
	// others.
	WALSequence *uint64 `json:"wal_sequence"`
}

// States of a stream, the worst first.
const (
	StreamConnecting = "connecting" // a target or source has never answered
	StreamBroken     = "broken"     // the write-ahead log cannot be written
	StreamRefusing   = "refusing"   // producers are refused: over the high-water mark
	StreamFailing    = "failing"    // commits of the table are retried
	StreamHeld       = "held"       // not read on until the table has caught up
	StreamPaused     = "paused"     // memory is at its ceiling
	StreamReplaying  = "replaying"  // reading again up to what the tables hold
	StreamOK         = "ok"
)

// Streams lists all of them, by name and table.
func (j *Job) Streams() []Stream {
	s, now := j.Status(), j.o.Now()
	var out []Stream
	feeds := j.g.feeds()
	for _, src := range j.g.Sources {
		for _, sink := range feeds[src.Name] {
			out = append(out, j.stream(src.Name, j.g.sink(sink), s, now))
		}
		if len(feeds[src.Name]) == 0 {
			out = append(out, j.stream(src.Name, nil, s, now))
		}
	}
	slices.SortStableFunc(out, func(a, b Stream) int { return strings.Compare(a.Name+"\x00"+a.Table, b.Name+"\x00"+b.Table) })
	return out
}

func (j *Job) stream(source string, sink *Sink, s Status, now time.Time) Stream {
	out := Stream{Name: source, Status: j.streamStatus(source, sink, s, now)}
	var t TargetStatus
	if sink != nil {
		t = s.Targets[sink.Name]
		out.Sink, out.Table, out.BytesWritten = sink.Name, sink.Plan.Target, t.Bytes
		if !t.LastCommitAt.IsZero() {
			out.LastFlush = &t.LastCommitAt
		}
	}
	push, isPush := s.Streams[source]
	if isPush {
		out.RowsIngested, out.BufferRows, out.BufferBytes, out.WALSequence = int64(push.Sequence), push.BacklogRows, push.BacklogBytes, &push.Sequence
		if push.Oldest > 0 {
			out.LagMillis = max(0, now.Sub(time.UnixMicro(push.Oldest)).Milliseconds())
		}
		return out
	}
	src := s.Sources[source]
	out.BufferRows = src.Unwritten
	out.RowsIngested = s.Ledger.Steps[source].In + src.Unwritten
	if since := j.oldestWaiting(sink, s); !since.IsZero() {
		out.LagMillis = max(0, now.Sub(since).Milliseconds())
	}
	return out
}

// oldestWaiting is when the oldest row that is not in the table was read at the
// latest: behind the last epoch that the target has.
func (j *Job) oldestWaiting(sink *Sink, s Status) time.Time {
	if sink == nil {
		return time.Time{}
	}
	if t := s.Targets[sink.Name]; t.Waiting > 0 {
		if t.LastCommitAt.IsZero() {
			return s.Started
		}
		return t.LastCommitAt
	}
	return time.Time{}
}

func (j *Job) streamStatus(source string, sink *Sink, s Status, now time.Time) string {
	push, isPush := s.Streams[source]
	switch {
	case isPush && push.Broken != "":
		return StreamBroken
	case isPush && j.refusing(source, push, now) != "":
		return StreamRefusing
	case !s.Connected:
		return StreamConnecting
	case sink != nil && s.Targets[sink.Name].Error != "":
		return StreamFailing
	case s.Sources[source].Held:
		return StreamHeld
	case s.Paused:
		return StreamPaused
	case s.Replaying:
		return StreamReplaying
	}
	return StreamOK
}

// sink returns a sink step, or nil.
func (g *Graph) sink(name string) *Sink {
	for _, s := range g.Sinks {
		if s.Name == name {
			return s
		}
	}
	return nil
}
