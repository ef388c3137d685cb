package operators

import (
	"context"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// castSamples are values of each type, as Arrow's builders read them.
var castSamples = map[string][]string{
	"bool": {"true", "false"}, "int32": {"0", "-7"}, "int64": {"1", "1772359200"}, "float32": {"2.5"}, "float64": {"-0.5", "1e300"},
	"decimal(10,2)": {"12.34"}, "string": {"", "x", "12", "2026-03-01", "[1]"}, "binary": {"AAE="}, "date": {"2026-03-01"}, "time": {"10:20:30"},
	"timestamp": {"2026-03-01T10:20:30"}, "timestamptz": {"2026-03-01T10:20:30Z"}, "uuid": {"0b0e6f0c-3bb9-4c6e-9a0b-6d6c1a2b3c4d"},
	"json": {`{"a":1}`, "12", `"2026-03-01"`, "null"}, "list<int64>": {"[1,null]"}, "struct{a: int64}": {`{"a":1}`},
}

// castNever are casts that have to be refused, and castAlways those that have to be
// there, among all pairs.
var (
	castAlways = []string{"int64 to int32", "float64 to int64", "decimal(10,2) to string", "timestamptz to date", "json to list<int64>", "string to uuid", "struct{a: int64} to json", "bool to int32", "timestamp to time"}
	castNever  = []string{"int64 to uuid", "bool to timestamp", "list<int64> to int64", "date to json", "uuid to struct{a: int64}", "binary to float64"}
)

// TestCastsOfAllTypes: each pair of types is refused before anything runs, or every
// row comes out in the type that was asked for or leaves as bad.
func TestCastsOfAllTypes(t *testing.T) {
	refused := map[string]bool{}
	for from, values := range castSamples {
		for to := range castSamples {
			name := from + " to " + to
			alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
			refused[name] = !castPair(t, alloc, name, from, to, values)
			alloc.AssertSize(t, 0)
		}
	}
	for _, name := range castAlways {
		if refused[name] {
			t.Errorf("%s is refused", name)
		}
	}
	for _, name := range castNever {
		if !refused[name] {
			t.Errorf("%s is not refused", name)
		}
	}
}

// castPair runs one cast, and says whether there is one.
func castPair(t *testing.T, alloc memory.Allocator, name, from, to string, values []string) bool {
	t.Helper()
	source, err := dataflow.ParseType(from)
	if err != nil {
		t.Fatal(err)
	}
	target, err := dataflow.ParseType(to)
	if err != nil {
		t.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "a \"b\"", Type: source.Type, Nullable: true}}, nil)
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: schema}}}
	cfg := CastConfig{Columns: component.NamedTypes{{Name: "a \"b\"", Type: to}}, OnError: castBad}
	if _, err := planCast(in, cfg); err != nil {
		if !strings.Contains(err.Error(), "cannot be cast to") {
			t.Errorf("%s: %v", name, err)
		}
		return false
	}
	made := array.NewRecordBuilder(alloc, schema)
	defer made.Release()
	for _, v := range values {
		if err := made.Field(0).AppendValueFromString(v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	made.Field(0).AppendNull()
	b := made.NewRecordBatch()
	defer b.Release()
	env := &dataflow.Env{Step: "cast", Alloc: alloc, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}}
	op, err := newCast(context.Background(), env, in, cfg)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer op.Close()
	rows := int64(0)
	err = op.Process(context.Background(), 0, b, dataflow.EmitFunc(func(_ context.Context, port int, out arrow.RecordBatch) error {
		defer out.Release()
		rows += out.NumRows()
		if port == statelessBad {
			return nil
		}
		if got := out.Column(0).DataType(); !arrow.TypeEqual(got, target.Type) {
			t.Errorf("%s gives %s", name, got)
		}
		if last := int(out.NumRows()) - 1; out.Column(0).IsValid(last) {
			t.Errorf("%s: null became %s", name, out.Column(0).ValueStr(last))
		}
		return nil
	}))
	if err != nil || rows != b.NumRows() {
		t.Errorf("%s: %d of %d rows, %v", name, rows, b.NumRows(), err)
	}
	return true
}
