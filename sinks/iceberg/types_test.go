package iceberg

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
)

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func allTypes() *arrow.Schema {
	inner := arrow.StructOf(field("a", dataflow.TypeInt64), field("u", dataflow.TypeUUID), field("j", dataflow.TypeJSON))
	return arrow.NewSchema([]arrow.Field{
		field("b", dataflow.TypeBool), field("i", dataflow.TypeInt32), field("l", dataflow.TypeInt64),
		field("f", dataflow.TypeFloat32), field("d", dataflow.TypeFloat64), field("s", dataflow.TypeString),
		field("bin", dataflow.TypeBinary), field("dt", dataflow.TypeDate), field("tm", dataflow.TypeTime),
		field("ts", dataflow.TypeTimestamp), field("tz", dataflow.TypeTimestampTZ), field("u", dataflow.TypeUUID),
		field("j", dataflow.TypeJSON), field("d9", &arrow.Decimal128Type{Precision: 9, Scale: 2}),
		field("d18", &arrow.Decimal128Type{Precision: 18, Scale: 4}), field("d38", &arrow.Decimal128Type{Precision: 38, Scale: 16}),
		field("li", arrow.ListOf(dataflow.TypeInt64)), field("ls", arrow.ListOf(dataflow.TypeString)),
		field("st", inner), field("lst", arrow.ListOf(inner)),
		{Name: dataflow.SysTime, Type: dataflow.TypeInt64}, {Name: dataflow.SysStamp, Type: dataflow.TypeInt64},
	}, nil)
}

var typeRows = []string{
	`{"b":true,"i":1,"l":-9223372036854775808,"f":1.5,"d":-2.25,"s":"a\u0000b","bin":"AAEC","dt":"2026-03-01","tm":"01:02:03.000004","ts":"2026-03-01T10:00:00.000001","tz":"1969-12-31T23:59:59.999999Z","u":"123e4567-e89b-12d3-a456-426614174000","j":"{\"k\":1}","d9":"1234567.89","d18":"-1.0001","d38":"1234567890123456789012.0000000000000001","li":[1,null,3],"ls":[],"st":{"a":7,"u":"123e4567-e89b-12d3-a456-426614174001","j":"[1]"},"lst":[{"a":1,"u":null,"j":"null"},null],"_time":1,"_watermark":2}`,
	`{"b":null,"i":null,"l":null,"f":null,"d":null,"s":null,"bin":null,"dt":null,"tm":null,"ts":null,"tz":null,"u":null,"j":null,"d9":null,"d18":null,"d38":null,"li":null,"ls":null,"st":null,"lst":null,"_time":1,"_watermark":2}`,
	`{"b":false,"i":-2147483648,"l":9223372036854775807,"f":-0.5,"d":1e300,"s":"","bin":"","dt":"0001-01-01","tm":"23:59:59.999999","ts":"9999-12-31T23:59:59.999999","tz":"0001-01-01T00:00:00Z","u":"00000000-0000-0000-0000-000000000000","j":"\"x\"","d9":"-0.01","d18":"12345678901234.5678","d38":"-0.0000000000000001","li":[],"ls":["x",null,""],"st":{"a":null,"u":null,"j":null},"lst":[],"_time":1,"_watermark":2}`,
}

// Every type of the language comes back as it was; system columns are not
// written.
func TestAllTypesRoundTrip(t *testing.T) {
	for _, partitioned := range []bool{false, true} {
		h := newHarness(t, allTypes())
		if partitioned {
			h.cfg.PartitionBy = []string{"bucket(3, l)", "day(tz)"}
		}
		c := h.committer()
		b := h.batch(typeRows...)
		var want []string
		for i := range int(b.NumRows()) {
			want = append(want, asText(b, i))
		}
		b.Release()
		h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, typeRows...))))
		h.expect(want...)
	}
}

// asText is the row as the table gives it back: json is text there.
func asText(b arrow.RecordBatch, i int) string {
	schema, err := newSchema(dataflow.UserFields(b.Schema()))
	if err != nil {
		panic(err)
	}
	types, err := fileSchema(schema.Fields())
	if err != nil {
		panic(err)
	}
	view := firstColumns(b)
	defer view.Release()
	rec, err := convertRecord(memory.DefaultAllocator, view, types)
	if err != nil {
		panic(err)
	}
	defer rec.Release()
	return string(dataflow.RowJSON(rec, i))
}

func firstColumns(b arrow.RecordBatch) arrow.RecordBatch {
	fields := dataflow.UserFields(b.Schema())
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), b.Columns()[:len(fields)], b.NumRows())
}

