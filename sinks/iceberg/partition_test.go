package iceberg

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// R09: null, "null" and "" are three partitions; awkward values are read back,
// unfiltered and filtered.
func TestAwkwardPartitionValues(t *testing.T) {
	h := newHarness(t, arrow.NewSchema([]arrow.Field{field("site", dataflow.TypeString), field("n", dataflow.TypeInt64)}, nil))
	h.cfg.PartitionBy = []string{"site"}
	values := []string{"null", "", "a=b", "a/b", "a%2Fb", "50%", "ä ö", "..", ".", "a b", "日本", "\\", "a+b", "a&b?c#d", strings.Repeat("x", 300), "\u0001", "'\"", "None"}
	var rows, want []string
	for i, v := range values {
		rows = append(rows, fmt.Sprintf(`{"site":%q,"n":%d}`, v, i))
		rows[i] = strings.ReplaceAll(rows[i], `\x01`, `\u0001`)
	}
	rows = append(rows, `{"site":null,"n":99}`)
	b := h.batch(rows...)
	for i := range rows {
		want = append(want, string(dataflow.RowJSON(b, i)))
	}
	b.Release()
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 1, h.stage(1, rows...))))
	// Manifests of "" alone, and of "" and null alone.
	more := []string{`{"site":"","n":1}`, `{"site":null,"n":99}`}
	h.must(c.Commit(h.ctx, h.next(2, 2, h.stage(2, more[:1]...))))
	h.must(c.Commit(h.ctx, h.next(3, 3, h.stage(3, more...))))
	want = append(want, more[0], more[0], more[1])
	h.expect(want...)
	info := h.info()
	if len(info.Files) != len(rows)+3 {
		t.Fatalf("%d files, want one for each of %d values", len(info.Files), len(rows))
	}
	for _, f := range info.Files {
		if rest := strings.TrimPrefix(f.Path, "file://"+h.dir); strings.ContainsAny(rest, "% ?#&\\") {
			t.Errorf("path needs escaping: %s", f.Path)
		}
	}
	tbl, err := loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	for i, v := range values {
		_, it, err := tbl.Scan(table.WithRowFilter(icebergo.EqualTo(icebergo.Reference("site"), v))).ToArrowRecords(h.ctx)
		h.must(err)
		n := 0
		for rec, err := range it {
			h.must(err)
			for r := range int(rec.NumRows()) {
				n++
				if rec.Column(1).(*array.Int64).Value(r) != int64(i) {
					t.Errorf("site = %q gave another row", v)
				}
			}
			rec.Release()
		}
		if expected := map[bool]int{true: 3, false: 1}[v == ""]; n != expected {
			t.Errorf("site = %q gave %d rows, want %d", v, n, expected)
		}
	}
}

