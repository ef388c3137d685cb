package crash_test

import (
	"os"
	"os/exec"
	"path/filepath"
)

// read has PyIceberg and DuckDB read tables, where FRAZIL_TEST_READERS names a
// Python that has them, and compares what they see with what the program does.
func (p *place) read(tables ...string) {
	p.t.Helper()
	python := os.Getenv("FRAZIL_TEST_READERS")
	if python == "" {
		p.t.Log("FRAZIL_TEST_READERS (a Python with PyIceberg and DuckDB) is not set: tables are read by the program alone")
		return
	}
	shared := os.Getenv("FRAZIL_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	script, err := filepath.Abs(filepath.Join(shared, "tools", "iceberg_readers.py"))
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := os.Stat(script); err != nil {
		p.t.Fatalf("FRAZIL_SHARED: %v", err)
	}
	for _, table := range tables {
		p.write("rows.ndjson", p.run("table", "rows", table, "--file", p.file, "--format", "ndjson"))
		cmd := exec.Command(python, script, "--expect", "rows.ndjson", "--catalog", "sqlite:///"+p.path("frazil-data", "catalog.db"),
			"--table", table, "--readers", "pyiceberg,duckdb", "--require", "pyiceberg,duckdb")
		cmd.Dir = p.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			p.t.Errorf("%s is not what outside readers see: %v\n%s", table, err, out)
		}
	}
}
