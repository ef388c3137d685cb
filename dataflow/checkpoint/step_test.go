package checkpoint

import (
	"math/rand"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"frazil/dataflow"
)

// world plays the outside of Step: it carries actions out in any order the real
// one could, and checks the invariants on the way.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	s         State
	started   dataflow.Epoch
	written   dataflow.Epoch
	regions   []regionWorld
	writing   dataflow.Epoch
	included  []int
	commits   map[string]dataflow.Epoch // under way
	committed map[string][]dataflow.Epoch
	rows      map[dataflow.Epoch][]string // targets with rows
	acked     map[string]dataflow.Epoch
	hung      bool // region 0 stages nothing
	leftOut   int  // epochs written without a region
	ended     bool
	exit      bool
	maxWait   int
}

// regionWorld is one region: its barrier under way, the tasks that have not
// reported it, whether its parts are awaited or durable.
type regionWorld struct {
	barrier         dataflow.Epoch
	unread          int
	awaited, staged bool
}

func newWorld(t *testing.T, rng *rand.Rand, regions int) *world {
	w := &world{
		t: t, rng: rng, s: State{Feeds: feeds}, acked: map[string]dataflow.Epoch{}, commits: map[string]dataflow.Epoch{},
		committed: map[string][]dataflow.Epoch{}, rows: map[dataflow.Epoch][]string{}, regions: make([]regionWorld, regions),
	}
	for range regions {
		w.s.Regions = append(w.s.Regions, Region{Tasks: 1 + rng.Intn(4)})
	}
	return w
}

func (w *world) feed(e Event) {
	before := w.s
	was := slices.Clone(before.Regions)
	var actions []Action
	w.s, actions = Step(w.s, e)
	if len(before.Waiting) > 0 && &before.Waiting == &w.s.Waiting || !slices.Equal(was, before.Regions) {
		w.t.Fatal("Step changed its argument")
	}
	for _, a := range actions {
		w.act(a)
	}
}

func (w *world) act(a Action) {
	t := w.t
	switch a := a.(type) {
	case StartBarrier:
		w.starts(a)
	case StageParts:
		r := &w.regions[a.Region]
		if r.barrier != a.Epoch || r.unread != 0 || r.awaited {
			t.Fatalf("I1: parts of %s are awaited before all tasks reported it", a.Epoch)
		}
		r.awaited = true
	case WriteEpoch:
		w.writes(a)
	case StartCommit:
		if a.Epoch > w.written {
			t.Fatalf("I3: commit of %s before its manifest is durable (%s is)", a.Epoch, w.written)
		}
		if w.commits[a.Target] != 0 {
			t.Fatalf("two commits of %s at once", a.Target)
		}
		if done := w.committed[a.Target]; len(done) > 0 && done[len(done)-1] >= a.Epoch {
			t.Fatalf("I4: %s commits %s after %v", a.Target, a.Epoch, done)
		}
		w.commits[a.Target] = a.Epoch
	case AckSource:
		for e := dataflow.Epoch(1); e <= a.Epoch; e++ {
			for _, target := range w.rows[e] {
				if slices.Contains(feeds[a.Source], target) && !slices.Contains(w.committed[target], e) {
					t.Fatalf("I3: ack of %s to %s, but %s of %s is not committed", a.Epoch, a.Source, e, target)
				}
			}
		}
		if a.Epoch <= w.acked[a.Source] || a.Epoch > w.written {
			t.Fatalf("ack of %s to %s after %s, written %s", a.Epoch, a.Source, w.acked[a.Source], w.written)
		}
		w.acked[a.Source] = a.Epoch
	case EndTasks:
		if w.s.Written != w.started || w.leftOutNow() > 0 {
			t.Fatal("I6: end before the last epoch is written, with all regions")
		}
		w.ended = true
	case Exit:
		for source := range feeds {
			if len(w.commits) > 0 || w.acked[source] != w.written {
				t.Fatalf("exit with commits under way (%v) or unacknowledged epochs of %s", w.commits, source)
			}
		}
		w.exit = true
	}
}

func (w *world) starts(a StartBarrier) {
	if w.writing != 0 {
		w.t.Fatalf("I4: %s starts while %s is written", a.Epoch, w.writing)
	}
	if a.Epoch <= w.started {
		w.t.Fatalf("I4: %s after %s: numbers count up and are never reused", a.Epoch, w.started)
	}
	w.started = a.Epoch
	for _, i := range a.Regions {
		if w.regions[i].barrier != 0 {
			w.t.Fatalf("I4: %s starts in region %d while %s is under way there", a.Epoch, i, w.regions[i].barrier)
		}
		w.regions[i] = regionWorld{barrier: a.Epoch, unread: w.s.Regions[i].Tasks}
	}
	if a.Kind != Regular && len(a.Regions) != len(w.regions) {
		w.t.Fatalf("the last epoch leaves regions out: %v", a.Regions)
	}
}

