package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/rig"
)

const devices, each = 20, 60

// expect works out the tables: the readings, and the minutes by site, line and start.
func expect() (rows map[string]bool, minutes map[string]int, broken int) {
	rows, minutes = map[string]bool{}, map[string]int{}
	for d := range devices {
		for _, r := range readings(d, each, 1) {
			if r.broken {
				broken++
				continue
			}
			id := fmt.Sprintf("d%d/%d", r.device, r.seq)
			if !rows[id] {
				minutes[fmt.Sprintf("%s/%s/%s", r.site(), r.line(), r.at.Truncate(time.Minute).Format("15:04"))]++
			}
			rows[id] = true
		}
	}
	return rows, minutes, broken
}

func TestTheExampleOnARealBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program: left out with -short")
	}
	b := rig.NewMosquitto(t)
	bin, dir := filepath.Join(t.TempDir(), "frazil"), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../../../cmd/frazil").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	file, err := filepath.Abs("../pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "MQTT="+b.Addr), &strings.Builder{}
		return cmd
	}
	output := func(args ...string) string {
		t.Helper()
		cmd := command(args...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("frazil %s: %v\n%s", strings.Join(args, " "), err, cmd.Stderr)
		}
		return string(out)
	}
	lines := func(table string) []string {
		out, _ := command("table", "rows", table, "--file", file, "--format", "ndjson").Output() // The table may not be there yet.
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	output("lint", file)
	output("test", file)
	running := command("run", file)
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Process.Kill() })
	rows, minutes, broken := expect()
	// What is published before the source has subscribed is not for it: its status
	// says that it is there.
	b.Await(t, "frazil/plants/status", "online")
	if err := run(t.Context(), b.Addr, devices, each, 1); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); len(lines("plants.readings")) < len(rows); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d readings are in the table, want %d\n%s", len(lines("plants.readings")), len(rows), running.Stderr)
		}
	}
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := running.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, running.Stderr)
	}
	output("run", file, "--until", "end") // closes the windows
	type row struct {
		Device, Site, Line string
		Seq                int
		N                  int
		Start              time.Time `json:"window_start"`
		Avg                float64   `json:"avg_temp"`
	}
	parse := func(line string) (r row) {
		t.Helper()
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		return r
	}
	got := lines("plants.readings")
	for _, line := range got {
		r := parse(line)
		if id := fmt.Sprintf("%s/%d", r.Device, r.Seq); !rows[id] || r.Site == "" || r.Line == "" {
			t.Errorf("unexpected reading %s", line)
		} else {
			delete(rows, id)
		}
	}
	if len(rows) > 0 {
		t.Errorf("readings %v are missing or twice in %d rows", rows, len(got))
	}
	for _, line := range lines("plants.minutes") {
		r := parse(line)
		key := fmt.Sprintf("%s/%s/%s", r.Site, r.Line, r.Start.UTC().Format("15:04"))
		if minutes[key] != r.N || math.IsNaN(r.Avg) || r.Avg < 18 || r.Avg > 28 {
			t.Errorf("minute %s, want %d", line, minutes[key])
		}
		delete(minutes, key)
	}
	if len(minutes) > 0 {
		t.Errorf("minutes %v are missing", minutes)
	}
	if got := lines("plants.unusable"); broken > 0 && len(got) < broken {
		t.Errorf("%d unusable rows, want %d", len(got), broken)
	}
}
