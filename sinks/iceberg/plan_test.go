package iceberg

import (
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// Mistakes are found by planning, which touches nothing, and each message says
// what to write instead.
func TestPlanFindsMistakes(t *testing.T) {
	for _, c := range []struct {
		change func(h *harness)
		path   string
		want   string
	}{
		{func(h *harness) { h.cfg.Catalog = "lak" }, "catalog", `unknown connection "lak"; known: lake, local; did you mean "lake"?`},
		{func(h *harness) { h.cfg.Table = "readings" }, "table", `has no namespace: expected NAMESPACE.NAME, as db.readings`},
		{func(h *harness) { h.cfg.Table = "db." }, "table", `part "" may only hold`},
		{func(h *harness) { h.cfg.Table = "db/x.t" }, "table", `part "db/x" may only hold`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"sitee"} }, "partition_by[0]", `unknown column "sitee"`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"s", "dayy(ts)"} }, "partition_by[1]", `unknown transform "dayy": expected a column, year(c), month(c), day(c), hour(c), bucket(N, c) or truncate(N, c); did you mean "day"?`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"day(s)"} }, "partition_by[0]", `day does not take column "s" of type string`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"bucket(d)"} }, "partition_by[0]", `expected bucket(N, column) with N of 1 or more`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"bucket(0, l)"} }, "partition_by[0]", `N of 1 or more`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"day(tz"} }, "partition_by[0]", `no closing parenthesis`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"day(tz)", "day(tz)"} }, "partition_by", `duplicate partition name`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"li"} }, "partition_by[0]", `identity does not take column "li" of type list<int64>`},
		{func(h *harness) { h.cfg.PartitionBy = []string{"_time"} }, "partition_by[0]", `unknown column "_time"`},
		{func(h *harness) { h.cfg.FormatVersion = 1 }, "format_version", `expected 2 or 3`},
		{func(h *harness) { h.cfg.Compression = "lz4" }, "compression", `expected zstd, snappy, gzip or none`},
		{func(h *harness) { h.cfg.FileSize = 10 }, "file_size", `expected 64KiB or more`},
		{func(h *harness) { h.cfg.Properties = map[string]string{"frazil.x": "1"} }, "properties", `reserved`},
		{func(h *harness) { h.in.Input.Changelog = true }, "", `only appends`},
	} {
		h := newHarness(t, allTypes())
		c.change(h)
		_, err := plan(h.in, h.cfg)
		problems, ok := err.(component.Problems)
		if !ok || len(problems) != 1 || problems[0].Path != c.path || !strings.Contains(problems[0].Msg, c.want) {
			t.Errorf("want %s: ...%s...\ngot %v", c.path, c.want, err)
		}
	}
}

func TestPlanIsFineAndPure(t *testing.T) {
	h := newHarness(t, allTypes())
	h.cfg.Catalog = LocalCatalog
	h.cfg.PartitionBy = []string{"day(tz)", "s", "bucket(16, l)", "truncate(4, s)"}
	t.Chdir(h.dir)
	got, err := plan(h.in, h.cfg)
	h.must(err)
	if got.Target != "local/db.t" {
		t.Fatalf("target %q", got.Target)
	}
	if info := h.dataFiles(); info != 0 {
		t.Fatal("planning wrote something")
	}
}

// The embedded catalog needs no declaration and lies under ./frazil-data.
func TestLocalCatalog(t *testing.T) {
	h := newHarness(t, idSchema())
	t.Chdir(h.dir)
	h.cfg.Catalog = LocalCatalog
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	h.expect(idWant(0, 3)...)
	if got := h.info().Location; got != "file://"+h.dir+"/frazil-data/warehouse/db.db/t" {
		t.Fatalf("location %s", got)
	}
}

func TestCheckCatalog(t *testing.T) {
	for _, c := range []struct {
		cfg  CatalogConfig
		want string
	}{
		{CatalogConfig{Type: "glue", URI: "x"}, "expected sql or rest"},
		{CatalogConfig{Type: "sql", URI: "x.db"}, "needs a warehouse"},
		{CatalogConfig{Type: "sql", URI: "mysql://x", Warehouse: "w"}, "sqlite:///PATH"},
		{CatalogConfig{Type: "rest", URI: "catalog:8181"}, "expected http://HOST"},
	} {
		if err := checkCatalog(component.PlanEnv{}, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}

// Positions keep their form: it is what other versions of this program read.
func TestPositionsFormat(t *testing.T) {
	doc := positionsDoc{Sources: dataflow.Positions{"src": {"p0": dataflow.Position("5")}}, Plan: "fp",
		Start: dataflow.Positions{"src": {"p0": dataflow.Position("1")}}, Watermarks: map[string]dataflow.Time{"src": 7}, Clocks: 2}
	text, err := encodePositions(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"sources":{"src":{"p0":"5"}},"start":{"src":{"p0":"1"}},"plan":"fp","watermarks":{"src":7},"clocks":2}`
	if text != want {
		t.Fatalf("got  %s\nwant %s", text, want)
	}
	for i := range 2000 {
		doc.Sources.Set("src", dataflow.Split(strings.Repeat("x", 20)+string(rune('a'+i%26))+strings.Repeat("y", i%50)), dataflow.Position("12"))
	}
	if text, err = encodePositions(doc); err != nil || !strings.HasPrefix(text, "zstd:") || len(text) > compressOver {
		t.Fatalf("long positions: %.40s, %v", text, err)
	}
	back, err := decodePositions(text)
	if err != nil || len(back.Sources["src"]) != len(doc.Sources["src"]) || back.Plan != "fp" {
		t.Fatalf("read back: %v", err)
	}
}
