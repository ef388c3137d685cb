package engine

import (
	"maps"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// Status is what a running job shows of itself.
type Status struct {
	Pipeline  string
	Started   time.Time
	Restarts  int64
	LastError string
	// Connected: every source and target has answered once.
	Connected bool
	// Rows read by all sources in this process.
	Read    int64
	Sources map[string]SourceStatus
	// Streams are the push sources.
	Streams map[string]dataflow.StreamStats
	// Steps are the keyed ones.
	Steps   map[string]StepStatus
	Targets map[string]TargetStatus
	// Broken counts the rules of contracts that rows broke in this process, by step
	// and rule.
	Broken map[string]map[string]int64
	// Ledger of the last durable epoch.
	Ledger      checkpoint.Ledger
	Epoch       dataflow.Epoch
	LastEpochAt time.Time
	// QueueBytes and QueueRows wait between tasks; DirtyBytes of state wait for
	// an epoch.
	QueueBytes, QueueRows, DirtyBytes int64
	Quarantined, QuarantineBytes      int64
	// Quarantine tells more of it.
	Quarantine QuarantineStatus
	Replaying  bool
	// Paused: the sources wait because state or waiting rows are at the ceiling.
	Paused bool
}

// SourceStatus is one source step.
type SourceStatus struct {
	Read      int64
	Watermark dataflow.Time
	MaxTime   dataflow.Time
	Splits    int
	// Since is when the watermark rose last, as far as this process has seen.
	Since time.Time
	// Held: the source is not read on, since a target that it feeds is too far
	// behind with its commits.
	Held bool
	// Unwritten rows were read and are in no durable epoch yet.
	Unwritten int64
	// Trouble is what keeps it from reading, in its own words.
	Trouble []string
	// Retained is what the system outside keeps for it; nil: nothing, or it is not known.
	Retained *dataflow.Retained
}

// StepStatus is one keyed step, all its tasks together.
type StepStatus struct {
	// Watermark is the least that its tasks have worked up to, Since when it rose
	// last.
	Watermark dataflow.Time
	Since     time.Time
	// Held rows wait inside it; QueueBytes and QueueRows wait in front of it;
	// DirtyBytes of its state wait for an epoch.
	Held, QueueBytes, QueueRows, DirtyBytes int64
}

// TargetStatus is one sink with a committer.
type TargetStatus struct {
	Target       dataflow.Target
	Committed    int64 // rows, in this process
	Bytes        int64 // of them, as far as the sink knows
	Commits      int64
	LastCommitAt time.Time
	Waiting      int
	// Unstaged is since when the sink has not staged its rows of a checkpoint that
	// has begun; zero: it has.
	Unstaged time.Time
	// Error is the failure that is being retried, "" when all is well.
	Error string
	// Refused rows the target will never take, of all commits of all processes.
	Refused int64
}

func (s *Status) commitFailed(sink string, err error) {
	t := s.Targets[sink]
	t.Error = err.Error()
	s.Targets[sink] = t
}

func (s *Status) refusedBy(sink string, n int64) {
	t := s.Targets[sink]
	t.Refused = n
	s.Targets[sink] = t
}

// Status returns a copy of the job's state; safe for concurrent use.
func (j *Job) Status() Status {
	streams, broken := j.streams(), map[string]map[string]int64{}
	for step, t := range j.broken {
		if n := t.Load(); len(n) > 0 {
			broken[step] = n
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.mu.status
	out.Streams, out.Broken = streams, broken
	out.Pipeline, out.Restarts = j.g.Name, j.restarts.Load()
	out.Sources = map[string]SourceStatus{}
	for k, v := range j.mu.status.Sources {
		out.Sources[k] = v
	}
	out.Steps = maps.Clone(j.mu.status.Steps)
	out.Targets = map[string]TargetStatus{}
	for k, v := range j.mu.status.Targets {
		out.Targets[k] = v
	}
	return out
}

// Manifest returns the last durable manifest, nil before the first; what targets have
// refused is counted up to now.
func (j *Job) Manifest() *checkpoint.Manifest {
	j.mu.Lock()
	m := j.mu.manifest
	j.mu.Unlock()
	return j.withRefused(m)
}

// withRefused is m with the rows that targets refused in the commits since.
func (j *Job) withRefused(m *checkpoint.Manifest) *checkpoint.Manifest {
	j.mu.Lock()
	defer j.mu.Unlock()
	for sink, t := range j.mu.status.Targets {
		if m == nil || m.Ledger.Steps[sink].Refused >= t.Refused {
			continue
		}
		out := *m
		out.Ledger.Steps = maps.Clone(m.Ledger.Steps)
		counts := out.Ledger.Steps[sink]
		counts.Refused = t.Refused
		out.Ledger.Steps[sink] = counts
		m = &out
	}
	return m
}

func (j *Job) attach(p *plant, m *checkpoint.Manifest) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.plant, j.mu.manifest = p, m
	j.mu.status.Ledger, j.mu.status.Epoch = m.Ledger, m.Epoch
}

// published notes a durable manifest.
func (j *Job) published(m *checkpoint.Manifest) {
	j.mu.Lock()
	j.mu.manifest = m
	j.mu.status.Ledger, j.mu.status.Epoch, j.mu.status.LastEpochAt = m.Ledger, m.Epoch, j.o.Now()
	j.mu.Unlock()
	j.settleFixed(m)
	if j.o.OnManifest != nil {
		j.o.OnManifest(m)
	}
}

func (j *Job) committedRows(sink string, c dataflow.Commit) {
	j.note(func(s *Status) {
		t := s.Targets[sink]
		t.Target, t.Committed, t.Bytes, t.Commits, t.LastCommitAt, t.Error = c.Target, t.Committed+c.Rows(), t.Bytes+c.Bytes(), t.Commits+1, j.o.Now(), ""
		s.Targets[sink] = t
	})
}

// refreshStatus reads the tasks' counters.
func (c *coordinator) refreshStatus() {
	sources := map[string]SourceStatus{}
	var read int64
	for name, s := range c.sources {
		st := SourceStatus{Watermark: dataflow.MaxTime, MaxTime: dataflow.MinTime, Splits: len(s.splits)}
		for _, t := range s.tasks {
			st.Read += t.rows.Load()
			st.Watermark = min(st.Watermark, dataflow.Time(t.wmNow.Load()))
			st.MaxTime = max(st.MaxTime, dataflow.Time(t.maxNow.Load()))
			if in, ok := t.source.(dataflow.Troubled); ok {
				st.Trouble = append(st.Trouble, in.Trouble()...)
			}
			if in, ok := t.source.(dataflow.Retainer); ok {
				if r, ok := in.Retained(); ok {
					st.Retained = &r
				}
			}
		}
		st.Held = c.plant.backlog[name].Load()
		st.Unwritten = max(0, c.base.Steps[name].In+st.Read-c.manifest.Ledger.Steps[name].In)
		read += st.Read
		sources[name] = st
	}
	var bytes, rows int64
	for _, in := range c.plant.inboxes {
		b, r := in.size()
		bytes, rows = bytes+b, rows+r
	}
	dirty, _ := c.plant.unwritten()
	unstaged := c.unstaged()
	steps, now := c.stepStatus(), c.j.o.Now()
	c.j.note(func(s *Status) {
		for name, st := range sources {
			st.Since = sinceOf(s.Sources[name].Since, st.Watermark > s.Sources[name].Watermark, now)
			sources[name] = st
		}
		for name, st := range steps {
			st.Since = sinceOf(s.Steps[name].Since, st.Watermark > s.Steps[name].Watermark, now)
			steps[name] = st
		}
		s.Steps = steps
		s.Sources, s.Read, s.QueueBytes, s.QueueRows, s.DirtyBytes = sources, read, bytes, rows, dirty
		q := c.plant.quar.view.Load()
		s.Quarantined, s.QuarantineBytes, s.Quarantine = q.counts.Rows, q.counts.Bytes, q.status()
		s.Replaying, s.Paused = c.replay < len(c.rec.Replays), c.plant.paused.Load()
		for name, t := range c.targets {
			x := s.Targets[name]
			x.Target, x.Waiting, x.Unstaged = t.Target, len(t.Pending), unstaged[name]
			if k := c.committer[name]; k != nil {
				x.Refused, _ = k.refused()
			}
			s.Targets[name] = x
		}
	})
}

// sinceOf is when something rose last.
func sinceOf(before time.Time, rose bool, now time.Time) time.Time {
	if rose || before.IsZero() {
		return now
	}
	return before
}

// stepStatus reads what the keyed steps show.
func (c *coordinator) stepStatus() map[string]StepStatus {
	out := map[string]StepStatus{}
	for name, tasks := range c.plant.keyed {
		st := StepStatus{Watermark: c.plant.watermarkOf(name)}
		for _, t := range tasks {
			st.Held += t.stage.fates.Held.Load()
			b, r := t.in.size()
			st.QueueBytes, st.QueueRows = st.QueueBytes+b, st.QueueRows+r
			for _, kv := range t.chain.kvs {
				st.DirtyBytes += kv.DirtyBytes()
			}
		}
		out[name] = st
	}
	return out
}
