package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// nexmarkOver are the goldens about aggregates over the rows before each row.
var nexmarkOver = []nexmarkCase{
	{golden: "s19-over-range", from: "last5s", operators: overBids(`
  last5s: {from: some, over: {by: [auction], range_preceding: 5s, aggregate: {n: count(*), sum_price: sum(price), avg_price: avg_int(price), max_price: max(price)}}}
`)},
	{golden: "s20-over-rows", from: "last4", operators: overBids(`
  last4: {from: some, over: {by: [auction], rows_preceding: 3, expire_after: 24h, aggregate: {n: count(*), sum_price: sum(price), min_price: min(price)}}}
`)},
	{golden: "s21-over-unbounded", from: "so_far", operators: overBids(`
  so_far: {from: some, over: {by: [auction], unbounded: {expire_after: 24h}, aggregate: {n: count(*), sum_price: sum(price), max_price: max(price)}}}
`)},
	{golden: "s22-late-over-unbounded", from: "so_far", operators: overBids(`
  so_far: {from: some, over: {by: [auction], unbounded: {expire_after: 24h}, aggregate: {n: count(*), sum_price: sum(price)}}}
`)},
}

func overBids(over string) string {
	return `
operators:
  some: {from: bid, filter: {where: auction % 7 = 3}}` + over
}

var overLast4 = overBids(`
  last4: {from: some, over: {by: [auction], rows_preceding: 3, expire_after: 24h, aggregate: {n: count(*), sum_price: sum(price)}}}
`)

// TestNexmarkOverRowsLateByTheirStamp: Flink has several rules of what is late for
// OVER. With ROWS it compares a row with the rows of its key that have left, so
// that rows of a quiet key come out behind the watermark. Here the stamp decides,
// as for every other step and as in Flink with UNBOUNDED. What comes in time has
// the same results: without the rows that Flink drops, its golden comes out.
func TestNexmarkOverRowsLateByTheirStamp(t *testing.T) {
	index := nexmarkIndex(t, "s22-late-over-rows")
	read := func(name string) []map[string]any {
		return golden(t, rig.Shared(t, "data", "nexmark", "golden", name))
	}
	t.Run("late", func(t *testing.T) {
		t.Parallel()
		out := run(t, 3, nexmarkSources(t, index, "disordered")+overLast4+nexmarkSinks("last4", "late"))
		dropped := read(nexmarkIndex(t, "s22-late-over-unbounded").dropped)
		sameRows(t, "late rows", droppedTypes(dropped[0]), nil, out["late"], dropped)
		if all, some := len(out["out"])+len(out["late"]), len(read(index.result))+len(read(index.dropped)); all != some {
			t.Errorf("%d rows, Flink has %d", all, some)
		}
	})
	for _, tasks := range []int{1, 3} {
		t.Run(fmt.Sprintf("in time/tasks=%d", tasks), func(t *testing.T) {
			t.Parallel()
			sources := nexmarkSources(t, index, "disordered")
			sources = strings.Replace(sources, nexmarkInput(t, "disordered", "bid"), withoutLines(t, nexmarkInput(t, "disordered", "bid"), read(index.dropped)), 1)
			sources = strings.Replace(sources, "out_of_orderness: 500ms", "out_of_orderness: 4s", 1)
			out := run(t, tasks, sources+overLast4+nexmarkSinks("last4", "late"))
			sameRows(t, "rows", index.types, nil, out["out"], read(index.result))
			if n := len(out["late"]); n != 0 {
				t.Errorf("%d rows are late, want none", n)
			}
		})
	}
}

// withoutLines copies an input without the lines of the rows that were dropped.
func withoutLines(t *testing.T, path string, dropped []map[string]any) string {
	t.Helper()
	gone := map[string]bool{}
	for _, r := range dropped {
		gone[r["line"].(json.Number).String()] = true
	}
	var out bytes.Buffer
	for i, row := range golden(t, path) {
		if gone[fmt.Sprint(i+1)] {
			continue
		}
		line, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	to := filepath.Join(t.TempDir(), "bid.ndjson")
	if err := os.WriteFile(to, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}
