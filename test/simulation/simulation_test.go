package simulation

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/full"
	"frazil/test/simulation/world"
)

// try lets a world pass; if it fails, it is run again to show that it fails in the
// same way.
func try(t *testing.T, args ...string) world.Result {
	t.Helper()
	r := run(t, args...)
	if len(r.Failures) > 0 {
		again := run(t, args...)
		same := "the same hash again"
		if again.Hash != r.Hash {
			same = "ANOTHER HASH when run again: " + again.Hash
		}
		t.Errorf("%v: %s, hash %s, %s:\n%s\n%v", args, r.Shape, r.Hash, same, strings.Join(r.Failures, "\n"), r.Figures)
	}
	return r
}

// TestWorldsKeepTheirPromises: ten virtual minutes of crashes, stops, zombies, lost
// states, lost answers and clocks that jump, 1,000 times.
func TestWorldsKeepTheirPromises(t *testing.T) {
	full.Suite{Name: "simulation", Total: 1000, Short: 3}.Run(t, func(t *testing.T, portion int) full.Figures {
		r := try(t, "-seed", fmt.Sprint(portion), "-for", "10m")
		happened(t, r, "epochs", "commits", "rows_compared")
		if r.Virtual < 10*time.Minute {
			t.Errorf("only %s passed", r.Virtual)
		}
		return figures(r)
	})
}

// TestDaysPass: a virtual day each, of few events, splits that say nothing for hours
// and clocks that jump by hours, 30 times. Watermarks must rise and windows end all day.
func TestDaysPass(t *testing.T) {
	if os.Getenv("FRAZIL_FULL") == "" && os.Getenv("FRAZIL_PORTION") == "" {
		// A day takes ten times as long as ten minutes.
		t.Skip("days are in the full tier: ./test/full virtual-days, or FRAZIL_PORTION=N")
	}
	full.Suite{Name: "virtual-days", Total: 30, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		r := try(t, "-seed", fmt.Sprint(portion), "-for", "24h", "-days")
		happened(t, r, "epochs", "commits", "rows_compared", "clock_jumps", "splits_idle", "hours_splits_idle")
		for _, what := range []string{"hours_watermark_rose", "hours_windows_fired"} {
			// Most days have many; a clock that jumps ahead stills the ones behind it.
			if n := r.Figures[what]; n == 0 {
				t.Errorf("%s in none of 24: %s, %v", what, r.Shape, r.Figures)
			}
		}
		if r.Virtual < 24*time.Hour {
			t.Errorf("only %s passed", r.Virtual)
		}
		return figures(r)
	})
}

// happened fails where nothing did.
func happened(t *testing.T, r world.Result, what ...string) {
	t.Helper()
	if t.Failed() {
		return
	}
	for _, k := range what {
		if r.Figures[k] == 0 {
			t.Errorf("no %s: %v", k, r.Figures)
		}
	}
	if r.Figures["kills"]+r.Figures["stops"]+r.Figures["source_errors"]+r.Figures["commit_answers_lost"]+r.Figures["commit_errors"] == 0 {
		t.Errorf("nothing went wrong in this world: %v", r.Figures)
	}
}

func figures(r world.Result) full.Figures {
	out := full.Figures{"virtual_seconds": int64(r.Virtual.Seconds())}
	for k, n := range r.Figures {
		out[k] = n
	}
	return out
}

// TestOneSeedIsOneRun: two runs of a seed have the same hash, two seeds do not.
func TestOneSeedIsOneRun(t *testing.T) {
	seen := map[string]string{}
	for _, seed := range []string{"4", "11"} {
		a := run(t, "-seed", seed, "-for", "3m")
		same(t, a, run(t, "-seed", seed, "-for", "3m"))
		if other := seen[a.Hash]; a.Hash == "" || other != "" {
			t.Errorf("seeds %q and %q have the same hash %q", other, seed, a.Hash)
		}
		seen[a.Hash] = seed
	}
}

// same fails unless two runs of a seed were the same run, with the same end.
func same(t *testing.T, a, b world.Result) {
	t.Helper()
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("seed %d is two runs:\n%v\n%v", a.Seed, a, b)
	}
}

// seen looks for a seed below most that finds a bug, and runs it again: it must fail
// in the same way.
func seen(t *testing.T, guest, says string, most int, args ...string) {
	t.Helper()
	for seed := range most {
		args := append([]string{"-seed", fmt.Sprint(seed)}, args...)
		r := runIn(t, guest, args...)
		if len(r.Failures) == 0 {
			continue // not every world has what it takes
		}
		if !strings.Contains(strings.Join(r.Failures, "\n"), says) {
			t.Errorf("seed %d: want %q, got %v", seed, says, r.Failures)
		}
		same(t, r, runIn(t, guest, args...))
		t.Logf("seed %d, hash %s twice: %s", seed, r.Hash, r.Failures[0])
		return
	}
	t.Error("nobody saw it")
}

// TestPlantedBugsAreSeen: what the world itself does wrong is found, and a seed that
// finds it does so again in the same way.
func TestPlantedBugsAreSeen(t *testing.T) {
	for bug, says := range map[string]string{
		"skip_record":   "without the row",
		"drop_commit":   "missing",
		"double_commit": "too many",
		"forget_acked":  "missing",
	} {
		t.Run(bug, func(t *testing.T) { seen(t, guest(t), says, 20, "-for", "2m", "-bug", bug) })
	}
}

// TestBrokenEnginesAreSeen plants bugs into the engine itself. Each is a program of
// its own, so this is not for every day.
func TestBrokenEnginesAreSeen(t *testing.T) {
	if os.Getenv("FRAZIL_FULL") == "" && os.Getenv("FRAZIL_SIMULATION") == "" {
		t.Skip("set FRAZIL_SIMULATION=1 to build and run broken engines")
	}
	for name, c := range map[string]struct {
		bug  change
		says string
	}{
		"a split found before the state was lost stands at no watermark (I8)": {
			change{"dataflow/engine/sourcetask.go", "k.goOnFrom(t.tracker.get())", "", 1}, "a row of -inf came after the watermark",
		},
		"the first stretch of a replay alone repeats what the clock decided (I8)": {
			change{"dataflow/engine/prepare.go", "a.replay = c.decisionsFor(name, sp)", "if c.replay == 0 {\na.replay = c.decisionsFor(name, sp)\n}", 1}, "missing",
		},
		"time alone makes no rows (I3)": {
			change{"dataflow/sink.go", "if atLeast && (beyond || CompareWatermarks(held.Watermarks, c.Watermarks) >= 0) {", "if atLeast && (beyond || true) {", 1}, "missing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			broken, err := build(t.TempDir(), c.bug)
			if err != nil {
				t.Fatal(err)
			}
			seen(t, broken, c.says, 80, "-for", "10m")
		})
	}
}
