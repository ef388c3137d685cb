package engine

import (
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// openFixed opens what is needed to send quarantined rows again, for the whole
// run. A preview keeps nothing and sends nothing again.
func (j *Job) openFixed() error {
	fixed := map[string]*fixedStream{}
	if j.o.WALDir != "" && !j.o.Preview {
		for _, s := range j.g.Sources {
			if !s.resendable() {
				continue
			}
			f, err := newFixedStream(s, j.o.WALDir, j.o.Store.FS(), j.o.Now)
			if err != nil {
				return err
			}
			fixed[s.Name] = f
		}
	}
	j.control.Lock()
	defer j.control.Unlock()
	j.fixed = fixed
	return nil
}

// resendable says whether payloads of the source can be decoded again.
func (s *Source) resendable() bool { return s.NewDecoder != nil && s.NewRowDecoder != nil }

func (j *Job) closeFixed() error {
	j.control.Lock()
	defer j.control.Unlock()
	var errs []error
	for _, f := range j.fixed {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

func (j *Job) detachFixed() {
	for _, f := range j.fixed {
		f.detach()
	}
}

// attachFixed begins to read what was sent again to a source, from where the
// state or the targets stand.
func (c *coordinator) attachFixed(run *sourceRun) error {
	name := run.src.Name
	from := c.rec.Start.Get(name, fixedSplit)
	have := run.state.Splits[fixedSplit]
	f := c.j.fixed[name]
	switch {
	case f == nil && c.j.o.Preview:
		delete(run.state.Splits, fixedSplit)
		return nil
	case f == nil && (from != nil || have != nil):
		return dataflow.Permanentf("rows of the quarantine were sent again to it, and now it has no decode block: put it back as it was")
	case f == nil:
		return nil
	}
	switch {
	case from == nil && have != nil:
		from = dataflow.Position(have.Position)
	case have != nil:
		have.Position = string(from)
	case from != nil:
		run.state.Splits[fixedSplit] = &checkpoint.SplitState{Position: string(from), MaxTime: dataflow.MinTime, Floor: dataflow.MinTime, Status: checkpoint.Idle}
	}
	run.fixed = f
	if err := f.attach(c.plant.track[name], string(from), run.tasks[0].poke); err != nil {
		return fmt.Errorf("send quarantined rows again: %w", err)
	}
	return nil
}

// startFixed notes where the rows that were sent again began, once there are any.
func (s *sourceRun) startFixed() {
	if s.fixed == nil || s.state.Splits[fixedSplit] == nil || s.state.Start[fixedSplit] != "" {
		return
	}
	first, _ := s.fixed.used()
	s.state.Start[fixedSplit] = string(fixedPosition(first))
}

// fixedUntil is up to where the next stretch reads what was sent again.
func (s *sourceRun) fixedUntil(until dataflow.Positions, replaying bool) string {
	if s.fixed == nil || !replaying {
		return ""
	}
	if p := until.Get(s.src.Name, fixedSplit); p != nil {
		return string(p)
	}
	return string(fixedPosition(1))
}

func (t *sourceTask) assignFixed(c command) error {
	if t.fixed == nil {
		return nil
	}
	until, err := uint64(0), error(nil)
	if c.fixed != "" {
		if until, err = parseFixed(c.fixed); err != nil {
			return err
		}
	}
	if err := t.fixed.assign(until); err != nil {
		return err
	}
	if len(c.fixedReplay) > 0 {
		t.fixedClock().replay = c.fixedReplay
	}
	return nil
}

// settleFixed tells the streams what is durable.
func (j *Job) settleFixed(m *checkpoint.Manifest) {
	for name, f := range j.fixed {
		if s := m.Sources[name]; s != nil {
			if sp := s.Splits[fixedSplit]; sp != nil {
				f.settled(sp.Position)
			}
		}
	}
}

// QuarantineStatus is what a running job tells of its quarantine.
type QuarantineStatus struct {
	checkpoint.QuarantineCounts
	// Groups by step, port and reason.
	Groups []QuarantineGroup
	// Full: nothing more is taken until there is room.
	Full bool
}

func (v *quarantineView) status() QuarantineStatus {
	return QuarantineStatus{QuarantineCounts: v.counts, Groups: v.groups, Full: v.full}
}

func (j *Job) quarantineHealth(s Status, add func(step, code, format string, args ...any)) {
	q, limits := s.Quarantine, j.o.Quarantine
	if q.Full {
		add("", ProblemQuarantineFull, "the quarantine is full: the pipeline has stopped reading. Fix or discard rows (frazil quarantine), or raise state.quarantine.bytes")
	}
	if limits.AlertRows > 0 && q.Rows >= limits.AlertRows {
		add("", ProblemQuarantined, "%d rows are in the quarantine; state.quarantine.alert_rows is %d. frazil quarantine list shows them", q.Rows, limits.AlertRows)
	}
}

// QuarantineLimit is the size in bytes at which the quarantine is full.
func (j *Job) QuarantineLimit() int64 { return j.o.Quarantine.Bytes }
