package checkpoint

import (
	"maps"
	"slices"

	"frazil/dataflow"
)

// MaxWaiting is how many commits may wait for one target before no further
// epoch starts: a slow catalog delays commits, not checkpoints, up to here.
const MaxWaiting = 8

// Phase of the protocol.
type Phase int

// The phases. One epoch at a time is in Aligning or Writing (I4).
const (
	Resting  Phase = iota // no epoch is under way
	Aligning              // the barrier runs through the tasks
	Writing               // parts are awaited, then state and manifest are written
	Finished              // the last epoch is written, commits may still run
	Failed                // a restore was asked for; nothing happens any more
)

// Kind of the epoch under way.
type Kind int

const (
	// Regular epochs are followed by others.
	Regular Kind = iota
	// Last is the checkpoint of a stop: windows stay open.
	Last
	// Drain is the last one after the sources have ended: windows fire first.
	Drain
)

// State of the protocol. The zero State with Tasks set is the start.
type State struct {
	Phase Phase
	// Epoch is the number of the last epoch that was started, also before a
	// restore (I4: a number is never reused).
	Epoch dataflow.Epoch
	Kind  Kind
	// Tasks that report each barrier, and how many have reported this one.
	Tasks, Reported int
	// Waiting commits per target, in order (I4).
	Waiting map[string][]dataflow.Epoch
	// Written is the last durable epoch, Acked the greatest one that each source
	// was told is safe.
	Written dataflow.Epoch
	Acked   map[string]dataflow.Epoch
	// Feeds lists, per source, the targets that its rows go to: only those hold
	// its acknowledgement back. It never changes.
	Feeds map[string][]string
	// Wanted kind of a stop that was asked for while an epoch was under way.
	Wanted Kind
}

// Event is something that happened.
type Event interface{ event() }

// Events of another epoch than the one under way are late and change nothing.
type (
	// Tick asks for the next epoch.
	Tick struct{}
	// Reported: one task has passed the barrier.
	Reported struct{ Epoch dataflow.Epoch }
	// Written: manifest and state of the epoch are durable; Targets have rows.
	Written struct {
		Epoch   dataflow.Epoch
		Targets []string
	}
	// Committed: the target holds the epoch.
	Committed struct {
		Target string
		Epoch  dataflow.Epoch
	}
	// Stop asks for one last epoch without a drain.
	Stop struct{}
	// SourcesEnded asks for one last epoch with a drain.
	SourcesEnded struct{}
	// Failure: a task, a write or a commit failed for good.
	Failure struct{}
)

func (Tick) event()         {}
func (Reported) event()     {}
func (Written) event()      {}
func (Committed) event()    {}
func (Stop) event()         {}
func (SourcesEnded) event() {}
func (Failure) event()      {}

// Action is something to do.
type Action interface{ action() }

type (
	// StartBarrier sends barrier Epoch into the sources.
	StartBarrier struct {
		Epoch dataflow.Epoch
		Kind  Kind
	}
	// WriteEpoch waits for the parts and writes state and manifest.
	WriteEpoch struct{ Epoch dataflow.Epoch }
	// StartCommit commits the epoch to a target. Only one per target is under
	// way.
	StartCommit struct {
		Target string
		Epoch  dataflow.Epoch
	}
	// AckSource tells a source that everything up to Epoch is safe.
	AckSource struct {
		Source string
		Epoch  dataflow.Epoch
	}
	// EndTasks lets the sources send their end (I6).
	EndTasks struct{}
	// Restore rebuilds everything from the last manifest.
	Restore struct{}
	// Exit: everything is written, committed and acknowledged.
	Exit struct{}
)

func (StartBarrier) action() {}
func (WriteEpoch) action()   {}
func (StartCommit) action()  {}
func (AckSource) action()    {}
func (EndTasks) action()     {}
func (Restore) action()      {}
func (Exit) action()         {}

