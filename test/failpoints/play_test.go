//go:build failpoints

package failpoints

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	_ "frazil/pipelines/std"
	"frazil/state"
)

// patience bounds every wait: far beyond what it needs.
const patience = 3 * time.Minute

// phases: in each both pipelines run, get more to read, and stop. Before the third and
// the fourth one the state of lines is set back to where it was after the first one,
// so that its tables are ahead of it. In the last one both run to their ends.
const phases = 5

// maxEnds is how often the runs of a pipeline may end by an error in one phase.
const maxEnds = 6

// play plays a scene, from where it stands.
func (s *scene) play(w *watch) error {
	for {
		k := s.number("phase")
		if k == phases {
			return nil
		}
		if k == 2 || k == 3 {
			if err := s.restore(k); err != nil {
				return err
			}
		}
		if err := s.phase(k, w); err != nil {
			return fmt.Errorf("phase %d: %w", k, err)
		}
		if k == 0 {
			if err := s.copyState("lines", "lines.old"); err != nil {
				return err
			}
		}
		if err := s.setNumber("phase", k+1); err != nil {
			return err
		}
	}
}

func (s *scene) number(name string) int {
	raw, _ := os.ReadFile(s.path(name))
	n, _ := strconv.Atoi(string(raw))
	return n
}

func (s *scene) setNumber(name string, n int) error {
	if err := os.WriteFile(s.path(name+".tmp"), []byte(strconv.Itoa(n)), 0o644); err != nil {
		return err
	}
	return os.Rename(s.path(name+".tmp"), s.path(name))
}

// restore sets the state of lines back, once before phase k.
func (s *scene) restore(k int) error {
	if s.number("restored") == k {
		return nil
	}
	if err := s.copyState("lines.old", "lines"); err != nil {
		return err
	}
	return s.setNumber("restored", k)
}

func (s *scene) copyState(from, to string) error {
	if err := os.RemoveAll(s.path(to)); err != nil {
		return err
	}
	return os.CopyFS(s.path(to), os.DirFS(s.path(from)))
}

// pipe runs one pipeline, again and again where its runs end by an error, as what
// watches over a process does.
type pipe struct {
	s        *scene
	name     string
	untilEnd bool
	log      io.Writer

	mu struct {
		sync.Mutex
		job      *engine.Job
		stopping bool
		ends     []error
	}
}

func (p *pipe) run() error {
	for {
		err := p.once()
		if err == nil {
			return nil
		}
		p.mu.Lock()
		p.mu.ends = append(p.mu.ends, err)
		n := len(p.mu.ends)
		p.mu.Unlock()
		if n > maxEnds {
			return fmt.Errorf("pipeline %s ended %d times: %w", p.name, n, err)
		}
	}
}

func (p *pipe) once() (err error) {
	pl, problems := pipelines.Load(p.s.path(p.name+".yaml"), pipelines.Options{Parallelism: 2})
	if pl == nil {
		return fmt.Errorf("the pipeline is wrong: %v", problems)
	}
	log := slog.New(slog.NewTextHandler(p.log, nil)).With("pipeline", p.name)
	// Paths in the file count from its folder, those of the state from the program's.
	store, err := state.Open(p.s.path(p.name), state.Options{Logger: log, CacheBytes: 4 << 20})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	job := engine.NewJob(pl.Graph, engine.Options{
		Store: store, Every: 100 * time.Millisecond, WALDir: p.s.path(p.name + ".wal"), Log: log, UntilEnd: p.untilEnd, Memory: 128 << 20, StateMemory: 64 << 20,
	})
	p.mu.Lock()
	p.mu.job = job
	stopping := p.mu.stopping
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if stopping {
		// The run before this one failed as it stopped: this one goes on from there.
		go stopOnceConnected(ctx, job)
	}
	_, err = job.Run(ctx)
	return err
}

func stopOnceConnected(ctx context.Context, job *engine.Job) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !job.Status().Connected {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	job.Stop()
}

func (p *pipe) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.stopping = true
	if p.mu.job != nil {
		p.mu.job.Stop()
	}
}

// current is the job, nil before the first one.
func (p *pipe) current() (j *engine.Job, stopping bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.job, p.mu.stopping
}

// manifest is the last durable one, nil if there is none.
func (p *pipe) manifest() *checkpoint.Manifest {
	if j, _ := p.current(); j != nil {
		return j.Manifest()
	}
	return nil
}

