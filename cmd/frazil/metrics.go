package main

import (
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
	"frazil/state"

	"github.com/prometheus/client_golang/prometheus"
)

// collector turns a job's status into metrics when they are asked for.
type collector struct {
	job   *engine.Job
	store *state.Store
}

func newCollector(job *engine.Job, store *state.Store) collector { return collector{job, store} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("frazil_"+name, help, append([]string{"pipeline"}, labels...), nil)
}

var (
	descRead        = desc("source_rows_total", "Records read by a source, since this process started.", "step")
	descWatermark   = desc("source_watermark_seconds", "Watermark of a source, as Unix time.", "step")
	descRetained    = desc("source_retained_bytes", "Bytes that the system outside keeps for a source until they are acknowledged, as a database its log for a replication slot.", "step")
	descSplitWM     = desc("split_watermark_seconds", "Watermark of a split, as Unix time.", "step", "split")
	descSplitLag    = desc("split_watermark_lag_seconds", "How far the watermark of a split is behind the clock; splits that are idle or have ended have none.", "step", "split")
	descSplitPaused = desc("split_paused", "1 while a split is held back because it is too far ahead of the others (max_drift).", "step", "split")
	descStepWM      = desc("step_watermark_seconds", "Watermark that a keyed step has worked up to, as Unix time.", "step")
	descStepQueue   = desc("step_queue_rows", "Rows that wait in front of a keyed step.", "step")
	descStepDirty   = desc("step_state_dirty_bytes", "Bytes of a step's state that wait for an epoch.", "step")
	descState       = desc("state_bytes", "Bytes of the state store on disk.")
	descSkipped     = desc("source_skipped_total", "Records that are no rows by rule (a tombstone), by reason, since the pipeline first started.", "step", "reason")
	descExtra       = desc("source_extra_fields_total", "Fields outside the decode schema, by name, since the pipeline first started.", "step", "field")
	descFate        = desc("step_rows_total", "Rows by fate at the last epoch, since the pipeline first started.", "step", "fate")
	descBroken      = desc("contract_violations_total", "Rows that broke a rule of a contract, since this process started.", "step", "rule")
	descHeld        = desc("step_held_rows", "Rows that wait inside a step.", "step")
	descEpoch       = desc("epoch", "The last durable epoch.")
	descEpochAt     = desc("last_epoch_timestamp_seconds", "When the last epoch became durable, as Unix time.")
	descCommitAt    = desc("sink_last_commit_timestamp_seconds", "When a sink last committed, as Unix time.", "step")
	descCommits     = desc("sink_commits_total", "Commits of a sink, since this process started.", "step")
	descCommitted   = desc("sink_committed_rows_total", "Rows committed by a sink, since this process started.", "step")
	descWaiting     = desc("sink_commits_waiting", "Commits that wait for a sink's target.", "step")
	descSinkRefused = desc("sink_refused_rows_total", "Rows that a sink's target refused for good when they were committed, since the pipeline first started.", "step")
	descQueue       = desc("queue_bytes", "Bytes of batches that wait between tasks.")
	descDirty       = desc("state_dirty_bytes", "Bytes of keyed state that wait for an epoch.")
	descRestarts    = desc("restarts_total", "Restarts from the last epoch, since this process started.")
	descEpochTime   = desc("epoch_duration_seconds", "How long epochs took, from the barrier until state and manifest were durable.")
	descCommitTime  = desc("sink_commit_duration_seconds", "How long commits of a sink took, retries included.", "step")
	descSinkBytes   = desc("sink_committed_bytes_total", "Bytes committed by a sink, as its files have them, since this process started.", "step")
	descProblem     = desc("problem", "1 for each problem that the health check finds.", "step", "code")
	descHealthy     = desc("healthy", "1 if the health check passes.")
)

