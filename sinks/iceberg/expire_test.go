package iceberg

import (
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/iceberg-go/table"
)

// Snapshots are expired down to the last 100, a tag stays, and every row with
// it; the metadata stays small.
func TestExpiryKeepsTheLast100(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	w := h.writer()
	n := keepSnapshots + expireEvery
	commit := func(e int) {
		h.write(w, idRows(e, e+1)...)
		h.must(c.Commit(h.ctx, h.next(dataflow.Epoch(e+1), e+1, h.prepare(w, dataflow.Epoch(e+1)))))
	}
	commit(0)
	tbl, err := loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	tagged := tbl.CurrentSnapshot().SnapshotID
	_, _, err = c.lake.CommitTable(h.ctx, tbl.Identifier(), nil,
		[]table.Update{table.NewSetSnapshotRefUpdate("v1", tagged, table.TagRef, -1, -1, -1)})
	h.must(err)
	for e := 1; e < n; e++ {
		commit(e)
	}
	c.background.Wait()
	h.must(w.Close())
	tbl, err = loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	if got := len(tbl.Metadata().Snapshots()); got != keepSnapshots+1 {
		t.Fatalf("%d snapshots, want %d and the tagged one", got, keepSnapshots)
	}
	if tbl.SnapshotByName("v1") == nil {
		t.Fatal("the tagged snapshot is gone")
	}
	h.expect(idWant(0, n)...)
	got, err := c.Committed(h.ctx)
	h.must(err)
	if !got.ClockComplete {
		t.Fatal("no clock decision was ever made, none can be missing")
	}
	var previous int
	for range tbl.Metadata().PreviousFiles() {
		previous++
	}
	if previous > 10 {
		t.Fatalf("%d previous metadata files, want at most 10", previous)
	}
}

// BenchmarkCommit makes 300 commits of one file: the last hundred should cost
// what the first did.
func BenchmarkCommit(b *testing.B) {
	for range b.N {
		h := newHarness(b, idSchema())
		c := h.committer()
		w := h.writer()
		var wall, cpu [3]time.Duration
		for e := range 300 {
			rows := h.batch(idRows(e, e+1)...)
			if _, err := w.Write(h.ctx, rows); err != nil {
				b.Fatal(err)
			}
			rows.Release()
			cm := h.next(dataflow.Epoch(e+1), e+1, h.prepare(w, dataflow.Epoch(e+1)))
			start, used := time.Now(), cpuTime()
			h.must(c.Commit(h.ctx, cm))
			wall[e/100] += time.Since(start)
			cpu[e/100] += cpuTime() - used
		}
		h.must(w.Close())
		for i, name := range []string{"first", "second", "third"} {
			b.ReportMetric(float64(wall[i].Microseconds())/100/1000, name+"-ms")
			b.ReportMetric(float64(cpu[i].Microseconds())/100/1000, name+"-cpu-ms")
		}
	}
}
