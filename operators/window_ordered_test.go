package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
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

// orderedRig runs an ordered window of some tasks, as the engine does.
type orderedRig struct {
	t      testing.TB
	alloc  memory.Allocator
	cfg    WindowConfig
	in     component.OperatorIn
	plan   component.OperatorPlan
	kv     *windowTestKV
	fates  *dataflow.Fates
	splits *dataflow.SplitTable
	now    time.Time
	memory int64
	before dataflow.Operator
	tasks  []dataflow.Operator
	wm     dataflow.Time
	passed dataflow.Time
	out    [3][]string
	ops    []dataflow.Op // of out[0], of a changelog
}

func newOrderedRig(t testing.TB, alloc memory.Allocator, schema *arrow.Schema, cfg WindowConfig) *orderedRig {
	r := &orderedRig{
		t: t, alloc: alloc, cfg: cfg, kv: &windowTestKV{}, fates: &dataflow.Fates{}, splits: &dataflow.SplitTable{},
		in: component.OperatorIn{Inputs: []dataflow.Stream{{Schema: schema}}, Names: []string{"rows"}},
		wm: dataflow.MinTime, now: time.Unix(1000, 0),
	}
	var err error
	if r.plan, err = planWindow(r.in, cfg); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		r.splits.ID("rows", dataflow.Split(strconv.Itoa(i)))
	}
	return r
}

func (r *orderedRig) start(tasks int) {
	r.t.Helper()
	env := func(task int) *dataflow.Env {
		return &dataflow.Env{
			Step: "win", Task: task, Tasks: tasks, Alloc: r.alloc, State: r.kv, Groups: state.GroupsOf(task, tasks),
			Memory: r.memory, Fates: r.fates, Splits: r.splits, Now: func() time.Time { return r.now }, Closed: dataflow.NewClosedUpTo(dataflow.MinTime),
		}
	}
	r.fates.Held.Store(0)
	var err error
	if r.before, err = newWindowOrderedBefore(context.Background(), env(0), r.in, r.cfg); err != nil {
		r.t.Fatal(err)
	}
	for task := range tasks {
		op, err := newWindowOrdered(context.Background(), env(task), r.in, r.cfg)
		if err != nil {
			r.t.Fatal(err)
		}
		r.tasks = append(r.tasks, op)
	}
	r.passed = dataflow.MinTime
	r.watermark(r.wm)
}

