package iceberg

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// TestOtherReaders compares tables as PyIceberg and DuckDB read them. It needs
// FRAZIL_READERS, the python of an environment with both.
func TestOtherReaders(t *testing.T) {
	python := os.Getenv("FRAZIL_READERS")
	if python == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("FRAZIL_READERS is not set: make an environment of ../shared/tools/requirements-readers-ci.txt")
		}
		t.Skip("FRAZIL_READERS (a python with pyiceberg and duckdb) is not set")
	}
	script := filepath.Join(shared(t), "tools", "iceberg_readers.py")
	awkward := arrow.NewSchema([]arrow.Field{field("site", dataflow.TypeString), field("n", dataflow.TypeInt64)}, nil)
	var sites []string
	for _, v := range []string{"null", "", "a=b", "a/b", "a%2Fb", "50%", "ä ö", "..", "a b", "日本", `\\`, "a+b", "a&b?c#d", "'"} {
		sites = append(sites, `{"site":"`+v+`","n":1}`)
	}
	sites = append(sites, `{"site":null,"n":2}`)
	cases := []struct {
		name      string
		schema    *arrow.Schema
		partition []string
		rows      []string
	}{
		{"awkward", awkward, []string{"site"}, sites},
		{"truncated", awkward, []string{"truncate(1, site)", "bucket(4, n)"}, sites},
		{"types", allTypes(), []string{"day(tz)", "u", "d9"}, readable(typeRows)},
		{"types, not partitioned", allTypes(), nil, readable(typeRows)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, c.schema)
			h.cfg.PartitionBy = c.partition
			cm := h.committer()
			b := h.batch(c.rows...)
			var want []string
			for i := range c.rows {
				want = append(want, asText(b, i))
			}
			b.Release()
			h.must(cm.Commit(h.ctx, h.next(1, 1, h.stage(1, c.rows...))))
			expect := filepath.Join(t.TempDir(), "rows.ndjson")
			h.must(os.WriteFile(expect, []byte(strings.Join(want, "\n")+"\n"), 0o644))
			out, err := exec.Command(python, script, "--expect", expect, "--catalog", "sqlite:///"+filepath.Join(h.dir, "catalog.db"),
				"--table", h.cfg.Table, "--readers", "pyiceberg,duckdb", "--require", "pyiceberg,duckdb").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
			if keep := os.Getenv("FRAZIL_KEEP"); keep != "" {
				h.must(os.CopyFS(filepath.Join(keep, c.name), os.DirFS(h.dir)))
			}
		})
	}
}

// readable leaves out what a reader is known not to tell apart: PyIceberg reads
// a null list as an empty one.
func readable(rows []string) []string {
	var out []string
	for _, r := range rows {
		if !strings.Contains(r, `"li":null`) {
			out = append(out, r)
		}
	}
	return out
}

// shared finds the outside data and tools.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	path := os.Getenv("FRAZIL_SHARED")
	if path == "" {
		path = filepath.Join(dir, "..", "shared")
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("outside data is not there: %v", err)
		}
		t.Skipf("outside data is not there: %v", err)
	}
	return path
}
