package operators

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// mergeRow is a row of the tests of aggregates: one of some groups, with values
// of several types, nil being null.
type mergeRow struct {
	group     int
	i         any // int64
	f         any // float64
	d         any // text of a decimal
	s         any // string
	b         any // bool
	time, pos int64
	source    string
	split     dataflow.Split
}

var mergeSchema = arrow.NewSchema(append([]arrow.Field{
	{Name: "i", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "f", Type: dataflow.TypeFloat64, Nullable: true},
	{Name: "d", Type: &arrow.Decimal128Type{Precision: 20, Scale: 3}, Nullable: true},
	{Name: "s", Type: dataflow.TypeString, Nullable: true},
	{Name: "b", Type: dataflow.TypeBool, Nullable: true},
}, dataflow.SystemFields(true)...), nil)

func mergeBatch(t testing.TB, splits *dataflow.SplitTable, rows []mergeRow) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, mergeSchema)
	defer b.Release()
	for _, r := range rows {
		for c, v := range []any{r.i, r.f, r.d, r.s, r.b} {
			col := b.Field(c)
			if v == nil {
				col.AppendNull()
				continue
			}
			if err := col.AppendValueFromString(fmt.Sprint(v)); err != nil {
				t.Fatal(err)
			}
		}
		b.Field(5).(*array.Int64Builder).Append(r.time)
		b.Field(6).(*array.Int64Builder).Append(0)
		b.Field(7).(*array.Int32Builder).Append(splits.ID(r.source, r.split))
		b.Field(8).(*array.Int64Builder).Append(r.pos)
	}
	return b.NewRecordBatch()
}

// mergeRows makes random rows of few values, so that they meet.
func mergeRows(rng *rand.Rand, n int) []mergeRow {
	pick := func(vs ...any) any { return vs[rng.IntN(len(vs))] }
	rows := make([]mergeRow, n)
	for k := range rows {
		rows[k] = mergeRow{
			group: 1 + rng.IntN(3),
			i:     pick(nil, int64(1), int64(2), int64(7), int64(-3), int64(math.MaxInt64), int64(math.MinInt64), rng.Int64N(50)),
			f:     pick(nil, 0.0, 1.5, -2.25, 1e9+0.125, 1e9+0.5, rng.NormFloat64(), rng.ExpFloat64()*1e6),
			d:     pick(nil, "0.125", "-7.5", "99999999999999999.999", fmt.Sprint(rng.IntN(1000))),
			s:     pick(nil, "", "x", "y", "a\x00b", "a\x00", "long text "+strings.Repeat("z", rng.IntN(20))),
			b:     pick(nil, true, false, true),
			time:  int64(rng.IntN(5)), pos: int64(k),
			source: fmt.Sprint("source", rng.IntN(2)), split: dataflow.Split(fmt.Sprint(rng.IntN(3))),
		}
	}
	return rows
}

func mergeSet(t testing.TB, aggs []string) (*aggregateSet, *accLayout) {
	t.Helper()
	var named component.NamedExprs
	for i, a := range aggs {
		named = append(named, component.NamedExpr{Name: fmt.Sprint("x", i), Expr: a})
	}
	s, problems := newAggregateSet(mergeSchema, named)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return s, newAccLayout(s.funcs)
}

// mergeResults writes the results of groups 1 to 3, by aggregate.
func mergeResults(t testing.TB, s *aggregateSet, l *accLayout, row func(g, agg int) ([]uint64, []accHeap)) []string {
	t.Helper()
	var out []string
	for a := range s.aggs {
		b := array.NewBuilder(memory.DefaultAllocator, s.results[a].Type)
		var bads string
		for g := 1; g <= 3; g++ {
			r, heaps := row(g, a)
			if bad := l.result(a, b, r, heaps); bad != nil {
				bads += fmt.Sprintf(" group %d: %s", g, bad.Reason)
			}
		}
		v := b.NewArray()
		list := arrow.NewSchema([]arrow.Field{{Name: "V", Type: arrow.ListOf(v.DataType())}}, nil)
		one := oneList(v)
		batch := array.NewRecordBatch(list, []arrow.Array{one}, 1)
		out = append(out, string(dataflow.RowJSON(batch, 0))+bads)
		batch.Release()
		one.Release()
		v.Release()
		b.Release()
	}
	return out
}

func oneList(v arrow.Array) arrow.Array {
	b := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes([]int32{0, int32(v.Len())}))
	data := array.NewData(arrow.ListOf(v.DataType()), 1, []*memory.Buffer{nil, b}, []arrow.ArrayData{v.Data()}, 0, 0)
	defer data.Release()
	return array.MakeFromData(data)
}

// mergeSame compares results, numbers within 1e-12.
func mergeSame(a, b string) bool {
	if a == b {
		return true
	}
	var x, y struct{ V []any }
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil || len(x.V) != len(y.V) {
		return false
	}
	for i := range x.V {
		f, ok1 := x.V[i].(float64)
		g, ok2 := y.V[i].(float64)
		if ok1 && ok2 && math.Abs(f-g) <= 1e-12*math.Abs(f) {
			continue
		}
		if fmt.Sprint(x.V[i]) != fmt.Sprint(y.V[i]) {
			return false
		}
	}
	return true
}