func (r *orderedRig) stop() {
	r.t.Helper()
	for _, op := range append(r.tasks, r.before) {
		if err := op.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
	r.before, r.tasks = nil, nil
}

// Emit implements dataflow.Emitter.
func (r *orderedRig) Emit(_ context.Context, port int, b arrow.RecordBatch) error {
	defer b.Release()
	if !b.Schema().Equal(r.plan.Ports[port].Stream.Schema) {
		r.t.Errorf("port %d: schema %v, want %v", port, b.Schema(), r.plan.Ports[port].Stream.Schema)
	}
	s := b.Schema()
	for i := range int(b.NumRows()) {
		r.out[port] = append(r.out[port], string(dataflow.RowJSON(b, i)))
		if port != windowOut {
			continue
		}
		if c := dataflow.Column(s, dataflow.SysOp); c >= 0 {
			r.ops = append(r.ops, dataflow.Op(b.Column(c).(*array.Uint8).Value(i)))
		}
		if stamp := b.Column(dataflow.Column(s, dataflow.SysStamp)).(*array.Int64).Value(i); stamp < int64(r.passed) {
			r.t.Errorf("a result with the stamp %d behind the watermark %d that went out", stamp, r.passed)
		}
	}
	return nil
}

func (r *orderedRig) rows(b arrow.RecordBatch) {
	r.t.Helper()
	defer b.Release()
	r.fates.In.Add(b.NumRows())
	err := r.before.Process(context.Background(), 0, b, dataflow.EmitFunc(func(ctx context.Context, port int, b arrow.RecordBatch) error {
		if port != 0 {
			return r.Emit(ctx, port, b)
		}
		defer b.Release()
		if !b.Schema().Equal(r.plan.Exchange) {
			r.t.Errorf("exchange schema %v, want %v", b.Schema(), r.plan.Exchange)
		}
		rows := make([][]int32, len(r.tasks))
		for i, h := range b.Column(dataflow.Column(b.Schema(), r.plan.RouteBy)).(*array.Uint64).Uint64Values() {
			task := state.TaskOf(state.GroupOf(h), len(r.tasks))
			rows[task] = append(rows[task], int32(i))
		}
		for task, mine := range rows {
			part, err := dataflow.TakeBatch(r.alloc, b, mine)
			if err != nil {
				return err
			}
			err = r.tasks[task].Process(ctx, 0, part, r)
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

func (r *orderedRig) watermark(wm dataflow.Time) {
	r.t.Helper()
	r.wm = wm
	for _, op := range r.tasks {
		if err := op.(dataflow.WatermarkHandler).OnWatermark(context.Background(), wm, r); err != nil {
			r.t.Fatal(err)
		}
	}
	r.passed = wm.Sub(r.plan.Delay)
}

func (r *orderedRig) barrier() {
	r.t.Helper()
	for _, op := range r.tasks {
		if err := op.(dataflow.BarrierHandler).OnBarrier(context.Background(), 1, r); err != nil {
			r.t.Fatal(err)
		}
	}
	if c := r.fates.Load(); c.Balance() != 0 {
		r.t.Errorf("fates do not balance: %+v", c)
	}
}

// orderedModelRow is a row of the model: its key, value and time; stamp, split and
// position give its place.
type orderedModelRow struct {
	id, k, v, t, stamp int64
	split              int
}

// orderedModelWindow is a window of the model.
type orderedModelWindow struct{ start, end, n, sum, least int64 }

// orderedModel is what an ordered window with count, sum and min(id) must come to:
// windows by key, in text, and the ids of late rows.
func orderedModel(cfg WindowConfig, rows []orderedModelRow) (results []string, late []int64) {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b orderedModelRow) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(a.split, b.split), cmp.Compare(a.id, b.id))
	})
	open := map[int64][]orderedModelWindow{}
	keep := cfg.AllowedLateness.D().Microseconds()
	give := func(k int64, w orderedModelWindow) {
		results = append(results, fmt.Sprint(k, " ", w.start, " ", w.end, " n=", w.n, " sum=", w.sum, " least=", w.least))
	}
	if cfg.Count != nil {
		keep = cfg.Count.ExpireAfter.D().Microseconds()
	}
	for _, r := range rows {
		var rest []orderedModelWindow
		for _, w := range open[r.k] {
			if w.end+keep <= r.stamp {
				give(r.k, w)
			} else {
				rest = append(rest, w)
			}
		}
		mine := orderedModelWindow{r.t, r.t, 1, r.v, r.id}
		switch {
		case cfg.Session != nil:
			mine.end += cfg.Session.Gap.D().Microseconds()
		case cfg.Count == nil:
			width := int64(10_000_000)
			mine.start = r.t / width * width
			mine.end = mine.start + width
		}
		joined := false
		open[r.k] = nil
		for _, w := range rest {
			joins := w == rest[0] // of a count window
			switch {
			case cfg.Session != nil:
				joins = w.start <= mine.end && mine.start <= w.end
			case cfg.Count == nil:
				joins = w.start == mine.start
			}
			if !joins {
				open[r.k] = append(open[r.k], w)
				continue
			}
			joined = true
			mine = orderedModelWindow{min(mine.start, w.start), max(mine.end, w.end), mine.n + w.n, mine.sum + w.sum, min(mine.least, w.least)}
		}
		switch {
		case !joined && mine.end+keep <= r.stamp:
			late = append(late, r.id)
		case cfg.Count != nil && mine.n == cfg.Count.Rows:
			give(r.k, mine)
		default:
			open[r.k] = append(open[r.k], mine)
		}
	}
	for k, ws := range open {
		for _, w := range ws {
			give(k, w)
		}
	}
	slices.Sort(results)
	slices.Sort(late)
	return results, late
}

// TestOrderedWindowsAgainstAModel runs random windows on random rows of several
// splits, cut, interleaved and restarted at random.
func TestOrderedWindowsAgainstAModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("FRAZIL_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 150 {
		cfg := orderedRandomConfig(rng)
		t.Run(fmt.Sprint(round), func(t *testing.T) { orderedModelRound(t, rng, cfg) })
		if t.Failed() {
			t.Fatalf("configuration %+v", cfg)
		}
	}
}

func orderedRandomConfig(rng *rand.Rand) WindowConfig {
	sec := func(n int) component.Duration { return component.Duration(n) * component.Duration(time.Second) }
	cfg := WindowConfig{
		By:        byColumns("k"),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "sum", Expr: "sum(v)"}, {Name: "least", Expr: "min(id)"}},
	}
	switch rng.IntN(5) {
	case 0, 1:
		cfg.Session = &SessionWindow{Gap: sec(1 + rng.IntN(12))}
	case 2, 3:
		cfg.Tumbling, cfg.Emit = "10s", emitUpdates
	case 4:
		cfg.Count = &CountWindow{Rows: int64(1 + rng.IntN(5)), ExpireAfter: sec(1 + rng.IntN(30))}
		return cfg
	}
	cfg.AllowedLateness = sec(rng.IntN(3) * rng.IntN(12))
	if rng.IntN(2) > 0 {
		cfg.Emit = emitUpdates
	}
	if cfg.Emit == emitUpdates && rng.IntN(2) > 0 {
		cfg.Early = &EarlyResults{Rows: int64(1 + rng.IntN(4))}
	}
	if cfg.Emit == emitUpdates && rng.IntN(3) == 0 {
		cfg.Mode = modeDiscarding
	}
	return cfg
}

