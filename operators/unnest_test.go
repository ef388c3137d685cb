package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// runUnnest runs an unnest over slices of a batch of JSON rows, and returns what it
// emits, in order. The allocator must be empty afterwards.
func runUnnest(t *testing.T, schema *arrow.Schema, cfg UnnestConfig, rows string, each int64, see func(arrow.RecordBatch)) {
	t.Helper()
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	b, _, err := array.RecordFromJSON(alloc, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	env := &dataflow.Env{Step: "rows", Alloc: alloc, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}}
	op, err := newUnnest(context.Background(), env, component.OperatorIn{Inputs: []dataflow.Stream{{Schema: schema}}}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	out := dataflow.EmitFunc(func(_ context.Context, _ int, made arrow.RecordBatch) error {
		defer made.Release()
		see(made)
		return nil
	})
	for at := int64(0); at < b.NumRows(); at += each {
		part := b.NewSlice(at, min(at+each, b.NumRows()))
		err := op.Process(context.Background(), 0, part, out)
		part.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
	if left := env.Fates.Load(); left.Absorbed+left.Filtered+left.Bad != b.NumRows() {
		t.Errorf("the fates of %d rows are %+v", b.NumRows(), left)
	}
}

// TestUnnestOfAllTypes: elements of each type come out as they are in the list, from a
// batch in one piece and in slices, null ones too.
func TestUnnestOfAllTypes(t *testing.T) {
	for typ, values := range castSamples {
		spec, err := dataflow.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		elements := make([]string, len(values))
		for i, v := range values {
			elements[i] = v
			if !arrow.IsNested(spec.Type.ID()) && !slices.Contains([]string{"bool", "int32", "int64", "float32", "float64"}, typ) {
				elements[i] = fmt.Sprintf("%q", v)
			}
		}
		list := "[" + strings.Join(append(elements, "null"), ",") + "]"
		schema := arrow.NewSchema([]arrow.Field{
			{Name: "id", Type: dataflow.TypeInt64}, {Name: "l", Type: arrow.ListOf(spec.Type), Nullable: true},
			{Name: dataflow.SysSplit, Type: dataflow.TypeInt32}, {Name: dataflow.SysPos, Type: dataflow.TypeInt64},
		}, nil)
		rows := fmt.Sprintf(`[{"id":0,"l":%s,"_split":0,"_pos":7},{"id":1,"l":[],"_split":0,"_pos":8},{"id":2,"l":null,"_split":0,"_pos":9},{"id":3,"l":%s,"_split":0,"_pos":10}]`, list, list)
		want := unnestWant(t, schema, rows)
		for _, each := range []int64{4, 1, 2} {
			var got []string
			cfg := UnnestConfig{Column: "l", As: "e", Ordinality: "n", KeepEmpty: true}
			runUnnest(t, schema, cfg, rows, each, func(b arrow.RecordBatch) {
				for i := range int(b.NumRows()) {
					line := dataflow.RowJSON(b, i)
					for _, c := range []string{dataflow.SysPos, dataflow.SysElement} {
						line = append(line, ' ')
						line = dataflow.AppendJSON(line, b.Column(dataflow.Column(b.Schema(), c)), i)
					}
					got = append(got, string(line))
				}
			})
			if !slices.Equal(got, want) {
				t.Errorf("list<%s>, %d rows a batch:\n%s\nwant\n%s", typ, each, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// unnestWant says what must come of rows, value by value.
func unnestWant(t *testing.T, schema *arrow.Schema, rows string) (want []string) {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	lists := b.Column(1).(*array.List)
	for row := range int(b.NumRows()) {
		id, pos := b.Column(0).(*array.Int64).Value(row), b.Column(3).(*array.Int64).Value(row)
		lo, hi := lists.ValueOffsets(row)
		if lo == hi {
			want = append(want, fmt.Sprintf(`{"id":%d,"e":null,"n":null} %d 0`, id, pos))
		}
		for at := lo; at < hi; at++ {
			e := dataflow.AppendJSON(nil, lists.ListValues(), int(at))
			want = append(want, fmt.Sprintf(`{"id":%d,"e":%s,"n":%d} %d %d`, id, e, at-lo+1, pos, at-lo+1))
		}
	}
	return want
}

// TestUnnestBoundsItsBatches: a long list comes out in batches of bounded rows, and of
// bounded bytes where the other columns are large.
func TestUnnestBoundsItsBatches(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "text", Type: dataflow.TypeString}, {Name: "l", Type: arrow.ListOf(dataflow.TypeInt64)}}, nil)
	for _, c := range []struct{ text, elements, most int }{{1, 50_000, unnestRows}, {100_000, 1000, unnestBytes/100_000 + 1}} {
		list := strings.Repeat("1,", c.elements-1) + "1"
		rows := fmt.Sprintf(`[{"text":%q,"l":[%s]}]`, strings.Repeat("x", c.text), list)
		n, batches := 0, 0
		runUnnest(t, schema, UnnestConfig{Column: "l", Ordinality: "n"}, rows, 1, func(b arrow.RecordBatch) {
			if b.NumRows() > int64(c.most) {
				t.Errorf("a batch of %d rows of %d bytes, want at most %d", b.NumRows(), c.text, c.most)
			}
			for _, x := range b.Column(2).(*array.Int64).Int64Values() {
				if n++; x != int64(n) {
					t.Fatalf("element %d follows %d", x, n-1)
				}
			}
			batches++
		})
		if n != c.elements || batches < c.elements/c.most {
			t.Errorf("%d rows in %d batches, want %d", n, batches, c.elements)
		}
	}
}
