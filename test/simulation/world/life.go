package world

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/pipelines"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func (w *World) perm(n int) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.Perm(n)
}

// operator is who runs the pipeline, and whoever pulls plugs.
type operator struct {
	w       *World
	p       *process
	zombies []*process
	// old are copies of the disk as it was.
	old []copied
	// replayable: what was lost can be made again.
	replayable bool
	fenced     bool // there has been a second process
}

type copied struct {
	disk *vfs.MemFS
	line lineage
}

// live lets the world pass, from its first process to the last.
func (w *World) live() {
	u := &operator{w: w, replayable: !w.plan.hasPush() && w.replayable()}
	for _, to := range w.pushes {
		for _, p := range to.producers {
			go w.produce(to, p)
		}
	}
	for _, j := range w.plan.jumps {
		time.AfterFunc(j.at, func() {
			w.trace("clock_jumps", "%s", j.by)
			if w.o.Jump != nil {
				w.o.Jump(j.by)
			}
		})
	}
	u.p = w.begin(vfs.NewCrashableMem(), lineage{}, false)
	for w.now() < w.o.For && len(w.failures) == 0 {
		u.incident()
	}
	u.end()
}

// replayable asks the plan.
func (w *World) replayable() bool {
	x, problems := pipelines.Parse("sim.yaml", []byte(w.plan.yaml), pipelines.Options{Parallelism: 2})
	if x == nil {
		w.fail("%v\n%s", problems, w.plan.yaml)
		return false
	}
	for _, s := range x.Graph.Sinks {
		if s.NotReplayable != "" {
			w.trace("not_replayable", "%s: %s", s.Name, s.NotReplayable)
			return false
		}
	}
	return true
}

// incident waits for the next one and lets it happen.
func (u *operator) incident() {
	w := u.w
	wait := w.between(0, 2*w.plan.incident)
	if w.intn(4) == 0 {
		wait = w.between(0, 2*time.Second) // soon after the last one
	}
	timer := time.NewTimer(min(wait, max(w.o.For-w.now(), time.Millisecond)))
	defer timer.Stop()
	select {
	case <-u.p.done:
		u.ended()
		return
	case <-timer.C:
	}
	if w.now() >= w.o.For {
		return
	}
	switch n := w.intn(20); {
	case n < 8:
		u.restart(u.crash())
	case n < 12:
		u.stop()
	case n < 13:
		w.trace("checkpoints", "%d", u.p.n)
		if u.p.job != nil {
			u.p.job.Checkpoint()
		}
	case !u.replayable:
	case n < 15:
		if w.o.Second {
			u.second()
		} else {
			u.restart(u.crash())
		}
	case n < 18:
		u.restore()
	default:
		u.lose()
	}
}

// crash kills the process; the disk keeps what was synced, and some of the rest.
func (u *operator) crash() copied {
	line := u.p.lineage()
	return copied{u.p.kill(u.unsynced()), line}
}

func (u *operator) unsynced() int {
	w := u.w
	w.mu.Lock()
	defer w.mu.Unlock()
	return []int{0, 0, 30, 90, 100}[w.rng.IntN(5)]
}

// lineage is a copy of what is known of the process's epochs.
func (p *process) lineage() lineage {
	p.w.tab.Lock()
	defer p.w.tab.Unlock()
	return p.line.copy()
}

func (l *lineage) copy() lineage {
	return lineage{l.epoch, l.positions.Clone(), maps.Clone(l.watermarks)}
}

// restart starts a process on a disk, at once or after a while.
func (u *operator) restart(c copied) {
	w := u.w
	if w.intn(4) == 0 {
		u.old = append(u.old, copied{clone(c.disk), c.line.copy()})
		u.old = u.old[max(len(u.old)-4, 0):]
	}
	if w.intn(2) == 0 {
		time.Sleep(w.between(0, w.plan.incident/2))
	}
	u.p = w.begin(c.disk, c.line, false)
}

