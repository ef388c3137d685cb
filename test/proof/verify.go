package proof

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
	"frazil/test/proof/model"
)

//go:embed read.py
var readPy string

// Result is what a verification found.
type Result struct {
	model.Diff
	// Uncounted rows have no fate in the ledger, another one than they must, or were
	// sent and never received.
	Uncounted int64
}

// Verify reads all tables, files and the quarantine of a pipeline that has been run to
// its end, compares them with the model, and the ledger with both; it fails the test
// unless everything is as it must be.
func (x *Trial) Verify() Result {
	x.T.Helper()
	got := x.Read()
	return x.Judge(got, x.Place.Ledger(), x.quarantineCounts())
}

// Judge is the part of Verify after the reading.
func (x *Trial) Judge(got model.Tables, ledger map[string]program.Fates, quarantine map[string]int64) Result {
	x.T.Helper()
	want := model.Expected(x.Input)
	r := Result{Diff: model.Compare(want, got)}
	if !r.Same() {
		x.T.Errorf("the tables are not what they must be: %s", r.Diff)
	}
	n, what := program.Uncounted(ledger, edges)
	r.Uncounted = n
	for _, c := range x.counts(want) {
		have := ledger[c.step][c.fate]
		if c.step == "quarantine" {
			have = quarantine[c.fate]
		}
		if d := have - c.want; d != 0 {
			r.Uncounted += max(d, -d)
			what = append(what, fmt.Sprintf("%s of %s is %d, want %d", c.fate, c.step, have, c.want))
		}
	}
	for _, w := range what {
		x.T.Errorf("ledger: %s", w)
	}
	return r
}

type count struct {
	step, fate string
	want       int64
}

// counts are what the ledger must say in the end.
func (x *Trial) counts(want model.Tables) []count {
	rows := func(tables ...string) (n int64) {
		for _, t := range tables {
			n += int64(len(want[t]))
		}
		return n
	}
	in := map[string]int64{}
	bad := map[string]int64{}
	for s, records := range x.Input {
		in[s.Source] += int64(len(records))
		for _, r := range records {
			if r.Bad != "" {
				bad[s.Source]++
			}
		}
	}
	lateForBest := int64(0)
	for _, q := range want["quarantine"] {
		if q["step"] == "best" {
			lateForBest++
		}
	}
	out := []count{
		{"all", "passed", rows("raw")}, {"once", "late", rows("stale")}, {"plain", "passed", rows("plain")},
		{"minutes", "late", rows("late")}, {"minutes", "created", rows("minutes")}, {"best", "late", lateForBest}, {"best", "created", rows("best")},
		{"totals", "absorbed", rows("plain")}, {"once", "held", 0}, {"minutes", "held", 0}, {"best", "held", 0}, {"totals", "held", 0},
		{"raw_table", "in", rows("raw")}, {"plain_table", "in", rows("plain")}, {"minutes_table", "in", rows("minutes")},
		{"side_table", "in", rows("side")}, {"bad_table", "in", rows("bad")}, {"late_table", "in", rows("late")},
		{"stale_table", "in", rows("stale")}, {"best_table", "in", rows("best")},
		{"quarantine", "kept", rows("quarantine")}, {"quarantine", "rows", rows("quarantine")},
	}
	for source, n := range in {
		out = append(out, count{source, "in", n}, count{source, "bad", bad[source]})
	}
	return out
}

