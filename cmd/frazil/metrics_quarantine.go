package main

import (
	"frazil/dataflow/engine"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	descQuarRows  = desc("quarantine_rows", "Rows in the quarantine.", "step", "port", "reason")
	descQuarBytes = desc("quarantine_bytes", "Bytes in the quarantine.")
	descQuarKept  = desc("quarantine_kept_total", "Rows that came to the quarantine, since the pipeline first started.", "step", "port", "reason")
	descQuarLeft  = desc("quarantine_left_total", "Rows that left the quarantine, since the pipeline first started: sent_again, discarded by somebody, dropped by a limit.", "how")
	descQuarLimit = desc("quarantine_limit_bytes", "Bytes at which the quarantine is full.")
	descQuarFull  = desc("quarantine_full", "1 while the quarantine is full and nothing is read.")
)

// quarantine sends what is known of the quarantine.
func (c collector) quarantine(s engine.Status, send func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	q := s.Quarantine
	for _, g := range q.Groups {
		send(descQuarRows, gauge, float64(g.Rows), g.Step, g.Port, g.Reason)
		send(descQuarKept, counter, float64(g.Kept), g.Step, g.Port, g.Reason)
	}
	send(descQuarBytes, gauge, float64(q.Bytes))
	send(descQuarLeft, counter, float64(q.SentAgain), "sent_again")
	send(descQuarLeft, counter, float64(q.Discarded), "discarded")
	send(descQuarLeft, counter, float64(q.Dropped), "dropped")
	send(descQuarLimit, gauge, float64(c.job.QuarantineLimit()))
	full := 0.0
	if q.Full {
		full = 1
	}
	send(descQuarFull, gauge, full)
}
