package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
)

// Problem is one thing that is wrong with a running pipeline.
type Problem struct {
	// Step names the source, operator or sink it is about; "" for the pipeline.
	Step string `json:"step,omitempty"`
	// Code is stable: one of the Problem constants.
	Code string `json:"code"`
	// Message says what, since when, and what would help.
	Message string `json:"message"`
}

// String is the message.
func (p Problem) String() string { return p.Message }

// Codes of problems.
const (
	ProblemNotConnected   = "not_connected"   // a source or target has never answered
	ProblemCommitFails    = "commit_fails"    // a sink's commit is retried
	ProblemNotStaged      = "not_staged"      // a sink does not get its files written
	ProblemCommitsWait    = "commits_wait"    // staged epochs wait for a target
	ProblemNotCommitted   = "not_committed"   // records were accepted and nothing commits
	ProblemSourceHeld     = "source_held"     // not read on: a target is too far behind
	ProblemRefusing       = "refusing"        // producers are refused: over the high-water mark
	ProblemLogBroken      = "log_broken"      // the write-ahead log cannot be written
	ProblemConnection     = "connection"      // a source is not connected, or lost its session
	ProblemRetained       = "retained"        // the system outside keeps much for a source
	ProblemSourceStalled  = "source_stalled"  // neither rows nor word that there are none
	ProblemWatermarkHeld  = "watermark_held"  // a split or source holds a watermark back
	ProblemNoEpoch        = "no_epoch"        // rows wait and no epoch is written
	ProblemPaused         = "paused"          // reading stands still at the memory ceiling
	ProblemQuarantineFull = "quarantine_full" // reading stands still: no room for bad rows
	ProblemQuarantined    = "quarantined"     // more rows are quarantined than the file allows
	ProblemDiskLow        = "disk_low"        // the disk of the state or the log is nearly full
)

// Health lists what is wrong. Nothing is wrong when it is empty.
func (j *Job) Health() []Problem {
	s := j.Status()
	now := j.o.Now()
	var out []Problem
	add := func(step, code, format string, args ...any) {
		out = append(out, Problem{step, code, fmt.Sprintf(format, args...)})
	}
	j.sinkHealth(s, now, add)
	j.streamHealth(s, now, add)
	j.quarantineHealth(s, add)
	if s.Paused {
		add("", ProblemPaused, "the sources are paused: state or rows that wait for a watermark are at the memory ceiling")
	}
	if since := now.Sub(s.LastEpochAt); !s.LastEpochAt.IsZero() && since > j.patience() && s.QueueRows > 0 {
		add("", ProblemNoEpoch, "no epoch for %s although rows wait", since.Round(time.Second))
	}
	if s.Connected && !s.Replaying {
		out = append(out, j.stalled(s, now)...)
		out = append(out, j.heldBack(s, now)...)
	}
	if s.LastError != "" && !s.Connected {
		add("", ProblemNotConnected, "not running yet: %s", s.LastError)
	}
	out = append(out, j.disks()...)
	slices.SortFunc(out, func(a, b Problem) int {
		return strings.Compare(a.Step+"\x00"+a.Message, b.Step+"\x00"+b.Message)
	})
	return out
}

// patience is how long something that every checkpoint does may not have happened.
func (j *Job) patience() time.Duration { return 3*j.o.Every + 10*time.Second }

func (j *Job) sinkHealth(s Status, now time.Time, add func(step, code, format string, args ...any)) {
	for step, t := range s.Targets {
		if t.Error != "" {
			add(step, ProblemCommitFails, "sink %s cannot commit: %s", step, t.Error)
		}
		if since := now.Sub(t.Unstaged); !t.Unstaged.IsZero() && since > j.patience() {
			add(step, ProblemNotStaged, "sink %s has not got the rows of a checkpoint into files of %s for %s: is its storage reachable?", step, t.Target, since.Round(time.Second))
		}
		if t.Waiting >= 3 {
			add(step, ProblemCommitsWait, "sink %s: %d epochs are staged and wait for %s", step, t.Waiting, t.Target)
		}
	}
	for step, src := range s.Sources {
		for _, text := range slices.Compact(slices.Sorted(slices.Values(src.Trouble))) {
			add(step, ProblemConnection, "source %s: %s", step, text)
		}
		if src.Retained != nil && src.Retained.Alarm != "" {
			add(step, ProblemRetained, "source %s: %s", step, src.Retained.Alarm)
		}
		if src.Held && j.behind(step, s) != "" {
			add(step, ProblemSourceHeld, "source %s is not read on: %s", step, j.behind(step, s))
		}
	}
}