// Describe implements prometheus.Collector: the metrics follow the graph.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.job.Status()
	send := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, t, v, append([]string{s.Pipeline}, labels...)...)
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	for step, src := range s.Sources {
		send(descRead, counter, float64(src.Read), step)
		if known(src.Watermark) {
			send(descWatermark, gauge, float64(src.Watermark)/1e6, step)
		}
	}
	c.retained(s, send)
	c.splits(send)
	for step, k := range s.Steps {
		if known(k.Watermark) {
			send(descStepWM, gauge, float64(k.Watermark)/1e6, step)
		}
		send(descStepQueue, gauge, float64(k.QueueRows), step)
		send(descStepDirty, gauge, float64(k.DirtyBytes), step)
	}
	send(descState, gauge, float64(c.store.DiskBytes()))
	if m := c.job.Manifest(); m != nil {
		for step, src := range m.Sources {
			for why, n := range src.Skipped {
				send(descSkipped, counter, float64(n), step, why)
			}
			for field, n := range src.Extra {
				send(descExtra, counter, float64(n), step, field)
			}
		}
	}
	for step, k := range s.Ledger.Steps {
		for fate, n := range map[string]int64{
			"in": k.In, "passed": k.Passed, "filtered": k.Filtered, "late": k.Late, "partly_late": k.PartlyLate,
			"duplicate": k.Duplicate, "bad": k.Bad, "absorbed": k.Absorbed, "expired": k.Expired, "created": k.Created,
			"staged": k.Staged, "superseded": k.Superseded, "muted": k.Muted,
		} {
			send(descFate, counter, float64(n), step, fate)
		}
		send(descHeld, gauge, float64(k.Held), step)
	}
	for step, rules := range s.Broken {
		for rule, n := range rules {
			send(descBroken, counter, float64(n), step, rule)
		}
	}
	send(descEpoch, gauge, float64(s.Epoch))
	if !s.LastEpochAt.IsZero() {
		send(descEpochAt, gauge, float64(s.LastEpochAt.UnixMilli())/1e3)
	}
	for step, t := range s.Targets {
		if !t.LastCommitAt.IsZero() {
			send(descCommitAt, gauge, float64(t.LastCommitAt.UnixMilli())/1e3, step)
		}
		send(descCommits, counter, float64(t.Commits), step)
		send(descCommitted, counter, float64(t.Committed), step)
		send(descSinkBytes, counter, float64(t.Bytes), step)
		send(descWaiting, gauge, float64(t.Waiting), step)
		send(descSinkRefused, counter, float64(t.Refused), step)
	}
	c.durations(ch, s.Pipeline)
	sendStreams(send, s.Streams)
	send(descQueue, gauge, float64(s.QueueBytes))
	send(descDirty, gauge, float64(s.DirtyBytes))
	c.quarantine(s, send)
	send(descRestarts, counter, float64(s.Restarts))
	c.health(send)
}

func (c collector) health(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
	healthy := 1.0
	type kind struct{ step, code string }
	seen := map[kind]bool{}
	for _, p := range c.job.Health() {
		healthy = 0
		if k := (kind{p.Step, p.Code}); !seen[k] {
			seen[k] = true
			send(descProblem, prometheus.GaugeValue, 1, p.Step, p.Code)
		}
	}
	send(descHealthy, prometheus.GaugeValue, healthy)
}

func (c collector) retained(s engine.Status, send func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
	for step, src := range s.Sources {
		if src.Retained != nil {
			send(descRetained, prometheus.GaugeValue, float64(src.Retained.Bytes), step)
		}
	}
}

func (c collector) durations(ch chan<- prometheus.Metric, pipeline string) {
	send := func(d *prometheus.Desc, x engine.Durations, labels ...string) {
		ch <- prometheus.MustNewConstHistogram(d, x.Count, x.Sum.Seconds(), x.Buckets, append([]string{pipeline}, labels...)...)
	}
	send(descEpochTime, c.job.EpochDurations())
	for sink, x := range c.job.CommitDurations() {
		send(descCommitTime, x, sink)
	}
}

// known says whether a watermark is a time.
func known(wm dataflow.Time) bool { return wm != dataflow.MinTime && wm != dataflow.MaxTime }

func (c collector) splits(send func(*prometheus.Desc, prometheus.ValueType, float64, ...string)) {
	now := float64(time.Now().UnixMicro()) / 1e6
	for step, splits := range c.job.Splits() {
		for _, sp := range splits {
			paused := 0.0
			if sp.State == engine.SplitPaused {
				paused = 1
			}
			send(descSplitPaused, prometheus.GaugeValue, paused, step, string(sp.Split))
			if wm := dataflow.Time(sp.Watermark); known(wm) {
				send(descSplitWM, prometheus.GaugeValue, float64(wm)/1e6, step, string(sp.Split))
				if sp.State != engine.SplitIdle && sp.State != engine.SplitEnded {
					send(descSplitLag, prometheus.GaugeValue, now-float64(wm)/1e6, step, string(sp.Split))
				}
			}
		}
	}
}
