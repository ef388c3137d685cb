package flowtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
)

// move is the least thing that happens: steps are made of moves. A move is over
// when the task that made it asks for the next one, so that all tasks together
// follow one order.
type move struct {
	kind moveKind
	lane lane
	n    int
	d    time.Duration
	// step is the index of the step that begins here, -1 within one.
	step int
}

type moveKind int

const (
	moveRead    moveKind = iota // n records of the lane
	moveCaught                  // the lane says that it is caught up
	moveClock                   // the clock goes on by d
	moveSync                    // every task sends its source's watermark
	moveBarrier                 // an epoch
	moveShow                    // what is committed is noted
	moveStop                    // a stop with a checkpoint
	moveEnd                     // the lane ends
	moveDrained                 // the last epoch of a drain
)

// moves takes steps apart; lanes end in their order in the script.
func moves(steps []step, lanes []lane) []move {
	var out []move
	for i, s := range steps {
		first := len(out)
		add := func(m move) { m.step = -1; out = append(out, m) }
		switch s.kind {
		case stepRead:
			add(move{kind: moveRead, lane: s.lane, n: s.n})
		case stepIdle:
			add(move{kind: moveSync})
			add(move{kind: moveCaught, lane: s.lane})
			add(move{kind: moveClock, d: s.d})
			add(move{kind: moveSync})
			add(move{kind: moveSync})
		case stepClock:
			add(move{kind: moveClock, d: s.d})
			add(move{kind: moveSync})
		case stepSync:
			add(move{kind: moveSync})
		case stepBarrier:
			add(move{kind: moveBarrier})
		case stepShow:
			add(move{kind: moveSync})
			add(move{kind: moveBarrier})
			add(move{kind: moveShow})
		case stepRestart:
			add(move{kind: moveStop})
		case stepDrain:
			for _, l := range lanes {
				add(move{kind: moveEnd, lane: l})
			}
			add(move{kind: moveDrained})
		}
		out[first].step = i
	}
	return out
}

// world is one variant of a script: what outlives its runs, and the order in
// which the sources of a run give their records.
type world struct {
	script *script
	moves  []move
	mu     sync.Mutex
	// changed is closed and made anew whenever something has changed.
	changed chan struct{}
	targets map[string]*target
	shows   map[int]map[string][]string // by move
	last    *checkpoint.Manifest
	failure error
	// crashes holds the steps before which the process is still to crash.
	crashes map[int]bool
	// resume is the move at which the next run goes on, and the clock there;
	// places keeps both per epoch.
	resume place
	places map[dataflow.Epoch]place
	run    attempt
}

type place struct {
	next int
	now  time.Time
}

// attempt is one run of the engine.
type attempt struct {
	job    *engine.Job
	cancel context.CancelFunc
	place
	tasks  []*source
	busy   *source // makes a move
	synced map[*source]sync3
	asked  bool // the epoch of a moveBarrier
	over   bool // crashed or stopping: no more moves
}

// sync3 is how far a task came within a moveSync.
type sync3 int

const (
	syncSent sync3 = iota + 1
	syncDone
)

var worlds = struct {
	sync.Mutex
	byName map[string]*world
	n      int
}{byName: map[string]*world{}}

// newWorld registers a world under the name of its pipeline.
func newWorld(s *script, steps []step, crashes map[int]bool) (*world, string) {
	w := &world{
		script: s, moves: moves(steps, s.lanes), changed: make(chan struct{}), targets: map[string]*target{},
		shows: map[int]map[string][]string{}, crashes: crashes, places: map[dataflow.Epoch]place{},
		resume: place{now: scriptEpoch},
	}
	for _, name := range s.sinks {
		w.targets[name] = &target{world: w}
	}
	worlds.Lock()
	defer worlds.Unlock()
	worlds.n++
	name := fmt.Sprintf("script-%d", worlds.n)
	worlds.byName[name] = w
	return w, name
}

func (w *world) forget(name string) {
	worlds.Lock()
	defer worlds.Unlock()
	delete(worlds.byName, name)
}

func worldOf(env *dataflow.Env) (*world, error) {
	worlds.Lock()
	defer worlds.Unlock()
	w := worlds.byName[env.Pipeline]
	if w == nil {
		return nil, dataflow.Permanentf("the component script runs in tests only")
	}
	return w, nil
}

// begin starts an attempt where the last one's newest epoch left off.
func (w *world) begin(job *engine.Job, cancel context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run = attempt{job: job, cancel: cancel, place: w.resume, synced: map[*source]sync3{}}
}

// now is the clock of the engine.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run.now
}

// wake is called with the lock held.
func (w *world) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
	w.run.over = true
	w.run.cancel()
}

