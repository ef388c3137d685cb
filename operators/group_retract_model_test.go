package operators

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// retractTestRow is a row of a table whose changes are aggregated; nil is null.
type retractTestRow struct {
	id            int64
	k, v, f, d, s any
}

var retractTestFields = []arrow.Field{
	{Name: "id", Type: dataflow.TypeInt64},
	{Name: "k", Type: dataflow.TypeInt64, Nullable: true}, {Name: "v", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "f", Type: dataflow.TypeFloat64, Nullable: true}, {Name: "d", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}, Nullable: true},
	{Name: "s", Type: dataflow.TypeString, Nullable: true},
}

// retractTestBatch makes a batch of rows; last are the values of what stands behind
// them, by row.
func retractTestBatch(t testing.TB, alloc memory.Allocator, rows []retractTestRow, system []arrow.Field, last func(i, column int) string) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, arrow.NewSchema(slices.Concat(retractTestFields, system), nil))
	defer b.Release()
	put := func(c int, text string) {
		if err := b.Field(c).AppendValueFromString(text); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range rows {
		put(0, fmt.Sprint(r.id))
		for c, v := range []any{r.k, r.v, r.f, r.d, r.s} {
			if v == nil {
				b.Field(c + 1).AppendNull()
			} else {
				put(c+1, fmt.Sprint(v))
			}
		}
		for c := range system {
			put(len(retractTestFields)+c, last(i, c))
		}
	}
	return b.NewRecordBatch()
}

// retractTestCase is one random group over a changelog.
type retractTestCase struct {
	cfg     GroupConfig
	forgets bool
}

func newRetractTestCase(rng *rand.Rand) retractTestCase {
	c := retractTestCase{forgets: rng.IntN(2) == 0}
	c.cfg.By = [][]By{nil, {{Name: "k"}}, {{Name: "id"}}, {{Name: "k"}, {Name: "half", Expr: "v % 2"}}, {{Name: "part", Expr: "12 / v"}}}[rng.IntN(5)]
	all := slices.Concat(mergeAggregates, []string{
		"count(distinct s)", "sum(distinct v)", "string_agg(distinct s, '|')", "avg(v) filter (where f > 0)", "avg(d)", "sum(d)", "var_samp(v)", "sum(f)",
		"sum(12 / v)", "count(*) filter (where v > 3)", "array_agg(distinct s order by s desc) filter (where v > 2)", "count(v)",
	})
	for i := range 1 + rng.IntN(5) {
		text := strings.NewReplacer("(i", "(v", "by i", "by v", "by b", "by v > 3", "(b", "(v > 3", "where b", "where v > 3").Replace(all[rng.IntN(len(all))])
		c.cfg.Aggregate = append(c.cfg.Aggregate, component.NamedExpr{Name: fmt.Sprint("x", i), Expr: text})
	}
	if rng.IntN(3) == 0 { // Only what can be taken back.
		c.cfg.Aggregate = component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(v)"}, {Name: "a", Expr: "avg(d)"}, {Name: "p", Expr: "stddev(v)"}, {Name: "q", Expr: "var_pop(d)"}}
	}
	return c
}

func (c *retractTestCase) row(rng *rand.Rand, id int64) retractTestRow {
	pick := func(vs ...any) any { return vs[rng.IntN(len(vs))] }
	return retractTestRow{
		id: id, k: pick(nil, 0, 1, 2), v: pick(nil, 0, 1, 2, 3, rng.IntN(9), int64(math.MaxInt64)),
		f: pick(nil, 1e15, 0.125, -1.5, rng.IntN(100)), d: pick(nil, "0.25", "9999999999.99", "-7.5"),
		s: pick(nil, "", "x", "y", "long "+strings.Repeat("z", rng.IntN(9))),
	}
}

// next makes a change of the table, and does it.
func (c *retractTestCase) next(rng *rand.Rand, table map[int64]retractTestRow, ids int) (rows []retractTestRow, ops []dataflow.Op) {
	r := c.row(rng, int64(rng.IntN(ids)))
	old, there := table[r.id]
	if there && rng.IntN(3) == 0 {
		delete(table, r.id)
		if c.forgets {
			old = c.row(rng, r.id) // The key alone says what goes.
		}
		return []retractTestRow{old}, []dataflow.Op{dataflow.OpDelete}
	}
	table[r.id] = r
	if !there || c.forgets && rng.IntN(2) == 0 {
		return []retractTestRow{r}, []dataflow.Op{dataflow.OpInsert}
	}
	return []retractTestRow{old, r}, []dataflow.Op{dataflow.OpUpdateBefore, dataflow.OpUpdateAfter}
}