// Read reads every table as outside readers do, and the rest as anybody can.
func (x *Trial) Read() model.Tables {
	x.T.Helper()
	var names []string
	for name := range model.Keys {
		if name != "totals" && name != "quarantine" {
			names = append(names, x.namespace+"."+name)
		}
	}
	slices.Sort(names)
	catalog := "sqlite:///" + x.Path("lake.db")
	props := map[string]string{}
	if c := x.config.Catalog; c != nil {
		catalog = c.URI
		props = map[string]string{"s3.endpoint": c.Store.Endpoint, "s3.access-key-id": c.Store.AccessKey, "s3.secret-access-key": c.Store.SecretKey, "s3.region": "us-east-1"}
		if c.Credential != "" {
			props["credential"], props["warehouse"] = c.Credential, c.Warehouse
		}
	}
	out := model.Tables{}
	for _, l := range program.Objects[struct {
		Table string
		Row   model.Row
	}](x.T, x.python(readPy, map[string]any{"catalog": catalog, "props": props, "tables": names})) {
		name := strings.TrimPrefix(l.Table, x.namespace+".")
		out[name] = append(out[name], numbers(l.Row))
	}
	out["totals"] = x.totals()
	out["quarantine"] = x.quarantine()
	return out
}

// python runs a script that is asked in JSON on standard input.
func (x *Trial) python(script string, ask any) string {
	x.T.Helper()
	raw, err := json.Marshal(ask)
	if err != nil {
		x.T.Fatal(err)
	}
	cmd := exec.Command(rig.Readers(x.T), "-c", script)
	cmd.Stdin = bytes.NewReader(raw)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		x.T.Fatalf("outside readers: %v\n%s", err, program.Tail(log.String(), 3000))
	}
	return string(out)
}

// totals folds the changes that the sink files has written, by row: what was put and
// not taken away.
func (x *Trial) totals() []model.Row {
	x.T.Helper()
	files, err := filepath.Glob(x.Path("totals", "*.ndjson"))
	if err != nil {
		x.T.Fatal(err)
	}
	there := map[string]int{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			x.T.Fatal(err)
		}
		for _, r := range program.Objects[model.Row](x.T, string(text)) {
			n := map[any]int{"insert": 1, "update_after": 1, "update_before": -1, "delete": -1}[r["op"]]
			delete(r, "op")
			row, err := json.Marshal(r)
			if err != nil {
				x.T.Fatal(err)
			}
			there[string(row)] += n
		}
	}
	var out []model.Row
	for row, n := range there {
		for range max(n, -n) {
			r := numbers(program.Objects[model.Row](x.T, row)[0])
			if n < 0 {
				r["site"] = fmt.Sprint("taken away and never put: ", r["site"])
			}
			out = append(out, r)
		}
	}
	return out
}

// quarantine lists what is kept.
func (x *Trial) quarantine() []model.Row {
	x.T.Helper()
	var out []model.Row
	for _, q := range program.Objects[struct {
		Step, Port, Reason, Source, Position string
		Raw                                  *string
		Row                                  model.Row
	}](x.T, x.Run("quarantine", "list", "--file", x.File, "--format", "ndjson")) {
		r := model.Row{"step": q.Step, "port": q.Port, "reason": q.Reason, "source": q.Source, "position": q.Position, "raw": nil}
		if q.Raw != nil {
			raw, err := base64.StdEncoding.DecodeString(*q.Raw)
			if err != nil {
				x.T.Fatal(err)
			}
			r["raw"] = hex.EncodeToString(raw)
		}
		if q.Row != nil {
			r["position"] = fmt.Sprintf("%v %v %v", q.Row["src"], q.Row["split"], q.Row["pos"])
		}
		out = append(out, r)
	}
	return out
}

// quarantineCounts are those of the ledger.
func (x *Trial) quarantineCounts() map[string]int64 {
	x.T.Helper()
	for _, l := range program.Objects[struct{ Quarantine map[string]int64 }](x.T, x.Run("ledger", "--file", x.File, "--format", "ndjson")) {
		if l.Quarantine != nil {
			return l.Quarantine
		}
	}
	return nil
}

// numbers makes int64 of what json read as numbers.
func numbers(r model.Row) model.Row {
	for c, v := range r {
		if n, ok := v.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				r[c] = i
			} else {
				r[c] = n.String()
			}
		}
	}
	return r
}