// Slices of batches, in any order of partitions, come back row by row.
func TestSlicedBatches(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	h := newHarness(t, allTypes())
	h.cfg.PartitionBy = []string{"truncate(2, s)"}
	c := h.committer()
	w := h.writer()
	var rows []string
	for i := range 200 {
		r := strings.Replace(typeRows[rnd.IntN(len(typeRows))], `"s":""`, fmt.Sprintf(`"s":"k%d"`, rnd.IntN(9)), 1)
		rows = append(rows, strings.Replace(r, `"i":1,`, fmt.Sprintf(`"i":%d,`, i), 1))
	}
	b := h.batch(rows...)
	var want []string
	for i := range rows {
		want = append(want, asText(b, i))
	}
	for lo := int64(0); lo < 200; {
		hi := min(200, lo+1+rnd.Int64N(40))
		s := b.NewSlice(lo, hi)
		_, err := w.Write(h.ctx, s)
		h.must(err)
		s.Release()
		lo = hi
	}
	b.Release()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.prepare(w, 1))))
	h.must(w.Close())
	h.expect(want...)
}

func (h *harness) createTable(schema *icebergo.Schema) {
	h.t.Helper()
	c := h.committer()
	ident, err := parseTable(h.cfg.Table)
	h.must(err)
	_ = c.lake.CreateNamespace(h.ctx, ident[:1], nil)
	_, err = c.lake.CreateTable(h.ctx, ident, schema, catalog.WithProperties(nil))
	h.must(err)
}

// A table that exists is matched by name: other order, wider types, columns of
// its own.
func TestExistingTableIsMatchedByName(t *testing.T) {
	in := arrow.NewSchema([]arrow.Field{
		field("i", dataflow.TypeInt32), field("f", dataflow.TypeFloat32),
		field("d", &arrow.Decimal128Type{Precision: 10, Scale: 2}), field("st", arrow.StructOf(field("a", dataflow.TypeInt32))),
	}, nil)
	h := newHarness(t, in)
	h.createTable(icebergo.NewSchema(0,
		icebergo.NestedField{ID: 1, Name: "note", Type: icebergo.PrimitiveTypes.String},
		icebergo.NestedField{ID: 2, Name: "st", Type: &icebergo.StructType{FieldList: []icebergo.NestedField{
			{ID: 6, Name: "z", Type: icebergo.PrimitiveTypes.String}, {ID: 7, Name: "a", Type: icebergo.PrimitiveTypes.Int64}}}},
		icebergo.NestedField{ID: 3, Name: "d", Type: icebergo.DecimalTypeOf(20, 2)},
		icebergo.NestedField{ID: 4, Name: "f", Type: icebergo.PrimitiveTypes.Float64},
		icebergo.NestedField{ID: 5, Name: "i", Type: icebergo.PrimitiveTypes.Int64, Required: true},
	))
	c := h.committer()
	w := h.writer()
	b := h.batch(`{"i":1,"f":0.5,"d":"1.25","st":{"a":9}}`, `{"i":null,"f":1,"d":"2.00","st":null}`, `{"i":2,"f":null,"d":null,"st":null}`)
	bad, err := w.Write(h.ctx, b)
	h.must(err)
	b.Release()
	if bad == nil || bad.NumRows() != 1 || bad.Column(0).ValueStr(0) != "null_in_required_column" ||
		bad.Column(7).ValueStr(0) != `{"i":null,"f":1,"d":"2.00","st":null}` {
		t.Fatalf("bad rows: %v", bad)
	}
	bad.Release()
	part := h.prepare(w, 1)
	if part.Rows != 2 {
		t.Fatalf("%d rows staged", part.Rows)
	}
	h.must(w.Close())
	h.must(c.Commit(h.ctx, h.next(1, 3, part)))
	h.expect(`{"note":null,"st":{"z":null,"a":9},"d":"1.25","f":0.5,"i":1}`, `{"note":null,"st":null,"d":null,"f":null,"i":2}`)
}

func TestTableThatDoesNotFit(t *testing.T) {
	h := newHarness(t, idSchema())
	h.createTable(icebergo.NewSchema(0,
		icebergo.NestedField{ID: 1, Name: "id", Type: icebergo.PrimitiveTypes.Int32},
		icebergo.NestedField{ID: 2, Name: "vv", Type: icebergo.PrimitiveTypes.String, Required: true},
	))
	_, err := NewWriter(h.ctx, h.env, h.in, h.cfg)
	if !errors.Is(err, dataflow.ErrPermanent) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{`column "id": the table has int, the input gives int64`, `column "v" (string) is not in the table; did you mean "vv"?`, `column "vv" (string) of the table is required`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}

func TestMissingTableMayNotBeMade(t *testing.T) {
	h := newHarness(t, idSchema())
	h.cfg.Create = false
	if _, err := NewWriter(h.ctx, h.env, h.in, h.cfg); !errors.Is(err, dataflow.ErrPermanent) {
		t.Fatalf("writer: %v", err)
	}
	if _, err := h.committer().Committed(h.ctx); !errors.Is(err, dataflow.ErrPermanent) {
		t.Fatalf("committer: %v", err)
	}
}
