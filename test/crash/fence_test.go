package crash_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Two processes start at the same time, each on a copy of one state directory,
// and go on reading: what the tables hold decides whose commits count. The other
// one is fenced.
func TestTwoProcessesOnCopiesOfOneState(t *testing.T) {
	long(t)
	rng := random(t)
	p := newPlace(t, "main-job", mainOnFiles(3, "event"))
	x := &trial{place: p, rng: rng, order: "event", feed: newLaneFeeder(p, 3, rng), decisions: map[decision]bool{}}
	x.records = makeRecords(rng, shape{splits: []string{"0", "1", "2"}, weights: []int{4, 2, 1}, records: 48_000, across: true})
	twin := "twin.yaml"
	p.write(twin, strings.Replace(p.text(), "./state", "./twin", 1))
	const rounds = 4
	for i := range rounds {
		p.copyState0("state", "twin")
		two := []*proc{p.start(nil, "run", p.file), p.start(nil, "run", twin)}
		x.feedUntilOneEnds(x.records[i*len(x.records)/rounds:(i+1)*len(x.records)/rounds], two)
		var fenced, good []int
		for k, r := range two {
			r.signal(syscall.SIGTERM) // of no effect on one that has ended
			switch code := r.wait(); {
			case code == 0:
				good = append(good, k)
			case code == 1 && strings.Contains(r.stderr.String(), "fenced"):
				fenced = append(fenced, k)
			default:
				t.Fatalf("round %d, process %d: exit code %d\n%s", i, k, code, tail(r.stderr.String(), 3000))
			}
		}
		t.Logf("round %d: fenced %v, ended well %v", i, fenced, good)
		if len(fenced) == 0 {
			t.Errorf("round %d: two processes wrote side by side, and none was fenced", i)
		}
		if len(good) > 0 && good[0] == 1 {
			p.copyState("twin", "state")
		}
	}
	p.toEnd()
	x.checkEnd()
	// Whoever lost catches up without a row of its own.
	before := fmt.Sprint(p.list())
	p.run("run", twin, "--until", "end")
	if now := fmt.Sprint(p.list()); now != before {
		t.Errorf("the loser changed the tables from\n%s to\n%s", before, now)
	}
}

// feedUntilOneEnds feeds at a pace for which two seconds are enough, so that both
// processes make epochs, and the rest at once.
func (x *trial) feedUntilOneEnds(records []record, two []*proc) {
	x.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	step := max(1, len(records)/200)
	for fed := 0; fed < len(records); {
		n := min(step, len(records)-fed)
		select {
		case <-two[0].ended:
			n = len(records) - fed
		case <-two[1].ended:
			n = len(records) - fed
		case <-tick.C:
		}
		x.feed.put(records[fed : fed+n])
		fed += n
	}
	// The last of them may still be on their way.
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		select {
		case <-two[0].ended:
			return
		case <-two[1].ended:
			return
		default:
		}
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
