package expr

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// oracleAll reads the expressions and the values of every column.
func oracleAll(t *testing.T) (texts []string, values map[string][]*string) {
	f := sharedFile(t, "data/postgres/expressions.ndjson.gz")
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	seen := map[string]bool{}
	values = map[string][]*string{}
	for sc.Scan() {
		var c oracleCase
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		if oracleBefore(&c) != nil {
			continue
		}
		if !seen[c.Expr] {
			seen[c.Expr] = true
			texts = append(texts, c.Expr)
		}
		for n, v := range c.Row {
			values[n] = append(values[n], v)
		}
	}
	sort.Strings(texts)
	return texts, values
}

// TestABatchGivesWhatItsRowsGive runs expressions of the oracle over batches of many rows, also sliced ones, and over each row alone.
func TestABatchGivesWhatItsRowsGive(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	texts, values := oracleAll(t)
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	whole := oracleRows(t, alloc, rnd, values, 150)
	defer whole.Release()
	for _, text := range texts {
		e, err := Compile(text, whole.Schema())
		if err != nil {
			continue
		}
		ev, one := e.NewEvaluator(alloc), e.NewEvaluator(alloc)
		lo := rnd.Int64N(20)
		hi := whole.NumRows() - rnd.Int64N(20)
		b := whole.NewSlice(lo, hi)
		if err := sameAsRows(e, ev, one, b); err != nil {
			t.Errorf("seed %d, rows %d to %d: %s: %v", seed, lo, hi, text, err)
		}
		if some, err := Compile("case when c then ("+text+")::text end", whole.Schema()); err == nil {
			if err := sameAsRows(some, some.NewEvaluator(alloc), some.NewEvaluator(alloc), b); err != nil {
				t.Errorf("seed %d, rows %d to %d: %s: %v", seed, lo, hi, some, err)
			}
		}
		b.Release()
	}
}

// sameAsRows compares the batch with its rows, values and errors.
func sameAsRows(e *Expr, ev, one *Evaluator, b arrow.RecordBatch) error {
	a, errs, err := ev.Eval(b)
	if err != nil {
		return err
	}
	defer a.Release()
	bad := map[int]string{}
	for i, r := range errs {
		if i > 0 && errs[i-1].Row >= r.Row {
			return fmt.Errorf("failed rows out of order")
		}
		bad[r.Row] = r.Bad.Error()
	}
	for i := range int(b.NumRows()) {
		row := b.NewSlice(int64(i), int64(i)+1)
		x, rowErrs, err := one.Eval(row)
		row.Release()
		if err != nil {
			return err
		}
		want, wantBad := oracleText(x, e.root.typ), ""
		x.Release()
		if len(rowErrs) > 0 {
			wantBad = rowErrs[0].Bad.Error()
		}
		part := array.NewSlice(a, int64(i), int64(i)+1)
		got := oracleText(part, e.root.typ)
		part.Release()
		if got != want || bad[i] != wantBad {
			return fmt.Errorf("row %d: batch gives %s %q, the row alone %s %q", i, got, bad[i], want, wantBad)
		}
	}
	return nil
}

// oracleRows makes n rows of random values of every column.
func oracleRows(t *testing.T, alloc memory.Allocator, rnd *rand.Rand, values map[string][]*string, n int) arrow.RecordBatch {
	var names []string
	for name := range oracleColumns {
		names = append(names, name)
	}
	sort.Strings(names)
	var fields []arrow.Field
	var cols []arrow.Array
	for _, name := range names {
		ct := oracleColumns[name]
		var parts []arrow.Array
		for range n {
			v := values[name][rnd.IntN(len(values[name]))]
			x := &node{unknown: true, null: v == nil || rnd.IntN(10) == 0}
			if !x.null {
				x.text = *v
				if _, bad := parseList(*v); ct.k == kList && bad != nil {
					x.null = true
				}
				if ct.k == kDecimal {
					if _, bad := parseDecimalAs(*v, ct); bad != nil || strings.ContainsAny(*v, "NI") {
						x.null = true
					}
				}
			}
			c, err := newBinder("", nil).literal(x, ct)
			if err != nil {
				t.Fatal(err)
			}
			a, err := toArrow(c.konst, ct, 1, alloc)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, a)
		}
		a, err := array.Concatenate(parts, alloc)
		for _, p := range parts {
			p.Release()
		}
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: true})
		cols = append(cols, a)
	}
	b := array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(n))
	for _, c := range cols {
		c.Release()
	}
	return b
}
