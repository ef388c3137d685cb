package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const previewed = `
name: doors
sources:
  doors:
    files: {paths: [doors.ndjson], mode: MODE}
    decode: {json: {schema: {door: string, at: timestamptz, n: int64}}}
    event_time: {column: at, out_of_orderness: 0s}
operators:
  minute: {from: doors, window: {tumbling: 1m, by: [door], aggregate: {n: count(*)}}}
sinks:
  raw:    {from: doors, iceberg: {table: building.doors}}
  counts: {from: minute, iceberg: {table: building.counts}}
http: 127.0.0.1:0
checkpoint: {every: 20ms}
`

const doors = `{"door":"a","at":"2026-03-01T10:00:00Z","n":1}
{"door":"b","at":"2026-03-01T10:01:05Z","n":2}
{"door":"a","at":"2026-03-01T10:00:30Z","n":3}
{"door":"a","at":"2026-03-01T10:01:07Z","n":"no"}
{"door":"a","at":"2026-03-01T10:02:00Z","n":4}
`

// previewRows runs a preview and returns what it prints.
func (p *pipeline) previewRows(args ...string) (rows []string, log string) {
	p.t.Helper()
	cmd, errs := p.command(append([]string{"run", "--preview", p.file}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("preview: %v\n%s", err, errs)
	}
	rows = strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	slices.Sort(rows)
	return rows, errs.String()
}

// A preview shows the rows of every sink and unread port, and leaves nothing: no
// table, no state, no catalog.
func TestAPreviewShowsEverythingAndKeepsNothing(t *testing.T) {
	p := newPipeline(t, strings.ReplaceAll(previewed, "MODE", "end"), map[string]string{"doors.ndjson": doors})
	rows, log := p.previewRows()
	want := []string{
		`counts  {"door":"a","window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","n":1}`,
		`counts  {"door":"a","window_start":"2026-03-01T10:02:00.000000Z","window_end":"2026-03-01T10:03:00.000000Z","n":1}`,
		`counts  {"door":"b","window_start":"2026-03-01T10:01:00.000000Z","window_end":"2026-03-01T10:02:00.000000Z","n":1}`,
		`doors.bad  {"reason":"mistyped"`,
		`minute.late  {"door":"a","at":"2026-03-01T10:00:30.000000Z","n":3,"window_start":"2026-03-01T10:00:00.000000Z"`,
		`raw  {"door":"a","at":"2026-03-01T10:00:00.000000Z","n":1}`,
		`raw  {"door":"a","at":"2026-03-01T10:00:30.000000Z","n":3}`,
		`raw  {"door":"a","at":"2026-03-01T10:02:00.000000Z","n":4}`,
		`raw  {"door":"b","at":"2026-03-01T10:01:05.000000Z","n":2}`,
	}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d:\n%s", len(rows), len(want), strings.Join(rows, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(rows[i], want[i]) {
			t.Errorf("row %d is\n%s\nwant\n%s", i, rows[i], want[i])
		}
	}
	for _, want := range []string{"PREVIEW of doors", "raw counts doors.bad minute.late minute.bad", "5 records read, nothing was written", "raw          4 rows\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("it does not say %q:\n%s", want, log)
		}
	}
	p.only("doors.ndjson", "pipeline.yaml")
}

// only checks which files the folder has.
func (p *pipeline) only(want ...string) {
	p.t.Helper()
	var have []string
	err := filepath.WalkDir(p.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && path != p.dir {
			have = append(have, d.Name())
		}
		return err
	})
	slices.Sort(have)
	if err != nil || !slices.Equal(have, want) {
		p.t.Errorf("the folder holds %v, want %v; %v", have, want, err)
	}
}

// With --rows it ends when every sink has shown so many, although the source
// never ends; what comes beyond is counted.
func TestAPreviewEndsAfterSomeRows(t *testing.T) {
	var in strings.Builder
	for i := range 500 {
		fmt.Fprintf(&in, `{"door":"d%d","at":"2026-03-01T%02d:%02d:00Z","n":%d}`+"\n", i%3, i/60, i%60, i)
	}
	p := newPipeline(t, strings.ReplaceAll(previewed, "MODE", "follow"), map[string]string{"doors.ndjson": in.String()})
	rows, log := p.previewRows("--rows", "3")
	if len(rows) != 6 || !strings.HasPrefix(rows[2], "counts  ") || !strings.HasPrefix(rows[3], `raw  {"door":"d0","at":"2026-03-01T00:00:00.000000Z","n":0}`) {
		t.Errorf("rows\n%s", strings.Join(rows, "\n"))
	}
	if !strings.Contains(log, "rows, the first 3 shown") {
		t.Error(log)
	}
	rows, _ = p.previewRows("--for", "1s")
	if len(rows) != 500+499 {
		t.Errorf("%d rows in a second, want all 500 and the 499 windows they close", len(rows))
	}
	p.only("doors.ndjson", "pipeline.yaml")
	for args, want := range map[string]string{"--rows 3": "--rows is about --preview", "--for 3s": "--for is about --preview", "--preview --discard-state x": "leave --discard-state out"} {
		cmd, errs := p.command(append([]string{"run", p.file}, strings.Fields(args)...)...)
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %v\n%s", args, err, errs)
		}
	}
}
