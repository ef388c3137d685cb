package operators

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// changeRow is a row of the input of a model test.
type changeRow struct{ k, v, t, stamp, split, pos int64 }

// changeRig runs both halves of a step that gives a changelog, as the engine does,
// and folds what it gives.
type changeRig struct {
	t      testing.TB
	alloc  memory.Allocator
	name   string
	cfg    any
	in     component.OperatorIn
	plan   component.OperatorPlan
	splits *dataflow.SplitTable
	kv     *windowTestKV
	before dataflow.Operator
	tasks  []dataflow.Operator
	key    []int
	table  map[string]string
	memory int64 // of each task
	// badResults: there may be results that do not fit.
	badResults bool
}

var changeSchema = arrow.NewSchema([]arrow.Field{
	{Name: "k", Type: dataflow.TypeInt64, Nullable: true}, {Name: "v", Type: dataflow.TypeInt64},
	{Name: dataflow.SysTime, Type: dataflow.TypeInt64}, {Name: dataflow.SysStamp, Type: dataflow.TypeInt64},
	{Name: dataflow.SysSplit, Type: dataflow.TypeInt32}, {Name: dataflow.SysPos, Type: dataflow.TypeInt64},
}, nil)

func newChangeRig(t testing.TB, alloc memory.Allocator, name string, cfg any, splits int) *changeRig {
	r := &changeRig{
		t: t, alloc: alloc, name: name, cfg: cfg, splits: &dataflow.SplitTable{}, kv: &windowTestKV{}, table: map[string]string{},
		in: component.OperatorIn{Inputs: []dataflow.Stream{{Schema: changeSchema}}, Names: []string{"rows"}},
	}
	for i := range splits {
		r.splits.ID("in", dataflow.Split(fmt.Sprint("p", i)))
	}
	var err error
	if r.plan, err = component.OperatorNamed(name).Plan(r.in, cfg); err != nil {
		t.Fatal(err)
	}
	for _, k := range r.plan.Ports[0].Stream.Key {
		r.key = append(r.key, dataflow.Column(r.plan.Ports[0].Stream.Schema, k))
	}
	return r
}

func (r *changeRig) start(tasks int) {
	r.t.Helper()
	r.close()
	env := func(task, tasks int) *dataflow.Env {
		return &dataflow.Env{
			Step: "step", Task: task, Tasks: tasks, Alloc: r.alloc, State: r.kv, Groups: state.GroupsOf(task, tasks),
			Fates: &dataflow.Fates{}, Splits: r.splits, Closed: dataflow.NewClosedUpTo(dataflow.MinTime), Memory: r.memory,
		}
	}
	spec := component.OperatorNamed(r.name)
	var err error
	if r.before, err = spec.NewBefore(context.Background(), env(0, 1), r.in, r.cfg); err != nil {
		r.t.Fatal(err)
	}
	for task := range tasks {
		op, err := spec.New(context.Background(), env(task, tasks), r.in, r.cfg)
		if err != nil {
			r.t.Fatal(err)
		}
		r.tasks = append(r.tasks, op)
	}
}

func (r *changeRig) close() {
	if r.before != nil {
		r.before.Close()
	}
	for _, op := range r.tasks {
		op.Close()
	}
	r.before, r.tasks = nil, nil
}

// batch makes a batch of one split.
func (r *changeRig) batch(rows []changeRow) arrow.RecordBatch {
	b := array.NewRecordBuilder(r.alloc, changeSchema)
	defer b.Release()
	for _, x := range rows {
		if x.k < 0 {
			b.Field(0).AppendNull()
		} else {
			b.Field(0).(*array.Int64Builder).Append(x.k)
		}
		for i, v := range []int64{x.v, x.t, x.stamp, x.pos} {
			b.Field([]int{1, 2, 3, 5}[i]).(*array.Int64Builder).Append(v)
		}
		b.Field(4).(*array.Int32Builder).Append(int32(x.split))
	}
	return b.NewRecordBatch()
}

// send gives a batch of one split.
func (r *changeRig) send(rows []changeRow) {
	batch := r.batch(rows)
	defer batch.Release()
	r.process(batch)
}

