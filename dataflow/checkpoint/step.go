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

// The phases. One epoch at a time is in Gathering or Writing (I4).
const (
	Resting   Phase = iota // no epoch is under way
	Gathering              // barriers run through the regions, and parts are staged
	Writing                // state and manifest are written
	Finished               // the last epoch is written, commits may still run
	Failed                 // a restore was asked for; nothing happens any more
)

// Region is a part of the graph that has no step in common with the others. A
// barrier goes through each by itself, so that one whose sinks cannot stage their
// rows is left out of the epochs of the others until it has caught up.
type Region struct {
	// Tasks that report each barrier, and how many have reported this one.
	Tasks, Reported int
	// Barrier is the one under way, or staged, in Stage; 0: none.
	Barrier dataflow.Epoch
	Stage   Stage
}

// Stage is how far a region's barrier has come.
type Stage int

// The stages.
const (
	Quiet    Stage = iota // no barrier is under way
	Aligning              // it runs through the tasks
	Staging               // all tasks have reported; parts are awaited
	Staged                // all parts are durable; the next epoch that is written has them
	Included              // the epoch that is being written has them
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

// State of the protocol. The zero State with Regions of some Tasks is the start.
type State struct {
	Phase Phase
	// Epoch is the number of the last epoch that was started, also before a
	// restore (I4: a number is never reused).
	Epoch   dataflow.Epoch
	Kind    Kind
	Regions []Region
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
	// Again: an epoch that was to be the last has left regions out.
	Again bool
}

// Event is something that happened.
type Event interface{ event() }

// Events of another epoch than the one under way are late and change nothing.
type (
	// Tick asks for the next epoch.
	Tick struct{}
	// Reported: one task of a region has passed its barrier.
	Reported struct {
		Epoch  dataflow.Epoch
		Region int
	}
	// StagedParts: all parts of a region's barrier are durable.
	StagedParts struct {
		Epoch  dataflow.Epoch
		Region int
	}
	// Overdue: some region has been ready for long enough. The epoch is written
	// without those that are not.
	Overdue struct{ Epoch dataflow.Epoch }
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
func (StagedParts) event()  {}
func (Overdue) event()      {}
func (Written) event()      {}
func (Committed) event()    {}
func (Stop) event()         {}
func (SourcesEnded) event() {}
func (Failure) event()      {}

// Action is something to do.
type Action interface{ action() }

type (
	// StartBarrier sends barrier Epoch into the sources of some regions.
	StartBarrier struct {
		Epoch   dataflow.Epoch
		Kind    Kind
		Regions []int
	}
	// StageParts waits for the parts of a region's barrier.
	StageParts struct {
		Epoch  dataflow.Epoch
		Region int
	}
	// WriteEpoch writes state and manifest: of Regions as they were at their
	// barriers, of the others as they were in the epoch before.
	WriteEpoch struct {
		Epoch   dataflow.Epoch
		Regions []int
	}
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
func (StageParts) action()   {}
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
	s.Waiting, s.Regions = cloneWaiting(s.Waiting), slices.Clone(s.Regions)
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
		return reported(s, e)
	case StagedParts:
		if r := s.region(e.Region, e.Epoch, Staging); r != nil {
			r.Stage = Staged
			if s.Phase == Resting {
				return goOn(s, nil)
			}
			return gathered(s, false)
		}
	case Overdue:
		if e.Epoch == s.Epoch {
			return gathered(s, true)
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

// region returns region i if its barrier e is in stage, else nil: the event is late.
func (s *State) region(i int, e dataflow.Epoch, stage Stage) *Region {
	if i < 0 || i >= len(s.Regions) || s.Regions[i].Barrier != e || s.Regions[i].Stage != stage {
		return nil
	}
	return &s.Regions[i]
}

// in lists the regions in a stage.
func (s *State) in(stage Stage) []int {
	var out []int
	for i, r := range s.Regions {
		if r.Stage == stage {
			out = append(out, i)
		}
	}
	return out
}

// Behind says whether a region is left out of the epoch under way, or of the next
// one, because a barrier of an earlier one has not come through or its parts are not
// staged.
func (s State) Behind(region int) bool {
	r := s.Regions[region]
	return (r.Stage == Aligning || r.Stage == Staging) && (r.Barrier != s.Epoch || s.Phase != Gathering)
}

// SomeStaged says whether a region is staged and waits for others.
func (s State) SomeStaged() bool { return len(s.in(Staged)) > 0 }

// start begins an epoch: a barrier for each region that has none under way. Those
// that are behind take no part, unless their parts have been staged meanwhile.
func start(s State, k Kind) (State, []Action) {
	quiet := s.in(Quiet)
	if len(quiet) == 0 && len(s.in(Staged)) == 0 {
		return s, nil
	}
	s.Epoch++
	s.Kind, s.Phase = k, Gathering
	var out []Action
	if len(quiet) > 0 {
		for _, i := range quiet {
			s.Regions[i] = Region{Tasks: s.Regions[i].Tasks, Barrier: s.Epoch, Stage: Aligning}
		}
		out = append(out, StartBarrier{s.Epoch, k, quiet})
	}
	s, more := gathered(s, false)
	return s, append(out, more...)
}

func reported(s State, e Reported) (State, []Action) {
	r := s.region(e.Region, e.Epoch, Aligning)
	if r == nil {
		return s, nil
	}
	if r.Reported++; r.Reported < r.Tasks {
		return s, nil
	}
	r.Stage = Staging
	return s, []Action{StageParts{e.Epoch, e.Region}}
}

// gathered writes the epoch when all regions that have its barrier are staged, or,
// overdue, when at least one region is.
func gathered(s State, overdue bool) (State, []Action) {
	ready := s.in(Staged)
	if s.Phase != Gathering || len(ready) == 0 {
		return s, nil
	}
	for _, r := range s.Regions {
		if r.Barrier == s.Epoch && r.Stage != Staged && !overdue {
			return s, nil
		}
	}
	for _, i := range ready {
		s.Regions[i].Stage = Included
	}
	s.Phase = Writing
	return s, []Action{WriteEpoch{s.Epoch, ready}}
}

// want starts the last epoch now, or remembers it until no barrier is under way. A
// full queue does not hold it back: it is the last.
func want(s State, k Kind) (State, []Action) {
	if s.Phase == Finished || s.Kind != Regular {
		return s, nil
	}
	s.Wanted = k
	if s.Phase == Resting {
		return goOn(s, nil)
	}
	return s, nil
}

// goOn starts what is due between two epochs: the last one, once every region can
// take part in it, or one for regions that have caught up.
func goOn(s State, out []Action) (State, []Action) {
	var more []Action
	quiet := len(s.in(Quiet)) == len(s.Regions)
	switch k := s.Wanted; {
	case s.Phase != Resting:
	case k != Regular && quiet && (!s.Again || !full(s)):
		s.Wanted = Regular
		s, more = start(s, k)
	case len(s.in(Staged)) > 0 && !full(s):
		s, more = start(s, Regular)
	}
	return s, append(out, more...)
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
	for _, i := range s.in(Included) {
		s.Regions[i] = Region{Tasks: s.Regions[i].Tasks}
	}
	s.Phase = Resting
	switch {
	case s.Kind == Regular:
	case len(s.in(Quiet)) == len(s.Regions):
		s.Phase = Finished
		out = append(out, EndTasks{})
	default:
		// It left regions out, so that another must be the last.
		s.Wanted, s.Kind, s.Again = s.Kind, Regular, true
	}
	return goOn(ack(s, out))
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
	return goOn(ack(s, out))
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
