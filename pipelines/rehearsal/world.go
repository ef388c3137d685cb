package rehearsal

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
)

// world is one variant of a piece: what outlives its runs, and the order in
// which the sources of a run give their records.
type world struct {
	piece *Piece
	moves []move
	mu    sync.Mutex
	// changed is closed and made anew whenever something has changed.
	changed chan struct{}
	targets map[string]*target
	shows   map[int]map[string][]string // by move, then by sink
	last    *checkpoint.Manifest
	failure error
	// crashes holds the steps before which the process is still to crash, killed
	// the moves at which it did.
	crashes, killed map[int]bool
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

func newWorld(p *Piece, v Variant) *world {
	w := &world{
		piece: p, moves: p.moves(v.steps), changed: make(chan struct{}), targets: map[string]*target{},
		shows: map[int]map[string][]string{}, crashes: maps.Clone(v.crashes), killed: map[int]bool{},
		places: map[dataflow.Epoch]place{}, resume: place{now: p.Start},
	}
	for _, out := range p.Sinks {
		w.targets[out.Name] = &target{world: w}
	}
	return w
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
func (w *world) read(l Lane, n int) int {
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
	return n == len(w.piece.Lanes)
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
		case moveKill:
			if !w.killed[r.next] {
				w.killed[r.next] = true
				r.over = true
				r.cancel()
				break
			}
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
			if at := s.at[m.lane.Split]; at == nil || m.lane.Source != s.env.Step {
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
	for _, l := range w.piece.Lanes {
		got := dataflow.Position(m.Sources[l.Source].Splits[l.Split].Position)
		if want := position(w.read(l, r.next)); got.Compare(want) != 0 {
			w.fail("%s: %s/%s stands at %s, want %s: exactly the events before the barrier (I1)", m.Epoch, l.Source, l.Split, got, want)
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
	for _, k := range w.piece.Sinks {
		rows := w.targets[k.Name].rows
		if !k.Stream.Changelog {
			out[k.Name] = append([]string(nil), rows...)
			continue
		}
		tab := newTable(k.Stream)
		for _, c := range rows {
			if err := tab.apply(c); err != nil {
				w.fail("sink %s: %w", k.Name, err)
				break
			}
		}
		out[k.Name] = tab.list()
	}
	return out
}

// lose makes the next run one without state: it goes on where the targets are.
func (w *world) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resume = place{now: w.piece.Start}
	for _, t := range w.targets {
		if t.place.next > w.resume.next {
			w.resume = t.place
		}
		t.epoch = 0 // they are counted anew
	}
}
