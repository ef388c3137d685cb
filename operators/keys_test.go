package operators

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var keyTestFields = []arrow.Field{
	{Name: "b", Type: dataflow.TypeBool, Nullable: true},
	{Name: "i4", Type: dataflow.TypeInt32, Nullable: true},
	{Name: "i8", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "f4", Type: dataflow.TypeFloat32, Nullable: true},
	{Name: "f8", Type: dataflow.TypeFloat64, Nullable: true},
	{Name: "s", Type: dataflow.TypeString, Nullable: true},
	{Name: "y", Type: dataflow.TypeBinary, Nullable: true},
	{Name: "dt", Type: dataflow.TypeDate, Nullable: true},
	{Name: "tm", Type: dataflow.TypeTime, Nullable: true},
	{Name: "ts", Type: dataflow.TypeTimestamp, Nullable: true},
	{Name: "tz", Type: dataflow.TypeTimestampTZ, Nullable: true},
	{Name: "u", Type: dataflow.TypeUUID, Nullable: true},
	{Name: "d", Type: &arrow.Decimal128Type{Precision: 20, Scale: 2}, Nullable: true},
}

// keyTestAppend adds a random value from a small set, so that keys meet.
func keyTestAppend(b array.Builder, rng *rand.Rand) {
	if rng.IntN(5) == 0 {
		b.AppendNull()
		return
	}
	k := rng.IntN(6)
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(k%2 == 0)
	case *array.Int32Builder:
		b.Append([]int32{0, -1, 1, math.MaxInt32, math.MinInt32, 256}[k])
	case *array.Int64Builder:
		b.Append([]int64{0, -1, 1, math.MaxInt64, math.MinInt64, 256}[k])
	case *array.Float32Builder:
		b.Append([]float32{0, float32(math.Copysign(0, -1)), float32(math.NaN()), -1.5, math.MaxFloat32, float32(math.Inf(-1))}[k])
	case *array.Float64Builder:
		b.Append([]float64{0, math.Copysign(0, -1), math.Float64frombits(0xfff8000000000001), -1.5, math.NaN(), math.Inf(1)}[k])
	case *array.StringBuilder:
		b.Append([]string{"", "\x00", "\x00\x00", "a", strings.Repeat("x", 200), "\x01\x00"}[k])
	case *array.BinaryBuilder:
		b.Append([][]byte{{}, {0}, {1, 0}, {0xff}, bytes.Repeat([]byte{7}, 130), {1}}[k])
	case *array.Date32Builder:
		b.Append(arrow.Date32(k - 3))
	case *array.Time64Builder:
		b.Append(arrow.Time64(k))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(k - 3))
	case *extensions.UUIDBuilder:
		b.AppendBytes([16]byte{0, byte(k)})
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(int64(k - 3)))
	default:
		panic(b)
	}
}

func keyTestBatch(alloc memory.Allocator, rng *rand.Rand, n int) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, arrow.NewSchema(keyTestFields, nil))
	defer b.Release()
	for range n {
		for c := range keyTestFields {
			keyTestAppend(b.Field(c), rng)
		}
	}
	return b.NewRecordBatch()
}

// keyText writes a row's values so that equal text means equal values.
func keyText(b arrow.RecordBatch, cols []int, row int) string {
	var out []byte
	for _, c := range cols {
		switch v := b.Column(c).(type) {
		case *array.Float64:
			if v.IsValid(row) && v.Value(row) == 0 {
				out = append(out, "0,"...)
				continue
			}
		case *array.Float32:
			if v.IsValid(row) && v.Value(row) == 0 {
				out = append(out, "0,"...)
				continue
			}
		}
		out = append(dataflow.AppendJSON(out, b.Column(c), row), ',')
	}
	return string(out)
}

func TestKeysAreInjectiveAndDecode(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	for range 60 {
		whole := keyTestBatch(alloc, rng, 300)
		lo := rng.IntN(50)
		b := whole.NewSlice(int64(lo), int64(lo+1+rng.IntN(250)))
		whole.Release()
		cols := rng.Perm(len(keyTestFields))[:1+rng.IntN(4)]
		checkKeys(t, alloc, b, cols)
		b.Release()
	}
}