func orderedModelRound(t *testing.T, rng *rand.Rand, cfg WindowConfig) {
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer alloc.AssertSize(t, 0)
	splits := 1 + rng.IntN(3)
	feed := newWindowFeed([]arrow.Field{{Name: "id", Type: dataflow.TypeInt64}, {Name: "k", Type: dataflow.TypeInt64}, {Name: "v", Type: dataflow.TypeInt64}}, int64(rng.IntN(8))*1_000_000, splits)
	r := newOrderedRig(t, alloc, feed.schema, cfg)
	// Little memory: most groups are in the state alone.
	r.memory = []int64{0, 1, 500, 2000}[rng.IntN(4)]
	r.start(1 + rng.IntN(3))
	clock := make([]int64, splits)
	var all []orderedModelRow
	for range 40 {
		split := rng.IntN(splits)
		var rows []windowTestRow
		wm := int64(feed.wm[split])
		for range 1 + rng.IntN(6) {
			clock[split] += rng.Int64N(3_000_000)
			row := orderedModelRow{id: int64(len(all)), k: rng.Int64N(9), v: rng.Int64N(100), split: split, stamp: wm}
			row.t = max(0, clock[split]-rng.Int64N(20)*rng.Int64N(2)*1_000_000)
			wm = max(wm, row.t-feed.ooo)
			all = append(all, row)
			rows = append(rows, windowTestRow{row.t, []any{row.id, row.k, row.v}})
		}
		for _, n := range randomCut(rng, len(rows), len(rows)) {
			r.rows(feed.batch(alloc, split, rows[:n]))
			rows = rows[n:]
			r.watermark(feed.watermark())
		}
		if rng.IntN(4) == 0 {
			r.barrier()
			if rng.IntN(2) == 0 {
				r.stop()
				r.start(1 + rng.IntN(3))
			}
		}
	}
	r.watermark(dataflow.MaxTime)
	r.barrier()
	r.stop()
	if n := r.kv.len(); n != 0 {
		t.Errorf("%d entries are left in the state", n)
	}
	results, late := orderedModel(cfg, all)
	var gotLate []int64
	for _, x := range r.out[windowLate] {
		var row struct{ ID int64 }
		if err := json.Unmarshal([]byte(x), &row); err != nil {
			t.Fatal(err)
		}
		gotLate = append(gotLate, row.ID)
	}
	slices.Sort(gotLate)
	if !slices.Equal(gotLate, late) {
		t.Errorf("late rows %v, want %v", gotLate, late)
	}
	if got := orderedFold(t, r, cfg); !slices.Equal(got, orderedTotals(cfg, results)) {
		t.Errorf("results\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(orderedTotals(cfg, results), "\n"))
	}
}

// orderedFold is what the results come to: the table of a changelog, facts as they
// are.
func orderedFold(t *testing.T, r *orderedRig, cfg WindowConfig) []string {
	table := map[string]string{}
	var out []string
	for i, x := range r.out[windowOut] {
		var row struct {
			K           int64
			Start       time.Time `json:"window_start"`
			End         time.Time `json:"window_end"`
			N, Least    int64
			Sum, Timing string
		}
		if err := json.Unmarshal([]byte(x), &row); err != nil {
			t.Fatalf("%s: %v", x, err)
		}
		text := fmt.Sprint(row.K, " ", row.Start.UnixMicro(), " ", row.End.UnixMicro(), " n=", row.N, " sum=", row.Sum, " least=", row.Least)
		if !r.plan.Ports[0].Stream.Changelog {
			out = append(out, text)
			continue
		}
		key := fmt.Sprint(row.K, " ", row.Start, " ", row.End)
		have, ok := table[key]
		switch op := r.ops[i]; {
		case op == dataflow.OpInsert && ok, op != dataflow.OpInsert && op != dataflow.OpUpdateAfter && have != text+row.Timing:
			t.Fatalf("%s of %s, the table has %q", op, x, have)
		case op.Puts():
			table[key] = text + row.Timing
		default:
			delete(table, key)
		}
	}
	for _, x := range table {
		for _, timing := range orderedTimings {
			x = strings.TrimSuffix(x, timing)
		}
		out = append(out, x)
	}
	return orderedTotals(cfg, out)
}

// orderedTotals are the results themselves, but with discarding their sums per
// key, since sessions then have results with other bounds.
func orderedTotals(cfg WindowConfig, results []string) []string {
	if cfg.Mode != modeDiscarding {
		slices.Sort(results)
		return results
	}
	total := map[int64][2]int64{}
	for _, x := range results {
		var k, start, end, n, sum, least int64
		if _, err := fmt.Sscanf(x, "%d %d %d n=%d sum=%d least=%d", &k, &start, &end, &n, &sum, &least); err != nil {
			panic(err)
		}
		total[k] = [2]int64{total[k][0] + n, total[k][1] + sum}
	}
	var out []string
	for k, x := range total {
		out = append(out, fmt.Sprint(k, x))
	}
	slices.Sort(out)
	return out
}

func TestEarlyResultsByTheClock(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer alloc.AssertSize(t, 0)
	ten := component.Duration(10 * time.Second)
	cfg := WindowConfig{
		AlignedWindows: AlignedWindows{Tumbling: "1m"}, By: byColumns("k"), Emit: emitUpdates, Early: &EarlyResults{ProcessingTime: ten},
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}},
	}
	feed := newWindowFeed([]arrow.Field{{Name: "k", Type: dataflow.TypeString}}, 0, 1)
	r := newOrderedRig(t, alloc, feed.schema, cfg)
	if r.plan.NotReplayable == "" {
		t.Error("the plan calls results by the clock replayable")
	}
	row := func(at int64, k string) {
		r.rows(feed.batch(alloc, 0, []windowTestRow{{at * 1e6, []any{k}}}))
		r.watermark(feed.watermark())
	}
	want := func(rows ...string) {
		t.Helper()
		if !slices.Equal(r.out[windowOut], rows) {
			t.Errorf("results\n%s\nwant\n%s", strings.Join(r.out[windowOut], "\n"), strings.Join(rows, "\n"))
		}
		r.out[windowOut] = nil
	}
	result := func(k, timing string, n int) string {
		return fmt.Sprintf(`{"k":%q,"window_start":"1970-01-01T00:00:00.000000Z","window_end":"1970-01-01T00:01:00.000000Z","timing":%q,"n":%d}`, k, timing, n)
	}
	r.start(1)
	row(1, "a")
	row(2, "b")
	r.now = r.now.Add(9 * time.Second)
	row(3, "a")
	want()
	r.now = r.now.Add(time.Second)
	r.barrier()
	want(result("a", "early", 2), result("b", "early", 1))
	r.now = r.now.Add(time.Hour)
	r.barrier()
	want()
	row(4, "b")
	r.barrier()
	r.stop()
	r.start(2) // The time of the new row of b begins anew.
	r.now = r.now.Add(ten.D())
	r.barrier()
	want(result("b", "early", 1), result("b", "early", 2))
	row(60, "z")
	want(result("a", "early", 2), result("a", "on_time", 2), result("b", "early", 2), result("b", "on_time", 2))
	r.stop()
}
