package storage

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/state"
)

// fixture is the newest folder below testdata. Whoever changes a format raises it and
// runs -run Fixture -rewrite: the older folders stay as they are and are opened by
// every later version.
const fixture = "1"

// fixtureWork is what the pipeline of a fixture has to do: it was stopped halfway.
var fixtureWork = work{rows: 120, requests: 40, seed: 1}

// fixedRow takes the place of a record of push that could not be read.
const fixedRow = `{"k": "k0", "et": "2026-03-01T10:00:05Z", "n": 900001}`

// outside is what stands beside the folders: the targets, and the results to come.
type outside struct {
	Targets map[string]*outsideTarget `json:"targets"`
	Acked   map[int]bool              `json:"acked"`
	Results results                   `json:"results"`
}

type outsideTarget struct {
	Held dataflow.Committed
	Rows []string
}

// halfway stops the job once half of everything is read and durable, a row of the
// quarantine was sent again, and commits wait for targets that are frozen.
func (p *process) halfway(ctx context.Context, store *state.Store) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
		if !p.produced.Load() || p.pulled.Load() < pullSplits {
			continue // Only some epochs may wait.
		}
		p.job.Checkpoint()
		m := p.job.Manifest()
		if m == nil || !p.halfRead(m) {
			continue
		}
		var id string
		err := engine.ReadQuarantine(store, func(q engine.Quarantined) error {
			if q.Source == "push" && (id == "" || q.ID < id) {
				id = q.ID
			}
			return nil
		})
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		out, err := p.job.Resend(ctx, []engine.Resend{{ID: id, Raw: []byte(fixedRow)}})
		if err == nil && !out[0].Sent {
			err = fmt.Errorf("row %s was not sent again: %+v", id, out[0])
		}
		p.job.Stop()
		return err
	}
}

func (p *process) halfRead(m *checkpoint.Manifest) bool {
	n := 0
	for _, s := range m.Sources["pull"].Splits {
		if s.Position == string(place(p.rows())) {
			n++
		}
	}
	waiting := 0
	for _, t := range m.Targets {
		waiting += len(t.Pending)
	}
	return n == pullSplits && m.Quarantine != nil && waiting > 0
}

// makeFixture runs the pipeline halfway in dir.
func makeFixture(t *testing.T, dir string) {
	w := newWorld(fixtureWork)
	w.half = true
	e := w.run(disk{dir: dir}, 1) // odd: the state is in tables too
	if !errors.Is(e.err, engine.ErrNotStopped) {
		t.Fatalf("stopped by %v %s, want %v: commits wait", e.err, e.fatal, engine.ErrNotStopped)
	}
	for _, name := range []string{"state/PID", "state/LOCK", "wal/push/LOCK", "wal/push~fixed/LOCK"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	out := outside{Acked: w.acked, Targets: map[string]*outsideTarget{}}
	for name, x := range w.targets {
		out.Targets[name] = &outsideTarget{Held: x.held, Rows: x.rows}
	}
	// What comes of it must be right by the rules that know nothing of fixtures.
	copied := t.TempDir()
	must(t, os.CopyFS(copied, os.DirFS(dir)))
	got := goOn(t, copied, out)
	want, err := reference(fixtureWork)
	must(t, err)
	for _, name := range sinkNames {
		switch name {
		case "pushed":
			want[name] = append(want[name], `{"k":"k0","et":"2026-03-01T10:00:05.000000Z","n":900001}`)
			if len(got[name]) != len(want[name]) {
				t.Fatal(diff(got[name], want[name]))
			}
		case "totals", "perhour":
			// The row counts in both: see compareTotals.
		default:
			if d := diff(got[name], want[name]); d != "" {
				t.Fatalf("%s: %s", name, d)
			}
		}
	}
	if err := w.compareTotals(got); err != nil {
		t.Fatal(err)
	}
	out.Results = got
	raw, err := json.MarshalIndent(out, "", " ")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "outside.json"), raw, 0o644))
}

// goOn runs what stands in dir to its end.
func goOn(t *testing.T, dir string, out outside) results {
	t.Helper()
	w := newWorld(fixtureWork)
	w.acked = maps.Clone(out.Acked) // a fixture goes on more than once
	for name, x := range out.Targets {
		if len(x.Held.Positions) == 0 {
			x.Held.Positions = nil
		}
		w.targets[name] = &target{held: x.Held, rows: slices.Clone(x.Rows)}
	}
	e := w.run(disk{dir: dir}, 3)
	if e.err != nil || e.fatal != "" {
		t.Fatalf("%v %s", e.err, e.fatal)
	}
	got, err := w.results()
	must(t, err)
	return got
}