// stage is a phase under way.
type stage struct {
	s           *scene
	k           int
	push, lines *pipe
	posts       sync.WaitGroup
	probes      int
	ctx         context.Context
	fail        context.CancelCauseFunc
}

// phase runs both pipelines until they have read what there is, and stops them.
func (s *scene) phase(k int, w *watch) error {
	log, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, fail := context.WithCancelCause(context.Background())
	defer fail(nil)
	last := k == phases-1
	st := &stage{s: s, k: k, ctx: ctx, fail: fail}
	st.push = &pipe{s: s, name: "push", untilEnd: last, log: log}
	st.lines = &pipe{s: s, name: "lines", untilEnd: last, log: log}
	if !last {
		if err := s.addFile(k * filesStep); err != nil {
			return err
		}
	}
	var running sync.WaitGroup
	for _, p := range []*pipe{st.push, st.lines} {
		running.Go(func() {
			if err := p.run(); err != nil {
				fail(err)
			}
		})
	}
	w.enter(st)
	if !last {
		st.feed()
	}
	running.Wait()
	w.leave()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	w.ended(len(st.push.mu.ends) + len(st.lines.mu.ends))
	return nil
}

// feed posts, fixes, and stops the pipelines when all of it is in a durable epoch.
func (st *stage) feed() {
	for i := range 2 {
		st.posts.Go(func() {
			for n := st.k*phaseStep + i; n < st.k*phaseStep+perPhase; n += 2 {
				st.post(n)
			}
		})
	}
	st.fix()
	st.posts.Wait()
	err := st.until("everything is read", func() bool { return st.pushed() && st.lined() })
	st.push.stop()
	st.lines.stop()
	if err != nil {
		st.fail(err)
	}
}

// until looks again and again, until ok or the phase has failed.
func (st *stage) until(what string, ok func() bool) error {
	end := time.Now().Add(patience)
	for tick := time.NewTicker(5 * time.Millisecond); !ok(); {
		select {
		case <-st.ctx.Done():
			tick.Stop()
			return context.Cause(st.ctx)
		case <-tick.C:
			if time.Now().After(end) {
				return fmt.Errorf("waited in vain until %s", what)
			}
		}
	}
	return nil
}

// post sends request n until it is answered.
func (st *stage) post(n int) {
	if st.s.answered()[n] {
		return
	}
	err := st.until(fmt.Sprintf("request %d is answered", n), func() bool {
		req, err := http.NewRequestWithContext(st.ctx, http.MethodPost, "http://"+st.s.address+"/events", bytes.NewReader(requestBody(n)))
		if err != nil {
			return false
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		req.Header.Set("Idempotency-Key", strconv.Itoa(n))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	if err == nil {
		err = st.s.acked(n)
	}
	if err != nil {
		st.fail(err)
	}
}

// pushed says whether every answered record is in a durable epoch.
func (st *stage) pushed() bool {
	want := int64(0)
	for n := range st.s.answered() {
		want += int64(len(ids(n)))
	}
	m := st.push.manifest()
	return m != nil && m.Ledger.Steps["copy"].In == want
}

// lined says the same of the lines, and that those to be fixed have left the
// quarantine.
func (st *stage) lined() bool {
	good, bad := 0, 0
	for _, j := range st.s.files() {
		n, _ := badsOf(j)
		good, bad = good+goodLines, bad+n
		if n > 0 {
			good, bad = good+1, bad-1
		}
	}
	m := st.lines.manifest()
	return m != nil && m.Ledger.Steps["raw"].In == int64(good) && m.Quarantine != nil && m.Quarantine.Rows == int64(bad)
}

// fix sends the first bad line of the phase's file again, mended, until it has left
// the quarantine.
func (st *stage) fix() {
	j := st.k * filesStep
	again := []engine.Resend{{ID: fixedID(j), Raw: []byte(fixed(j).text)}}
	err := st.until("the line is fixed", func() bool {
		job, _ := st.lines.current()
		if job == nil {
			return false
		}
		out, err := job.Resend(st.ctx, again)
		return err == nil && (out[0].Sent || out[0].Again) || st.lined()
	})
	if err != nil {
		st.fail(err)
	}
}

// tail is the end of what the pipelines have logged.
func (s *scene) tail() string {
	raw, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	var out []string
	for l := range strings.Lines(string(raw)) {
		if !strings.Contains(l, "state store") && !strings.Contains(l, "level=DEBUG") {
			out = append(out, l[:min(len(l), 700)])
		}
	}
	return strings.Join(out[max(0, len(out)-60):], "\n")
}
