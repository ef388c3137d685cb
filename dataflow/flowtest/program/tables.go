package program

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Row is one row of a table as encoding/json reads it with UseNumber.
type Row = map[string]any

// Objects reads one JSON object a line; numbers are json.Number where T lets them.
func Objects[T any](t testing.TB, text string) []T {
	t.Helper()
	var out []T
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.UseNumber()
		var x T
		if err := dec.Decode(&x); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		out = append(out, x)
	}
	return out
}

// Rows reads a table of the pipeline, by the program.
func (p *Place) Rows(table string) []Row {
	p.T.Helper()
	return Objects[Row](p.T, p.Run("table", "rows", table, "--file", p.File, "--format", "ndjson"))
}

// Listed is one line of "frazil table list".
type Listed struct {
	Table    string      `json:"table"`
	Rows     json.Number `json:"rows"`
	Snapshot string      `json:"snapshot"`
	Location string      `json:"location"`
}

// List lists the tables of the pipeline, by name.
func (p *Place) List() map[string]Listed {
	p.T.Helper()
	out := map[string]Listed{}
	for _, l := range Objects[Listed](p.T, p.Run("table", "list", "--file", p.File, "--format", "ndjson")) {
		out[l.Table] = l
	}
	return out
}

// Contents lists the tables without their snapshots: a claim is one, and changes no row.
func (p *Place) Contents() map[string]Listed {
	p.T.Helper()
	out := p.List()
	for name, l := range out {
		l.Snapshot = ""
		out[name] = l
	}
	return out
}

// Count is how many rows a table has now, as its snapshot says; 0 without one.
func (p *Place) Count(table string) int64 {
	p.T.Helper()
	n, _ := p.List()[table].Rows.Int64()
	return n
}

// Snapshots reads the summaries of a table's snapshots.
func (p *Place) Snapshots(table string) []map[string]string {
	p.T.Helper()
	var out []map[string]string
	for _, s := range Objects[struct {
		Summary map[string]string `json:"summary"`
	}](p.T, p.Run("table", "snapshots", table, "--file", p.File, "--format", "ndjson")) {
		out = append(out, s.Summary)
	}
	return out
}

// Fates are the counters of one step in the ledger.
type Fates map[string]int64

// Ledger reads the ledger, by step, of a program that runs or not.
func (p *Place) Ledger() map[string]Fates {
	p.T.Helper()
	out := map[string]Fates{}
	for _, l := range Objects[struct {
		Step  string `json:"step"`
		Fates Fates  `json:"fates"`
	}](p.T, p.Run("ledger", "--file", p.File, "--format", "ndjson")) {
		out[l.Step] = l.Fates
	}
	return out
}

// fatesOf are the fates that a row which came in can have.
var fatesOf = []string{"passed", "filtered", "late", "duplicate", "bad", "absorbed", "expired", "held", "staged", "superseded", "muted"}

// Uncounted is how many rows of a ledger have no fate, or were sent and not
// received; what names each. edges says for a
// step whose rows it reads, and which of them: "windows": "valid.passed".
func Uncounted(l map[string]Fates, edges map[string]string) (n int64, what []string) {
	for step, f := range l {
		rest := f["in"]
		for _, fate := range fatesOf {
			rest -= f[fate]
		}
		if rest != 0 {
			n += max(rest, -rest)
			what = append(what, fmt.Sprintf("%d rows of %s have no fate: %v", rest, step, f))
		}
		from, counter, ok := strings.Cut(edges[step], ".")
		if d := l[from][counter] - f["in"]; ok && d != 0 {
			n += max(d, -d)
			what = append(what, fmt.Sprintf("%s got %d rows, %s has %d %s", step, f["in"], from, l[from][counter], counter))
		}
	}
	return n, what
}

// Balanced fails the test unless both laws hold.
func Balanced(t testing.TB, l map[string]Fates, edges map[string]string) {
	t.Helper()
	_, what := Uncounted(l, edges)
	for _, w := range what {
		t.Errorf("ledger: %s", w)
	}
}
