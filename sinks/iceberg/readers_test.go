package iceberg

import (
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow"
)

// TestOtherReaders compares tables as PyIceberg and DuckDB read them.
func TestOtherReaders(t *testing.T) {
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
			rig.SameRows(t, rig.Table{Catalog: "sqlite:///" + filepath.Join(h.dir, "catalog.db"), Name: h.cfg.Table}, want)
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
