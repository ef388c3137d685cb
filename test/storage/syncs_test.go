package storage

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"frazil/dataflow/flowtest/full"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// syncWork has more than 300 syncs, also on a machine so busy that many requests
// share one.
func syncWork(seed uint64) work { return work{rows: 120, requests: 400, seed: seed} }

// syncFails lets the k-th sync fail and throw away what it should have written. The
// program goes on, or ends and is started again, and at some moment behind it the
// machine loses its power.
func syncFails(seed uint64, k int, want results, figures full.Figures) error {
	rng := rand.New(rand.NewPCG(seed, uint64(k)))
	w := newWorld(syncWork(seed))
	g := newGate(k)
	var mu sync.Mutex
	var lost *crash
	var failure error
	g.crashIn = 1 + rng.IntN(60)
	g.crash = func() {
		mu.Lock()
		defer mu.Unlock()
		w.mu.Lock()
		defer w.mu.Unlock()
		fs, err := g.afterCrash()
		failure = err
		lost = &crash{w: w.cloneLocked(), fs: fs, text: fmt.Sprintf("power lost behind the failed sync of %s", g.hit)}
	}
	e, err := w.lives(4, rng.Uint64(), figures, func(life int) disk {
		if life > 0 {
			mu.Lock()
			g = g.killed()
			mu.Unlock()
		}
		return disk{fs: g}
	})
	if err != nil {
		return fmt.Errorf("failed sync of %s: %w", g.hit, err)
	}
	if g.hit == "" {
		return fmt.Errorf("%w: sync %d of %d", errNotHit, k, g.syncs)
	}
	figures["syncs_failed"]++
	if err := w.compare(want, e.manifest); err != nil {
		return fmt.Errorf("failed sync of %s: %w", g.hit, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if lost == nil { // It came to its end before.
		w.mu.Lock()
		fs, err := g.afterCrash()
		failure = err
		lost = &crash{w: w.cloneLocked(), fs: fs, text: fmt.Sprintf("power lost at the end, behind the failed sync of %s", g.hit)}
		w.mu.Unlock()
	}
	if failure != nil {
		return failure
	}
	figures["crashes"]++
	figures["acknowledged_at_crash"] += int64(len(lost.w.acked))
	e = lost.w.run(disk{fs: lost.fs}, rng.Uint64())
	if e.err != nil || e.fatal != "" {
		return fmt.Errorf("%s: %w %s", lost.text, e.err, e.fatal)
	}
	if err := lost.w.compare(want, e.manifest); err != nil {
		return fmt.Errorf("%s: %w", lost.text, err)
	}
	return nil
}

// The k-th sync fails, for every k up to 300, and is never tried again as if nothing
// were: what was acknowledged is there when the power goes.
func TestAFailedSyncLosesNothing(t *testing.T) {
	eachK(t, full.Suite{Name: "storage-syncs", Total: 300 / 5, Short: 1}, 5, syncWork, syncFails)
}

// The disk of these tests loses what a program keeps that tries a failed sync again.
func TestASyncTriedAgainLosesWhatItShouldHaveWritten(t *testing.T) {
	g := newGate(1)
	f, err := g.Create("f", vfs.WriteCategoryUnspecified)
	must(t, err)
	write := func(text string) {
		t.Helper()
		_, err := f.Write([]byte(text))
		must(t, err)
	}
	write("one ")
	must(t, f.Sync())
	write("two ")
	if f.Sync() == nil {
		t.Fatal("the sync did not fail")
	}
	write("three")
	must(t, f.Sync())
	d, err := g.OpenDir("")
	must(t, err)
	must(t, d.Sync())
	for name, disk := range map[string]*gate{"the process goes on": g, "another process": g.killed()} {
		mem, err := disk.afterCrash()
		must(t, err)
		if got := read(t, mem, "f"); got != "one \x00\x00\x00\x00three" {
			t.Errorf("%s: after a crash the file holds %q", name, got)
		}
		if got := read(t, disk, "f"); got != "one two three" {
			t.Errorf("%s: without one it holds %q", name, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, fs vfs.FS, path string) string {
	t.Helper()
	f, err := fs.Open(path)
	must(t, err)
	defer f.Close()
	b := make([]byte, 100)
	n, err := f.ReadAt(b, 0)
	if n == 0 {
		must(t, err)
	}
	return string(b[:n])
}