// Own keys tell rows apart exactly as the library's transforms do.
func TestKeysAgreeWithTransforms(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	schema := allTypes()
	entries := []string{"b", "i", "l", "f", "d", "s", "bin", "dt", "tm", "ts", "tz", "u", "d9", "d38",
		"bucket(5, i)", "bucket(5, l)", "bucket(5, s)", "bucket(5, bin)", "bucket(5, dt)", "bucket(5, tm)", "bucket(5, tz)", "bucket(5, u)", "bucket(5, d18)",
		"truncate(10, i)", "truncate(10, l)", "truncate(2, s)", "truncate(2, bin)", "truncate(50, d9)",
		"year(dt)", "month(dt)", "day(dt)", "year(ts)", "month(ts)", "day(ts)", "hour(ts)", "year(tz)", "month(tz)", "day(tz)", "hour(tz)"}
	rec := randomRecord(rnd, schema, 300)
	defer rec.Release()
	cols, err := newSchema(dataflow.UserFields(schema))
	if err != nil {
		t.Fatal(err)
	}
	work, err := convertRecord(memory.DefaultAllocator, firstColumns(rec), workSchema(arrow.NewSchema(dataflow.UserFields(schema), nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer work.Release()
	for _, e := range entries {
		spec, err := newSpec([]string{e}, cols, schema)
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		p, err := newPartitioner(spec, cols, cols.Fields())
		if err != nil {
			t.Fatal(err)
		}
		keys := p.bind(work)
		byKey, byValue := map[string]string{}, map[string]string{}
		for row := range int(work.NumRows()) {
			k, v := string(keys[0](nil, row)), fmt.Sprintf("%v", p.values(work, row))
			if had, ok := byKey[k]; ok && had != v {
				t.Fatalf("%s: one key for %s and %s", e, had, v)
			}
			if had, ok := byValue[v]; ok && had != k {
				t.Fatalf("%s: two keys for %s", e, v)
			}
			byKey[k], byValue[v] = v, k
		}
		if len(byKey) < 2 {
			t.Fatalf("%s: all rows are in one partition", e)
		}
	}
}

func randomRecord(rnd *rand.Rand, schema *arrow.Schema, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	word := func() string {
		out := ""
		for range rnd.IntN(4) {
			out += string([]rune("aäz日 ")[rnd.IntN(5)])
		}
		return out
	}
	for range n {
		for c, f := range schema.Fields() {
			if rnd.IntN(10) == 0 && f.Nullable {
				b.Field(c).AppendNull()
				continue
			}
			switch x := b.Field(c).(type) {
			case *array.BooleanBuilder:
				x.Append(rnd.IntN(2) == 0)
			case *array.Int32Builder:
				x.Append(int32(rnd.IntN(50) - 25))
			case *array.Int64Builder:
				x.Append(rnd.Int64N(50) - 25)
			case *array.Float32Builder:
				x.Append(float32(rnd.IntN(5)) / 2)
			case *array.Float64Builder:
				x.Append(float64(rnd.IntN(5)) / 2)
			case *array.StringBuilder:
				x.Append(word())
			case *array.BinaryBuilder:
				x.Append([]byte(word()))
			case *array.Date32Builder:
				x.Append(arrow.Date32(rnd.IntN(4000) - 2000))
			case *array.Time64Builder:
				x.Append(arrow.Time64(rnd.IntN(20)))
			case *array.TimestampBuilder:
				x.Append(arrow.Timestamp(rnd.Int64N(4e14) - 2e14))
			case *array.Decimal128Builder:
				if err := x.AppendValueFromString([]string{"-1.01", "0", "1.00", "2.5", "100"}[rnd.IntN(5)]); err != nil {
					panic(err)
				}
			default:
				if f.Name == "u" {
					if err := x.AppendValueFromString(fmt.Sprintf("123e4567-e89b-12d3-a456-42661417400%d", rnd.IntN(9))); err != nil {
						panic(err)
					}
					continue
				}
				x.AppendNull()
			}
		}
	}
	return b.NewRecordBatch()
}

// Every transform on a real table, read back with a filter on the source column
// (R04).
func TestEveryTransformOnATable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for _, entries := range [][]string{
		{"day(tz)", "s"}, {"hour(ts)", "bucket(4, u)"}, {"month(dt)", "truncate(1, s)"}, {"year(tz)", "bucket(3, d18)", "truncate(10, l)"},
		{"b", "dt", "u"}, {"d9", "tm", "bin"}, {"ts", "f"},
	} {
		h := newHarness(t, allTypes())
		h.cfg.PartitionBy = entries
		c := h.committer()
		rec := randomRecord(rnd, allTypes(), 40)
		var want []string
		for i := range int(rec.NumRows()) {
			want = append(want, asText(rec, i))
		}
		w := h.writer()
		w.enc.fs = &noSync{}
		bad, err := w.Write(h.ctx, rec)
		rec.Release()
		if err != nil || bad != nil {
			t.Fatalf("%v: %v", entries, err)
		}
		h.must(c.Commit(h.ctx, h.next(1, 1, h.prepare(w, 1))))
		h.must(w.Close())
		got := h.rows()
		sort.Strings(want)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%v: rows differ\ngot:\n%s\nwant:\n%s", entries, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