func (w *world) writes(a WriteEpoch) {
	if w.writing != 0 || a.Epoch <= w.written || len(a.Regions) == 0 {
		w.t.Fatalf("I4: %v is written while %s is, after %s", a, w.writing, w.written)
	}
	for _, i := range a.Regions {
		if r := w.regions[i]; !r.staged {
			w.t.Fatalf("I1: %s is written with region %d, which is %+v", a.Epoch, i, r)
		}
	}
	// The barrier of a region that is staged already by an earlier epoch makes the
	// number of an epoch without any barrier of its own.
	w.started = max(w.started, a.Epoch)
	w.writing, w.included = a.Epoch, a.Regions
	w.leftOut += w.leftOutNow()
}

// leftOutNow counts regions with a barrier that the epoch being written leaves out.
func (w *world) leftOutNow() int {
	n := 0
	for i, r := range w.regions {
		if r.barrier != 0 && !slices.Contains(w.included, i) {
			n++
		}
	}
	return n
}

// feeds are the targets of three sources: one that feeds all, one that feeds
// one, one whose rows nobody commits.
var feeds = map[string][]string{"all": {"a", "b", "c"}, "one": {"a"}, "none": nil}

// turn lets one random thing happen.
func (w *world) turn() {
	targets := []string{"a", "b", "c"}
	i := w.rng.Intn(len(w.regions))
	r := &w.regions[i]
	switch w.rng.Intn(10) {
	case 0, 1:
		w.feed(Tick{})
	case 2, 3:
		if r.unread > 0 {
			r.unread--
			w.feed(Reported{r.barrier, i})
		}
	case 4:
		// Of another epoch: late, it changes nothing.
		if e := dataflow.Epoch(w.rng.Intn(int(w.started) + 2)); e != r.barrier {
			w.feed(Reported{e, i})
			w.feed(StagedParts{e, i})
		}
	case 5:
		if w.writing != 0 {
			w.write(targets)
		}
	case 6:
		target := targets[w.rng.Intn(3)]
		if e := w.commits[target]; e != 0 && w.rng.Intn(3) == 0 {
			delete(w.commits, target)
			w.committed[target] = append(w.committed[target], e)
			w.feed(Committed{target, e})
		}
	case 7:
		w.feed(Committed{targets[w.rng.Intn(3)], 1 << 40}) // nobody's
	case 8:
		if r.awaited && !r.staged && !(w.hung && i == 0) {
			r.staged = true
			w.feed(StagedParts{r.barrier, i})
		}
	case 9:
		if w.rng.Intn(4) == 0 {
			w.feed(Overdue{w.started})
		}
	}
	for _, q := range w.s.Waiting {
		w.maxWait = max(w.maxWait, len(q))
	}
}

func (w *world) write(targets []string) {
	e := w.writing
	var with []string
	for _, t := range targets {
		if w.rng.Intn(2) == 0 {
			with = append(with, t)
		}
	}
	for _, i := range w.included {
		w.regions[i] = regionWorld{}
	}
	w.rows[e], w.writing, w.written, w.included = with, 0, e, nil
	w.feed(Written{e, with})
}

func TestStepKeepsTheInvariantsInAnyOrderOfEvents(t *testing.T) {
	seed := rand.Int63()
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	stops, longest, leftOut := 0, 0, 0
	for range 2000 {
		w := newWorld(t, rng, 1+rng.Intn(3))
		for i := range 400 {
			w.hung = i > 100 && i < 250
			if i == 300 && rng.Intn(2) == 0 {
				w.feed(Stop{})
			} else if i == 300 {
				w.feed(SourcesEnded{})
			}
			w.turn()
		}
		for i := 0; i < 20000 && !w.exit; i++ {
			w.turn()
		}
		if !w.exit || !w.ended {
			t.Fatalf("no exit after a stop: %+v", w.s)
		}
		if w.maxWait > MaxWaiting+1 {
			t.Fatalf("%d commits waited", w.maxWait)
		}
		longest, leftOut = max(longest, w.maxWait), leftOut+w.leftOut
		stops++
	}
	if stops != 2000 || longest < 3 || leftOut < 2000 {
		t.Fatalf("the walk did not reach what it should: %d stops, %d waiting, %d regions left out", stops, longest, leftOut)
	}
}

