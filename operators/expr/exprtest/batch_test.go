package exprtest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// results of an expression on the rows of a batch: texts, null, or "! " and the reason.
type results []string

const null = "<null>"

// decided says whether a row gives the same with constants and with columns, whose
// values are those: constants may decide before what fails is looked at.
func decided(constants, columns string) bool {
	if constants == columns || strings.HasPrefix(columns, "! ") {
		return true
	}
	x, ok := new(big.Rat).SetString(constants)
	y, ok2 := new(big.Rat).SetString(columns)
	return ok && ok2 && x.Cmp(y) == 0 // a constant may say how many places there are
}

func eval(e *expr.Expr, ev *expr.Evaluator, b arrow.RecordBatch) (results, error) {
	a, bad, err := ev.Eval(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e, err)
	}
	defer a.Release()
	out := make(results, b.NumRows())
	for i := range out {
		if out[i] = null; !a.IsNull(i) {
			out[i] = string(expr.AppendText(nil, a, i))
		}
	}
	for i, r := range bad {
		if i > 0 && bad[i-1].Row >= r.Row {
			return nil, fmt.Errorf("%s: failed rows out of order", e)
		}
		if out[r.Row] != null {
			return nil, fmt.Errorf("%s: row %d fails and has the value %s", e, r.Row, out[r.Row])
		}
		out[r.Row] = "! " + r.Bad.Reason
	}
	return out, nil
}

func seeded(t *testing.T) (uint64, *rand.Rand) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("FRAZIL_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("FRAZIL_SEED=%d", seed)
	return seed, rand.New(rand.NewPCG(seed, 2))
}

// TestEveryWayToEvaluateGivesTheSame runs random expressions over a batch, over slices of
// it, over each row alone, where only some rows are asked for, with the values of a row
// as constants, and with constants as columns.
func TestEveryWayToEvaluateGivesTheSame(t *testing.T) {
	const many, count = 150, 1000
	seed, rng := seeded(t)
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	rows := NewRows(rng, many)
	whole, err := rows.Batch(alloc)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Release()
	g := NewGenerator(rng, rows)
	compared := 0
	for range count {
		w := ways{rng: rng, alloc: alloc, rows: rows, whole: whole, tree: g.Any(1 + rng.IntN(4))}
		if w.tree.Type == "interval" { // as column of Arrow it has less room
			w.tree = &Tree{Name: "cast", Type: "string", Parts: []string{"(", "::text)"}, Args: []*Tree{w.tree}}
		}
		n, err := w.compare()
		if err != nil {
			t.Errorf("FRAZIL_SEED=%d: %v", seed, err)
		}
		compared += n
	}
	if compared < count*many {
		t.Errorf("%d values were compared, expected at least %d", compared, count*many)
	}
	t.Logf("%d values compared", compared)
}

// ways are those to evaluate one expression.
type ways struct {
	rng   *rand.Rand
	alloc memory.Allocator
	rows  *Rows
	whole arrow.RecordBatch
	tree  *Tree
}

