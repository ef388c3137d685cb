package dataflow

import (
	"math/rand"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestTakeArrayGivesTheRowsOfEveryTypeAlsoOfASlice(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	for _, text := range []string{"bool", "int32", "int64", "float64", "string", "binary", "decimal(20,3)", "date", "time", "timestamptz", "uuid", "json", "list<string>", "struct{a: int64, b: list<int32>}"} {
		spec, err := ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		schema := arrow.NewSchema([]arrow.Field{{Name: "c", Type: spec.Type, Nullable: true}}, nil)
		b := array.NewRecordBuilder(alloc, schema)
		for range 50 {
			appendRandom(rng, b.Field(0))
		}
		rec := b.NewRecordBatch()
		b.Release()
		part := rec.NewSlice(7, 43)
		for range 20 {
			rows := make([]int32, rng.Intn(40))
			for i := range rows {
				rows[i] = int32(rng.Intn(36))
			}
			got, err := TakeBatch(alloc, part, rows)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			for i, r := range rows {
				have, want := string(AppendJSON(nil, got.Column(0), i)), string(AppendJSON(nil, part.Column(0), int(r)))
				if have != want {
					t.Fatalf("%s: row %d: got %s, want %s", text, i, have, want)
				}
			}
			got.Release()
		}
		part.Release()
		rec.Release()
	}
}

func appendRandom(rng *rand.Rand, b array.Builder) {
	if rng.Intn(5) == 0 {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.ListBuilder:
		b.Append(true)
		for range rng.Intn(4) {
			appendRandom(rng, b.ValueBuilder())
		}
	case *array.StructBuilder:
		b.Append(true)
		for i := range b.NumField() {
			appendRandom(rng, b.FieldBuilder(i))
		}
	case *array.ExtensionBuilder:
		appendRandom(rng, b.Builder)
	case *array.FixedSizeBinaryBuilder:
		v := make([]byte, 16)
		rng.Read(v)
		b.Append(v)
	case *array.BooleanBuilder:
		b.Append(rng.Intn(2) == 0)
	case *array.StringBuilder:
		b.Append([]string{"", "a", `{"x":1}`, "größe", "some longer text"}[rng.Intn(5)])
	case *array.BinaryBuilder:
		b.Append([]byte{byte(rng.Intn(256)), 7}[:rng.Intn(3)])
	default:
		if err := b.AppendValueFromString([]string{"1", "2", "3"}[rng.Intn(3)]); err != nil {
			b.AppendEmptyValue()
		}
	}
}
