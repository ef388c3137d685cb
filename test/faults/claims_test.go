package faults

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
)

// Two processes on copies of one state, and two tables. Whatever the older one has on
// its way to the catalog, a commit or its claim, for one table or for both, arrives
// when the newer one has claimed both tables and committed: the table refuses it. Then
// exactly one of them goes on, the one that claimed last; the other one ends and says
// why, and each row is in each table once.
func TestAZombieOfTwoTablesIsRefused(t *testing.T) {
	program.Long(t)
	w := newWorld(t)
	full.Suite{Name: "zombies", Total: 5 * len(zombies), Short: 2}.Run(t, func(t *testing.T, portion int) full.Figures {
		v := zombies[portion%len(zombies)]
		t.Log(v.name)
		x := newTrial(t, w, 4+6*portion) // one of two tables and no login
		x.zombieOfTwo(v)
		x.figures["zombies"]++
		return x.figures
	})
}

var zombies = []zombie{
	{name: "its commits to both tables", holds: []string{"commit raw", "commit seconds"}},
	{name: "its commit to the first, after the one to the second", holds: []string{"commit raw"}, first: "commit seconds"},
	{name: "its commit to the second, after the one to the first", holds: []string{"commit seconds"}, first: "commit raw"},
	{name: "its commits, and it is dead", holds: []string{"commit raw", "commit seconds"}, dead: true},
	{name: "its claim of the first", holds: []string{"claim raw"}, claimsAgain: true},
	{name: "its claim of the second", holds: []string{"claim seconds"}, first: "claim raw"},
	{name: "its first claim of new tables", holds: []string{"claim raw"}, fresh: true, claimsAgain: true},
	{name: "its commit to the second, which the other one has only claimed", holds: []string{"commit raw", "commit seconds"}, claimed: true},
	{name: "its commit, until the other one has looked and not yet claimed", holds: []string{"commit raw", "commit seconds"}, between: true},
}

// zombie is what of the older process is held on its way.
type zombie struct {
	name  string
	holds []string // "commit TABLE" or "claim TABLE"
	first string   // what is done before, if anything
	fresh bool     // neither table is there before
	dead  bool     // the older process is killed meanwhile
	// claimed: of the newer one's changes of the second table its claim alone is there
	// when the commit to that arrives, and the one to the first is still on its way.
	claimed bool
	// between: what is held arrives between the newer one's look at the tables and its
	// claim, and is accepted.
	between bool
	// claimsAgain: the older one has lost the race for its claim, and claims anew.
	claimsAgain bool
}

func (x *trial) zombieOfTwo(v zombie) {
	t, p := x.t, x.place
	t.Helper()
	gate := newGate(x.catalog, v.holds...)
	newer := newProxy(t, "catalog", x.w.catalog.URI, x.plan)
	look := newGate(newer)
	switch {
	case v.between:
		look = newGate(newer, "claim raw")
	case v.claimed:
		look = newGate(newer, "commit seconds")
	}
	t.Cleanup(gate.lift) // before the proxies are closed
	t.Cleanup(look.lift)
	p.Write("twin.yaml", strings.NewReplacer("./state", "./twin", x.catalog.URL, newer.URL).Replace(p.Text()))
	if !v.fresh {
		x.prepare()
		p.CopyState("state", "twin")
	}
	gate.watch()
	old := p.Start(nil, "run", p.File)
	x.while("the older one has on its way what is to be held", old, func() bool {
		return gate.held(v.holds...) && (v.first == "" || gate.passed(v.first))
	})
	if v.dead {
		old.Kill()
	}

	look.watch()
	n := x.count(x.tables[1])
	twin := p.Start(nil, "run", "twin.yaml")
	x.while("the newer one has come as far as it is to", twin, func() bool {
		switch {
		case v.between:
			return look.held("claim raw")
		case v.claimed:
			return look.passed("commit raw") && look.held("commit seconds")
		}
		return look.passed("commit raw") && look.passed("commit seconds") && x.count(x.tables[1]) > n
	})
	arrived := func(n int) {
		t.Helper()
		program.Await(t, "what was held arrives", func() bool { return len(gate.statuses()) >= n })
	}
	if v.claimed {
		gate.let("commit seconds")
		arrived(1)
		x.while("the claim alone refuses the older one", twin, old.HasEnded)
	}
	gate.lift()
	arrived(len(v.holds))
	look.lift()
	want := http.StatusConflict
	if v.between {
		want = http.StatusOK
	}
	x.figures["late requests"] += int64(len(gate.statuses()))
	if got := gate.statuses(); slices.ContainsFunc(got, func(s int) bool { return s != want }) {
		t.Errorf("what was held was answered with %v, want %d", got, want)
	}
	x.oneGoesOn(v, old, twin)
}

