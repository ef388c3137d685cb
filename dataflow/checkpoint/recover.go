package checkpoint

import (
	"errors"
	"fmt"
	"slices"

	"frazil/dataflow"
)

// ErrCannotResume: manifest and target disagree in a way that no replay mends.
var ErrCannotResume = errors.New("cannot resume")

// SinkFacts is what a start knows of one sink with a committer.
type SinkFacts struct {
	Name string
	// Known is the manifest's entry, nil without one.
	Known *TargetState
	// Found is what the target itself says.
	Found  dataflow.Committed
	Target dataflow.Target
	// Fingerprint and NotReplayable of everything upstream, as planned now.
	Fingerprint, NotReplayable string
}

// Replay is one stretch of a muted replay: read every split of Until up to
// exactly there, raise the watermarks, take a barrier and unmute the sinks.
type Replay struct {
	Until      dataflow.Positions
	Watermarks map[string]dataflow.Time
	Unmute     []string
}

// Recovery is how to start.
type Recovery struct {
	Targets map[string]*TargetState
	// Start overrides the positions of the manifest, for a lost state.
	Start dataflow.Positions
	// Origin: where the splits were read from at the very first start.
	Origin dataflow.Positions
	// Muted sinks, and the stretches that end their muting, in order.
	Muted   []string
	Replays []Replay
	// Clock decisions that the replay must repeat.
	Clock []dataflow.ClockDecision
}

// Recover compares the manifest (nil: no state) with what each target holds. It
// is pure. stateful says whether any step keeps keyed state; quiet lists sinks
// that write through and are muted up to the end of a replay.
func Recover(m *Manifest, sinks []SinkFacts, stateful bool, quiet []string) (Recovery, error) {
	r := Recovery{Targets: map[string]*TargetState{}, Origin: dataflow.Positions{}}
	var ahead []SinkFacts
	for _, s := range sinks {
		t, isAhead, err := recoverTarget(m, s)
		if err != nil {
			return Recovery{}, err
		}
		r.Targets[s.Name] = t
		if s.Found.Start != nil {
			r.Origin = dataflow.MergePositions(r.Origin, s.Found.Start)
		}
		if isAhead {
			ahead = append(ahead, s)
		}
	}
	if m != nil {
		r.Start = m.Positions()
		for step, src := range m.Sources {
			for split, pos := range src.Start {
				r.Origin.Set(step, split, dataflow.Position(pos))
			}
		}
	} else {
		r.Start = r.Origin.Clone()
	}
	if len(ahead) == 0 {
		return r, nil
	}
	if m == nil && !stateful && len(ahead) == len(sinks) {
		r.Start = least(ahead)
		ahead = slices.DeleteFunc(ahead, func(s SinkFacts) bool { return compareAll(s.Found.Positions, r.Start) == same })
		if len(ahead) == 0 {
			return r, nil
		}
	}
	return r, planReplay(&r, ahead, quiet)
}

// recoverTarget decides about one target, and whether it is ahead of the state.
func recoverTarget(m *Manifest, s SinkFacts) (*TargetState, bool, error) {
	t := &TargetState{Target: s.Target, ID: s.Found.ID}
	held, wms := s.Found.Positions, s.Found.Watermarks
	if s.Known == nil {
		if held == nil {
			return t, false, nil
		}
		t.Done, t.DoneWatermarks = held, wms
		if m == nil || beyond(s.Found, m.standing(held), m.marks(held)) {
			return t, true, nil
		}
		if stands(s.Found, m.standing(held), m.marks(held)) {
			return t, false, nil // A replay was stopped right there, before it was unmuted.
		}
		return nil, false, stop(s, "it holds positions of this pipeline and sink, but the state knows nothing of them: the sink was removed or renamed meanwhile")
	}
	*t = *s.Known
	if s.Found.ID != "" {
		t.ID = s.Found.ID
	}
	if s.Known.Target != "" && s.Known.Target != s.Target {
		return &TargetState{Target: s.Target, ID: s.Found.ID, Done: held, DoneWatermarks: wms}, false, nil
	}
	if s.Known.ID != "" && s.Found.ID != "" && s.Known.ID != s.Found.ID {
		return nil, false, stop(s, fmt.Sprintf("it was recreated: its identity is %s, the state knows %s", s.Found.ID, s.Known.ID))
	}
	if held == nil {
		if s.Known.Done != nil {
			return nil, false, stop(s, "it no longer holds the positions of this pipeline: the table was recreated, rolled back or its properties were removed")
		}
		return t, false, nil
	}
	if stands(s.Found, s.Known.Done, s.Known.DoneWatermarks) {
		return t, false, nil
	}
	rest := *t
	for len(rest.Pending) > 0 {
		k := rest.Pending[0]
		if rest.Complete(); stands(s.Found, rest.Done, rest.DoneWatermarks) {
			if !k.Made(s.Found.Commits) {
				return nil, false, stop(s, fmt.Sprintf("another process, on a copy of the state, has committed other rows under the positions of %s: go on with that one; what producers have sent to this one since stands in its write-ahead log and in no target (frazil wal show)", k.Epoch))
			}
			return &rest, false, nil
		}
	}
	here := dataflow.MergePositions(rest.Done, m.standing(held))
	replayed := stands(s.Found, here, m.marks(held))
	if replayed || beyond(s.Found, here, m.marks(held)) {
		t.Done, t.DoneWatermarks, t.Pending, t.Clock = held, wms, nil, nil
		return t, !replayed, nil
	}
	if o := compareAll(held, here); o == more || o == same {
		return nil, false, stop(s, elsewhere(s))
	}
	from, _ := s.Known.From()
	return nil, false, stop(s, fmt.Sprintf("it holds %s, the state knows %s: it was rolled back, or another process or pipeline of this name has written it", held, from))
}