// advance goes on to the next move.
func (w *world) advance() {
	w.run.next++
	w.run.asked = false
	clear(w.run.synced)
	w.wake()
}

// done is whether every move was made and the last epoch is written.
func (w *world) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resume.next == len(w.moves)
}

// read is how many records of a lane the first n moves give.
func (w *world) read(l lane, n int) int {
	sum := 0
	for _, m := range w.moves[:n] {
		if m.kind == moveRead && m.lane == l {
			sum += m.n
		}
	}
	return sum
}

// live says whether every lane was assigned without an Until: only then the
// order of the script holds.
func (w *world) live() bool {
	n := 0
	for _, t := range w.run.tasks {
		for _, at := range t.at {
			if at.until >= 0 {
				return false
			}
			n++
		}
	}
	return n == len(w.script.lanes)
}

// turn gives the task s its move, if it is its turn. It is called with the lock
// held.
func (w *world) turn(s *source) (dataflow.Polled, bool, error) {
	r := &w.run
	if !w.live() {
		return s.replay()
	}
	for !r.over && r.busy == nil && r.next < len(w.moves) {
		m := w.moves[r.next]
		if w.crashes[m.step] {
			delete(w.crashes, m.step)
			r.over = true
			r.cancel()
			break
		}
		switch m.kind {
		case moveClock:
			r.now = r.now.Add(m.d)
			w.advance()
			continue
		case moveShow:
			if w.waiting() {
				break
			}
			w.shows[r.next] = w.committed()
			w.advance()
			continue
		case moveSync:
			if r.synced[s] == 0 {
				r.synced[s] = syncSent
				return dataflow.Polled{}, true, nil
			}
		case moveBarrier:
			if !r.asked {
				r.asked = true
				r.job.Checkpoint()
			}
		case moveStop:
			if !r.asked {
				r.asked = true
				r.job.Stop()
			}
		case moveRead, moveCaught, moveEnd:
			if at := s.at[m.lane.split]; at == nil || m.lane.source != s.env.Step {
				break
			}
			p, err := s.move(m)
			r.busy = s
			w.advance()
			return p, true, err
		}
		break
	}
	return dataflow.Polled{}, false, nil
}

// asksAgain notes that the task s has finished what it did last.
func (w *world) asksAgain(s *source) {
	r := &w.run
	if r.busy == s {
		r.busy = nil
		w.wake()
	}
	if r.synced[s] == syncSent {
		r.synced[s] = syncDone
		for _, t := range r.tasks {
			if r.synced[t] != syncDone {
				return
			}
		}
		w.advance()
	}
}

// onManifest hears of every durable epoch.
func (w *world) onManifest(m *checkpoint.Manifest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = m
	r := &w.run
	if !w.live() {
		return // of a replay
	}
	kind := moveRead
	if r.next < len(w.moves) {
		kind = w.moves[r.next].kind
	}
	if kind != moveBarrier && kind != moveStop && (kind != moveDrained || !m.Drained) {
		w.fail("%s came unasked", m.Epoch)
		return
	}
	for _, l := range w.script.lanes {
		got := dataflow.Position(m.Sources[l.source].Splits[l.split].Position)
		if want := position(w.read(l, r.next)); got.Compare(want) != 0 {
			w.fail("%s: %s/%s stands at %s, want %s: exactly the events before the barrier (I1)", m.Epoch, l.source, l.split, got, want)
		}
	}
	w.resume = place{r.next + 1, r.now}
	w.places[m.Epoch] = w.resume
	if kind == moveBarrier {
		w.advance()
	} else {
		r.over = true
	}
}

// waiting says whether commits of the last epoch are still to come.
func (w *world) waiting() bool {
	for sink, t := range w.last.Targets {
		for _, c := range t.Pending {
			if w.targets[sink].epoch < c.Epoch {
				return true
			}
		}
	}
	return false
}

// committed copies what every sink holds: its rows, or the table that its
// changes make.
func (w *world) committed() map[string][]string {
	out := map[string][]string{}
	for name, t := range w.targets {
		key, changes := w.script.tables[name]
		if !changes {
			out[name] = append([]string(nil), t.rows...)
			continue
		}
		tab := newTable(key)
		for _, c := range t.rows {
			if err := tab.apply(c); err != nil {
				w.fail("sink %s: %v", name, err)
				break
			}
		}
		out[name] = tab.list()
	}
	return out
}

// lose makes the next run one without state: it goes on where the targets are.
func (w *world) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resume = place{now: scriptEpoch}
	for _, t := range w.targets {
		if t.place.next > w.resume.next {
			w.resume = t.place
		}
		t.epoch = 0 // they are counted anew
	}
}
