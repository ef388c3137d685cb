package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/leak"
)

// binary is the command, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "frazil-integration-")
	if err == nil {
		binary = filepath.Join(dir, "frazil")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, "frazil/cmd/frazil").CombinedOutput(); err != nil {
			err = fmt.Errorf("build the command: %w\n%s", err, out)
		}
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = leak.Main(m)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// pipeline is a pipeline file in a folder of its own, where the command runs.
type pipeline struct {
	t    testing.TB
	dir  string
	file string
}

// newPipeline writes the pipeline text; files are put beside it.
func newPipeline(t testing.TB, text string, files map[string]string) *pipeline {
	t.Helper()
	p := &pipeline{t: t, dir: t.TempDir()}
	p.file = filepath.Join(p.dir, "pipeline.yaml")
	p.write("pipeline.yaml", text)
	for name, content := range files {
		p.write(name, content)
	}
	return p
}

func (p *pipeline) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// command is bounded in time; what it logs is in the buffer.
func (p *pipeline) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Minute)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = p.dir
	var log bytes.Buffer
	cmd.Stderr = &log
	return cmd, &log
}

// frazil runs the command and returns what it prints.
func (p *pipeline) frazil(args ...string) string {
	p.t.Helper()
	cmd, log := p.command(args...)
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("frazil %s: %v\n%s", strings.Join(args, " "), err, log)
	}
	return string(out)
}

// run runs the pipeline to its end and returns its log. No row may go astray.
func (p *pipeline) run() string {
	p.t.Helper()
	cmd, log := p.command("run", p.file)
	out, err := cmd.Output()
	if err != nil || bytes.Contains(out, []byte("Quarantine")) {
		p.t.Fatalf("frazil run: %v\n%s%s", err, log, out)
	}
	return log.String()
}

// rows are a table's rows as the command prints them, sorted.
func (p *pipeline) rows(table string) []string {
	p.t.Helper()
	rows := strings.Split(strings.TrimSpace(p.frazil("table", "rows", table, "--file", p.file, "--format", "ndjson")), "\n")
	sort.Strings(rows)
	return rows
}

// expect compares a table's rows as text, in any order.
func (p *pipeline) expect(table string, want []string) {
	p.t.Helper()
	got, want := p.rows(table), append([]string(nil), want...)
	sort.Strings(want)
	if len(got) != len(want) {
		p.t.Errorf("%s: %d rows, want %d", table, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			p.t.Fatalf("%s: row %d in order is\n%s\nwant\n%s", table, i, got[i], want[i])
		}
	}
}
