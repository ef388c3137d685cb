package expr

import (
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var testSchema = arrow.NewSchema([]arrow.Field{
	{Name: "price", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "channel", Type: dataflow.TypeString, Nullable: true},
	{Name: "qty", Type: dataflow.TypeInt32, Nullable: true},
	{Name: "temp", Type: dataflow.TypeFloat64, Nullable: true},
	{Name: "amount", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
	{Name: "ts", Type: dataflow.TypeTimestampTZ, Nullable: true},
	{Name: "ok", Type: dataflow.TypeBool, Nullable: true},
	{Name: "_time", Type: dataflow.TypeInt64},
}, nil)

// testBatch reads rows of testSchema from JSON.
func testBatch(t testing.TB, alloc memory.Allocator, rows string) arrow.RecordBatch {
	t.Helper()
	b, _, err := array.RecordFromJSON(alloc, testSchema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func evalText(t *testing.T, text string, b arrow.RecordBatch, alloc memory.Allocator) (string, string) {
	t.Helper()
	e, err := Compile(text, b.Schema())
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	a, errs, err := e.NewEvaluator(alloc).Eval(b)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer a.Release()
	if !arrow.TypeEqual(a.DataType(), e.Type()) {
		t.Errorf("%s: type %s, promised %s", text, a.DataType(), e.Type())
	}
	bad := ""
	for _, r := range errs {
		bad += fmt.Sprintf("%d %s: %s\n", r.Row, r.Bad.Reason, r.Bad.Detail)
	}
	return a.String(), bad
}

func TestExpressionsGivePostgresResults(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	b := testBatch(t, alloc, `[
		{"price": 1500, "channel": "x", "qty": 3, "temp": 1.5, "amount": "10.25", "ok": true, "_time": 1},
		{"price": 900, "channel": "X", "qty": 0, "temp": -2.5, "amount": "-0.05", "ok": false, "_time": 2},
		{"price": null, "channel": null, "qty": null, "temp": null, "amount": null, "ok": null, "_time": 3}]`)
	defer b.Release()
	for _, c := range []struct{ text, want, bad string }{
		{"price > 1000 and channel = 'x'", "[true false (null)]", ""},
		{"price * 0.908", "[1362 817.2 (null)]", ""},
		{"price / qty", "[500 (null) (null)]", "1 division_by_zero: price / qty: division by zero\n"},
		{"qty <> 0 and price / qty > 1", "[true false (null)]", ""},
		{"case when qty = 0 then null else price / qty end", "[500 (null) (null)]", ""},
		{"coalesce(amount, qty, 0)", "[10.25 -0.05 0]", ""},
		{"amount + 1", "[11.25 0.95 (null)]", ""},
		{"amount / 3", "[3.4166666666666667 -0.0166666666666667 (null)]", ""},
		{"not ok or price > 1000", "[true true (null)]", ""},
		{"price is null", "[false false true]", ""},
		{"channel in ('x', 'y')", "[true false (null)]", ""},
		{"price between 900 and 1000", "[false true (null)]", ""},
		{"price between 1000 and 600 / qty", "[false false (null)]", ""},
		{"greatest(qty, 2)", "[3 2 2]", ""},
		{"nullif(qty, 0)", "[3 (null) (null)]", ""},
		{"price", "[1500 900 (null)]", ""},
		{"1 + 2", "[3 3 3]", ""},
		{"null", "[(null) (null) (null)]", ""},
		{"'a'", `["a" "a" "a"]`, ""},
		{"price::int * 2000000", "[(null) 1800000000 (null)]", "0 out_of_range: price::int * 2000000: int32 out of range\n"},
	} {
		got, bad := evalText(t, c.text, b, alloc)
		if got != c.want || bad != c.bad {
			t.Errorf("%s\n got %s %q\nwant %s %q", c.text, got, bad, c.want, c.bad)
		}
	}
}

func TestStructFieldsAreReadAndTheirNullsKept(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	spec, err := dataflow.ParseType("struct{id: int64, in: struct{name: string, at: timestamptz}}")
	if err != nil {
		t.Fatal(err)
	}
	schema := arrow.NewSchema([]arrow.Field{{Name: "r", Type: spec.Type, Nullable: true}}, nil)
	whole, _, err := array.RecordFromJSON(alloc, schema, strings.NewReader(`[
		{"r": {"id": 9, "in": null}}, {"r": {"id": 1, "in": {"name": "a", "at": null}}}, {"r": null}, {"r": {"id": null, "in": {"name": "b", "at": null}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Release()
	b := whole.NewSlice(1, 4)
	defer b.Release()
	for text, want := range map[string]string{
		"r.id + 1":                          "[2 (null) (null)]",
		"upper(r.in.name)":                  `["A" (null) "B"]`,
		"r is null":                         "[false true false]",
		"coalesce((r).in.name, 'none')":     `["a" "none" "b"]`,
		"r.in.name in ('a', 'c')":           "[true (null) false]",
		"case r.id + 0 when 1 then 'x' end": `["x" (null) (null)]`,
	} {
		if got, bad := evalText(t, text, b, alloc); got != want || bad != "" {
			t.Errorf("%s: got %s %q, want %s", text, got, bad, want)
		}
	}
}

func TestASharedPartIsComputedOnce(t *testing.T) {
	b := testBatch(t, memory.DefaultAllocator, `[{"price": 1, "_time": 1}]`)
	defer b.Release()
	text := "price = 1"
	for range 60 { // computed twice each, this would never end
		text = "(" + text + ") in (true, false)"
	}
	if got, _ := evalText(t, text, b, memory.DefaultAllocator); got != "[true]" {
		t.Errorf("got %s", got)
	}
	text = "price = 1"
	for range 60 {
		text = "true between symmetric (" + text + ") and false"
	}
	if got, _ := evalText(t, text, b, memory.DefaultAllocator); got != "[true]" {
		t.Errorf("got %s", got)
	}
}
