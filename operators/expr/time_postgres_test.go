package expr

import (
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestTimesLikePostgres compares with the answers of a PostgreSQL 15 server (time zone UTC), one
// a line: expression, type and value, or "error" and the reason. They are constants, so that
// what fails may be refused as well.
func TestTimesLikePostgres(t *testing.T) {
	text, err := os.ReadFile("testdata/time_postgres.txt")
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1)
	defer b.Release()
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 1800 {
		t.Errorf("%d cases, expected 1800 or more", len(lines))
	}
	for _, line := range lines {
		c := strings.Split(line, "\t")
		e, err := Compile(c[0], b.Schema())
		if err != nil {
			if c[1] != "error" {
				t.Errorf("%s: %v, expected %s", c[0], err, c[2])
			}
			continue
		}
		a, bad, err := e.NewEvaluator(memory.DefaultAllocator).Eval(b)
		if err != nil {
			t.Fatalf("%s: %v", c[0], err)
		}
		got, typ := oracleText(a, e.root.typ), e.root.typ.k.name()
		a.Release()
		if len(bad) > 0 {
			got, typ = bad[0].Bad.Reason, "error"
		}
		if typ != c[1] || got != c[2] && !(typ != "error" && oracleEqual(&oracleCase{Value: &c[2]}, e.root.typ, got)) {
			t.Errorf("%s: %s %s, expected %s %s", c[0], typ, got, c[1], c[2])
		}
	}
}
