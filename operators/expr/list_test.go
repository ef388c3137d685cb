package expr

import (
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// nestedRows has a document, lists and structs.
func nestedRows(t *testing.T, alloc memory.Allocator) arrow.RecordBatch {
	t.Helper()
	item := arrow.StructOf(arrow.Field{Name: "sku", Type: dataflow.TypeString, Nullable: true}, arrow.Field{Name: "n", Type: dataflow.TypeInt32, Nullable: true})
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "doc", Type: dataflow.TypeJSON, Nullable: true}, {Name: "tags", Type: arrow.ListOf(dataflow.TypeString), Nullable: true},
		{Name: "ns", Type: arrow.ListOf(dataflow.TypeInt64), Nullable: true}, {Name: "item", Type: item, Nullable: true}, {Name: "i", Type: dataflow.TypeInt32, Nullable: true},
	}, nil)
	b, _, err := array.RecordFromJSON(alloc, schema, strings.NewReader(`[
		{"doc": "{\"b\": 1e1, \"a\":  [1, {\"x\": null}]}", "tags": ["a", null, "b c"], "ns": [3, 1], "item": {"sku": "s", "n": 2}, "i": 1},
		{"doc": null, "tags": null, "ns": [], "item": null, "i": null},
		{"doc": "[1, \"1\"]", "tags": [], "ns": null, "item": {"sku": null, "n": 0}, "i": -1}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A list that is computed again for more rows leaves what was made of it before.
func TestAListThatIsComputedAgain(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "s", Type: dataflow.TypeString}, {Name: "b", Type: dataflow.TypeBool}}, nil)
	batch, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(
		`[{"s": "{1,2,3}", "b": false}, {"s": "{4}", "b": true}, {"s": "{5,6}", "b": false}, {"s": "{7,8,9}", "b": true}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Release()
	e, err := Compile("(case when b then (s::int[])::bigint[] else array[cardinality(s::int[])::bigint] end)::text", schema)
	if err != nil {
		t.Fatal(err)
	}
	a, errs, err := e.NewEvaluator(memory.DefaultAllocator).Eval(batch)
	if err != nil || len(errs) > 0 {
		t.Fatal(err, errs)
	}
	defer a.Release()
	if got, want := a.String(), `["{3}" "{4}" "{2}" "{7,8,9}"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNestedColumns(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	whole := nestedRows(t, alloc)
	defer whole.Release()
	for text, want := range map[string]string{
		"doc":                 `{"b": 1e1, "a":  [1, {"x": null}]}|null|[1, "1"]`, // passed on as it came
		"doc::string":         `{"a": [1, {"x": null}], "b": 10}|null|[1, "1"]`,
		"doc -> 'a' -> 1":     `{"x": null}|null|null`,
		"doc ->> i":           `null|null|1`,
		"tags[1]":             `a|null|null`,
		"tags":                `["a",null,"b c"]|null|[]`,
		"tags || 'z'::string": `["a",null,"b c","z"]|["z"]|["z"]`,
		"tags::string":        `{a,NULL,"b c"}|null|{}`,
		"ns::list<int32>":     `[3,1]|[]|null`,
		"ns || array[i]":      `[3,1,1]|[null]|[-1]`,
		"i = any(ns)":         `true|false|null`,
		"to_jsonb(item)":      `{"sku":"s","n":2}|null|{"sku":null,"n":0}`,
		"jsonb_build_object('i', item, 't', tags)":         `{"i": {"n": 2, "sku": "s"}, "t": ["a", null, "b c"]}|{"i": null, "t": null}|{"i": {"n": 0, "sku": null}, "t": []}`,
		"coalesce(tags, array['none'])":                    `["a",null,"b c"]|["none"]|[]`,
		"case when i > 0 then ns else array[i::int64] end": `[3,1]|[null]|[-1]`,
		"item.n + 1":               `3|null|1`,
		"cardinality(ns)":          `2|0|null`,
		"array[item.sku, tags[1]]": `["s","a"]|[null,null]|[null,null]`,
		"i::smallint":              `1|null|-1`,
	} {
		for lo := range int64(3) {
			b := whole.NewSlice(lo, 3)
			e, err := Compile(text, b.Schema())
			if err != nil {
				t.Errorf("%s: %v", text, err)
				b.Release()
				continue
			}
			a, errs, err := e.NewEvaluator(alloc).Eval(b)
			if err != nil || len(errs) > 0 {
				t.Fatalf("%s: %v %v", text, err, errs)
			}
			if !arrow.TypeEqual(a.DataType(), e.Type()) {
				t.Errorf("%s: the result is %s, its type %s", text, a.DataType(), e.Type())
			}
			var got []string
			for i := range a.Len() {
				if a.IsNull(i) {
					got = append(got, "null")
					continue
				}
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(string(dataflow.AppendJSON(nil, a, i)), `"`), `"`))
			}
			if w := strings.Join(strings.Split(want, "|")[lo:], "|"); strings.ReplaceAll(strings.Join(got, "|"), `\"`, `"`) != w {
				t.Errorf("%s from row %d: %s, want %s", text, lo, strings.Join(got, "|"), w)
			}
			a.Release()
			b.Release()
		}
	}
}