var mergeAggregates = []string{
	"count(*)", "count(s)", "sum(i)", "avg(f)", "min(s)", "max(d)", "avg_int(i)",
	"stddev(i)", "var_pop(d)", "stddev_pop(f)", "variance(f)",
	"bool_and(b)", "bool_or(b)", "bit_and(i)", "bit_or(i)", "bit_xor(i)",
	"first(s)", "last(i)", "first(d) filter (where b)", "last(f order by i desc)", "first(b order by s nulls first)",
	"array_agg(s)", "array_agg(i order by i desc, f)", "array_agg(d) filter (where b)", "string_agg(s, '|')", "string_agg(s, '' order by s desc)",
	"approx_count_distinct(i)", "approx_count_distinct(s)", "approx_percentile(f, 0.9)", "approx_percentile(d, 0)",
	"percentile_cont(0.3) within group (order by f)", "percentile_cont(0.3) within group (order by i desc)",
	"percentile_disc(0.5) within group (order by s)", "percentile_disc(1) within group (order by b desc)",
	"mode() within group (order by i)", "mode() within group (order by s desc)",
}

// TestAggregatesMergeInAnyOrder: any cut of the rows into batches, in any order,
// with other numbers of splits, through the bytes or not, gives the same.
func TestAggregatesMergeInAnyOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s, l := mergeSet(t, mergeAggregates)
	for range 60 {
		rows := mergeRows(rng, rng.IntN(120))
		if rng.IntN(20) == 0 {
			rows = mergeRows(rng, 5000) // lists that get in order or dense
		}
		want := mergeInto(t, rng, s, l, rows, 1)
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		got := mergeInto(t, rng, s, l, rows, 1+rng.IntN(8))
		for a := range s.aggs {
			if !mergeSame(want[a], got[a]) {
				t.Errorf("%s of %d rows:\n got %.300s\nwant %.300s", mergeAggregates[a], len(rows), got[a], want[a])
			}
		}
		if t.Failed() {
			return
		}
	}
}

// mergeInto aggregates rows in some batches, each of which takes its own way
// into one of two totals.
func mergeInto(t *testing.T, rng *rand.Rand, s *aggregateSet, l *accLayout, rows []mergeRow, batches int) []string {
	splits := &dataflow.SplitTable{}
	for range rng.IntN(4) {
		splits.ID("source1", dataflow.Split(fmt.Sprint(rng.IntN(3))))
	}
	feed := s.newFeed(&dataflow.Env{Alloc: memory.DefaultAllocator, Splits: splits})
	var totals [2][]uint64
	heaps := [2][]accHeap{l.newHeaps(), l.newHeaps()}
	for i := range totals {
		totals[i] = make([]uint64, 4*l.stride)
	}
	for i := range batches {
		part := rows[len(rows)*i/batches : len(rows)*(i+1)/batches]
		b := mergeBatch(t, splits, part)
		if err := feed.bind(b); err != nil {
			t.Fatal(err)
		}
		groups := make([]uint32, len(part))
		for k, r := range part {
			groups[k] = uint32(r.group)
		}
		acc, inner := make([]uint64, 4*l.stride), l.newHeaps()
		feed.update(l, acc, inner, groups)
		feed.unbind()
		b.Release()
		to := rng.IntN(2)
		for g := 1; g <= 3; g++ {
			row, dst := acc[g*l.stride:(g+1)*l.stride], totals[to][g*l.stride:(g+1)*l.stride]
			if rng.IntN(2) == 0 {
				l.mergeRow(dst, heaps[to], row, inner)
			} else if err := l.merge(dst, heaps[to], l.encode(nil, row, inner)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return mergeResults(t, s, l, func(g, _ int) ([]uint64, []accHeap) {
		row := slices.Clone(totals[0][g*l.stride : (g+1)*l.stride])
		one := l.newHeaps()
		dst := make([]uint64, l.stride)
		l.mergeRow(dst, one, row, heaps[0])
		l.mergeRow(dst, one, totals[1][g*l.stride:(g+1)*l.stride], heaps[1])
		return dst, one
	})
}

// TestOneZero: -0 is 0 in what keeps values, as it is in keys.
func TestOneZero(t *testing.T) {
	aggs := []string{"array_agg(f)", "mode() within group (order by f)", "first(f)", "min(f)"}
	s, l := mergeSet(t, aggs)
	rng := rand.New(rand.NewPCG(1, 1))
	got := mergeInto(t, rng, s, l, []mergeRow{{group: 1, f: math.Copysign(0, -1)}, {group: 1, f: 0.0, pos: 1}}, 1)
	for i, want := range []string{`{"V":[[0,0],null,null]}`, `{"V":[0,null,null]}`, `{"V":[0,null,null]}`, `{"V":[0,null,null]}`} {
		if got[i] != want {
			t.Errorf("%s: got %s, want %s", aggs[i], got[i], want)
		}
	}
}
