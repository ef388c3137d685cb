package expr

import (
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestNoExampleAllocatesPerRow asks the same of the reference's examples as the tests of
// exprtest ask of random rows: with columns in the place of their constants, as far as those
// may be columns, 3,000 more rows take no more memory but what grows in steps. Between them
// the examples have every form of the syntax and every field and pattern.
func TestNoExampleAllocatesPerRow(t *testing.T) {
	if rig.Raced {
		t.Skip("the race detector makes pools forget")
	}
	const few, many, mostMore = 1000, 4000, 15
	measured, columns := 0, 0
	for _, f := range Functions() {
		for _, ex := range f.Examples {
			x := exampleOf(t, ex)
			if len(x.fields) == 0 {
				continue
			}
			e := x.compile()
			all := x.batch(many)
			part := all.NewSlice(0, few)
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
				if more = testing.AllocsPerRun(1, run(all)) - testing.AllocsPerRun(1, run(part)); more <= mostMore {
					break
				}
			}
			if more > mostMore {
				t.Errorf("%s: %s: %.0f more allocations for %d rows than for %d", f.Name, e, more, many, few)
			}
			part.Release()
			all.Release()
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
