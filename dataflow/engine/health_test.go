package engine

import (
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"frazil/dataflow"
)

// pushed is what a push source has opened, with the stats of the test.
type pushed struct{ stats dataflow.StreamStats }

func (p *pushed) Close() error                      { return nil }
func (p *pushed) StreamStats() dataflow.StreamStats { return p.stats }

// I2: what was accepted and is not committed, producers that are refused, a log
// that cannot be written and a full disk turn the health red, each with its stream.
func TestHealthOfPushStreams(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	p := &pushed{}
	src := &Source{Name: "in", Serve: func(context.Context, *dataflow.Env) (io.Closer, error) { return p, nil }}
	free := uint64(50 << 30)
	store := openStore(t, t.TempDir())
	defer store.Close()
	j := NewJob(&Graph{Name: "p", Sources: []*Source{src}}, Options{
		Store: store, Every: 10 * time.Second, Now: func() time.Time { return now }, Log: testLog(t),
		Disks: []string{"/state"}, DiskFree: func(string) (uint64, uint64, error) { return free, 100 << 30, nil },
	})
	if err := j.serve(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range j.Health() {
			got = append(got, p.Step+" "+p.Code)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, j.Health(), want)
		}
	}
	expect("nothing has happened")
	p.stats = dataflow.StreamStats{BacklogRows: 5, Oldest: now.Add(-40 * time.Second).UnixMicro(), Refused: map[string]int64{}}
	expect("a backlog of forty seconds is within three checkpoints and ten seconds")
	p.stats.Oldest = now.Add(-41 * time.Second).UnixMicro()
	expect("an older one is not", "in not_committed")
	p.stats = dataflow.StreamStats{Refused: map[string]int64{"bytes": 3}}
	expect("refusals", "in refusing")
	now = now.Add(59 * time.Second)
	expect("refusals of a minute ago", "in refusing")
	now = now.Add(2 * time.Second)
	expect("refusals of long ago")
	p.stats.Refused["disk_full"]++
	expect("new refusals", "in refusing")
	now = now.Add(2 * time.Minute)
	p.stats.Broken = "input/output error"
	expect("a log that cannot be written", "in log_broken")
	p.stats.Broken = ""
	free = 1<<30 - 1
	expect("a full disk", " disk_low")
	if err := j.endServing(); err != nil {
		t.Fatal(err)
	}
	free = 50 << 30
	expect("nobody serves")
}
