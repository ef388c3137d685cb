package iceberg

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/leak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	retryBase = time.Millisecond
	const idle = "idle connections to a real store belong to its client, and end by themselves"
	os.Exit(leak.Main(m,
		leak.Goroutines(goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop")),
		leak.WithoutSockets(idle),
		leak.WithoutArrow("the library leaves what it reads of manifests and tables; each harness counts what the sink takes")))
}

// bench is a warehouse on the local disk with one pipeline's sink.
type harness struct {
	t    testing.TB
	ctx  context.Context
	dir  string
	mem  memory.Allocator
	cfg  Config
	in   component.SinkIn
	env  *dataflow.Env
	held dataflow.Positions // At of the last commit made by next
	wm   map[string]dataflow.Time
}

func newHarness(t testing.TB, schema *arrow.Schema) *harness {
	dir := t.TempDir()
	h := &harness{t: t, ctx: context.Background(), dir: dir, held: dataflow.Positions{}, mem: memory.DefaultAllocator}
	if tt, ok := t.(*testing.T); ok {
		checked := memory.NewCheckedAllocator(memory.DefaultAllocator)
		t.Cleanup(func() { checked.AssertSize(tt, 0) })
		h.mem = checked
	}
	h.cfg = defaultConfig()
	h.cfg.Table, h.cfg.Catalog = "db.t", "lake"
	lake := &CatalogConfig{Type: "sql", URI: filepath.Join(dir, "catalog.db"), Warehouse: filepath.Join(dir, "warehouse")}
	h.in = component.SinkIn{
		PlanEnv: component.PlanEnv{Pipeline: "p", Step: "s", Connections: []string{"lake"}, Resolve: func(name string) (string, any, bool) {
			return "iceberg_catalog", lake, name == "lake"
		}},
		Input: dataflow.Stream{Schema: schema}, From: "src",
	}
	h.env = &dataflow.Env{Pipeline: "p", Step: "s", Tasks: 1, Now: time.Now, Alloc: h.mem, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}, Memory: 64 << 20}
	t.Cleanup(func() { atStep = nil })
	return h
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) writer() *Writer {
	h.t.Helper()
	if _, err := plan(h.in, h.cfg); err != nil {
		h.t.Fatalf("plan: %v", err)
	}
	w, err := NewWriter(h.ctx, h.env, h.in, h.cfg)
	h.must(err)
	return w
}

func (h *harness) committer() *Committer {
	h.t.Helper()
	c, err := NewCommitter(h.ctx, h.env, h.in, h.cfg)
	h.must(err)
	h.t.Cleanup(func() { h.must(c.Close()) })
	return c
}

// batch makes a record of JSON objects.
func (h *harness) batch(rows ...string) arrow.RecordBatch {
	h.t.Helper()
	return jsonBatch(h.t, h.mem, h.in.Input.Schema, rows...)
}

func jsonBatch(t testing.TB, mem memory.Allocator, schema *arrow.Schema, rows ...string) arrow.RecordBatch {
	t.Helper()
	b, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stage writes rows with a writer of its own and returns the part.
func (h *harness) stage(e dataflow.Epoch, rows ...string) dataflow.Part {
	h.t.Helper()
	w := h.writer()
	defer func() { h.must(w.Close()) }()
	h.write(w, rows...)
	return h.prepare(w, e)
}

func (h *harness) write(w *Writer, rows ...string) {
	h.t.Helper()
	b := h.batch(rows...)
	defer b.Release()
	bad, err := w.Write(h.ctx, b)
	h.must(err)
	if bad != nil {
		h.t.Fatalf("%d bad rows", bad.NumRows())
	}
}

func (h *harness) prepare(w *Writer, e dataflow.Epoch) dataflow.Part {
	h.t.Helper()
	p, err := w.Prepare(h.ctx, e)
	h.must(err)
	if p == nil {
		h.t.Fatal("nothing was staged")
	}
	part, err := p.Part(h.ctx)
	h.must(err)
	return part
}

// next is the commit that moves split p0 of src to at.
func (h *harness) next(e dataflow.Epoch, at int, parts ...dataflow.Part) dataflow.Commit {
	c := dataflow.Commit{Epoch: e, From: h.held, At: at0(at), Plan: "fp", Watermark: dataflow.Time(e) * 1000, Parts: parts,
		FromWatermarks: h.wm, Watermarks: map[string]dataflow.Time{"src": dataflow.Time(e) * 1000}}
	h.held, h.wm = c.At, c.Watermarks
	return c
}

func at0(n int) dataflow.Positions {
	return dataflow.Positions{"src": {"p0": dataflow.Position(fmt.Sprintf("%020d", n))}}
}

// rows are the table's rows as JSON, sorted.
func (h *harness) rows() []string {
	h.t.Helper()
	c, err := NewCommitter(h.ctx, h.env, h.in, h.cfg)
	h.must(err)
	defer c.Close()
	var out []string
	h.must(c.Rows(h.ctx, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			out = append(out, string(dataflow.RowJSON(b, i)))
		}
		return nil
	}))
	sort.Strings(out)
	return out
}

func (h *harness) expect(want ...string) {
	h.t.Helper()
	sort.Strings(want)
	if got := h.rows(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		h.t.Fatalf("rows differ\ngot:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (h *harness) positions() string {
	h.t.Helper()
	c, err := NewCommitter(h.ctx, h.env, h.in, h.cfg)
	h.must(err)
	defer c.Close()
	got, err := c.Committed(h.ctx)
	h.must(err)
	if got.Positions == nil {
		return ""
	}
	return string(got.Positions.Get("src", "p0"))
}

func (h *harness) info() dataflow.TableInfo {
	h.t.Helper()
	c, err := NewCommitter(h.ctx, h.env, h.in, h.cfg)
	h.must(err)
	defer c.Close()
	info, _, err := c.Describe(h.ctx)
	h.must(err)
	return info
}

// dataFiles counts Parquet files on the disk.
func (h *harness) dataFiles() int {
	n := 0
	h.must(filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".parquet") {
			n++
		}
		return err
	}))
	return n
}

func idSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: dataflow.TypeInt64, Nullable: true},
		{Name: "v", Type: dataflow.TypeString, Nullable: true},
		{Name: dataflow.SysSplit, Type: dataflow.TypeInt32},
		{Name: dataflow.SysPos, Type: dataflow.TypeInt64},
	}, nil)
}

func idRow(id int) string { return fmt.Sprintf(`{"id":%d,"v":"v%d","_split":0,"_pos":%d}`, id, id, id) }

func idRows(lo, hi int) []string {
	var out []string
	for i := lo; i < hi; i++ {
		out = append(out, idRow(i))
	}
	return out
}

func idWant(lo, hi int) []string {
	var out []string
	for i := lo; i < hi; i++ {
		out = append(out, fmt.Sprintf(`{"id":%d,"v":"v%d"}`, i, i))
	}
	return out
}