// oneGoesOn says which of two processes must be refused, and what it is worth then.
func (x *trial) oneGoesOn(v zombie, old, twin *program.Process) {
	t, p := x.t, x.place
	t.Helper()
	lives, refused, other := twin, old, *p
	goesOn := *p
	goesOn.File = "twin.yaml"
	if v.claimsAgain {
		lives, refused, goesOn, other = old, twin, other, goesOn
	}
	if !v.dead {
		x.while("one of them ends", lives, refused.HasEnded)
		said := refused.Stderr.String()
		if code := refused.Wait(); code != 1 || !strings.Contains(said, "fenced: another process has taken over the targets of this pipeline") {
			t.Errorf("the one that did not claim last ended with exit code %d, want 1 and fenced\n%s", code, program.Tail(said, 3000))
		}
	}
	x.feed.put()
	program.Await(t, "the other one goes on", func() bool { return lives.HasEnded() || x.count(x.tables[0]) == x.feed.rows })
	lives.Terminate()
	goesOn.ToEnd()
	x.asTheyMustBe(goesOn)

	// The state of the other one has epochs that no table has. It catches up with them
	// without a row of its own, or is told that they are not those of the tables.
	r := other.Start(nil, "run", other.File, "--until", "end")
	if code, said := r.Wait(), r.Stderr.String(); code != 0 {
		if code != 1 || !strings.Contains(said, "another process has gone on from an earlier epoch") || !strings.Contains(said, "move this state directory away") {
			t.Fatalf("the one that was refused, started again: exit code %d\n%s", code, program.Tail(said, 3000))
		}
		other.RemoveState(map[string]string{p.File: "state", "twin.yaml": "twin"}[other.File])
		other.ToEnd()
		x.figures["states of another history"]++
	}
	x.asTheyMustBe(other)
}

// asTheyMustBe compares the tables, and the ledger of a pipeline that has ended.
func (x *trial) asTheyMustBe(p program.Place) {
	x.t.Helper()
	program.Balanced(x.t, p.Ledger(), map[string]string{"second": "in.passed", "raw": "in.passed", "seconds": "second.created"})
	for _, table := range x.tables {
		x.check(table)
	}
}

// prepare runs the pipeline until both tables have rows, and stops it.
func (x *trial) prepare() {
	x.t.Helper()
	r := x.place.Start(nil, "run", x.place.File)
	x.while("both tables have rows", r, func() bool {
		return x.place.Metric(`frazil_sink_committed_rows_total{pipeline="faults",step="raw"`) > "0" &&
			x.place.Metric(`frazil_sink_committed_rows_total{pipeline="faults",step="seconds"`) > "0"
	})
	r.Terminate()
}

// while feeds rows as long as it waits.
func (x *trial) while(what string, r *program.Process, ok func() bool) {
	x.t.Helper()
	looks := 0
	r.Until(what, func() bool {
		if looks%4 == 0 {
			x.feed.put()
		}
		looks++
		return ok()
	})
}

// count is how many rows a table has, by the direct way.
func (x *trial) count(table string) int {
	x.t.Helper()
	var seen map[string][][]any
	if err := x.w.judge.ask(&seen, "rows", table, nil); err != nil {
		return 0 // It is not there yet.
	}
	return len(seen["pyiceberg"])
}

// gate holds changes of tables on their way to a catalog.
type gate struct {
	proxy *proxy

	mu      sync.Mutex
	holds   map[string]chan struct{} // "commit TABLE" or "claim TABLE"; closed: no longer
	waits   map[string]int           // held so far, by what it is
	through map[string]int           // accepted so far
	late    []int                    // the answers to what was held
}

func newGate(x *proxy, holds ...string) *gate {
	g := &gate{proxy: x, holds: map[string]chan struct{}{}, waits: map[string]int{}, through: map[string]int{}}
	for _, what := range holds {
		g.holds[what] = make(chan struct{})
	}
	return g
}

// watch begins.
func (g *gate) watch() {
	h := holder(g.hold)
	g.proxy.hold.Store(&h)
}

// let holds this no longer.
func (g *gate) let(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c := g.holds[what]; c != nil {
		close(c)
		delete(g.holds, what)
	}
}

// lift holds nothing any longer.
func (g *gate) lift() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.holds {
		close(c)
	}
	clear(g.holds)
}

// hold lets what is to be held stand here until it is let go, also if who sent it has
// gone.
func (g *gate) hold(_ context.Context, r *http.Request, body []byte) func(int) {
	if operation("catalog", r) != opCommit {
		return nil
	}
	what := "commit "
	if bytes.Contains(body, []byte(`"frazil.claim"`)) {
		what = "claim "
	}
	_, table, _ := strings.Cut(tableOf(r.URL.Path), ".")
	what += table
	g.mu.Lock()
	until := g.holds[what]
	g.mu.Unlock()
	if until != nil {
		g.add(g.waits, what)
		<-until
	}
	return func(status int) {
		if status == http.StatusOK {
			g.add(g.through, what)
		}
		if until != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.late = append(g.late, status)
		}
	}
}

func (g *gate) add(to map[string]int, what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	to[what]++
}

// held says whether all of these wait here.
func (g *gate) held(what ...string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(what, func(w string) bool { return g.waits[w] == 0 })
}

// passed says whether this was accepted.
func (g *gate) passed(what string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.through[what] > 0
}

func (g *gate) statuses() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.late)
}