// process gives a batch through both halves.
func (r *changeRig) process(batch arrow.RecordBatch) {
	err := r.before.Process(context.Background(), 0, batch, dataflow.EmitFunc(func(ctx context.Context, port int, b arrow.RecordBatch) error {
		defer b.Release()
		if port != 0 {
			return nil
		}
		for task, op := range r.tasks {
			var mine []int32
			for i, h := range b.Column(0).(*array.Uint64).Uint64Values() {
				if state.TaskOf(state.GroupOf(h), len(r.tasks)) == task {
					mine = append(mine, int32(i))
				}
			}
			part, err := dataflow.TakeBatch(r.alloc, b, mine)
			if err != nil {
				return err
			}
			err = op.Process(ctx, 0, part, dataflow.EmitFunc(r.fold))
			part.Release()
			if err != nil {
				return err
			}
		}
		return nil
	}))
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *changeRig) watermark(wm dataflow.Time) {
	for _, op := range r.tasks {
		if err := op.(dataflow.WatermarkHandler).OnWatermark(context.Background(), wm, dataflow.EmitFunc(r.fold)); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *changeRig) barrier() {
	for _, op := range r.tasks {
		if err := op.(dataflow.BarrierHandler).OnBarrier(context.Background(), 1, dataflow.EmitFunc(r.fold)); err != nil {
			r.t.Fatal(err)
		}
	}
}

// fold takes changes in; what is taken away must be there.
func (r *changeRig) fold(_ context.Context, port int, b arrow.RecordBatch) error {
	defer b.Release()
	if port != 0 && r.badResults {
		return nil
	}
	if port != 0 {
		return fmt.Errorf("rows at port %d", port)
	}
	ops := b.Column(int(b.NumCols()) - 1).(*array.Uint8)
	for i := range int(b.NumRows()) {
		var key strings.Builder
		for _, c := range r.key {
			key.WriteString(b.Column(c).ValueStr(i) + "/")
		}
		row := string(dataflow.RowJSON(b, i))
		have, there := r.table[key.String()]
		switch op := dataflow.Op(ops.Value(i)); {
		case there && (op == dataflow.OpUpdateAfter || op == dataflow.OpInsert && !r.plan.Ports[0].Stream.Forgets):
			return fmt.Errorf("%s %s: %s was not taken away", op, row, have)
		case op.Puts():
			r.table[key.String()] = row
		case have != row:
			return fmt.Errorf("%s %s: the row that is there is %q", op, row, have)
		default:
			delete(r.table, key.String())
		}
	}
	return nil
}

func (r *changeRig) rows() string {
	var out []string
	for _, row := range r.table {
		out = append(out, row)
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

// changeModels says what the table is after some rows, at a watermark.
var changeModels = map[string]struct {
	name string
	cfg  any
	want func(rows []changeRow, wm int64) []string
}{
	"group": {"group", &GroupConfig{
		By: []By{{Name: "k"}}, ExpireAfter: component.Duration(20 * time.Microsecond),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(v)"}, {Name: "d", Expr: "count(distinct v)"}, {Name: "e", Expr: "sum(distinct v)"}, {Name: "m", Expr: "max(v::text)"}},
	}, func(rows []changeRow, _ int64) (out []string) {
		for k, part := range changeParts(rows, 20) {
			s, e, m, seen := int64(0), int64(0), "", map[int64]bool{}
			for _, x := range part {
				s += x.v
				m = max(m, strconv.FormatInt(x.v, 10))
				if !seen[x.v] {
					e += x.v
				}
				seen[x.v] = true
			}
			out = append(out, fmt.Sprintf(`{"k":%s,"n":%d,"s":"%d","d":%d,"e":"%d","m":"%s"}`, k, len(part), s, len(seen), e, m))
		}
		return out
	}},
	"group that leaves the memory": {"group", &GroupConfig{
		By: []By{{Name: "k"}}, ExpireAfter: component.Duration(20 * time.Microsecond),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(v)"}, {Name: "m", Expr: "max(v::text)"}},
	}, func(rows []changeRow, _ int64) (out []string) {
		for k, part := range changeParts(rows, 20) {
			s, m := int64(0), ""
			for _, x := range part {
				s += x.v
				m = max(m, strconv.FormatInt(x.v, 10))
			}
			out = append(out, fmt.Sprintf(`{"k":%s,"n":%d,"s":"%d","m":"%s"}`, k, len(part), s, m))
		}
		return out
	}},
	"top": {"top", &TopConfig{
		By: []string{"k"}, OrderBy: []string{"v desc"}, Limit: 3, Rank: "r", Ties: "row", ExpireAfter: component.Duration(20 * time.Microsecond),
	}, func(rows []changeRow, wm int64) (out []string) {
		for k, part := range changeParts(rows, 20) {
			if wm != int64(dataflow.MinTime) && part[len(part)-1].t <= floorDiv(wm, 5)*5-40 {
				continue
			}
			slices.SortFunc(part, func(a, b changeRow) int {
				for _, c := range []int64{b.v - a.v, a.t - b.t, a.split - b.split, a.pos - b.pos} {
					if c != 0 {
						return int(c)
					}
				}
				return 0
			})
			for i, x := range part[:min(3, len(part))] {
				out = append(out, fmt.Sprintf(`{"k":%s,"v":%d,"r":%d}`, k, x.v, i+1))
			}
		}
		return out
	}},
	"dedup": {"dedup", &DedupConfig{Key: []string{"k"}, Within: component.Duration(19 * time.Microsecond), Keep: keepLast, Order: orderArrival},
		func(rows []changeRow, _ int64) (out []string) {
			last := map[int64]changeRow{}
			for _, x := range rows {
				y, ok := last[x.k]
				if !ok || x.t > y.t || x.t == y.t && (x.split > y.split || x.split == y.split && x.pos > y.pos) {
					last[x.k] = x
				}
			}
			for k, x := range last {
				out = append(out, fmt.Sprintf(`{"k":%s,"v":%d}`, changeKey(k), x.v))
			}
			return out
		}},
}

func changeKey(k int64) string {
	if k < 0 {
		return "null"
	}
	return strconv.FormatInt(k, 10)
}

// changeParts are the rows of the latest part of each key by time.
func changeParts(rows []changeRow, gap int64) map[string][]changeRow {
	keys := map[string][]changeRow{}
	for _, x := range rows {
		keys[changeKey(x.k)] = append(keys[changeKey(x.k)], x)
	}
	for k, part := range keys {
		slices.SortFunc(part, func(a, b changeRow) int { return int(a.t - b.t) })
		from := 0
		for i := 1; i < len(part); i++ {
			if part[i].t-part[i-1].t > gap {
				from = i
			}
		}
		keys[k] = part[from:]
	}
	return keys
}

// TestChangelogsAreTheTableOfTheRowsSoFar: at every barrier, whatever batches,
// splits, barriers, restarts and tasks there were (I8).
func TestChangelogsAreTheTableOfTheRowsSoFar(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("seed %d", seed)
	for name, m := range changeModels {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			for range 150 {
				playChanges(t, rng, m.name, m.cfg, m.want)
				if t.Failed() {
					return
				}
			}
		})
	}
}

func playChanges(t *testing.T, rng *rand.Rand, name string, cfg any, want func([]changeRow, int64) []string) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	const disorder = 40
	splits := 1 + rng.IntN(3)
	r := newChangeRig(t, alloc, name, cfg, splits)
	defer r.close()
	r.memory = []int64{0, 1, 3000}[rng.IntN(3)] // with 1 nothing stays in memory over a barrier
	r.start(1 + rng.IntN(3))
	greatest, pos := make([]int64, splits), make([]int64, splits)
	for i := range greatest {
		greatest[i] = int64(dataflow.MinTime)
	}
	stampOf := func(split int) int64 {
		if greatest[split] == int64(dataflow.MinTime) {
			return greatest[split]
		}
		return greatest[split] - disorder
	}
	wm := int64(dataflow.MinTime)
	var rows []changeRow
	now, keys := int64(0), 1+rng.IntN(6)
	for range 60 {
		split := rng.IntN(splits)
		var batch []changeRow
		for range 1 + rng.IntN(8) {
			now += int64(rng.IntN(12))
			x := changeRow{k: int64(rng.IntN(keys)) - 1, v: int64(rng.IntN(8)), t: now - int64(rng.IntN(70)), stamp: stampOf(split), split: int64(split), pos: pos[split]}
			pos[split]++
			greatest[split] = max(greatest[split], x.t)
			batch = append(batch, x)
			if x.t+20 > x.stamp {
				rows = append(rows, x)
			}
		}
		r.send(batch)
		if low := stampOf(slices.Index(greatest, slices.Min(greatest))); low > wm {
			wm = low
			r.watermark(dataflow.Time(wm))
		}
		if rng.IntN(4) > 0 {
			continue
		}
		r.barrier()
		w := want(rows, wm)
		sort.Strings(w)
		if got := r.rows(); got != strings.Join(w, "\n") {
			t.Fatalf("after %d rows, watermark %d:\ngot\n%s\nwant\n%s", len(rows), wm, got, strings.Join(w, "\n"))
		}
		if rng.IntN(3) == 0 {
			r.start(1 + rng.IntN(3))
			if wm != int64(dataflow.MinTime) {
				r.watermark(dataflow.Time(wm))
			}
		}
	}
}
