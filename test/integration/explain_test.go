package integration

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const explained = `
name: doors
sources:
  doors:
    files: {paths: ["in/*.ndjson"], mode: follow, lanes: 2, poll: 50ms}
    decode: {json: {schema: {door: string, at: timestamptz, n: int64}}}
    event_time: {column: at, out_of_orderness: 5s, max_drift: 10m}
operators:
  minute: {from: doors, window: {tumbling: 1m, by: [door], aggregate: {n: count(*), sum: sum(n)}}}
sinks:
  counts: {from: minute, files: {path: out}}
http: 127.0.0.1:0
checkpoint: {every: 50ms}
`

// The two files stand in different lanes.
const (
	fastLane = "f5.ndjson"
	slowLane = "f3.ndjson"
)

// background starts the pipeline and stops it at the end of the test.
func (p *pipeline) background() {
	p.t.Helper()
	// Not of the test's context, which ends before its clean-up.
	cmd := exec.Command(binary, "run", p.file)
	cmd.Dir = p.dir
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			p.t.Error(err)
		}
		if err := cmd.Wait(); err != nil || p.t.Failed() {
			p.t.Errorf("run ended with %v\n%s", err, &log)
		}
	})
}

// says repeats a command until it prints everything that is wanted.
func (p *pipeline) says(want []string, args ...string) string {
	p.t.Helper()
	var out []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		cmd, _ := p.command(args...)
		cmd.Stderr = nil // both, below
		out, _ = cmd.CombinedOutput()
		missing := ""
		for _, w := range want {
			if !strings.Contains(string(out), w) {
				missing = w
			}
		}
		if missing == "" {
			return string(out)
		}
	}
	p.t.Fatalf("frazil %s does not say %q:\n%s", strings.Join(args, " "), want, out)
	return ""
}

// I4: the command tells of the running process who holds a window open, with which
// row, and what lets go; and once that has come, that the window is closed.
func TestExplainWindowTellsWhoHoldsItOpen(t *testing.T) {
	p := newPipeline(t, explained, nil)
	if err := os.Mkdir(filepath.Join(p.dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.write("in/"+fastLane, `{"door":"a","at":"2026-03-01T10:00:10Z","n":1}
{"door":"a","at":"2026-03-01T10:00:20Z","n":2}
{"door":"b","at":"2026-03-01T10:02:00Z","n":3}
`)
	p.write("in/"+slowLane, `{"door":"c","at":"2026-03-01T10:00:30Z","n":4}
`)
	ask := []string{"explain", "window", p.file, "minute", "a", "2026-03-01T10:00:00Z"}
	p.says([]string{"no running process of pipeline doors answers", "frazil run"}, ask...)
	p.background()
	p.says([]string{
		"step minute, key {\"door\":\"a\"}",
		"watermark of the step 2026-03-01T10:00:25.000000Z",
		"window 2026-03-01T10:00:00.000000Z to 2026-03-01T10:01:00.000000Z: open",
		`would give now {"door":"a","window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","n":2,"sum":"3"}`,
		"source doors, split 0: caught up",
		`came with in/f3.ndjson:1, read `, `: {"door":"c","at":"2026-03-01T10:00:30.000000Z","n":4}`,
		"a row with event time 2026-03-01T10:01:05.000000Z or later in split 0",
		"idle_after, which is off",
	}, ask...)
	out := p.says([]string{`"holds":[{"source":"doors","split":"0"`}, append(ask, "--format", "ndjson")...)
	var e struct {
		Windows []struct {
			State string `json:"state"`
		}
		Holds []struct {
			Split    string
			Needs    string `json:"needs_event_time"`
			Greatest struct {
				Position string
				Row      struct{ Door string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatal(err)
	}
	if len(e.Holds) != 1 || e.Holds[0].Needs != "2026-03-01T10:01:05.000000Z" || e.Holds[0].Greatest.Row.Door != "c" || e.Windows[0].State != "open" {
		t.Errorf("%+v", e)
	}
	p.says([]string{"not yet begun", "no row of any key has reached its start"}, "explain", "window", p.file, "a", "2026-03-01T12:00:00Z")
	p.says([]string{`"doors" is a source; steps with windows: minute`}, "explain", "window", p.file, "doors", "a", "2026-03-01T12:00:00Z")
	f, err := os.OpenFile(filepath.Join(p.dir, "in", slowLane), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"door":"c","at":"2026-03-01T10:01:05Z","n":5}` + "\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p.says([]string{": closed\n", "closed when the watermark reached 2026-03-01T10:01:00.000000Z"}, ask...)
	p.says([]string{`"door":"a"`}, "table", "rows", "out", "--file", p.file)
}
