package crash_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"

	_ "modernc.org/sqlite" // reads the catalog
)

// readers has PyIceberg and DuckDB read tables as well, where FRAZIL_TEST_READERS
// says with what.
func (p *place) readers(tables ...string) {
	p.t.Helper()
	if os.Getenv("FRAZIL_TEST_READERS") == "" {
		p.t.Log("FRAZIL_TEST_READERS is not set: the tables are read by the program alone")
		return
	}
	for _, name := range tables {
		text := p.Run("table", "rows", name, "--file", p.File, "--format", "ndjson")
		rig.SameRows(p.t, rig.Table{Catalog: "sqlite:///" + p.Path("frazil-data", "catalog.db"), Name: name}, strings.Split(strings.TrimSpace(text), "\n"))
	}
}

// held is what a table holds for a pipeline: positions by source and split.
type held map[string]map[string]string

// positions reads the positions that a table itself holds.
func (p *place) positions(pipeline, sink, table string) held {
	p.t.Helper()
	db, err := sql.Open("sqlite", "file:"+p.Path("frazil-data", "catalog.db")+"?mode=ro")
	if err != nil {
		p.t.Fatal(err)
	}
	defer db.Close()
	namespace, name, _ := strings.Cut(table, ".")
	var location string
	if err := db.QueryRow("select metadata_location from iceberg_tables where table_namespace = ? and table_name = ?", namespace, name).Scan(&location); err != nil {
		p.t.Fatal(err)
	}
	raw, err := os.ReadFile(strings.TrimPrefix(location, "file://"))
	if err != nil {
		p.t.Fatal(err)
	}
	var meta struct {
		Properties map[string]string `json:"properties"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		p.t.Fatal(err)
	}
	var doc struct {
		Sources held `json:"sources"`
	}
	if err := json.Unmarshal([]byte(meta.Properties["frazil.positions."+pipeline+"."+sink]), &doc); err != nil {
		p.t.Fatalf("%v: %v", meta.Properties, err)
	}
	return doc.Sources
}

// standsAt says what offset a table has stored for each partition of a topic.
func (p *place) standsAt(pipeline, sink, table, source, topic string) map[int32]int64 {
	p.t.Helper()
	out := map[int32]int64{}
	for split, text := range p.positions(pipeline, sink, table)[source] {
		number, ok := strings.CutPrefix(split, topic+"/")
		partition, err := strconv.ParseInt(number, 10, 32)
		var pos struct {
			Offset string `json:"offset"`
		}
		if !ok || err != nil {
			p.t.Fatalf("split %q is none of %s", split, topic)
		}
		if err := json.Unmarshal([]byte(text), &pos); err != nil {
			p.t.Fatalf("%q: %v", text, err)
		}
		if out[int32(partition)], err = strconv.ParseInt(pos.Offset, 10, 64); err != nil {
			p.t.Fatal(err)
		}
	}
	return out
}

// compareTables holds the tables of namespace against the model.
func (p *place) compareTables(namespace string, want tables) {
	p.t.Helper()
	list := p.List()
	for name, w := range want {
		table := namespace + "." + name
		var got []row
		if list[table].Snapshot != "" {
			got = p.Rows(table)
		}
		compareRows(p.t, table, got, w)
	}
}

// compareRows compares two bags of rows: floats within 1e-12, and where the
// model leaves a column out, it may hold anything.
func compareRows(t *testing.T, table string, got, want []row) {
	t.Helper()
	if len(want) == 0 && len(got) == 0 {
		return
	}
	known := map[string]bool{}
	for _, w := range want {
		for c := range w {
			known[c] = true
		}
	}
	g, w := bag(t, got, known), bag(t, want, known)
	var wrong []string
	for k, floats := range w {
		if d := near(g[k], floats); d != "" {
			wrong = append(wrong, k+": "+d)
		}
	}
	for k, floats := range g {
		if w[k] == nil {
			wrong = append(wrong, fmt.Sprintf("%s: there %d times, want none", k, len(floats)))
		}
	}
	if len(wrong) > 0 {
		sort.Strings(wrong)
		t.Errorf("%s: %d rows, want %d; %d differ:\n%s", table, len(got), len(want), len(wrong), strings.Join(wrong[:min(len(wrong), 12)], "\n"))
	}
}

// bag groups rows by all columns but floats; each has its floats in one vector.
func bag(t *testing.T, rows []row, known map[string]bool) map[string][][]float64 {
	t.Helper()
	columns := make([]string, 0, len(known))
	for c := range known {
		columns = append(columns, c)
	}
	sort.Strings(columns)
	out := map[string][][]float64{}
	for _, r := range rows {
		var key strings.Builder
		floats := []float64{}
		for _, c := range columns {
			v, there := r[c]
			switch {
			case !there && c != "raw":
				t.Fatalf("the row %v has no column %q", r, c)
			case v == nil:
				fmt.Fprintf(&key, "%s=null ", c)
			case c == "f" || c == "a":
				f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
				if err != nil {
					t.Fatal(err)
				}
				floats = append(floats, f)
				fmt.Fprintf(&key, "%s=? ", c)
			default:
				fmt.Fprintf(&key, "%s=%v ", c, v)
			}
		}
		out[key.String()] = append(out[key.String()], floats)
	}
	return out
}

// near says how two sets of vectors differ.
func near(got, want [][]float64) string {
	if len(got) != len(want) {
		return fmt.Sprintf("there %d times, want %d", len(got), len(want))
	}
	less := func(v [][]float64) func(i, j int) bool {
		return func(i, j int) bool { return fmt.Sprint(v[i]) < fmt.Sprint(v[j]) }
	}
	sort.Slice(got, less(got))
	sort.Slice(want, less(want))
	for i := range got {
		for k, g := range got[i] {
			if w := want[i][k]; math.Abs(g-w) > 1e-12*max(math.Abs(g), math.Abs(w)) {
				return fmt.Sprintf("%v, want %v", g, w)
			}
		}
	}
	return ""
}
