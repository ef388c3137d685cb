package crash_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Two processes start at the same time, each on a copy of one state directory:
// what the tables hold decides whose commits count. The other one is fenced, or
// finds that all is done.
func TestTwoProcessesOnCopiesOfOneState(t *testing.T) {
	long(t)
	rng := random(t)
	p := newPlace(t, "main-job", mainOnFiles(3, "event"))
	x := &trial{place: p, rng: rng, order: "event", feed: newLaneFeeder(p, 3, rng), decisions: map[decision]bool{}}
	x.records = makeRecords(rng, shape{splits: []string{"0", "1", "2"}, weights: []int{4, 2, 1}, records: 60_000, across: true})
	twin := "twin.yaml"
	p.write(twin, strings.Replace(p.text(), "./state", "./twin", 1))
	fenced := 0
	const rounds = 4
	for i := range rounds {
		p.copyState0("state", "twin")
		// Small files make many epochs.
		part := x.records[i*len(x.records)/rounds : (i+1)*len(x.records)/rounds]
		for from := 0; from < len(part); from += 500 {
			x.feed.put(part[from:min(from+500, len(part))])
		}
		two := []*proc{p.start(nil, "run", p.file, "--until", "end"), p.start(nil, "run", twin, "--until", "end")}
		good := -1
		for k, r := range two {
			switch code := r.wait(); {
			case code == 0:
				good = k
			case code == 1 && strings.Contains(r.stderr.String(), "fenced"):
				fenced++
			default:
				t.Fatalf("%s: exit code %d\n%s", r.what, code, tail(r.stderr.String(), 3000))
			}
		}
		switch good {
		case -1: // Each was fenced by the other; the state is behind and catches up.
			p.toEnd()
		case 1:
			p.copyState("twin", "state")
		}
	}
	t.Logf("%d of %d processes were fenced", fenced, 2*rounds)
	x.checkEnd()
	// Whoever lost catches up without a row of its own.
	before := fmt.Sprint(p.list())
	p.run("run", twin, "--until", "end")
	if now := fmt.Sprint(p.list()); now != before {
		t.Errorf("the loser changed the tables from\n%s to\n%s", before, now)
	}
}

// copyState0 is copyState, but for a state that may not be there yet.
func (p *place) copyState0(from, to string) {
	p.t.Helper()
	p.removeState(to)
	if _, err := os.Stat(p.path(from)); err == nil {
		p.copyState(from, to)
	}
}

func TestALockedStateNamesItsHolder(t *testing.T) {
	long(t)
	rng := random(t)
	p := newPlace(t, "main-job", mainOnFiles(1, "event"))
	newLaneFeeder(p, 1, rng).put(makeRecords(rng, shape{splits: []string{"0"}, weights: []int{1}, records: 100}))
	r := p.start(nil, "run", p.file)
	r.until("it runs", func() bool { return p.rowCount("t.raw") != "0" })
	p.fail(1, []string{"in use by process " + fmt.Sprint(r.cmd.Process.Pid)}, "run", p.file)
	r.terminate()
}