// clone copies a disk as it is.
func clone(d *vfs.MemFS) *vfs.MemFS {
	return d.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// stop ends the process with a last checkpoint, sometimes without the patience to
// wait for it.
func (u *operator) stop() {
	w, p := u.w, u.p
	w.trace("stops", "%d", p.n)
	for p.job == nil {
		select {
		case <-p.done:
			u.ended()
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.job.Stop()
	if w.intn(4) == 0 {
		time.Sleep(w.between(0, time.Second))
		u.restart(u.crash())
		return
	}
	select {
	case <-p.done:
	case <-time.After(10 * time.Minute):
		w.fail("process %d does not stop", p.n)
		return
	}
	// A process that is stopped while it waits to try again ends with what it waits for.
	if err := p.err; err != nil && !errors.Is(err, engine.ErrNotStopped) && !errors.Is(err, errSimulated) && !strings.Contains(err.Error(), "stopped before everything was connected") {
		u.unexpected(err)
	}
	u.restart(copied{p.disk, p.lineage()})
}

// ended goes on after the process has ended by itself.
func (u *operator) ended() {
	w := u.w
	w.trace("ends", "%d: %v", u.p.n, u.p.err)
	if u.p.err == nil {
		w.fail("process %d has ended although nobody asked it to", u.p.n)
		return
	}
	if u.fenced && errors.Is(u.p.err, checkpoint.ErrCannotResume) {
		// Two processes have gone different ways from one state; the start says so, and
		// the operator does what it says.
		w.trace("diverged", "%v", u.p.err)
		u.p = w.begin(vfs.NewCrashableMem(), lineage{}, false)
		return
	}
	u.unexpected(u.p.err)
	time.Sleep(w.between(0, 5*time.Second))
	u.p = w.begin(u.p.disk, u.p.lineage(), false)
}

// unexpected judges why a process has ended.
func (u *operator) unexpected(err error) {
	if u.fenced && errors.Is(err, dataflow.ErrFenced) {
		u.w.trace("fenced_ends", "%v", err)
		return
	}
	u.w.fail("process %d has ended: %v", u.p.n, err)
}

// second starts another process on a copy of the disk while the first one goes on.
func (u *operator) second() {
	w := u.w
	z := u.p
	w.trace("zombies", "%d", z.n)
	u.fenced = true
	u.zombies = append(u.zombies, z)
	c := copied{clone(z.disk), z.lineage()}
	go func() {
		select {
		case <-time.After(w.between(time.Second, 40*time.Second)):
		case <-z.done:
		}
		w.trace("zombies_end", "%d", z.n)
		z.bury()
	}()
	u.p = w.begin(c.disk, c.line, false)
}

// restore goes on with an old copy of the disk.
func (u *operator) restore() {
	if len(u.old) == 0 {
		return
	}
	u.crash()
	// What was copied later is of a history that is given up.
	u.old = u.old[:1+u.w.intn(len(u.old))]
	c := u.old[len(u.old)-1]
	u.w.trace("restores", "epoch %d", c.line.epoch)
	u.p = u.w.begin(clone(c.disk), c.line.copy(), false)
}

// lose goes on without any state.
func (u *operator) lose() {
	u.crash()
	u.old = nil
	u.w.trace("losses", "")
	u.p = u.w.begin(vfs.NewCrashableMem(), lineage{}, false)
}

// end lets the faults end, the producers finish and the pipeline drain.
func (u *operator) end() {
	w := u.w
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.trace("calm", "")
	for _, z := range u.zombies {
		z.bury()
	}
	for !w.posted() && len(w.failures) == 0 {
		select {
		case <-u.p.done:
			u.ended()
		case <-time.After(time.Second):
		}
	}
	time.Sleep(w.between(0, 20*time.Second))
	last := u.crash()
	for try := 0; len(w.failures) == 0; try++ {
		u.p = w.begin(last.disk, last.line, true)
		<-u.p.done
		if u.p.err == nil {
			break
		}
		last = copied{u.p.disk, u.p.lineage()}
		switch err := u.p.err; {
		case u.fenced && try == 0 && errors.Is(err, checkpoint.ErrCannotResume):
			w.trace("diverged", "%v", err)
			last = copied{vfs.NewCrashableMem(), lineage{}}
		case u.fenced && try < 3 && errors.Is(err, dataflow.ErrFenced):
		default:
			w.fail("the last process has ended: %v", err)
		}
	}
	u.p.bury()
	w.trace("drained", "")
}

// posted says whether all producers are done.
func (w *World) posted() bool {
	for _, to := range w.pushes {
		for _, p := range to.producers {
			select {
			case <-p.done:
			default:
				return false
			}
		}
	}
	return true
}