// elsewhere says what to do about a state whose epochs are not those that led to s.
func elsewhere(s SinkFacts) string {
	why := "it is further than the state, and its watermark is lower: another process has gone on from an earlier epoch, on another copy of the state; run that one"
	if s.NotReplayable == "" {
		why += ", or, if its state is lost, move this state directory away: then the results are made again, up to what the targets hold without being written"
	}
	return why
}

// stands says whether a target is exactly at a place.
func stands(f dataflow.Committed, at dataflow.Positions, wms map[string]dataflow.Time) bool {
	return compareAll(f.Positions, at) == same && dataflow.CompareWatermarks(f.Watermarks, wms) == 0
}

// Same says whether a target holds what it held before.
func Same(now, before dataflow.Committed) bool {
	return now.ID == before.ID && stands(now, before.Positions, before.Watermarks)
}

// standing is where m stands for who holds found: a split that is not known there, and
// of which nothing was read, stands nowhere yet.
func (m *Manifest) standing(found dataflow.Positions) dataflow.Positions {
	out := m.Positions()
	for step, src := range m.Sources {
		for split, st := range src.Splits {
			if start, ok := src.Start[split]; ok && start == st.Position && found.Get(step, split) == nil {
				delete(out[step], split)
			}
		}
	}
	return out
}

// marks are the watermarks of m of the sources that found is about.
func (m *Manifest) marks(found dataflow.Positions) map[string]dataflow.Time {
	out := m.Watermarks()
	for step := range out {
		if len(found[step]) == 0 {
			delete(out, step)
		}
	}
	return out
}

// beyond says whether a target is further than a place of its history. In one history
// the watermarks of a later place are not lower: where they are, another process has
// read on from an earlier one, and its clock has decided otherwise.
func beyond(f dataflow.Committed, at dataflow.Positions, wms map[string]dataflow.Time) bool {
	switch compareAll(f.Positions, at) {
	case more:
		for step, w := range f.Watermarks {
			if have, ok := wms[step]; ok && w < have {
				return false
			}
		}
		return true
	case same:
		return dataflow.CompareWatermarks(f.Watermarks, wms) > 0
	}
	return false
}

func stop(s SinkFacts, why string) error {
	return dataflow.Permanent(fmt.Errorf("%w: sink %s, target %s: %s", ErrCannotResume, s.Name, s.Target, why))
}

