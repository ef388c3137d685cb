package rig

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Table says where outside readers find an Iceberg table.
type Table struct {
	// Catalog is sqlite:///FILE or the URI of a REST catalog.
	Catalog string
	// Name is NAMESPACE.NAME.
	Name string
	// Store is needed where the table's files are in S3.
	Store Store
}

func (c Table) props() []string {
	if c.Store.Endpoint == "" {
		return nil
	}
	return []string{"s3.endpoint=" + c.Store.Endpoint, "s3.access-key-id=" + c.Store.AccessKey, "s3.secret-access-key=" + c.Store.SecretKey, "s3.region=us-east-1"}
}

// Readers returns a python that has PyIceberg and DuckDB.
func Readers(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("FRAZIL_TEST_READERS"); p != "" {
		return p
	}
	p, err := installed("python", "bin", "python")
	if err != nil {
		missing(t, "PyIceberg and DuckDB", "run ./test/install, or set FRAZIL_TEST_READERS to a python that has them")
	}
	return p
}

// SameRows fails the test unless PyIceberg and DuckDB both read exactly these
// rows from the table, in any order: one JSON object each, times in RFC 3339,
// decimals as text.
func SameRows(t testing.TB, table Table, rows []string) {
	t.Helper()
	python, script := Readers(t), Shared(t, "tools", "iceberg_readers.py")
	expect := filepath.Join(t.TempDir(), "rows.ndjson")
	if err := os.WriteFile(expect, []byte(strings.Join(rows, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{script, "--expect", expect, "--catalog", table.Catalog, "--table", table.Name, "--readers", "pyiceberg,duckdb", "--require", "pyiceberg,duckdb"}
	for _, p := range table.props() {
		args = append(args, "--prop", p)
	}
	python3(t, python, args...)
}

// SameCounts fails the test unless PyIceberg and DuckDB both find, for each
// value of a text column, as many rows where the column equals it. "" is the
// empty text, and null is counted apart. It finds what SameRows cannot: files
// that a reader passes over because of their partition values or statistics.
func SameCounts(t testing.TB, table Table, column string, counts map[string]int, null int) {
	t.Helper()
	python, root := Readers(t), Root(t)
	ask, err := json.Marshal(map[string]any{
		"tools": Shared(t, "tools"), "catalog": table.Catalog, "table": table.Name, "props": table.props(), "column": column, "counts": counts, "null": null,
	})
	if err != nil {
		t.Fatal(err)
	}
	python3(t, python, filepath.Join(root, "dataflow", "flowtest", "rig", "filtered.py"), string(ask))
}

func python3(t testing.TB, python string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), python, args...)
	// Outside data may be in a folder that must not change.
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("outside readers: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}