// behind names the targets that hold a source back.
func (j *Job) behind(source string, s Status) string {
	var out []string
	for _, sink := range j.g.feeds()[source] {
		if t := s.Targets[sink]; t.Waiting >= 3 {
			out = append(out, fmt.Sprintf("sink %s has %d epochs staged that wait for %s", sink, t.Waiting, t.Target))
		}
	}
	return strings.Join(out, "; ")
}

// streamHealth is about sources that are pushed to.
func (j *Job) streamHealth(s Status, now time.Time, add func(step, code, format string, args ...any)) {
	for step, st := range s.Streams {
		if st.Broken != "" {
			add(step, ProblemLogBroken, "stream %s takes nothing: %s", step, st.Broken)
		}
		for _, text := range st.Trouble {
			add(step, ProblemConnection, "stream %s: %s", step, text)
		}
		if st.Oldest > 0 {
			if age := now.Sub(time.UnixMicro(st.Oldest)); age > j.patience() {
				add(step, ProblemNotCommitted, "stream %s: %d records are accepted and not committed, the oldest for %s; checkpoints are every %s", step, st.BacklogRows, age.Round(time.Second), j.o.Every)
			}
		}
		if why := j.refusing(step, st, now); why != "" {
			add(step, ProblemRefusing, "stream %s refuses producers: %s", step, why)
		}
	}
}

// refusing says why requests of a stream have been refused lately, "" if none
// were. Asking remembers the counts: who asks at least once a minute sees each
// refusal for a minute.
func (j *Job) refusing(step string, st dataflow.StreamStats, now time.Time) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.refused == nil {
		j.mu.refused = map[string]refusal{}
	}
	var n int64
	var why []string
	for reason, k := range st.Refused {
		if n += k; k > 0 {
			why = append(why, fmt.Sprintf("%d for %s", k, reason))
		}
	}
	r := j.mu.refused[step]
	if n > r.count {
		r = refusal{n, now}
		j.mu.refused[step] = r
	}
	if r.count == 0 || now.Sub(r.at) > time.Minute {
		return ""
	}
	slices.Sort(why)
	return strings.Join(why, ", ") + " since the start"
}

// refusal is how many requests a stream had refused when that was last seen to
// grow.
type refusal struct {
	count int64
	at    time.Time
}

// stalled lists splits that give neither rows nor word that nothing more is there.
func (j *Job) stalled(s Status, now time.Time) []Problem {
	var out []Problem
	if s.Paused {
		return nil
	}
	for step, splits := range j.Splits() {
		if s.Sources[step].Held {
			continue
		}
		for _, sp := range splits {
			since := sp.LastNews
			if sp.Since.After(since) {
				since = sp.Since
			}
			// A task that has not come round is held up behind, not by its source.
			if sp.State != SplitReading || now.Sub(since) < stalledFor || sp.LastLook.Before(since) || now.Sub(sp.LastLook) > 10*time.Second {
				continue
			}
			out = append(out, Problem{step, ProblemSourceStalled, fmt.Sprintf("source %s, split %s: neither rows nor word that there are none for %s: is the outside system reachable?", step, sp.Split, ago(now, since))})
		}
	}
	return out
}

// stalledFor is how long a split that is being read may say nothing.
const stalledFor = time.Minute

// disks lists the folders of the job whose disk is nearly full.
func (j *Job) disks() []Problem {
	var out []Problem
	for _, dir := range j.o.Disks {
		free, total, err := j.o.DiskFree(dir)
		if err != nil || free > min(total/20, 1<<30) {
			continue
		}
		out = append(out, Problem{"", ProblemDiskLow, fmt.Sprintf("the disk of %s is nearly full: %d MiB of %d MiB are free; make room, or nothing more can be accepted and no epoch written", dir, free>>20, total>>20)})
	}
	return out
}

// streams asks the push sources how they stand.
func (j *Job) streams() map[string]dataflow.StreamStats {
	j.mu.Lock()
	served := maps.Clone(j.mu.served)
	j.mu.Unlock()
	out := map[string]dataflow.StreamStats{}
	for step, c := range served {
		if s, ok := c.(dataflow.Streamer); ok {
			out[step] = s.StreamStats()
		}
	}
	return out
}
