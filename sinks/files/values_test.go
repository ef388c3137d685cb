package files

import (
	"context"
	"math"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func allTypes(t testing.TB) arrow.RecordBatch {
	t.Helper()
	list, err := dataflow.ParseType("list<int32>")
	if err != nil {
		t.Fatal(err)
	}
	nested, err := dataflow.ParseType("struct{a: string, d: json}")
	if err != nil {
		t.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "b", Type: dataflow.TypeBool, Nullable: true}, {Name: "i", Type: dataflow.TypeInt32, Nullable: true},
		{Name: "l", Type: dataflow.TypeInt64, Nullable: true}, {Name: "f", Type: dataflow.TypeFloat32, Nullable: true},
		{Name: "d", Type: dataflow.TypeFloat64, Nullable: true}, {Name: "s", Type: dataflow.TypeString, Nullable: true},
		{Name: "x", Type: dataflow.TypeBinary, Nullable: true}, {Name: "day", Type: dataflow.TypeDate, Nullable: true},
		{Name: "t", Type: dataflow.TypeTime, Nullable: true}, {Name: "ts", Type: dataflow.TypeTimestamp, Nullable: true},
		{Name: "tz", Type: dataflow.TypeTimestampTZ, Nullable: true}, {Name: "u", Type: dataflow.TypeUUID, Nullable: true},
		{Name: "j", Type: dataflow.TypeJSON, Nullable: true},
		{Name: "m", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
		{Name: "list", Type: list.Type, Nullable: true}, {Name: "st", Type: nested.Type, Nullable: true},
		{Name: dataflow.SysPos, Type: dataflow.TypeInt64},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i := range int64(2) { // A row of values, then one of others, then nulls.
		b.Field(0).(*array.BooleanBuilder).Append(i == 0)
		b.Field(1).(*array.Int32Builder).Append(int32(math.MinInt32 + i))
		b.Field(2).(*array.Int64Builder).Append(math.MaxInt64 - i)
		b.Field(3).(*array.Float32Builder).Append([]float32{0.1, float32(math.Inf(-1))}[i])
		b.Field(4).(*array.Float64Builder).Append([]float64{-1e-300, math.Inf(1)}[i])
		b.Field(5).(*array.StringBuilder).Append([]string{"a\"\\\n\x00<é\U0001f600", ""}[i])
		b.Field(6).(*array.BinaryBuilder).Append([][]byte{{0, 255}, {}}[i])
		b.Field(7).(*array.Date32Builder).Append(arrow.Date32(-1 + 20000*i))
		b.Field(8).(*array.Time64Builder).Append(arrow.Time64(86399999999 * i))
		b.Field(9).(*array.TimestampBuilder).Append(arrow.Timestamp(dataflow.MinEventTime) * arrow.Timestamp(i))
		b.Field(10).(*array.TimestampBuilder).Append(arrow.Timestamp(dataflow.MaxEventTime) - arrow.Timestamp(i))
		if err := b.Field(11).(*extensions.UUIDBuilder).AppendValueFromString("00112233-4455-6677-8899-aabbccddeeff"); err != nil {
			t.Fatal(err)
		}
		b.Field(12).(*array.ExtensionBuilder).Builder.(*array.StringBuilder).Append([]string{"{\n\"k\": [1,\r\n2]}", `"x\ny"`}[i])
		b.Field(13).(*array.Decimal128Builder).Append(decimal128.FromI64(-5 + 100000*i))
		lb := b.Field(14).(*array.ListBuilder)
		lb.Append(true)
		if i == 0 {
			lb.ValueBuilder().(*array.Int32Builder).AppendValues([]int32{1, 0}, []bool{true, false})
		}
		sb := b.Field(15).(*array.StructBuilder)
		sb.Append(true)
		sb.FieldBuilder(0).(*array.StringBuilder).Append("in")
		sb.FieldBuilder(1).(*array.ExtensionBuilder).Builder.(*array.StringBuilder).Append("{\n}")
		b.Field(16).(*array.Int64Builder).Append(i)
	}
	for c := range 16 {
		b.Field(c).AppendNull()
	}
	b.Field(16).(*array.Int64Builder).Append(2)
	return b.NewRecordBatch()
}

func TestEveryTypeIsWrittenOnOneLineAndReadBack(t *testing.T) {
	dir := t.TempDir()
	b := allTypes(t)
	defer b.Release()
	w, err := newWriter(testEnv(), b.Schema(), testConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx := context.Background()
	if bad, err := w.Write(ctx, b); bad != nil || err != nil {
		t.Fatal(bad, err)
	}
	p, err := w.Prepare(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	part, err := p.Part(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := newCommitter(testEnv(), b.Schema(), testConfig(dir))
	mustCommit(t, c, dataflow.Commit{At: pos(3), Parts: []dataflow.Part{part}})
	rows := 0
	err = c.Rows(ctx, func(got arrow.RecordBatch) error {
		rows += int(got.NumRows())
		for i := range int(got.NumRows()) {
			x, y := string(dataflow.RowJSON(got, i)), []byte(dataflow.RowJSON(b, i))
			if oneLine(y); x != string(y) {
				t.Errorf("row %d: got %s, want %s", i, x, y)
			}
		}
		for col, f := range got.Schema().Fields() {
			if f.Name != "j" && f.Name != "st" && !array.Equal(got.Column(col), b.Column(col)) {
				t.Errorf("column %s: got %v, want %v", f.Name, got.Column(col), b.Column(col))
			}
		}
		return nil
	})
	if err != nil || rows != 3 {
		t.Fatalf("%d rows, %v", rows, err)
	}
}

func BenchmarkWrite(b *testing.B) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "auction", Type: dataflow.TypeInt64}, {Name: "bidder", Type: dataflow.TypeInt64}, {Name: "price", Type: dataflow.TypeInt64},
		{Name: "channel", Type: dataflow.TypeString}, {Name: "url", Type: dataflow.TypeString},
		{Name: "ts", Type: dataflow.TypeTimestampTZ}, {Name: "extra", Type: dataflow.TypeString},
	}, nil)
	rb := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer rb.Release()
	const rows = 8192
	for i := range rows {
		for _, c := range []int{0, 1, 2} {
			rb.Field(c).(*array.Int64Builder).Append(int64(i * 1000))
		}
		rb.Field(3).(*array.StringBuilder).Append("channel-1234")
		rb.Field(4).(*array.StringBuilder).Append("https://www.nexmark.com/some/path/item.htm?query=1&channel_id=12345")
		rb.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(1_772_359_200_000_000 + i*1000))
		rb.Field(6).(*array.StringBuilder).Append("some extra text of the kind that bids carry with them, about this long")
	}
	batch := rb.NewRecordBatch()
	defer batch.Release()
	w, err := newWriter(testEnv(), schema, testConfig(b.TempDir()))
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for b.Loop() {
		if _, err := w.Write(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