// Step returns the next state and what to do, given one event. It is pure: s is
// not changed.
func Step(s State, e Event) (State, []Action) {
	if s.Phase == Failed {
		return s, nil
	}
	s.Waiting = cloneWaiting(s.Waiting)
	switch e := e.(type) {
	case Tick:
		if s.Phase == Resting && !full(s) {
			return start(s, Regular)
		}
	case Stop:
		return want(s, Last)
	case SourcesEnded:
		return want(s, Drain)
	case Reported:
		if s.Phase != Aligning || e.Epoch != s.Epoch {
			return s, nil
		}
		if s.Reported++; s.Reported == s.Tasks {
			s.Phase = Writing
			return s, []Action{WriteEpoch{s.Epoch}}
		}
	case Written:
		if s.Phase != Writing || e.Epoch != s.Epoch {
			return s, nil
		}
		return written(s, e)
	case Committed:
		return committed(s, e)
	case Failure:
		s.Phase = Failed
		return s, []Action{Restore{}}
	}
	return s, nil
}

func start(s State, k Kind) (State, []Action) {
	s.Epoch++
	s.Kind, s.Reported, s.Phase = k, 0, Aligning
	return s, []Action{StartBarrier{s.Epoch, k}}
}

// want starts the last epoch now, or remembers it until the one under way is
// written. A full queue does not hold it back: it is the last.
func want(s State, k Kind) (State, []Action) {
	if s.Phase == Finished || s.Kind != Regular {
		return s, nil
	}
	if s.Phase == Resting {
		return start(s, k)
	}
	s.Wanted = k
	return s, nil
}

func written(s State, e Written) (State, []Action) {
	var out []Action
	s.Written = e.Epoch
	for _, t := range e.Targets {
		s.Waiting[t] = append(s.Waiting[t], e.Epoch)
		if len(s.Waiting[t]) == 1 {
			out = append(out, StartCommit{t, e.Epoch})
		}
	}
	s.Phase = Resting
	switch {
	case s.Kind != Regular:
		s.Phase = Finished
		out = append(out, EndTasks{})
	case s.Wanted != Regular:
		k := s.Wanted
		s.Wanted = Regular
		var more []Action
		s, more = start(s, k)
		out = append(out, more...)
	}
	return ack(s, out)
}

func committed(s State, e Committed) (State, []Action) {
	q := s.Waiting[e.Target]
	if len(q) == 0 || q[0] != e.Epoch {
		return s, nil
	}
	var out []Action
	if q = q[1:]; len(q) == 0 {
		delete(s.Waiting, e.Target)
	} else {
		s.Waiting[e.Target] = q
		out = append(out, StartCommit{e.Target, q[0]})
	}
	return ack(s, out)
}

// ack tells each source what is safe in every target that has rows of it (I3).
func ack(s State, out []Action) (State, []Action) {
	acked := maps.Clone(s.Acked)
	for _, source := range slices.Sorted(maps.Keys(s.Feeds)) {
		safe := s.Written
		for _, t := range s.Feeds[source] {
			if q := s.Waiting[t]; len(q) > 0 && q[0] <= safe {
				safe = q[0] - 1
			}
		}
		if safe > acked[source] {
			if acked == nil {
				acked = map[string]dataflow.Epoch{}
			}
			acked[source] = safe
			out = append(out, AckSource{source, safe})
		}
	}
	s.Acked = acked
	if s.Phase == Finished && len(s.Waiting) == 0 {
		out = append(out, Exit{})
	}
	return s, out
}

// Held lists the sources whose rows are to wait: a target that they feed has
// nearly as many commits waiting as are allowed. Epochs go on without them, so
// that the other sources are not held up; what was under way when they stopped
// takes the one or two places that are left.
func (s State) Held() []string {
	var out []string
	for source, targets := range s.Feeds {
		if slices.ContainsFunc(targets, func(t string) bool { return len(s.Waiting[t]) >= MaxWaiting-2 }) {
			out = append(out, source)
		}
	}
	slices.Sort(out)
	return out
}

func full(s State) bool {
	for _, q := range s.Waiting {
		if len(q) >= MaxWaiting {
			return true
		}
	}
	return false
}

func cloneWaiting(w map[string][]dataflow.Epoch) map[string][]dataflow.Epoch {
	out := make(map[string][]dataflow.Epoch, len(w))
	for k, q := range w {
		out[k] = append([]dataflow.Epoch(nil), q...)
	}
	return out
}
