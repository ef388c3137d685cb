package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// judge is a process that reads and writes tables by the direct way, with PyIceberg
// and DuckDB: it shares no code with the program. One request at a time.
type judge struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

func newJudge(t testing.TB, c rig.Catalog) *judge {
	t.Helper()
	python := rig.Readers(t)
	ask, err := json.Marshal(map[string]any{"catalog": c.URI, "props": map[string]string{
		"s3.endpoint": c.Store.Endpoint, "s3.access-key-id": c.Store.AccessKey, "s3.secret-access-key": c.Store.SecretKey, "s3.region": "us-east-1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, filepath.Join(rig.Root(t), "test", "faults", "judge.py"), string(ask))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	j := &judge{}
	if j.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	j.out = bufio.NewReaderSize(out, 1<<20)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = j.in.Close()
		_ = cmd.Wait()
	})
	return j
}

// ask sends a request and reads the answer into out.
func (j *judge) ask(out any, what, table string, more map[string]any) error {
	q := map[string]any{"do": what, "table": table}
	for k, v := range more {
		q[k] = v
	}
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.in.Write(append(line, '\n')); err != nil {
		return err
	}
	text, err := j.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the judge is gone: %w", err)
	}
	var bad struct{ Error string }
	if err := json.Unmarshal(text, &bad); err != nil {
		return err
	}
	if bad.Error != "" {
		return fmt.Errorf("judge: %s", bad.Error)
	}
	return json.Unmarshal(text, out)
}

// append adds a row with n in every whole number; then, each in a snapshot of its own,
// rows of the numbers below, to so many in all.
func (j *judge) append(table string, n int64, snapshots int) error {
	var done struct{ OK bool }
	if err := j.ask(&done, "append", table, map[string]any{"row": n, "n": snapshots}); err != nil {
		return err
	}
	if !done.OK {
		return fmt.Errorf("the rival could not commit to %s", table)
	}
	return nil
}

// files is what the snapshots of a table name and what is there.
type files struct {
	Snapshots, Sequence, Named, Orphans int
	Missing                             []string
}

// verdict is how a table differs from what it must hold.
type verdict struct {
	lost, doubled, foreign int64
	what                   []string
	files                  files
}

func (v verdict) good() bool {
	return v.lost == 0 && v.doubled == 0 && v.foreign == 0 && len(v.files.Missing) == 0
}

// compare holds a table, as both readers see it, against the rows that it must hold,
// each once; may are rows that may be there once.
func (j *judge) compare(table string, want map[string]bool, may map[string]bool) (verdict, error) {
	var v verdict
	var seen map[string][][]any
	if err := j.ask(&seen, "rows", table, nil); err != nil {
		return v, err
	}
	for _, reader := range []string{"pyiceberg", "duckdb"} {
		rows, ok := seen[reader]
		if !ok {
			return v, fmt.Errorf("%s has not read %s", reader, table)
		}
		v.hold(reader, rows, want, may)
	}
	return v, j.ask(&v.files, "files", table, nil)
}

func (v *verdict) hold(reader string, rows [][]any, want, may map[string]bool) {
	tell := func(format string, args ...any) {
		if len(v.what) < 20 {
			v.what = append(v.what, reader+": "+fmt.Sprintf(format, args...))
		}
	}
	count := map[string]int{}
	for _, r := range rows {
		count[text(r)]++
	}
	for row, n := range count {
		switch {
		case !want[row] && !may[row]:
			v.foreign++
			tell("%s should not be there", row)
		case n > 1:
			v.doubled += int64(n - 1)
			tell("%s is there %d times", row, n)
		}
	}
	for row := range want {
		if count[row] == 0 {
			v.lost++
			tell("%s is not there", row)
		}
	}
}

// text is a row as one text: whole numbers without a fraction.
func text(values []any) string {
	out := ""
	for i, x := range values {
		if i > 0 {
			out += "|"
		}
		if f, ok := x.(float64); ok {
			out += fmt.Sprint(int64(f))
			continue
		}
		out += fmt.Sprint(x)
	}
	return out
}
