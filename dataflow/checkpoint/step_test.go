package checkpoint

import (
	"math/rand"
	"os"
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
	barrier   dataflow.Epoch // under way, 0: none
	unread    int            // tasks that have not reported it
	writing   dataflow.Epoch
	commits   map[string]dataflow.Epoch // under way
	committed map[string][]dataflow.Epoch
	rows      map[dataflow.Epoch][]string // targets with rows
	acked     map[string]dataflow.Epoch
	ended     bool
	exit      bool
	maxWait   int
}

func (w *world) feed(e Event) {
	before := w.s
	var actions []Action
	w.s, actions = Step(w.s, e)
	if len(before.Waiting) > 0 && &before.Waiting == &w.s.Waiting {
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
		if w.barrier != 0 || w.writing != 0 {
			t.Fatalf("I4: %s starts while %s or %s is under way", a.Epoch, w.barrier, w.writing)
		}
		if a.Epoch != w.started+1 {
			t.Fatalf("I4: %s after %s: numbers count up and are never reused", a.Epoch, w.started)
		}
		w.started, w.barrier, w.unread = a.Epoch, a.Epoch, w.s.Tasks
	case WriteEpoch:
		if w.barrier != a.Epoch || w.unread != 0 {
			t.Fatalf("I1: %s is written before all tasks reported it", a.Epoch)
		}
		w.barrier, w.writing = 0, a.Epoch
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
		if w.s.Written != w.started {
			t.Fatal("I6: end before the last epoch is written")
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

// feeds are the targets of three sources: one that feeds all, one that feeds
// one, one whose rows nobody commits.
var feeds = map[string][]string{"all": {"a", "b", "c"}, "one": {"a"}, "none": nil}

// turn lets one random thing happen.
func (w *world) turn() {
	targets := []string{"a", "b", "c"}
	switch w.rng.Intn(8) {
	case 0, 1:
		w.feed(Tick{})
	case 2, 3:
		if w.barrier != 0 && w.unread > 0 {
			w.unread--
			w.feed(Reported{w.barrier})
		}
	case 4:
		// Of another epoch: late, it changes nothing.
		if e := dataflow.Epoch(w.rng.Intn(int(w.started) + 2)); e != w.barrier {
			w.feed(Reported{e})
		}
	case 5:
		if w.writing != 0 {
			e := w.writing
			var with []string
			for _, t := range targets {
				if w.rng.Intn(2) == 0 {
					with = append(with, t)
				}
			}
			w.rows[e], w.writing, w.written = with, 0, e
			w.feed(Written{e, with})
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
	}
	for _, q := range w.s.Waiting {
		w.maxWait = max(w.maxWait, len(q))
	}
}

func TestStepKeepsTheInvariantsInAnyOrderOfEvents(t *testing.T) {
	seed := rand.Int63()
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	stops, longest := 0, 0
	for range 2000 {
		w := &world{t: t, rng: rng, s: State{Tasks: 1 + rng.Intn(4), Feeds: feeds}, acked: map[string]dataflow.Epoch{}, commits: map[string]dataflow.Epoch{}, committed: map[string][]dataflow.Epoch{}, rows: map[dataflow.Epoch][]string{}}
		for i := range 400 {
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
		longest = max(longest, w.maxWait)
		stops++
	}
	if stops != 2000 || longest < 3 {
		t.Fatalf("the walk did not reach what it should: %d stops, %d waiting", stops, longest)
	}
}

func TestNothingHappensAfterAFailure(t *testing.T) {
	s, actions := Step(State{Tasks: 1}, Failure{})
	if len(actions) != 1 || actions[0] != (Restore{}) {
		t.Fatalf("got %v", actions)
	}
	for _, e := range []Event{Tick{}, Stop{}, SourcesEnded{}, Reported{1}, Written{1, nil}, Committed{"a", 1}, Failure{}} {
		if _, actions := Step(s, e); len(actions) != 0 {
			t.Fatalf("%T after a failure: %v", e, actions)
		}
	}
}

func TestAFullTargetHoldsBackEpochsButNotTheLastOne(t *testing.T) {
	s := State{Tasks: 1}
	for e := dataflow.Epoch(1); e <= MaxWaiting; e++ {
		s, _ = Step(s, Tick{})
		s, _ = Step(s, Reported{e})
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
	s := State{Tasks: 1, Feeds: map[string][]string{"quick": {"fast"}, "stuck": {"slow"}, "both": {"fast", "slow"}}}
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
		s, _ = Step(s, Reported{e})
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
