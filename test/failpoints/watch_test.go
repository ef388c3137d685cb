//go:build failpoints

package failpoints

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"frazil/dataflow/failpoint"
)

// watch lets what stands still go on, once it has seen that the rest does.
type watch struct {
	stalled []failpoint.Site // armed to stand still
	done    chan struct{}
	over    sync.WaitGroup

	mu struct {
		sync.Mutex
		stage *stage
		errs  []error
		ends  int
		// stands were looked at, answers and epochs are how often those went on.
		stands, answers, epochs int64
	}
}

func newWatch(steps ...failpoint.Step) *watch {
	w := &watch{done: make(chan struct{})}
	for _, s := range steps {
		if s.Action == failpoint.Stall {
			w.stalled = append(w.stalled, s.Site)
		}
	}
	w.over.Go(w.run)
	return w
}

// close ends the watch and says what was wrong.
func (w *watch) close() []error {
	close(w.done)
	w.over.Wait()
	failpoint.Resume()
	return w.mu.errs
}

func (w *watch) enter(st *stage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.stage = st
}

func (w *watch) leave() { w.enter(nil) }

func (w *watch) ended(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.ends += n
}

func (w *watch) run() {
	fired := map[failpoint.Site]int{}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-tick.C:
		}
		for _, s := range w.stalled {
			if n := failpoint.Fired(s); n > fired[s] {
				fired[s] = n
				if err := w.stands(s); err != nil {
					w.mu.Lock()
					w.mu.errs = append(w.mu.errs, fmt.Errorf("while %s stood still: %w", s, err))
					w.mu.Unlock()
				}
				failpoint.Resume()
			}
		}
	}
}

// Sites at which records are taken in: while one stands still, nobody is answered. At
// the others producers are.
var unanswering = []failpoint.Site{
	failpoint.IngestGathered, failpoint.WALAppend, failpoint.WALSegment, failpoint.WALWritten, failpoint.WALSynced,
	failpoint.IngestDurable, failpoint.IngestAnswer, failpoint.WALRecovered, failpoint.LastBarrier,
}

// Sites of commits and acknowledgements: while one stands still, further epochs end,
// until too many commits wait. Those that a claim comes by too are not among them:
// before targets are claimed no epoch with rows for them ends.
var onward = []failpoint.Site{
	failpoint.BeforeCommit, failpoint.TableLooked, failpoint.AfterCommit, failpoint.BeforeAck, failpoint.AfterAck,
}

// stands looks whether the rest goes on.
func (w *watch) stands(site failpoint.Site) error {
	w.mu.Lock()
	st := w.mu.stage
	w.mu.stands++
	w.mu.Unlock()
	if st == nil || st.k == phases-1 || !st.working() {
		return nil // Between two runs, or as they stop: there is nothing that could go on.
	}
	if slices.Contains(unanswering, site) {
		return nil
	}
	before := st.epochs()
	if err := st.probe(); err != nil {
		return err
	}
	w.mu.Lock()
	w.mu.answers++
	w.mu.Unlock()
	if !slices.Contains(onward, site) {
		return nil
	}
	err := st.until("further epochs end", func() bool {
		now := st.epochs()
		return now[0] > before[0] && now[1] > before[1] || !st.working()
	})
	if err == nil && st.working() {
		w.mu.Lock()
		w.mu.epochs++
		w.mu.Unlock()
	}
	return err
}

// working says whether both pipelines run and were not told to stop.
func (st *stage) working() bool {
	for _, p := range []*pipe{st.push, st.lines} {
		if j, stopping := p.current(); j == nil || stopping {
			return false
		}
	}
	return true
}

// epochs are the last ones of both pipelines.
func (st *stage) epochs() (out [2]uint64) {
	for i, p := range []*pipe{st.push, st.lines} {
		if m := p.manifest(); m != nil {
			out[i] = uint64(m.Epoch)
		}
	}
	return out
}

// probe gives both pipelines more to read; the request must be answered.
func (st *stage) probe() error {
	st.posts.Add(1)
	defer st.posts.Done()
	st.probes++
	if err := st.s.addFile(st.k*filesStep + st.probes); err != nil {
		return err
	}
	st.post(st.k*phaseStep + perPhase + st.probes)
	return nil
}
