//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Action is what an armed site does.
type Action string

// The actions.
const (
	Kill  Action = "kill"  // SIGKILL to the process
	Error Action = "error" // Hit returns an *Injected
	Panic Action = "panic"
	Stall Action = "stall" // Hit returns once Resume is called
)

// Actions lists them.
func Actions() []Action { return []Action{Error, Panic, Kill, Stall} }

// Injected is the error of a site armed with Error.
type Injected struct{ Site Site }

func (e *Injected) Error() string { return fmt.Sprintf("failpoint %s", e.Site) }

// Step is a site and what it does.
type Step struct {
	Site   Site
	Action Action
}

type armed struct {
	action Action
	at     int // the how manieth hit from now acts
	then   []Step
}

var points struct {
	sync.Mutex
	armed map[Site][]armed
	hits  map[Site]int
	fired map[Site]int
	stop  chan struct{} // closed by Resume
	log   string
}

func init() {
	Reset()
	points.log = os.Getenv("FRAZIL_FAILPOINT_LOG")
	for _, s := range strings.Split(os.Getenv("FRAZIL_FAILPOINT"), ",") {
		if s == "" {
			continue
		}
		site, action, _ := strings.Cut(s, "=")
		name, count, _ := strings.Cut(site, ":")
		n := 1
		if count != "" {
			var err error
			if n, err = strconv.Atoi(count); err != nil || n < 1 {
				panic(fmt.Sprintf("FRAZIL_FAILPOINT: %q is not a count", count))
			}
		}
		if action == "" {
			action = string(Kill)
		}
		if !slices.Contains(sites, Site(name)) || !slices.Contains(Actions(), Action(action)) {
			panic(fmt.Sprintf("FRAZIL_FAILPOINT: no site or action %q; sites are %v, actions %v", s, sites, Actions()))
		}
		Arm(Site(name), Action(action), n)
	}
}

// Reset disarms all sites, forgets all counts and lets everything go on that
// stands still. It is safe for concurrent use, as everything here.
func Reset() {
	Resume()
	points.Lock()
	defer points.Unlock()
	points.armed, points.hits, points.fired = map[Site][]armed{}, map[Site]int{}, map[Site]int{}
}

// Arm lets a site act the n-th time that it is hit from now on, once. A site can
// be armed several times.
func Arm(s Site, a Action, n int) { ArmChain(n, Step{s, a}) }

// ArmChain lets a site act the n-th time that it is hit from now on, and each of the
// steps behind it the first time that its site is hit after the one before has acted.
func ArmChain(n int, first Step, then ...Step) {
	points.Lock()
	defer points.Unlock()
	armLocked(n, first, then)
}

func armLocked(n int, s Step, then []Step) {
	points.armed[s.Site] = append(points.armed[s.Site], armed{s.Action, points.hits[s.Site] + n, then})
}

// Hits is how often the program has come to a site since Reset, Fired how often
// the site has acted.
func Hits(s Site) int {
	points.Lock()
	defer points.Unlock()
	return points.hits[s]
}

// Fired is how often an armed site has acted since Reset.
func Fired(s Site) int {
	points.Lock()
	defer points.Unlock()
	return points.fired[s]
}

// Resume lets everything go on that stands still at a site.
func Resume() {
	points.Lock()
	defer points.Unlock()
	if points.stop != nil {
		close(points.stop)
	}
	points.stop = make(chan struct{})
}

// Hit says that the program has come to a site, which does what it is armed for.
func Hit(s Site) error {
	points.Lock()
	points.hits[s]++
	i := slices.IndexFunc(points.armed[s], func(a armed) bool { return a.at == points.hits[s] })
	if i < 0 {
		points.Unlock()
		return nil
	}
	action, then, stop := points.armed[s][i].action, points.armed[s][i].then, points.stop
	points.armed[s] = slices.Delete(points.armed[s], i, i+1)
	if len(then) > 0 {
		armLocked(1, then[0], then[1:])
	}
	points.fired[s]++
	note(s, action)
	points.Unlock()
	switch action {
	case Kill:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case Panic:
		panic(fmt.Sprintf("failpoint %s", s))
	case Stall:
		<-stop
		return nil
	}
	return &Injected{s}
}

func note(s Site, a Action) {
	if points.log == "" {
		return
	}
	f, err := os.OpenFile(points.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s %s\n", s, a); err != nil {
		panic(err)
	}
	if err := f.Sync(); err != nil {
		panic(err)
	}
}
