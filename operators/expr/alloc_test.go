package expr

import (
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	fewRows, manyRows = 1000, 4000
	// mostMore is how many more allocations many rows may take than few, for what grows in
	// steps.
	mostMore = 15
)

// needsNoMemory checks that e takes no more memory for all rows of a batch of manyRows than for
// the first of them, but what grows in steps.
func needsNoMemory(t *testing.T, e *Expr, all arrow.RecordBatch) {
	if rig.Raced {
		t.Skip("the race detector makes pools forget")
	}
	few := all.NewSlice(0, fewRows)
	defer few.Release()
	ev := e.NewEvaluator(memory.DefaultAllocator)
	run := func(b arrow.RecordBatch) func() {
		return func() {
			a, bad, err := ev.Eval(b)
			if err != nil || len(bad) > 0 {
				t.Fatalf("%s: %v %v", e, bad, err)
			}
			a.Release()
		}
	}
	more := 0.0
	for range 3 { // a collection of garbage may empty pools meanwhile
		if more = testing.AllocsPerRun(1, run(all)) - testing.AllocsPerRun(1, run(few)); more <= mostMore {
			return
		}
	}
	t.Errorf("%s: %.0f more allocations for %d rows than for %d", e, more, manyRows, fewRows)
}

// TestNoExampleAllocatesPerRow asks the same of the reference's examples as the tests of
// exprtest ask of random rows, with columns in the place of their constants, as far as those
// may be columns. Between them the examples have every form of the syntax and every field and
// pattern.
func TestNoExampleAllocatesPerRow(t *testing.T) {
	measured, columns := 0, 0
	for _, f := range Functions() {
		for _, ex := range f.Examples {
			x := exampleOf(t, ex)
			if len(x.fields) == 0 {
				continue
			}
			b := x.batch(manyRows)
			needsNoMemory(t, x.compile(), b)
			b.Release()
			for _, a := range x.cols {
				a.Release()
			}
			measured++
			columns += len(x.fields)
		}
	}
	t.Logf("%d examples measured, with %d columns in the place of constants", measured, columns)
	if measured < 350 {
		t.Errorf("only %d examples were measured", measured)
	}
}

// TestNoStructAllocatesPerRow: the columns that no constant can be.
func TestNoStructAllocatesPerRow(t *testing.T) {
	item := arrow.StructOf(arrow.Field{Name: "sku", Type: dataflow.TypeString, Nullable: true}, arrow.Field{Name: "ts", Type: dataflow.TypeTimestampTZ, Nullable: true},
		arrow.Field{Name: "d", Type: &arrow.Decimal128Type{Precision: 20, Scale: 4}, Nullable: true},
		arrow.Field{Name: "in", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.ListOf(dataflow.TypeString), Nullable: true}), Nullable: true})
	schema := arrow.NewSchema([]arrow.Field{{Name: "item", Type: item, Nullable: true}, {Name: "items", Type: arrow.ListOf(item), Nullable: true}, {Name: "i", Type: dataflow.TypeInt32, Nullable: true}}, nil)
	var doc strings.Builder
	for i := range manyRows {
		one := fmt.Sprintf(`{"sku": "a \"sku\", number %d, and some more text", "ts": "2024-01-01 00:00:01Z", "d": "12.5", "in": {"x": ["a", null, "b"]}}`, i)
		fmt.Fprintf(&doc, `{"item": %s, "items": [%s, null], "i": %d},`, one, one, i%3)
	}
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.TrimSuffix(doc.String(), ",")+"]"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for _, text := range []string{
		"item.sku", "(item).ts::text", "item is null", "(item).in.x[1]", "(item).d + 1", "to_jsonb(item)", "to_jsonb(item) ->> 'sku'",
		"to_jsonb(items)", "jsonb_build_object('a', item, 'b', items)", "items is not null", "case when i = 1 then (item).sku end",
	} {
		e, err := Compile(text, schema)
		if err != nil {
			t.Fatal(err)
		}
		needsNoMemory(t, e, b)
	}
}

// changedExample is an example some of whose constants are columns.
type changedExample struct {
	t      *testing.T
	root   *ast
	text   string
	fields []arrow.Field
	cols   []arrow.Array
}

// exampleOf puts a column in the place of every constant for which the example stays valid and
// keeps its value.
func exampleOf(t *testing.T, ex Example) *changedExample {
	root, err := parse(ex.Expr)
	if err != nil {
		t.Fatal(err)
	}
	x := &changedExample{t: t, root: root, text: ex.Expr}
	var leaves []*ast
	var walk func(a *ast)
	walk = func(a *ast) {
		if a == nil {
			return
		}
		switch a.op {
		case opNumber, opString, opTyped, opBool:
			leaves = append(leaves, a)
		}
		for _, k := range a.args {
			walk(k)
		}
		walk(a.operand)
		walk(a.otherwise)
	}
	walk(root)
	for _, leaf := range leaves {
		x.replace(leaf, ex.Value)
	}
	return x
}

// replace tries the types that a leaf may have.
func (x *changedExample) replace(leaf *ast, want string) {
	old := *leaf
	texts := []string{old.canonicalText()}
	if old.op == opString {
		texts = nil
		for _, typ := range []string{"text", "timestamptz", "timestamp", "date", "time", "interval", "jsonb", "uuid", "bytea", "int[]", "text[]", "float8", "numeric", "int"} {
			texts = append(texts, quoteText(old.text)+"::"+typ)
		}
	}
	for _, text := range texts {
		e, err := Compile(text, arrow.NewSchema(nil, nil))
		if err != nil {
			continue
		}
		one := array.NewRecordBatch(arrow.NewSchema(nil, nil), nil, 1)
		a, bad, err := e.NewEvaluator(memory.DefaultAllocator).Eval(one)
		one.Release()
		if err != nil || len(bad) > 0 {
			continue
		}
		name := "k" + string(rune('a'+len(x.fields)))
		leaf.op, leaf.text, leaf.args = opColumn, name, nil
		x.fields = append(x.fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: true})
		x.cols = append(x.cols, a)
		if x.value() == want {
			return
		}
		a.Release()
		x.fields, x.cols = x.fields[:len(x.fields)-1], x.cols[:len(x.cols)-1]
		*leaf = old
	}
}

func (a *ast) canonicalText() string {
	var b strings.Builder
	a.canonical(&b)
	return b.String()
}

// compile returns nil if the example is not valid.
func (x *changedExample) compile() *Expr {
	e, err := compile(x.text, x.root, arrow.NewSchema(x.fields, nil))
	if err != nil {
		return nil
	}
	return e
}

// batch repeats the values of the columns.
func (x *changedExample) batch(n int) arrow.RecordBatch {
	var cols []arrow.Array
	for _, a := range x.cols {
		parts := []arrow.Array{a}
		for len(parts) < n {
			parts = append(parts, parts[:min(len(parts), n-len(parts))]...)
		}
		all, err := array.Concatenate(parts, memory.DefaultAllocator)
		if err != nil {
			x.t.Fatal(err)
		}
		cols = append(cols, all)
	}
	b := array.NewRecordBatch(arrow.NewSchema(x.fields, nil), cols, int64(n))
	for _, a := range cols {
		a.Release()
	}
	return b
}

// value is what the example gives in a row, "" if it is not valid.
func (x *changedExample) value() string {
	e := x.compile()
	if e == nil {
		return ""
	}
	b := x.batch(1)
	defer b.Release()
	a, bad, err := e.NewEvaluator(memory.DefaultAllocator).Eval(b)
	if err != nil || len(bad) > 0 {
		return ""
	}
	defer a.Release()
	return oracleText(a, e.root.typ)
}