// planReplay orders the targets that are ahead and fills r.
func planReplay(r *Recovery, ahead []SinkFacts, quiet []string) error {
	for _, s := range ahead {
		hint := "restore the newest state directory, or give the sink another name and target to start afresh"
		switch {
		case s.NotReplayable != "":
			return stop(s, fmt.Sprintf("it is ahead of the state, and its rows cannot be made again (%s): %s", s.NotReplayable, hint))
		case s.Found.Plan != s.Fingerprint:
			return stop(s, "it is ahead of the state, and was written by another version of this pipeline: run that version, or "+hint)
		case !s.Found.ClockComplete:
			return stop(s, "it is ahead of the state, and the clock decisions recorded in its snapshots have expired: "+hint)
		}
	}
	ahead, err := inHistory(ahead)
	if err != nil {
		return err
	}
	seen := map[dataflow.ClockDecision]bool{}
	for _, s := range ahead {
		r.Muted = append(r.Muted, s.Name)
		for _, d := range s.Found.Clock {
			if !seen[d] {
				seen[d] = true
				r.Clock = append(r.Clock, d)
			}
		}
		if n := len(r.Replays); n > 0 && stands(s.Found, r.Replays[n-1].Until, r.Replays[n-1].Watermarks) {
			r.Replays[n-1].Unmute = append(r.Replays[n-1].Unmute, s.Name)
			continue
		}
		r.Replays = append(r.Replays, Replay{Until: s.Found.Positions, Watermarks: s.Found.Watermarks, Unmute: []string{s.Name}})
	}
	last := &r.Replays[len(r.Replays)-1]
	last.Unmute = append(last.Unmute, quiet...)
	r.Muted = append(r.Muted, quiet...)
	return nil
}

// inHistory puts targets in the order in which they were passed. Two are compared by
// the sources that feed both: what feeds one of them alone says nothing of the other.
func inHistory(targets []SinkFacts) ([]SinkFacts, error) {
	rest, out := slices.Clone(targets), make([]SinkFacts, 0, len(targets))
	for len(rest) > 0 {
		first := slices.IndexFunc(rest, func(s SinkFacts) bool {
			return !slices.ContainsFunc(rest, func(o SinkFacts) bool { return passed(o.Found, s.Found) != same && passed(o.Found, s.Found) != more })
		})
		if first < 0 {
			return nil, crossing(rest)
		}
		out = append(out, rest[first])
		rest = slices.Delete(rest, first, first+1)
	}
	return out, nil
}

// crossing says which of targets do not come from one history.
func crossing(targets []SinkFacts) error {
	for i, a := range targets {
		for _, b := range targets[i+1:] {
			if passed(a.Found, b.Found) == mixed {
				return stop(a, fmt.Sprintf("its positions and those of %s cross: they do not come from one history", b.Name))
			}
		}
	}
	return stop(targets[0], fmt.Sprintf("its positions and those of %s and others follow one another in a circle: they do not come from one history", targets[1].Name))
}

// passed compares how far two targets are by the steps that feed both.
func passed(a, b dataflow.Committed) order {
	x, y := dataflow.Positions{}, dataflow.Positions{}
	wx, wy := map[string]dataflow.Time{}, map[string]dataflow.Time{}
	for step := range a.Positions {
		if len(b.Positions[step]) > 0 {
			x[step], y[step] = a.Positions[step], b.Positions[step]
			wx[step], wy[step] = a.Watermarks[step], b.Watermarks[step]
		}
	}
	c := compareAll(x, y)
	if c != same {
		return c
	}
	switch w := dataflow.CompareWatermarks(wx, wy); {
	case w < 0:
		return fewer
	case w > 0:
		return more
	}
	return same
}

// order of two positions over all splits of the first.
type order int

const (
	same order = iota
	fewer
	more
	mixed
)

// compareAll compares a with b over the splits of both; a split that only one
// of them knows counts as further there.
func compareAll(a, b dataflow.Positions) order {
	less, greater := false, false
	for step, splits := range a {
		for split, pos := range splits {
			switch other := b.Get(step, split); {
			case other == nil || pos.Compare(other) > 0:
				greater = true
			case pos.Compare(other) < 0:
				less = true
			}
		}
	}
	for step, splits := range b {
		for split := range splits {
			// A step that a knows nothing of does not feed it.
			if len(a[step]) > 0 && a.Get(step, split) == nil {
				less = true
			}
		}
	}
	switch {
	case less && greater:
		return mixed
	case less:
		return fewer
	case greater:
		return more
	}
	return same
}

func least(sinks []SinkFacts) dataflow.Positions {
	out := sinks[0].Found.Positions.Clone()
	for _, s := range sinks[1:] {
		for step, splits := range s.Found.Positions {
			for split, pos := range splits {
				if have := out.Get(step, split); have == nil || pos.Compare(have) < 0 {
					out.Set(step, split, pos)
				}
			}
		}
	}
	return out
}