// State and logs of every format that there ever was are opened, and what they hold
// goes on to the right end.
func TestFixturesOfOlderFormatsGoOn(t *testing.T) {
	if flag.Lookup("rewrite").Value.String() == "true" {
		dir := filepath.Join("testdata", fixture)
		if _, err := os.Stat(dir); err == nil {
			t.Fatalf("%s is there already, and old fixtures are never written again: raise the constant fixture", dir)
		}
		must(t, os.MkdirAll(dir, 0o755))
		makeFixture(t, dir)
	}
	folders, err := os.ReadDir("testdata")
	must(t, err)
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", f.Name()))))
			out := readOutside(t, dir)
			pending, fixed := 0, false
			m := manifestIn(t, dir)
			for _, x := range m.Targets {
				pending += len(x.Pending)
			}
			_, fixed = m.Sources["push"].Splits["~fixed"]
			if _, err := os.Stat(filepath.Join(dir, "wal", "push~fixed")); err == nil {
				fixed = true
			}
			if pending == 0 || !fixed || m.Quarantine == nil || m.Quarantine.Kept == 0 {
				t.Fatalf("the fixture has %d commits that wait, rows that were sent again: %v, in the quarantine %+v", pending, fixed, m.Quarantine)
			}
			got := goOn(t, dir, out)
			for _, name := range sinkNames {
				if d := diff(got[name], out.Results[name]); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
		})
	}
	if len(folders) == 0 {
		t.Fatal("no fixture")
	}
}

func readOutside(t *testing.T, dir string) (out outside) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "outside.json"))
	must(t, err)
	must(t, json.Unmarshal(raw, &out))
	return out
}

func manifestIn(t *testing.T, dir string) *checkpoint.Manifest {
	t.Helper()
	s, err := state.Open(filepath.Join(dir, "state"), state.Options{Logger: logger()})
	must(t, err)
	defer s.Close()
	raw, err := s.Manifest()
	must(t, err)
	m, err := checkpoint.Decode(raw)
	must(t, err)
	return m
}

// What a newer version has written is refused, and the message says what, where,
// what was expected and found, and what to do.
func TestNewerFormatsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"manifest": {
			func(t *testing.T, dir string) {
				s, err := state.Open(filepath.Join(dir, "state"), state.Options{Logger: logger()})
				must(t, err)
				must(t, s.Write(nil, []byte(`{"version": 2, "sources": []}`)))
				must(t, s.Close())
			},
			"state in DIR/state: the manifest of the last epoch has version 2, this program knows versions up to 1: the state was written by a newer version of the program: use that version, or start with an empty state directory",
		},
		"Pebble": {
			func(t *testing.T, dir string) {
				t.Cleanup(runtime.GC) // Pebble leaves the folder of what it refuses open.
				names, err := filepath.Glob(filepath.Join(dir, "state", "marker.format-version.*"))
				must(t, err)
				must(t, os.Rename(names[0], filepath.Join(dir, "state", "marker.format-version.000099.099")))
			},
			`open the state: open state in DIR/state: the state was written by a newer version of the program: use that version, or start with an empty state directory (pebble: database "DIR/state" written in unknown format major version 99)`,
		},
		"log": {
			func(t *testing.T, dir string) {
				names, err := filepath.Glob(filepath.Join(dir, "wal", "push", "*.wal"))
				must(t, err)
				b, err := os.ReadFile(names[0])
				must(t, err)
				b[7]++
				must(t, os.WriteFile(names[0], b, 0o644))
			},
			`source push: open the write-ahead log DIR/wal/push: DIR/wal/push/00000000000000000001.wal: the write-ahead log was written by a newer frazil: run that one: version 2 of the format, and this program knows up to 1; nothing was changed. "frazil wal check" shows what is there`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", fixture))))
			c.change(t, dir)
			w := newWorld(fixtureWork)
			e := w.run(disk{dir: dir}, 1)
			if e.err == nil || strings.ReplaceAll(e.err.Error(), dir, "DIR") != c.want {
				t.Fatalf("got\n%v\nwant\n%s", e.err, c.want)
			}
		})
	}
}