// compare returns how many values it compared.
func (w *ways) compare() (int, error) {
	text := w.tree.String()
	e, err := expr.Compile(text, w.whole.Schema())
	if err != nil {
		return 0, nil
	}
	ev := e.NewEvaluator(w.alloc)
	want, err := eval(e, ev, w.whole)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, way := range []func(*expr.Expr, *expr.Evaluator, results) (int, error){w.slices, w.alone, w.selected, w.constants, w.columns} {
		k, err := way(e, ev, want)
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

// slices evaluates parts of the batch, which share its memory, with the memory of the
// evaluator as the batch before left it.
func (w *ways) slices(e *expr.Expr, ev *expr.Evaluator, want results) (int, error) {
	n := 0
	for range 3 {
		lo := w.rng.IntN(len(want))
		hi := lo + 1 + w.rng.IntN(len(want)-lo)
		part := w.whole.NewSlice(int64(lo), int64(hi))
		got, err := eval(e, ev, part)
		part.Release()
		if err != nil {
			return 0, err
		}
		for i, v := range got {
			if v != want[lo+i] {
				return 0, fmt.Errorf("%s: row %d of rows %d to %d gives %s, of all rows %s; %s", w.tree, i, lo, hi, v, want[lo+i], w.rows.Text(lo+i, w.tree.String()))
			}
		}
		n += len(got)
	}
	return n, nil
}

func (w *ways) alone(e *expr.Expr, _ *expr.Evaluator, want results) (int, error) {
	ev := e.NewEvaluator(w.alloc)
	for range 20 {
		i := w.rng.IntN(len(want))
		row := w.whole.NewSlice(int64(i), int64(i)+1)
		got, err := eval(e, ev, row)
		row.Release()
		if err != nil {
			return 0, err
		}
		if got[0] != want[i] {
			return 0, fmt.Errorf("%s: row %d alone gives %s, beside others %s; %s", w.tree, i, got[0], want[i], w.rows.Text(i, w.tree.String()))
		}
	}
	return 20, nil
}

// selected evaluates behind conditions: rows that they leave out neither fail nor have a
// value.
func (w *ways) selected(_ *expr.Expr, _ *expr.Evaluator, want results) (int, error) {
	conditions, _, err := w.side("b")
	if err != nil {
		return 0, err
	}
	text := w.tree.String()
	for form, other := range map[string]string{
		"case when b then " + text + " end":                       null,
		"case when not b then null when b then " + text + " end":  null,
		"case when b is not true then null else " + text + " end": null,
	} {
		got, _, err := w.side(form)
		if err != nil {
			return 0, err
		}
		for i, v := range got {
			expected := other
			if conditions[i] == "true" {
				expected = want[i]
			}
			if v != expected {
				return 0, fmt.Errorf("%s: row %d gives %s, expected %s; %s", form, i, v, expected, w.rows.Text(i, form))
			}
		}
	}
	got, _, err := w.side("b and (" + text + ") is null")
	if err != nil {
		return 0, err
	}
	for i, v := range got {
		expected := "false"
		switch {
		case conditions[i] == "false":
		case strings.HasPrefix(want[i], "! "):
			expected = want[i]
		case conditions[i] == null:
			if want[i] == null {
				expected = null
			}
		case want[i] == null:
			expected = "true"
		}
		if v != expected {
			return 0, fmt.Errorf("b and (%s) is null: row %d gives %s, expected %s; %s", text, i, v, expected, w.rows.Text(i, text+" b"))
		}
	}
	return 4 * len(want), nil
}

// side evaluates another expression over the batch.
func (w *ways) side(text string) (results, *expr.Expr, error) {
	e, err := expr.Compile(text, w.whole.Schema())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", text, err)
	}
	got, err := eval(e, e.NewEvaluator(w.alloc), w.whole)
	return got, e, err
}

// constants evaluates with the values of a row in the place of columns.
func (w *ways) constants(_ *expr.Expr, _ *expr.Evaluator, want results) (int, error) {
	n := 0
	for range 3 {
		i := w.rng.IntN(len(want))
		row := w.rows.Values[i]
		text := w.constant(row).String()
		if text == w.tree.String() {
			return 0, nil
		}
		e, err := expr.Compile(text, w.whole.Schema())
		if err != nil {
			// A constant that fails is refused, and so is one that only some forms take.
			continue
		}
		one := w.whole.NewSlice(int64(i), int64(i)+1)
		got, err := eval(e, e.NewEvaluator(w.alloc), one)
		one.Release()
		if err != nil {
			return 0, err
		}
		if !decided(got[0], want[i]) {
			return 0, fmt.Errorf("%s gives %s, row %d of %s %s", text, got[0], i, w.tree, want[i])
		}
		n++
	}
	return n, nil
}

func (w *ways) constant(row []*string) *Tree {
	t := w.tree
	for _, part := range t.All() {
		if part.Column() {
			for k, c := range w.rows.Columns {
				if c.Name == part.Parts[0] {
					t = t.Replace(part, Literal(row[k], c.SQL))
				}
			}
		}
	}
	return t
}

// columns evaluates with columns in the place of constants.
func (w *ways) columns(_ *expr.Expr, _ *expr.Evaluator, want results) (int, error) {
	fields, cols := w.whole.Schema().Fields(), w.whole.Columns()
	t := w.tree
	var own []arrow.Array
	defer func() {
		for _, a := range own {
			a.Release()
		}
	}()
	for _, part := range t.All() {
		leaf := part.String()
		if part.Name != "" || len(part.Args) > 0 || !strings.HasPrefix(leaf, "(") || !strings.Contains(leaf, "::") || part.Type == "int16" {
			continue
		}
		e, err := expr.Compile(leaf, w.whole.Schema())
		if err != nil {
			return 0, nil
		}
		a, _, err := e.NewEvaluator(w.alloc).Eval(w.whole)
		if err != nil {
			return 0, err
		}
		own = append(own, a)
		name := fmt.Sprintf("k%d", len(own))
		fields = append(fields[:len(fields):len(fields)], arrow.Field{Name: name, Type: a.DataType(), Nullable: true})
		cols = append(cols[:len(cols):len(cols)], a)
		t = t.Replace(part, &Tree{Parts: []string{name}})
	}
	if len(own) == 0 {
		return 0, nil
	}
	b := array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, w.whole.NumRows())
	defer b.Release()
	e, err := expr.Compile(t.String(), b.Schema())
	if err != nil {
		return 0, nil // what must be a constant, as the field of extract
	}
	got, err := eval(e, e.NewEvaluator(w.alloc), b)
	if err != nil {
		return 0, err
	}
	for i, v := range got {
		if !decided(want[i], v) {
			return 0, fmt.Errorf("%s with constants as columns gives %s in row %d, with constants %s: %s; %s", t, v, i, want[i], w.tree, w.rows.Text(i, w.tree.String()))
		}
	}
	return len(got), nil
}
