package operators

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var overSchema = arrow.NewSchema([]arrow.Field{
	{Name: "k", Type: dataflow.TypeInt64, Nullable: true}, {Name: "v", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "f", Type: dataflow.TypeFloat64}, {Name: "s", Type: dataflow.TypeString, Nullable: true},
	{Name: dataflow.SysTime, Type: dataflow.TypeInt64}, {Name: dataflow.SysStamp, Type: dataflow.TypeInt64},
	{Name: dataflow.SysSplit, Type: dataflow.TypeInt32}, {Name: dataflow.SysPos, Type: dataflow.TypeInt64},
}, nil)

type overRow struct {
	k, v, t, stamp, split, pos int64 // k and v below 0: null
	f                          float64
	s                          string // "": null
}

func overBatch(alloc memory.Allocator, rows []overRow) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, overSchema)
	defer b.Release()
	for _, r := range rows {
		for i, v := range []int64{r.k, r.v} {
			if v < 0 {
				b.Field(i).AppendNull()
				continue
			}
			b.Field(i).(*array.Int64Builder).Append(v)
		}
		b.Field(2).(*array.Float64Builder).Append(r.f)
		if r.s == "" {
			b.Field(3).AppendNull()
		} else {
			b.Field(3).(*array.StringBuilder).Append(r.s)
		}
		for i, v := range []int64{r.t, r.stamp} {
			b.Field(4 + i).(*array.Int64Builder).Append(v)
		}
		b.Field(6).(*array.Int32Builder).Append(int32(r.split))
		b.Field(7).(*array.Int64Builder).Append(r.pos)
	}
	return b.NewRecordBatch()
}

// overRig runs both halves of over, as the engine does.
type overRig struct {
	t      testing.TB
	alloc  memory.Allocator
	cfg    OverConfig
	in     component.OperatorIn
	splits *dataflow.SplitTable
	kv     *windowTestKV
	memory int64
	before dataflow.Operator
	tasks  []dataflow.Operator
	out    []string // rows, as JSON
	late   int
}

func newOverRig(t testing.TB, alloc memory.Allocator, cfg OverConfig) *overRig {
	r := &overRig{
		t: t, alloc: alloc, cfg: cfg, splits: &dataflow.SplitTable{}, kv: &windowTestKV{},
		in: component.OperatorIn{Inputs: []dataflow.Stream{{Schema: overSchema}}, Names: []string{"rows"}},
	}
	for _, s := range []dataflow.Split{"p0", "p1", "p2"} {
		r.splits.ID("in", s)
	}
	return r
}

// start makes the instances for a number of tasks, restored from kv, which get a
// watermark first.
func (r *overRig) start(tasks int, wm int64) {
	r.t.Helper()
	r.close()
	env := func(task, tasks int) *dataflow.Env {
		return &dataflow.Env{
			Step: "step", Task: task, Tasks: tasks, Alloc: r.alloc, State: r.kv, Groups: state.GroupsOf(task, tasks),
			Fates: &dataflow.Fates{}, Splits: r.splits, Closed: dataflow.NewClosedUpTo(dataflow.MinTime), Memory: r.memory,
		}
	}
	spec := component.OperatorNamed("over")
	var err error
	if r.before, err = spec.NewBefore(context.Background(), env(0, 1), r.in, &r.cfg); err != nil {
		r.t.Fatal(err)
	}
	for task := range tasks {
		op, err := spec.New(context.Background(), env(task, tasks), r.in, &r.cfg)
		if err != nil {
			r.t.Fatal(err)
		}
		r.tasks = append(r.tasks, op)
	}
	r.watermark(wm)
}

func (r *overRig) close() {
	if r.before != nil {
		r.before.Close()
	}
	for _, op := range r.tasks {
		op.Close()
	}
	r.before, r.tasks = nil, nil
}