func checkKeys(t *testing.T, alloc memory.Allocator, b arrow.RecordBatch, cols []int) {
	t.Helper()
	e, err := newKeyEncoder(b.Schema(), cols)
	if err != nil {
		t.Fatal(err)
	}
	e.bind(b)
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fields[i] = b.Schema().Field(c)
	}
	d, err := newKeyDecoder(fields)
	if err != nil {
		t.Fatal(err)
	}
	rb := array.NewRecordBuilder(alloc, arrow.NewSchema(fields, nil))
	defer rb.Release()
	byText, byKey := map[string]string{}, map[string]string{}
	for row := range int(b.NumRows()) {
		key := e.append(nil, row)
		text := keyText(b, cols, row)
		if old, ok := byText[text]; ok && old != string(key) {
			t.Fatalf("row %s has two keys %x and %x", text, old, key)
		}
		if old, ok := byKey[string(key)]; ok && old != text {
			t.Fatalf("rows %s and %s share the key %x", text, old, key)
		}
		byText[text], byKey[string(key)] = string(key), text
		rest, err := d.append(append(slices.Clone(key), "tail"...), rb.Fields())
		if err != nil || string(rest) != "tail" {
			t.Fatalf("decode %x: rest %q, %v", key, rest, err)
		}
		for cut := range key {
			short := array.NewRecordBuilder(alloc, arrow.NewSchema(fields, nil))
			if _, err := d.append(key[:cut], short.Fields()); err == nil {
				t.Fatalf("key %x cut at %d decodes", key, cut)
			}
			short.Release()
		}
	}
	back := rb.NewRecordBatch()
	defer back.Release()
	all := make([]int, len(cols))
	for i := range all {
		all[i] = i
	}
	for row := range int(b.NumRows()) {
		if got, want := keyText(back, all, row), keyText(b, cols, row); got != want {
			t.Fatalf("row %d: got %s, want %s", row, got, want)
		}
	}
}

// TestKeyFormat pins the bytes: they are in the state of users.
func TestKeyFormat(t *testing.T) {
	alloc := memory.DefaultAllocator
	rb := array.NewRecordBuilder(alloc, arrow.NewSchema(keyTestFields, nil))
	defer rb.Release()
	rb.Field(0).(*array.BooleanBuilder).Append(true)
	rb.Field(1).(*array.Int32Builder).Append(-2)
	rb.Field(2).(*array.Int64Builder).Append(5)
	rb.Field(3).(*array.Float32Builder).Append(1)
	rb.Field(4).(*array.Float64Builder).Append(-1)
	rb.Field(5).(*array.StringBuilder).Append("ab")
	rb.Field(6).(*array.BinaryBuilder).Append([]byte{0})
	rb.Field(7).(*array.Date32Builder).Append(1)
	rb.Field(8).(*array.Time64Builder).Append(2)
	rb.Field(9).(*array.TimestampBuilder).Append(-1)
	rb.Field(10).AppendNull()
	rb.Field(11).(*extensions.UUIDBuilder).AppendBytes([16]byte{1, 15: 2})
	rb.Field(12).(*array.Decimal128Builder).Append(decimal128.FromI64(-1))
	b := rb.NewRecordBatch()
	defer b.Release()
	cols := make([]int, len(keyTestFields))
	for i := range cols {
		cols[i] = i
	}
	e, err := newKeyEncoder(b.Schema(), cols)
	if err != nil {
		t.Fatal(err)
	}
	e.bind(b)
	key := e.append(nil, 0)
	want := "0101" + "017ffffffe" + "018000000000000005" + "01bf800000" + "01400fffffffffffff" + "01026162" + "010100" +
		"0180000001" + "018000000000000002" + "017fffffffffffffff" + "00" + "0101000000000000000000000000000002" +
		"017fffffffffffffffffffffffffffffff"
	if got := hex.EncodeToString(key); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := keyHash([]byte("frazil")), uint64(0x216204bf33beec56); got != want {
		t.Errorf("hash %#x, want %#x", got, want)
	}
}

func TestKeysRefuse(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "doc", Type: dataflow.TypeJSON}, {Name: "tags", Type: arrow.ListOf(dataflow.TypeString)},
	}, nil)
	for c, want := range []string{`column "doc" is json`, `column "tags" of type list<string> cannot be a key`} {
		if _, err := newKeyEncoder(schema, []int{c}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func BenchmarkKeys(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	batch := keyTestBatch(memory.DefaultAllocator, rng, 8192)
	for _, c := range []struct {
		name string
		cols []int
	}{{"int64", []int{2}}, {"string", []int{5}}, {"two", []int{2, 5}}} {
		b.Run(c.name, func(b *testing.B) {
			e, err := newKeyEncoder(batch.Schema(), c.cols)
			if err != nil {
				b.Fatal(err)
			}
			var buf []byte
			var sum uint64
			for range b.N {
				e.bind(batch)
				for row := range 8192 {
					buf = e.append(buf[:0], row)
					sum += keyHash(buf)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8192, "ns/row")
		})
	}
}
