// Package fleet holds the example of the main job and its test: the real
// program runs it, and every table must be, row by row, what a model says that
// was made from the records alone.
package fleet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"frazil/dataflow/component"
	"frazil/sources/generate"
)

const events = 200_000

// smaller is the example with fewer records, in a folder of its own.
func smaller(t *testing.T) (file string, f *generate.Fleet) {
	t.Helper()
	text, err := os.ReadFile("pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	was := []byte("events: 5_000_000")
	if bytes.Count(text, was) != 1 {
		t.Fatalf("pipeline.yaml does not say %s", was)
	}
	text = bytes.Replace(text, was, fmt.Appendf(nil, "events: %d", events), 1)
	// Fewer devices, so that the records cover as much time as in the example.
	text = bytes.Replace(text, []byte("devices: 200 "), []byte("devices: 8 "), 1)
	file = filepath.Join(t.TempDir(), "pipeline.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	n, problems := component.Parse(file, text, os.LookupEnv)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var cfg generate.Config
	if p := component.Decode(n.Get("sources").Get("readings").Get("generate"), &cfg); len(p) > 0 {
		t.Fatal(p)
	}
	if f, err = generate.NewFleet(*cfg.Fleet); err != nil {
		t.Fatal(err)
	}
	return file, f
}

func TestTheModelSeesEveryFateOfTheExample(t *testing.T) {
	_, f := smaller(t)
	want := expect(f)
	for name, least := range map[string]int{"raw": events * 9 / 10, "minutes": 2000, "late": 100, "stale": 50, "bad": 200} {
		if n := len(want[name]); n < least {
			t.Errorf("%s has %d rows, want at least %d", name, n, least)
		}
	}
	var counted int64
	for _, m := range want["minutes"] {
		counted += m["n"].(int64)
	}
	if raw, late := int64(len(want["raw"])), int64(len(want["late"])); counted+late != raw {
		t.Errorf("%d rows in windows and %d late ones of %d", counted, late, raw)
	}
}

// program builds the command.
func program(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "frazil")
	build := exec.Command("go", "build", "-o", bin, "../../cmd/frazil")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	return bin
}

func TestTheExampleGivesTheTablesOfTheModel(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program: left out with -short")
	}
	file, f := smaller(t)
	bin, dir := program(t), t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir = dir
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("frazil %s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
		}
		return string(out)
	}
	run("run", file)
	want := expect(f)
	check := func() {
		for name, table := range map[string]string{"raw": "readings", "minutes": "minutes", "late": "late", "stale": "stale", "bad": "bad"} {
			compare(t, name, read(t, name, run("table", "rows", "fleet."+table, "--file", file, "--format", "ndjson")), want[name])
		}
	}
	check()
	before := run("table", "list", "--file", file, "--format", "ndjson")
	run("run", file)
	if after := run("table", "list", "--file", file, "--format", "ndjson"); after != before {
		t.Errorf("a second run changed the tables from\n%s to\n%s", before, after)
	}
	check()
}

// read takes rows as the command prints them and puts each under what
// identifies it in the model.
func read(t *testing.T, name, text string) map[string]row {
	t.Helper()
	out := map[string]row{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.UseNumber()
		var r row
		if err := dec.Decode(&r); err != nil {
			t.Fatalf("%s: %q: %v", name, lines.Text(), err)
		}
		id := identify(name, r)
		if out[id] != nil {
			t.Fatalf("%s has %s twice", name, id)
		}
		out[id] = r
	}
	return out
}

func identify(name string, r row) string {
	switch name {
	case "minutes":
		return fmt.Sprint(r["device"], "@", r["window_start"])
	case "bad":
		return fmt.Sprint(r["split"], "@", r["position"])
	case "stale": // Copies may be here as well: they differ by their stamp.
		return fmt.Sprint(r["device"], "/", r["seq"], "@", r["watermark"])
	}
	return fmt.Sprint(r["device"], "/", r["seq"])
}

func compare(t *testing.T, name string, got, want map[string]row) {
	t.Helper()
	if name == "stale" {
		again := map[string]row{}
		for _, r := range want {
			again[identify(name, r)] = r
		}
		if len(again) != len(want) {
			t.Fatalf("the model's stale rows are not told apart: %d of %d", len(again), len(want))
		}
		want = again
	}
	wrong := 0
	for id, w := range want {
		if g := got[id]; !same(name, g, w) {
			if wrong++; wrong <= 3 {
				t.Errorf("%s: row %s is %v, want %v", name, id, g, w)
			}
		}
	}
	for id, g := range got {
		if want[id] == nil {
			if wrong++; wrong <= 3 {
				t.Errorf("%s: row %s should not be there: %v", name, id, g)
			}
		}
	}
	if wrong > 0 || len(got) != len(want) {
		t.Errorf("%s: %d rows, want %d; %d are wrong", name, len(got), len(want), wrong)
	}
}

// same compares the columns that the model knows; floats within 1e-12.
func same(name string, got, want row) bool {
	if got == nil || name != "bad" && len(got) != len(want) {
		return false
	}
	for col, w := range want {
		switch w := w.(type) {
		case float64:
			g, err := strconv.ParseFloat(fmt.Sprint(got[col]), 64)
			if err != nil || math.Abs(g-w) > 1e-12*math.Max(math.Abs(g), math.Abs(w)) {
				return false
			}
		case string:
			g, _ := got[col].(string)
			if col == "reason" && w == "malformed" {
				if g != "invalid_json" && g != "invalid_utf8" && g != "mistyped" {
					return false
				}
			} else if g != w {
				return false
			}
		default:
			if fmt.Sprint(got[col]) != fmt.Sprint(w) {
				return false
			}
		}
	}
	return true
}
