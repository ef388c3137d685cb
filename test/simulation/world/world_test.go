package world

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestWorldsWithThreads lets some worlds pass natively, in a bubble of virtual time:
// the same worlds as in package simulation, but goroutines run on threads, so that
// their schedule is another one each time, and the race detector sees them.
func TestWorldsWithThreads(t *testing.T) {
	if os.Getenv("FRAZIL_SIMULATION") == "" && os.Getenv("FRAZIL_SEED") == "" {
		t.Skip("set FRAZIL_SIMULATION=1 or FRAZIL_SEED=N: no schedule of these can be repeated")
	}
	seed, n := uint64(time.Now().UnixNano()%1_000_000), 3
	if text := os.Getenv("FRAZIL_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	for i := range n {
		t.Run(strconv.FormatUint(seed+uint64(i), 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := Run(Options{Seed: seed + uint64(i), For: 10 * time.Minute, Threads: true, Verbose: os.Getenv("FRAZIL_SIM_TRACE") != ""})
				for _, f := range r.Failures {
					t.Errorf("FRAZIL_SEED=%d: %s: %s", r.Seed, r.Shape, f)
				}
				t.Logf("%s: %v", r.Shape, r.Figures)
			})
		})
	}
}
