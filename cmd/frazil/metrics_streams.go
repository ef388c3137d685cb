package main

import (
	"time"

	"frazil/dataflow"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of push sources.
var (
	descAccepted     = desc("stream_accepted_rows_total", "Records of a push source that became durable, since this process started.", "step")
	descRejected     = desc("stream_rejected_rows_total", "Records that producers were told cannot be decoded.", "step")
	descReplayed     = desc("stream_replayed_requests_total", "Requests that were retries and answered as the first one.", "step")
	descRefused      = desc("stream_refused_requests_total", "Requests that were refused for now, by reason.", "step", "reason")
	descCounts       = desc("stream_events_total", "What the protocol of a push source counts beside: retained_skipped, reconnects.", "step", "event")
	descBacklogRows  = desc("stream_backlog_rows", "Rows that are accepted and not committed.", "step")
	descBacklogBytes = desc("stream_backlog_bytes", "Bytes in the write-ahead log of what is accepted and not committed.", "step")
	descBacklogAge   = desc("stream_backlog_age_seconds", "How long the oldest record that is accepted and not committed has waited.", "step")
	descSequence     = desc("stream_sequence", "Sequence number of the last durable record.", "step")
	descWALWritten   = desc("wal_written_bytes_total", "Bytes written to the write-ahead log.", "step")
	descWALSyncs     = desc("wal_syncs_total", "Writes to the write-ahead log that were synced.", "step")
	descWALDisk      = desc("wal_disk_bytes", "Bytes of the write-ahead log on disk.", "step")
	descKeys         = desc("stream_idempotency_keys", "Keys of requests that are remembered.", "step")
	descKeysGone     = desc("stream_idempotency_keys_forgotten_total", "Keys that were forgotten before their time because there were too many.", "step")
)

func sendStreams(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string), streams map[string]dataflow.StreamStats) {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	for step, s := range streams {
		send(descAccepted, counter, float64(s.Accepted), step)
		send(descRejected, counter, float64(s.Rejected), step)
		send(descReplayed, counter, float64(s.Replayed), step)
		for reason, n := range s.Refused {
			send(descRefused, counter, float64(n), step, reason)
		}
		for event, n := range s.Counts {
			send(descCounts, counter, float64(n), step, event)
		}
		send(descBacklogRows, gauge, float64(s.BacklogRows), step)
		send(descBacklogBytes, gauge, float64(s.BacklogBytes), step)
		age := 0.0
		if s.Oldest > 0 {
			age = max(0, time.Since(time.UnixMicro(s.Oldest)).Seconds())
		}
		send(descBacklogAge, gauge, age, step)
		send(descSequence, gauge, float64(s.Sequence), step)
		send(descWALWritten, counter, float64(s.BytesWritten), step)
		send(descWALSyncs, counter, float64(s.Syncs), step)
		send(descWALDisk, gauge, float64(s.DiskBytes), step)
		send(descKeys, gauge, float64(s.Keys), step)
		send(descKeysGone, counter, float64(s.KeysForgotten), step)
	}
}