// want is what a group over rows makes of those of the table.
func (c *retractTestCase) want(t testing.TB, alloc memory.Allocator, table map[int64]retractTestRow) []string {
	cfg := c.cfg
	cfg.ExpireAfter = component.Duration(time.Hour)
	in := dataflow.Stream{Schema: arrow.NewSchema(slices.Concat(retractTestFields, dataflow.SystemFields(true)), nil)}
	r := newRetractTestRig(t, alloc, &cfg, in)
	defer r.close()
	r.start(1)
	var rows []retractTestRow
	for _, id := range slices.Sorted(maps.Keys(table)) {
		rows = append(rows, table[id])
	}
	b := retractTestBatch(t, alloc, rows, dataflow.SystemFields(true), func(i, column int) string {
		return []string{fmt.Sprint(rows[i].id), "0", "0", fmt.Sprint(i)}[column]
	})
	defer b.Release()
	r.process(b)
	r.barrier()
	return slices.Sorted(maps.Values(r.table))
}

func newRetractTestRig(t testing.TB, alloc memory.Allocator, cfg *GroupConfig, in dataflow.Stream) *changeRig {
	r := &changeRig{
		t: t, alloc: alloc, name: "group", cfg: cfg, splits: &dataflow.SplitTable{}, kv: &windowTestKV{}, table: map[string]string{}, badResults: true,
		in: component.OperatorIn{Inputs: []dataflow.Stream{in}, Names: []string{"rows"}},
	}
	r.splits.ID("in", "p0")
	var err error
	if r.plan, err = component.OperatorNamed("group").Plan(r.in, cfg); err != nil {
		t.Fatalf("%+v: %v", cfg, err)
	}
	for _, k := range r.plan.Ports[0].Stream.Key {
		r.key = append(r.key, dataflow.Column(r.plan.Ports[0].Stream.Schema, k))
	}
	return r
}

// retractSame compares rows, numbers within 1e-12.
func retractSame(got, want []string) bool {
	return slices.EqualFunc(got, want, func(a, b string) bool {
		if a == b {
			return true
		}
		var x, y map[string]any
		if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			f, ok1 := v.(float64)
			g, ok2 := y[k].(float64)
			if ok1 && ok2 && math.Abs(f-g) <= 1e-12*math.Abs(f) {
				continue
			}
			if fmt.Sprint(v) != fmt.Sprint(y[k]) {
				return false
			}
		}
		return true
	})
}

// TestGroupOverChangesIsThatOfTheTable: at every barrier, whatever changes, batches,
// barriers, kills, restarts and tasks there were (I8), what a group over a changelog
// gives is the table that a group over the rows of its table gives.
func TestGroupOverChangesIsThatOfTheTable(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	for range 40 {
		playRetract(t, rng)
		if t.Failed() {
			return
		}
	}
}

func playRetract(t *testing.T, rng *rand.Rand) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	c := newRetractTestCase(rng)
	op := []arrow.Field{dataflow.OpField()}
	r := newRetractTestRig(t, alloc, &c.cfg, dataflow.Stream{
		Schema: arrow.NewSchema(slices.Concat(retractTestFields, op), nil), Changelog: true, Key: []string{"id"}, Forgets: c.forgets,
	})
	defer r.close()
	r.start(1 + rng.IntN(3))
	ids := 1 + rng.IntN(60)
	table := map[int64]retractTestRow{}
	save := func() (map[int64]retractTestRow, map[string]string, *windowTestKV) {
		return maps.Clone(table), maps.Clone(r.table), r.kv.clone()
	}
	wasTable, wasOut, wasKV := save()
	for range 50 {
		var rows []retractTestRow
		var ops []dataflow.Op
		for range 1 + rng.IntN(30) {
			x, y := c.next(rng, table, ids)
			rows, ops = append(rows, x...), append(ops, y...)
		}
		for len(rows) > 0 { // An update may be cut in two.
			n := 1 + rng.IntN(len(rows))
			b := retractTestBatch(t, alloc, rows[:n], op, func(i, _ int) string { return strconv.Itoa(int(ops[i])) })
			r.process(b)
			b.Release()
			rows, ops = rows[n:], ops[n:]
		}
		switch rng.IntN(5) {
		case 0: // A kill: everything is as at the last barrier.
			table, r.table, r.kv = wasTable, wasOut, wasKV
			wasTable, wasOut, wasKV = save()
			r.start(1 + rng.IntN(3))
		case 1, 2:
			r.barrier()
			got, want := slices.Sorted(maps.Values(r.table)), c.want(t, alloc, table)
			if !retractSame(got, want) {
				t.Fatalf("%+v, forgets %t:\ngot\n%s\nwant\n%s", c.cfg, c.forgets, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			wasTable, wasOut, wasKV = save()
			if rng.IntN(4) == 0 {
				r.start(1 + rng.IntN(3))
			}
		}
	}
	// At last every row goes, and with it everything that is kept.
	for id := range table {
		b := retractTestBatch(t, alloc, []retractTestRow{table[id]}, op, func(int, int) string { return strconv.Itoa(int(dataflow.OpDelete)) })
		r.process(b)
		b.Release()
	}
	r.barrier()
	if len(r.table) > 0 || r.kv.len() > 0 {
		t.Fatalf("%+v, forgets %t: without rows %d groups and %d entries of the state are left", c.cfg, c.forgets, len(r.table), r.kv.len())
	}
}
