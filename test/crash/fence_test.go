package crash_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
)

// twinJob is the main job with one table.
const twinJob = `
operators:
  once:     {from: readings, dedup: {key: [site, id], within: 20s, order: event}}
  valid:    {from: once, filter: {where: "ok"}}
  readable: {from: valid, project: {compute: {w: "v * 2"}}}
sinks:
  raw: {from: readable, iceberg: {table: t.raw}}
checkpoint: {every: 400ms}
`

// Two processes start at the same time, each on a copy of one state directory,
// and go on reading. With one table what it holds decides whose commits count;
// with several the one that claimed them last. The other one is fenced, and
// nothing is lost or doubled.
func TestTwoProcessesOnCopiesOfOneState(t *testing.T) {
	program.Long(t)
	t.Run("one table", func(t *testing.T) {
		x, twin := newTwins(t, func(text string) string { return text[:strings.Index(text, "\noperators:")] + twinJob })
		x.raceTwins(twin, func() {
			t.Helper()
			compareRows(t, "t.raw", x.Rows("t.raw"), expect(x.feed.inputs(), nil, x.order)["raw"])
		})
	})
	t.Run("five tables", func(t *testing.T) {
		x, twin := newTwins(t, func(text string) string { return text })
		x.raceTwins(twin, x.checkEnd)
	})
}

func (x *trial) raceTwins(twin string, check func()) {
	x.t.Helper()
	const rounds = 4
	for i := range rounds {
		fenced, good := x.race(twin, x.records[i*len(x.records)/rounds:(i+1)*len(x.records)/rounds])
		x.t.Logf("round %d: fenced %v, ended well %v", i, fenced, good)
		if len(fenced) != 1 || len(good) != 1 {
			x.t.Fatalf("round %d: fenced %v, ended well %v; want one of each", i, fenced, good)
		}
		if good[0] == 1 {
			x.CopyState("twin", "state")
		}
	}
	x.ToEnd()
	check()
	// Whoever lost catches up without a row of its own, or is told that the tables came
	// past its epochs in another way.
	r := x.Start(nil, "run", twin, "--until", "end")
	if code := r.Wait(); code != 0 && !(code == 1 && strings.Contains(r.Stderr.String(), "another process has gone on from an earlier epoch")) {
		x.t.Fatalf("the twin: exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	check()
}

// newTwins makes a pipeline on three lanes, and a twin of it with a state
// directory of its own.
func newTwins(t *testing.T, change func(string) string) (x *trial, twin string) {
	t.Helper()
	rng := program.Random(t)
	p := newPlace(t, "main-job", change(mainOnFiles(3, "event")))
	x = &trial{place: p, rng: rng, order: "event", feed: newLaneFeeder(p, 3, rng), decisions: map[decision]bool{}}
	x.records = makeRecords(rng, shape{splits: []string{"0", "1", "2"}, weights: []int{4, 2, 1}, records: 48_000, across: true})
	twin = "twin.yaml"
	p.Write(twin, strings.Replace(p.Text(), "./state", "./twin", 1))
	return x, twin
}

// race runs both on the same state until one ends, stops the other, and says
// which were fenced and which ended well.
func (x *trial) race(twin string, records []record) (fenced, good []int) {
	x.t.Helper()
	x.RemoveState("twin")
	if _, err := os.Stat(x.Path("state")); err == nil {
		x.CopyState("state", "twin")
	}
	two := []*proc{x.Start(nil, "run", x.File), x.Start(nil, "run", twin)}
	x.feedUntilOneEnds(records, two)
	for k, r := range two {
		// From then on it takes signals; it may have ended.
		r.Until("it runs", func() bool {
			text := r.Stderr.String()
			return strings.Contains(text, "msg=running") &&
				strings.Count(text, "starting again") == strings.Count(text, "connected again")
		})
		r.Signal(syscall.SIGTERM)
		switch code := r.Wait(); {
		case code == 0:
			good = append(good, k)
		case code == 1 && strings.Contains(r.Stderr.String(), "fenced"):
			fenced = append(fenced, k)
		default:
			x.t.Fatalf("process %d: exit code %d\n%s\nthe other one:\n%s", k, code, program.Tail(r.Stderr.String(), 3000), program.Tail(two[1-k].Stderr.String(), 3000))
		}
	}
	return fenced, good
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
		case <-two[0].Ended:
			n = len(records) - fed
		case <-two[1].Ended:
			n = len(records) - fed
		case <-tick.C:
		}
		x.feed.put(records[fed : fed+n])
		fed += n
	}
	// The last of them may still be on their way.
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		select {
		case <-two[0].Ended:
			return
		case <-two[1].Ended:
			return
		default:
		}
	}
}

func TestALockedStateNamesItsHolder(t *testing.T) {
	program.Long(t)
	rng := program.Random(t)
	p := newPlace(t, "main-job", mainOnFiles(1, "event"))
	newLaneFeeder(p, 1, rng).put(makeRecords(rng, shape{splits: []string{"0"}, weights: []int{1}, records: 100}))
	r := p.Start(nil, "run", p.File)
	r.Until("it runs", func() bool { return p.rowCount("t.raw") != "0" })
	p.Fail(1, []string{"in use by process " + fmt.Sprint(r.Cmd.Process.Pid)}, "run", p.File)
	r.Terminate()
}
