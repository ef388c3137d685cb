package engine

import (
	"fmt"
	"maps"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// buildManifest sums up the reports of an epoch and moves the targets on. It
// returns the sinks that have rows of it.
func (c *coordinator) buildManifest(q quarantineCut) (*checkpoint.Manifest, []string, error) {
	m := &checkpoint.Manifest{
		Pipeline: c.j.g.Name, Epoch: q.epoch, Steps: map[string]string{}, Sources: map[string]*checkpoint.SourceState{},
		Closed: map[string]dataflow.Time{}, Targets: map[string]*checkpoint.TargetState{},
		Ledger: c.count(q.regions), Drained: c.state.Kind == checkpoint.Drain && len(q.regions) == len(c.regions),
	}
	for _, op := range c.j.g.Operators {
		if op.Plan.Keyed {
			m.Steps[op.Name] = op.Plan.Fingerprint
		}
	}
	maps.Copy(m.Closed, c.manifest.Closed)
	reports := c.included(q.regions)
	for _, r := range reports {
		for step, t := range r.closed {
			if now, ok := m.Closed[step]; t != dataflow.MinTime && (!ok || t > now) {
				m.Closed[step] = t
			}
		}
	}
	clock, sent := c.mergeSources(reports)
	for name, s := range c.sources {
		m.Sources[name] = cloneSource(s.state)
	}
	wms := map[string]dataflow.Time{}
	for _, r := range reports {
		if r.sink != nil {
			wms[r.sink.step] = r.sink.watermark
		}
	}
	if k := q.report.quarantine; k.Kept > 0 {
		m.Quarantine = k
	}
	var targets []string
	muted := c.mutedAfter(q.epoch)
	for _, s := range c.j.g.Sinks {
		t := c.targets[s.Name]
		if t == nil {
			continue
		}
		if muted[s.Name] {
			// It is ahead of this state: a start from here must find out again.
			if known := c.manifest.Targets[s.Name]; known != nil {
				m.Targets[s.Name] = known
			}
			continue
		}
		for _, d := range clock {
			if slices.Contains(c.j.g.upstream(s.Name), d.Source) {
				t.Clock = append(t.Clock, d)
			}
		}
		if part, ok := c.partOf(s.Name, q.regions); ok {
			t.Pending = append(slices.Clone(t.Pending), c.newCommit(s, t, m, part, wms[s.Name], sent))
			t.Clock = nil
			targets = append(targets, s.Name)
		}
		m.Targets[s.Name] = cloneTarget(t)
	}
	for name, k := range c.committer {
		if n, ok := k.refused(); ok {
			counts := m.Ledger.Steps[name]
			counts.Refused = n
			m.Ledger.Steps[name] = counts
		}
	}
	if err := m.Ledger.Check(c.readers); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", q.epoch, err)
	}
	return m, targets, nil
}

// mutedAfter lists the sinks that are still muted behind the barrier of e.
func (c *coordinator) mutedAfter(e dataflow.Epoch) map[string]bool {
	first := c.replay
	if c.attached.used == e {
		first++
	}
	out := map[string]bool{}
	for i := first; i < len(c.rec.Replays); i++ {
		for _, name := range c.rec.Replays[i].Unmute {
			out[name] = true
		}
	}
	return out
}

func (c *coordinator) newCommit(s *Sink, t *checkpoint.TargetState, m *checkpoint.Manifest, part dataflow.Part, wm dataflow.Time, sent map[string]dataflow.Time) dataflow.Commit {
	from, fromWMs := t.From()
	k := dataflow.Commit{
		Target: t.Target, Epoch: m.Epoch, ID: c.j.g.commitID(s), From: from, FromWatermarks: fromWMs, At: dataflow.Positions{}, Start: dataflow.Positions{},
		Plan: s.Fingerprint, Watermarks: map[string]dataflow.Time{}, Watermark: wm, Clock: t.Clock,
		Late: m.Ledger.Late(), Parts: []dataflow.Part{part},
	}
	for _, step := range c.j.g.upstream(s.Name) {
		src := m.Sources[step]
		k.Watermarks[step] = sent[step]
		for split, st := range src.Splits {
			k.At.Set(step, split, dataflow.Position(st.Position))
		}
		for split, pos := range src.Start {
			k.Start.Set(step, split, dataflow.Position(pos))
		}
	}
	return k
}

// mergeSources brings the reports of source tasks into the states. It returns
// the clock decisions made and the watermark that every receiver had at the
// barrier: the least that the tasks had sent.
func (c *coordinator) mergeSources(reports []report) ([]dataflow.ClockDecision, map[string]dataflow.Time) {
	sent := map[string]dataflow.Time{}
	least := map[string]dataflow.Time{}
	var clock []dataflow.ClockDecision
	for _, r := range reports {
		s := r.source
		if s == nil {
			continue
		}
		st := c.sources[s.step].state
		maps.Copy(st.Splits, s.splits)
		c.sources[s.step].startFixed()
		st.Skipped = addCounts(st.Skipped, s.skipped)
		st.Extra = addCounts(st.Extra, s.extra)
		clock = append(clock, s.clock...)
		if w, ok := least[s.step]; !ok || s.watermark < w {
			least[s.step] = s.watermark
		}
		if w, ok := sent[s.step]; !ok || s.sent < w {
			sent[s.step] = s.sent
		}
	}
	for step, w := range least {
		st := c.sources[step].state
		st.Watermark = max(st.Watermark, w)
		if sent[step] == dataflow.MaxTime {
			st.Watermark = max(st.Watermark, c.sources[step].furthest())
		}
	}
	return clock, sent
}

// furthest is the greatest watermark of the splits once all of them have ended,
// else MinTime. A source that has ended stands there, whichever split said last
// that it had: the least over those still live would depend on that.
func (s *sourceRun) furthest() dataflow.Time {
	out := dataflow.MinTime
	for name, sp := range s.state.Splits {
		if name == fixedSplit {
			continue
		}
		if sp.Status != checkpoint.Ended {
			return dataflow.MinTime
		}
		k := splitClock{maxTime: sp.MaxTime, floor: sp.Floor}
		if s.src.EventTime != nil {
			k.bound = s.src.EventTime.OutOfOrderness
		}
		out = max(out, k.own())
	}
	return out
}

// addCounts adds more to sum, making it if there is something to add.
func addCounts(sum, more map[string]int64) map[string]int64 {
	for k, n := range more {
		if sum == nil {
			sum = map[string]int64{}
		}
		sum[k] += n
	}
	return sum
}

func cloneSource(s *checkpoint.SourceState) *checkpoint.SourceState {
	out := *s
	out.Splits = maps.Clone(s.Splits)
	out.Start = maps.Clone(s.Start)
	out.Skipped, out.Extra = maps.Clone(s.Skipped), maps.Clone(s.Extra)
	return &out
}

func cloneTarget(t *checkpoint.TargetState) *checkpoint.TargetState {
	out := *t
	out.Done = t.Done.Clone()
	out.Pending = slices.Clone(t.Pending)
	out.Clock = slices.Clone(t.Clock)
	return &out
}
