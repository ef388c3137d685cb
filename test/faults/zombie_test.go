package faults

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"frazil/dataflow/flowtest/program"
)

// A process whose commit is on its way, and does not arrive, while another one that
// was given a copy of its older state takes over: when it arrives at last the table
// refuses it, the process ends, and nothing has changed by it.
func TestAZombieIsRefusedByTheTable(t *testing.T) {
	program.Long(t)
	newTrial(t, newWorld(t), 0).zombie()
}

func (x *trial) zombie() {
	t, p := x.t, x.place
	t.Helper()
	p.Write("twin.yaml", strings.NewReplacer("./state", "./twin", x.catalog.URL, x.w.catalog.URI).Replace(p.Text()))
	x.feed.put()
	r := p.Start(nil, "run", p.File)
	committed := func() bool { return p.Metric(`frazil_sink_committed_rows_total{pipeline="faults",step="raw"`) > "0" }
	r.Until("the first rows are committed", committed)
	r.Terminate()
	p.CopyState("state", "twin")

	// The zombie: what it commits is on its way for as long as the test likes.
	var held atomic.Int64
	lifted := make(chan struct{})
	hold := holder(func(ctx context.Context, r *http.Request, _ []byte) func(int) {
		if operation("catalog", r) != opCommit {
			return nil
		}
		held.Add(1)
		select {
		case <-lifted:
		case <-ctx.Done():
		}
		return nil
	})
	x.catalog.hold.Store(&hold)
	zombie := p.Start(nil, "run", p.File)
	x.feed.put()
	zombie.Until("its commit is on its way", func() bool { return held.Load() > 0 })

	x.feed.put()
	p.Run("run", "twin.yaml", "--until", "end")
	before := x.sequences()
	close(lifted)
	x.feed.put() // What it had on its way may be in the table already, and is done then.
	if code := zombie.Wait(); code != 1 || !strings.Contains(zombie.Stderr.String(), "fenced") {
		t.Fatalf("the zombie ended with exit code %d, want 1 and fenced\n%s", code, program.Tail(zombie.Stderr.String(), 3000))
	}
	if after := x.sequences(); after != before {
		t.Errorf("the zombie has changed the tables: their sequence numbers are %v, they were %v", after, before)
	}
	p.Run("run", "twin.yaml", "--until", "end")
	for _, table := range x.tables {
		x.check(table)
	}
}

// sequences are the sequence numbers of the tables.
func (x *trial) sequences() [2]int {
	x.t.Helper()
	var out [2]int
	for i, table := range x.tables {
		var f files
		if err := x.w.judge.ask(&f, "files", table, nil); err != nil {
			x.t.Fatal(err)
		}
		out[i] = f.Sequence
	}
	return out
}