// A region that stages nothing is left out; the epochs of the other go on, and what
// it has staged in the end is in the next one, without a tick.
func TestARegionThatStagesNothingIsLeftOut(t *testing.T) {
	s := State{Regions: []Region{{Tasks: 1}, {Tasks: 1}}}
	do := func(e Event) (out []Action) {
		s, out = Step(s, e)
		return out
	}
	expect := func(got []Action, want ...Action) {
		t.Helper()
		if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	expect(do(Tick{}), StartBarrier{1, Regular, []int{0, 1}})
	expect(do(Reported{1, 0}), StageParts{1, 0})
	expect(do(Reported{1, 1}), StageParts{1, 1})
	expect(do(Overdue{1}))
	expect(do(StagedParts{1, 1}))
	expect(do(Overdue{1}), WriteEpoch{1, []int{1}})
	if !s.Behind(0) || s.Behind(1) {
		t.Fatalf("behind: %v, %v", s.Behind(0), s.Behind(1))
	}
	expect(do(Written{1, nil}))
	for e := dataflow.Epoch(2); e < 5; e++ {
		expect(do(Tick{}), StartBarrier{e, Regular, []int{1}})
		expect(do(Reported{e, 1}), StageParts{e, 1})
		expect(do(StagedParts{e, 1}), WriteEpoch{e, []int{1}})
		expect(do(Written{e, nil}))
	}
	expect(do(Stop{}))
	expect(do(StagedParts{1, 0}), StartBarrier{5, Regular, []int{1}})
	expect(do(Reported{5, 1}), StageParts{5, 1})
	expect(do(StagedParts{5, 1}), WriteEpoch{5, []int{0, 1}})
	expect(do(Written{5, nil}), StartBarrier{6, Last, []int{0, 1}})
}

func TestNothingHappensAfterAFailure(t *testing.T) {
	s, actions := Step(State{Regions: []Region{{Tasks: 1}}}, Failure{})
	if len(actions) != 1 || actions[0] != (Restore{}) {
		t.Fatalf("got %v", actions)
	}
	for _, e := range []Event{Tick{}, Stop{}, SourcesEnded{}, Reported{1, 0}, StagedParts{1, 0}, Overdue{1}, Written{1, nil}, Committed{"a", 1}, Failure{}} {
		if _, actions := Step(s, e); len(actions) != 0 {
			t.Fatalf("%T after a failure: %v", e, actions)
		}
	}
}

func TestAFullTargetHoldsBackEpochsButNotTheLastOne(t *testing.T) {
	s := State{Regions: []Region{{Tasks: 1}}}
	for e := dataflow.Epoch(1); e <= MaxWaiting; e++ {
		s, _ = Step(s, Tick{})
		s, _ = Step(s, Reported{e, 0})
		s, _ = Step(s, StagedParts{e, 0})
		s, _ = Step(s, Written{e, []string{"slow"}})
	}
	if _, actions := Step(s, Tick{}); len(actions) != 0 {
		t.Fatalf("an epoch starts although %d commits wait: %v", MaxWaiting, actions)
	}
	if _, actions := Step(s, Stop{}); len(actions) != 1 {
		t.Fatal("a stop must not wait for a slow target")
	}
}

func TestASlowTargetHoldsBackTheSourcesThatFeedItOnly(t *testing.T) {
	s := State{Regions: []Region{{Tasks: 1}}, Feeds: map[string][]string{"quick": {"fast"}, "stuck": {"slow"}, "both": {"fast", "slow"}}}
	var acks []AckSource
	note := func(actions []Action) {
		for _, a := range actions {
			if a, ok := a.(AckSource); ok && a.Source != "both" {
				acks = append(acks, a)
			}
		}
	}
	for e := dataflow.Epoch(1); e <= 40; e++ {
		var actions []Action
		s, actions = Step(s, Tick{})
		if len(actions) != 1 {
			t.Fatalf("no epoch starts after %d", e-1)
		}
		s, _ = Step(s, Reported{e, 0})
		s, _ = Step(s, StagedParts{e, 0})
		targets := []string{"fast"}
		if !slices.Contains(s.Held(), "stuck") {
			targets = append(targets, "slow")
		}
		s, actions = Step(s, Written{e, targets})
		note(actions)
		s, actions = Step(s, Committed{"fast", e})
		note(actions)
	}
	if got, want := s.Held(), []string{"both", "stuck"}; !slices.Equal(got, want) {
		t.Fatalf("held are %v, want %v", got, want)
	}
	for _, a := range acks {
		if a.Source != "quick" {
			t.Fatalf("ack of %s to %s, none of whose rows is committed", a.Epoch, a.Source)
		}
	}
	if len(acks) != 40 || acks[39].Epoch != 40 {
		t.Fatalf("%d acks to the source of the fast target, the last %v", len(acks), acks[len(acks)-1])
	}
}