func (r *overRig) collect(_ context.Context, port int, b arrow.RecordBatch) error {
	defer b.Release()
	switch port {
	case groupOut:
		for i := range int(b.NumRows()) {
			r.out = append(r.out, string(dataflow.RowJSON(b, i)))
		}
	case groupLate:
		r.late += int(b.NumRows())
	default:
		r.t.Fatalf("a bad row: %s", dataflow.RowJSON(b, 0))
	}
	return nil
}

func (r *overRig) send(rows []overRow) {
	batch := overBatch(r.alloc, rows)
	defer batch.Release()
	through := dataflow.EmitFunc(func(ctx context.Context, port int, b arrow.RecordBatch) error {
		if port != groupOut {
			return r.collect(ctx, port, b)
		}
		defer b.Release()
		for task, op := range r.tasks {
			var mine []int32
			for i, h := range b.Column(int(b.NumCols()) - 1).(*array.Uint64).Uint64Values() {
				if state.TaskOf(state.GroupOf(h), len(r.tasks)) == task {
					mine = append(mine, int32(i))
				}
			}
			part, err := dataflow.TakeBatch(r.alloc, b, mine)
			if err != nil {
				return err
			}
			err = op.Process(ctx, 0, part, dataflow.EmitFunc(r.collect))
			part.Release()
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := r.before.Process(context.Background(), 0, batch, through); err != nil {
		r.t.Fatal(err)
	}
}

func (r *overRig) watermark(wm int64) {
	for _, op := range r.tasks {
		if err := op.(dataflow.WatermarkHandler).OnWatermark(context.Background(), dataflow.Time(wm), dataflow.EmitFunc(r.collect)); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *overRig) barrier() {
	for _, op := range r.tasks {
		if err := op.(dataflow.BarrierHandler).OnBarrier(context.Background(), 1, dataflow.EmitFunc(r.collect)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// overModelAggregates are those of the test. Of a distinct one, plain gives the
// same on rows whose values of "of" are different; filter is left out of it.
var overModelAggregates = []struct{ name, expr, of, plain string }{
	{name: "n", expr: "count(*)"}, {name: "nv", expr: "count(v) filter (where f > 3)"},
	{name: "sum", expr: "sum(v)"}, {name: "avg", expr: "avg(v)"}, {name: "fsum", expr: "sum(f)"},
	{name: "lo", expr: "min(s)"}, {name: "hi", expr: "max(s) filter (where v > 2)"}, {name: "vhi", expr: "max(v)"},
	{name: "dev", expr: "stddev_pop(v)"}, {name: "any", expr: "bool_or(v > 7)"},
	{name: "first", expr: "first(s)"}, {name: "last", expr: "last(v)"},
	{name: "list", expr: "array_agg(v)"}, {name: "texts", expr: "string_agg(s, '' order by v desc)"},
	{name: "mid", expr: "percentile_cont(0.5) within group (order by f)"}, {name: "often", expr: "mode() within group (order by s)"},
	{name: "about", expr: "approx_count_distinct(v)"}, {name: "near", expr: "approx_percentile(f, 0.5)"},
	{name: "dn", expr: "count(distinct s)", of: "s", plain: "count(s)"},
	{name: "ds", expr: "sum(distinct v)", of: "v", plain: "sum(v)"},
	{name: "dl", expr: "array_agg(distinct v)", of: "v", plain: "array_agg(v order by v)"},
	{name: "dt", expr: "string_agg(distinct s, '' order by s desc)", of: "s", plain: "string_agg(s, '' order by s desc)"},
	{name: "df", expr: "sum(distinct v) filter (where f > 3)", of: "vf", plain: "sum(v) filter (where f > 3)"},
}

// overModel says what leaves: for each row the aggregates of the rows that it sees,
// computed anew.
type overModel struct {
	t   *testing.T
	cfg OverConfig
	set *aggregateSet // without distinct
	env *dataflow.Env
}

func newOverModel(t *testing.T, cfg OverConfig, splits *dataflow.SplitTable) *overModel {
	var plain component.NamedExprs
	for _, a := range cfg.Aggregate {
		for _, m := range overModelAggregates {
			if m.name == a.Name {
				plain = append(plain, component.NamedExpr{Name: a.Name, Expr: cmp.Or(m.plain, m.expr)})
			}
		}
	}
	set, problems := newAggregateSet(overSchema, plain)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return &overModel{t: t, cfg: cfg, set: set, env: &dataflow.Env{Alloc: memory.DefaultAllocator, Splits: splits}}
}

// rows are those that leave, as JSON.
func (m *overModel) rows(rows []overRow) []string {
	var out []string
	byKey := map[int64][]overRow{}
	for _, r := range rows {
		if r.t >= r.stamp {
			byKey[r.k] = append(byKey[r.k], r)
		}
	}
	for _, part := range byKey {
		slices.SortFunc(part, func(a, b overRow) int {
			return cmp.Or(cmp.Compare(a.t, b.t), cmp.Compare(a.split, b.split), cmp.Compare(a.pos, b.pos))
		})
		begin := 0
		for i := range part {
			if keep := m.keep(); i > 0 && part[i].t-part[i-1].t > keep {
				begin = i
			}
			out = append(out, m.row(part, begin, i))
		}
	}
	return out
}

func (m *overModel) keep() int64 {
	switch {
	case m.cfg.Unbounded != nil:
		return m.cfg.Unbounded.ExpireAfter.D().Microseconds()
	case m.cfg.RowsPreceding > 0:
		return m.cfg.ExpireAfter.D().Microseconds()
	}
	return 1 << 60
}

func (m *overModel) row(part []overRow, begin, i int) string {
	end := i + 1
	if m.cfg.RowsPreceding > 0 {
		begin = max(begin, i-int(m.cfg.RowsPreceding))
	} else {
		for end < len(part) && part[end].t == part[i].t {
			end++
		}
		if back := m.cfg.RangePreceding.D().Microseconds(); back > 0 {
			for part[begin].t < part[i].t-back {
				begin++
			}
		}
	}
	frame := part[begin:end]
	fields := overSchema.Fields()[:4]
	users := overBatch(memory.DefaultAllocator, part[i:i+1])
	defer users.Release()
	cols := slices.Clone(users.Columns()[:4])
	all := m.compute(frame)
	defer releaseAll(all)
	for at, a := range m.cfg.Aggregate {
		x := all
		i := slices.IndexFunc(overModelAggregates, func(m struct{ name, expr, of, plain string }) bool { return m.name == a.Name })
		if of := overModelAggregates[i].of; of != "" {
			x = m.compute(overDifferent(frame, of))
			defer releaseAll(x)
		}
		cols = append(cols, x[at])
		fields = append(fields, m.set.results[at])
	}
	row := array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, 1)
	defer row.Release()
	return string(dataflow.RowJSON(row, 0))
}

// overDifferent are the rows whose values of a distinct aggregate are different.
func overDifferent(frame []overRow, of string) []overRow {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(frame), func(r overRow) bool {
		value := r.s
		if of != "s" {
			value = fmt.Sprint(r.v)
		}
		if of == "vf" && r.f <= 3 || seen[value] {
			return true
		}
		seen[value] = true
		return false
	})
}

// compute aggregates all rows of a frame at once.
func (m *overModel) compute(frame []overRow) (values []arrow.Array) {
	feed := m.set.newFeed(m.env)
	batch := overBatch(memory.DefaultAllocator, frame)
	defer batch.Release()
	if err := feed.bind(batch); err != nil {
		m.t.Fatal(err)
	}
	layout := newAccLayout(m.set.funcs)
	acc, heaps := make([]uint64, 2*layout.stride), layout.newHeaps()
	groups := make([]uint32, len(frame))
	for i := range groups {
		groups[i] = 1
	}
	feed.update(layout, acc, heaps, groups)
	feed.unbind()
	for i, f := range m.set.results {
		b := array.NewBuilder(memory.DefaultAllocator, f.Type)
		if bad := layout.result(i, b, acc[layout.stride:], heaps); bad != nil {
			m.t.Fatal(bad.Detail)
		}
		values = append(values, b.NewArray())
		b.Release()
	}
	return values
}

// TestOverIsWhatItsFrameSays runs random rows through random frames, with random
// batches, barriers, restarts and numbers of tasks.
func TestOverIsWhatItsFrameSays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	for i := range 24 {
		t.Run(fmt.Sprint("seed=", seed+uint64(i)), func(t *testing.T) {
			t.Parallel()
			overTrial(t, rand.New(rand.NewPCG(seed+uint64(i), 7)))
		})
	}
}

func overTrial(t *testing.T, rng *rand.Rand) {
	var cfg OverConfig
	cfg.By = byColumns("k")
	for _, a := range overModelAggregates {
		if rng.IntN(3) > 0 {
			cfg.Aggregate = append(cfg.Aggregate, component.NamedExpr{Name: a.name, Expr: a.expr})
		}
	}
	rng.Shuffle(len(cfg.Aggregate), func(i, j int) {
		cfg.Aggregate[i], cfg.Aggregate[j] = cfg.Aggregate[j], cfg.Aggregate[i]
	})
	bound := component.Duration(time.Duration(1+rng.IntN(40)) * time.Microsecond)
	switch rng.IntN(3) {
	case 0:
		cfg.RowsPreceding, cfg.ExpireAfter = 1+rng.Int64N(12), bound
	case 1:
		cfg.RangePreceding = bound
	default:
		cfg.Unbounded = &OverUnbounded{ExpireAfter: bound}
	}
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer alloc.AssertSize(t, 0)
	r := newOverRig(t, alloc, cfg)
	if rng.IntN(2) > 0 {
		r.memory = 1 + rng.Int64N(20_000)
	}
	defer r.close()
	rows := overRun(r, rng, 250)
	want := newOverModel(t, cfg, r.splits).rows(rows)
	slices.Sort(want)
	slices.Sort(r.out)
	if len(want)+r.late != len(rows) {
		t.Errorf("%d rows are late, want %d", r.late, len(rows)-len(want))
	}
	if !slices.Equal(r.out, want) {
		for i := range min(len(want), len(r.out)) {
			if want[i] != r.out[i] {
				t.Fatalf("%+v\n%d rows, want %d; the first that differs\n got %s\nwant %s", cfg, len(r.out), len(want), r.out[i], want[i])
			}
		}
		t.Fatalf("%d rows, want %d", len(r.out), len(want))
	}
}

// overRun sends about n rows of three splits, and returns them.
func overRun(r *overRig, rng *rand.Rand, n int) (rows []overRow) {
	const disorder = 6
	tasks := 1 + rng.IntN(3)
	r.start(tasks, int64(dataflow.MinTime))
	var at, pos, highest [3]int64
	for i := range highest {
		highest[i] = int64(dataflow.MinTime)
	}
	wm := int64(dataflow.MinTime)
	for len(rows) < n {
		split := rng.IntN(3)
		var batch []overRow
		for range 1 + rng.IntN(12) {
			if rng.IntN(15) == 0 {
				at[split] += rng.Int64N(30)
			}
			at[split] += rng.Int64N(3)
			x := overRow{
				k: rng.Int64N(4) - 1, v: rng.Int64N(10) - 1, f: float64(rng.IntN(8)), t: at[split] - rng.Int64N(disorder+2),
				stamp: highest[split], split: int64(split), pos: pos[split],
			}
			if c := rng.IntN(5); c > 0 {
				x.s = string("aabc"[c-1])
			}
			pos[split]++
			if top := x.t - disorder; top > highest[split] {
				highest[split] = top
			}
			batch = append(batch, x)
		}
		rows = append(rows, batch...)
		r.send(batch)
		if least := slices.Min(highest[:]); least > wm && rng.IntN(3) > 0 {
			wm = least
			r.watermark(wm)
		}
		if rng.IntN(4) == 0 {
			r.barrier()
			if rng.IntN(3) == 0 {
				r.start(1+rng.IntN(3), wm)
			}
		}
	}
	r.watermark(int64(dataflow.MaxTime))
	return rows
}
