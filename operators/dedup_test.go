package operators

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// dedupSeed prints the seed of a random test; FRAZIL_SEED repeats one.
func dedupSeed(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("seed %d; again: FRAZIL_SEED=%d go test -run '^%s$' ./operators", seed, seed, t.Name())
	return rand.New(rand.NewPCG(seed, 6))
}

func dedupMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var dedupTestUser = []arrow.Field{
	{Name: "device", Type: dataflow.TypeString, Nullable: true},
	{Name: "seq", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "doc", Type: dataflow.TypeJSON, Nullable: true},
	{Name: "id", Type: dataflow.TypeUUID},
	{Name: "list", Type: arrow.ListOf(dataflow.TypeInt64), Nullable: true},
	{Name: "ok", Type: dataflow.TypeBool},
}

// dedupRow is a row with its system columns.
type dedupRow struct {
	device      string // "" is null
	seq         int64
	time, stamp int64
	split       int
	pos         int64
}

func (r dedupRow) String() string {
	return fmt.Sprintf("%s/%d t=%d stamp=%d split=%d pos=%d", r.device, r.seq, r.time, r.stamp, r.split, r.pos)
}

// dedupSplitName is not in the order of the numbers.
func dedupSplitName(split int) dataflow.Split { return dataflow.Split(fmt.Sprint("p", 9-split)) }

func dedupBatch(alloc memory.Allocator, splits *dataflow.SplitTable, schema *arrow.Schema, rows []dedupRow) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, schema)
	defer b.Release()
	for _, r := range rows {
		if r.device == "" {
			b.Field(0).AppendNull()
		} else {
			b.Field(0).(*array.StringBuilder).Append(r.device)
		}
		b.Field(1).(*array.Int64Builder).Append(r.seq)
		b.Field(2).(*array.ExtensionBuilder).StorageBuilder().(*array.StringBuilder).Append(fmt.Sprintf(`{"p":%d}`, r.pos))
		b.Field(3).(*extensions.UUIDBuilder).Append([16]byte{byte(r.pos), byte(r.split)})
		l := b.Field(4).(*array.ListBuilder)
		if r.pos%3 == 0 {
			l.AppendNull()
		} else {
			l.Append(true)
			l.ValueBuilder().(*array.Int64Builder).AppendValues([]int64{r.pos, -r.pos}, nil)
		}
		b.Field(5).(*array.BooleanBuilder).Append(r.pos%2 == 0)
		b.Field(6).(*array.Int64Builder).Append(r.time)
		b.Field(7).(*array.Int64Builder).Append(r.stamp)
		b.Field(8).(*array.Int32Builder).Append(splits.ID("src", dedupSplitName(r.split)))
		b.Field(9).(*array.Int64Builder).Append(r.pos)
	}
	return b.NewRecordBatch()
}

// dedupRead is the inverse of dedupBatch; it checks the columns that are not in
// the row against what dedupBatch wrote.
func dedupRead(t *testing.T, splits *dataflow.SplitTable, b arrow.RecordBatch) []dedupRow {
	t.Helper()
	var out []dedupRow
	col := func(name string) arrow.Array { return b.Column(dataflow.Column(b.Schema(), name)) }
	i64 := func(name string, i int) int64 { return col(name).(*array.Int64).Value(i) }
	for i := range int(b.NumRows()) {
		r := dedupRow{
			seq: i64("seq", i), time: i64(dataflow.SysTime, i), stamp: i64(dataflow.SysStamp, i), pos: i64(dataflow.SysPos, i),
		}
		if col("device").IsValid(i) {
			r.device = col("device").(*array.String).Value(i)
		}
		_, name := splits.Name(col(dataflow.SysSplit).(*array.Int32).Value(i))
		n, err := strconv.Atoi(string(name[1:]))
		dedupMust(t, err)
		r.split = 9 - n
		out = append(out, r)
	}
	want := dedupBatch(memory.DefaultAllocator, splits, dedupTestSchema, out)
	defer want.Release()
	for c, f := range dedupTestUser {
		if got := col(f.Name); !array.Equal(got, want.Column(c)) {
			t.Fatalf("column %s: %v, want %v", f.Name, got, want.Column(c))
		}
	}
	return out
}

var dedupTestSchema = arrow.NewSchema(append(slices.Clone(dedupTestUser), dataflow.SystemFields(true)...), nil)

// dedupSplits makes the rows of several splits of uneven lengths, each with the
// stamps its own watermark gives.
func dedupSplits(r *rand.Rand, splits, rows, keys int, step, disorder, within int64) [][]dedupRow {
	out := make([][]dedupRow, splits)
	for s := range out {
		wm, t := int64(dataflow.MinTime), -int64(rows)*step/2
		for i := range rows / (1 + s%2) {
			t += r.Int64N(2*step + 1)
			row := dedupRow{time: t - r.Int64N(2*disorder+1), stamp: wm, split: s, pos: int64(i)}
			if r.IntN(20) == 0 {
				row.time -= within // Maybe late.
			}
			if k := r.IntN(keys); k > 0 {
				row.device = fmt.Sprint("d", k%7)
				row.seq = int64(k)
			}
			if n := len(out[s]); n > 0 && r.IntN(4) == 0 {
				// A copy, exactly at the bound, or one beyond it.
				old := out[s][r.IntN(n)]
				row.device, row.seq = old.device, old.seq
				row.time = old.time + []int64{0, within, within + 1, -within, -within - 1}[r.IntN(5)]
			}
			out[s] = append(out[s], row)
			wm = max(wm, row.time-disorder)
		}
	}
	return out
}

// dedupModel says what must become of rows that are taken in this order.
func dedupModel(rows []dedupRow, within int64) (passed, late []dedupRow, duplicates int) {
	kept := map[string][]int64{}
	for _, r := range rows {
		if r.stamp != int64(dataflow.MinTime) && r.time < r.stamp-within {
			late = append(late, r)
			continue
		}
		key := fmt.Sprintf("%q/%d", r.device, r.seq)
		if slices.ContainsFunc(kept[key], func(t int64) bool { return max(t-r.time, r.time-t) <= within }) {
			duplicates++
			continue
		}
		kept[key] = append(kept[key], r.time)
		passed = append(passed, r)
	}
	return passed, late, duplicates
}

func dedupStampOrder(rows []dedupRow) []dedupRow {
	out := slices.Clone(rows)
	slices.SortStableFunc(out, func(a, b dedupRow) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), cmp.Compare(dedupSplitName(a.split), dedupSplitName(b.split)), cmp.Compare(a.pos, b.pos))
	})
	return out
}

// dedupRig runs both halves as the engine would: one half in front, several
// tasks behind it, a store.
type dedupRig struct {
	t      *testing.T
	dir    string
	alloc  memory.Allocator
	in     component.OperatorIn
	cfg    DedupConfig
	memory int64 // of a task; 0: as much as it likes
	store  *state.Store
	splits *dataflow.SplitTable
	before dataflow.Operator
	tasks  []dataflow.Operator
	kvs    []*state.TaskKV
	fates  []*dataflow.Fates
	base   dataflow.Counts // of runs that have ended, but for what they held
	fed    int64
	out    []dedupRow
	late   []dedupRow
	order  []dedupRow // as they arrived behind the exchange
}

func (g *dedupRig) start(tasks int, wm dataflow.Time) {
	g.t.Helper()
	var err error
	g.store, err = state.Open(g.dir, state.Options{Logger: slog.New(slog.DiscardHandler)})
	dedupMust(g.t, err)
	g.splits = &dataflow.SplitTable{}
	for range rand.IntN(5) { // Other numbers than in the run before.
		g.splits.ID("other", dataflow.Split(fmt.Sprint(rand.Int())))
	}
	g.build(tasks, wm)
}

func (g *dedupRig) env(kv state.KV, groups state.Groups) *dataflow.Env {
	f := &dataflow.Fates{}
	g.fates = append(g.fates, f)
	return &dataflow.Env{Step: "once", Alloc: g.alloc, Fates: f, Splits: g.splits, State: kv, Groups: groups, Memory: g.memory}
}

func (g *dedupRig) build(tasks int, wm dataflow.Time) {
	g.t.Helper()
	g.fates, g.tasks, g.kvs = nil, nil, nil
	var err error
	g.before, err = newDedupBefore(context.Background(), g.env(nil, state.Groups{}), g.in, g.cfg)
	dedupMust(g.t, err)
	for i := range tasks {
		groups := state.GroupsOf(i, tasks)
		kv, err := g.store.KV("once", groups)
		dedupMust(g.t, err)
		op, err := newDedup(context.Background(), g.env(kv, groups), g.in, g.cfg)
		dedupMust(g.t, err)
		g.tasks, g.kvs = append(g.tasks, op), append(g.kvs, kv)
	}
	if wm != dataflow.MinTime {
		g.watermark(wm)
	}
}

func (g *dedupRig) feed(rows []dedupRow) {
	g.t.Helper()
	b := dedupBatch(g.alloc, g.splits, dedupTestSchema, rows)
	defer b.Release()
	g.fed += b.NumRows()
	dedupMust(g.t, g.before.Process(context.Background(), 0, b, dataflow.EmitFunc(func(ctx context.Context, port int, b arrow.RecordBatch) error {
		defer b.Release()
		if port == dedupLate {
			g.late = append(g.late, dedupRead(g.t, g.splits, b)...)
			g.checkLate(b)
			return nil
		}
		g.order = append(g.order, dedupRead(g.t, g.splits, b)...)
		return g.route(ctx, b)
	})))
}

// checkLate compares the two columns that the port late adds.
func (g *dedupRig) checkLate(b arrow.RecordBatch) {
	user := len(dedupTestUser)
	for i, r := range dedupRead(g.t, g.splits, b) {
		wm, by := b.Column(user).(*array.Timestamp).Value(i), b.Column(user+1).(*array.Int64).Value(i)
		if int64(wm) != r.stamp || by != r.stamp-g.cfg.Within.D().Microseconds()-r.time || by <= 0 {
			g.t.Fatalf("late row %v: watermark %d, lateness %d", r, wm, by)
		}
	}
}

func (g *dedupRig) route(ctx context.Context, b arrow.RecordBatch) error {
	his := b.Column(dataflow.Column(b.Schema(), dedupHi)).(*array.Uint64).Uint64Values()
	parts := make([][]int32, len(g.tasks))
	for i, h := range his {
		t := state.TaskOf(state.GroupOf(h), len(g.tasks))
		parts[t] = append(parts[t], int32(i))
	}
	for i, rows := range parts {
		if len(rows) == 0 {
			continue
		}
		part, err := dataflow.TakeBatch(g.alloc, b, rows)
		if err != nil {
			return err
		}
		err = g.tasks[i].Process(ctx, 0, part, g.emit())
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *dedupRig) emit() dataflow.Emitter {
	return dataflow.EmitFunc(func(_ context.Context, port int, b arrow.RecordBatch) error {
		defer b.Release()
		if port != dedupOut || !b.Schema().Equal(dedupTestSchema) {
			g.t.Fatalf("port %d with schema %v", port, b.Schema())
		}
		g.out = append(g.out, dedupRead(g.t, g.splits, b)...)
		return nil
	})
}

func (g *dedupRig) watermark(wm dataflow.Time) {
	g.t.Helper()
	for _, op := range g.tasks {
		dedupMust(g.t, op.(dataflow.WatermarkHandler).OnWatermark(context.Background(), wm, g.emit()))
	}
}

func (g *dedupRig) counts() dataflow.Counts {
	c := g.base
	for _, f := range g.fates {
		c = c.Plus(f.Load())
	}
	return c
}

// barrier makes an epoch durable and checks the law of the step.
func (g *dedupRig) barrier() {
	g.t.Helper()
	var deltas []*state.Delta
	for i, op := range g.tasks {
		dedupMust(g.t, op.(dataflow.BarrierHandler).OnBarrier(context.Background(), 1, g.emit()))
		deltas = append(deltas, g.kvs[i].Freeze())
	}
	dedupMust(g.t, g.store.Write(deltas, []byte("m")))
	c := g.counts()
	c.In = g.fed
	if c.Balance() != 0 || c.Held < 0 {
		g.t.Fatalf("the ledger does not balance: %+v", c)
	}
}

// end closes the operators; what they counted stays, but for what they held.
func (g *dedupRig) end() {
	g.t.Helper()
	c := g.counts()
	c.Held = 0
	g.base = c
	dedupMust(g.t, g.before.Close())
	for _, op := range g.tasks {
		dedupMust(g.t, op.Close())
	}
	g.fates, g.tasks = nil, nil
}

// dedupPlay feeds all splits in a random interleaving, with epochs, restarts,
// failed epochs and changing numbers of tasks.
func (g *dedupRig) play(r *rand.Rand, splits [][]dedupRow, disorder int64) {
	g.t.Helper()
	next := make([]int, len(splits))
	own := make([]dataflow.Time, len(splits))
	for s := range own {
		own[s] = dataflow.MinTime
	}
	wm := dataflow.MinTime
	g.start(1, wm)
	favourite := r.IntN(len(splits)) // It runs ahead.
	for epoch := 0; ; epoch++ {
		type memo struct {
			next             []int
			own              []dataflow.Time
			wm               dataflow.Time
			out, late, order int
			fed              int64
			base             dataflow.Counts
		}
		at := memo{slices.Clone(next), slices.Clone(own), wm, len(g.out), len(g.late), len(g.order), g.fed, g.counts()}
		for range 1 + r.IntN(30) {
			s := r.IntN(len(splits))
			if r.IntN(3) > 0 {
				s = favourite
			}
			n := min(1+r.IntN(60), len(splits[s])-next[s])
			if n > 0 {
				rows := splits[s][next[s] : next[s]+n]
				if o := r.IntN(len(splits)); o != s && next[o] < len(splits[o]) && r.IntN(3) == 0 {
					rows = append(slices.Clone(rows), splits[o][next[o]])
					own[o] = max(own[o], dataflow.Time(splits[o][next[o]].time-disorder))
					next[o]++
				}
				g.feed(rows)
				for _, x := range splits[s][next[s] : next[s]+n] {
					own[s] = max(own[s], dataflow.Time(x.time-disorder))
				}
				next[s] += n
			}
			least := dataflow.MaxTime
			for s := range splits {
				if next[s] < len(splits[s]) || own[s] != dataflow.MinTime {
					least = min(least, own[s])
				}
			}
			if least > wm && least != dataflow.MaxTime {
				wm = least
				g.watermark(wm)
			}
		}
		if r.IntN(6) == 0 { // The epoch fails and is read again.
			g.end()
			g.store.Reset()
			next, own, wm = at.next, at.own, at.wm
			g.out, g.late, g.order, g.fed = g.out[:at.out], g.late[:at.late], g.order[:at.order], at.fed
			at.base.Held = 0
			g.base = at.base
			g.build(1+r.IntN(3), wm)
			continue
		}
		g.barrier()
		if r.IntN(3) == 0 {
			g.end()
			dedupMust(g.t, g.store.Close())
			g.start(1+r.IntN(3), wm)
		}
		done := true
		for s := range splits {
			done = done && next[s] == len(splits[s])
		}
		if done {
			break
		}
	}
	g.watermark(dataflow.MaxTime)
	g.barrier()
	g.end()
	dedupMust(g.t, g.store.Close())
}

func newDedupRig(t *testing.T, cfg DedupConfig) *dedupRig {
	t.Helper()
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { alloc.AssertSize(t, 0) })
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: dedupTestSchema}}, Names: []string{"readings"}}
	if _, err := planDedup(in, cfg); err != nil {
		t.Fatal(err)
	}
	return &dedupRig{t: t, dir: t.TempDir(), alloc: alloc, in: in, cfg: cfg}
}

func dedupDiff(t *testing.T, what string, got, want []dedupRow) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			var g, w any = "nothing", "nothing"
			if i < len(got) {
				g = got[i]
			}
			if i < len(want) {
				w = want[i]
			}
			t.Fatalf("%s: %d rows, want %d; row %d is %v, want %v", what, len(got), len(want), i, g, w)
		}
	}
}

func TestDedupInArrivalOrderEqualsTheModel(t *testing.T) {
	r := dedupSeed(t)
	for range 4 {
		within := []int64{1, 1000, 2_000_000, 50_000_000}[r.IntN(4)]
		step := max(within/[]int64{1, 20, 200}[r.IntN(3)], 1)
		splits := dedupSplits(r, 1+r.IntN(4), 1500, 1+r.IntN(400), step, within/2+r.Int64N(within+1), within)
		g := newDedupRig(t, DedupConfig{Key: []string{"device", "seq"}, Within: component.Duration(within * 1000), Order: orderArrival})
		g.memory = int64(r.IntN(2)) // As little as can be.
		g.play(r, splits, within/2+within)
		passed, none, dups := dedupModel(g.order, within)
		if len(none) != 0 {
			t.Fatalf("late rows went through the exchange: %v", none)
		}
		// Tasks put out their rows one after the other: compare as sets.
		got := dedupStampOrder(g.out)
		dedupDiff(t, "passed", got, dedupStampOrder(passed))
		var all []dedupRow
		for _, s := range splits {
			all = append(all, s...)
		}
		_, late, _ := dedupModel(all, within)
		dedupDiff(t, "late", dedupStampOrder(g.late), dedupStampOrder(late))
		if c := g.counts(); c.Duplicate != int64(dups) || c.Late != int64(len(late)) || c.Passed != int64(len(passed)) {
			t.Fatalf("counts %+v; want %d duplicates, %d late, %d passed", c, dups, len(late), len(passed))
		}
	}
}

func TestDedupInEventOrderGivesTheSameForEveryInterleaving(t *testing.T) {
	r := dedupSeed(t)
	for range 2 {
		within := []int64{1000, 2_000_000, 50_000_000}[r.IntN(3)]
		step := max(within/[]int64{1, 20, 200}[r.IntN(3)], 1)
		splits := dedupSplits(r, 2+r.IntN(4), 800, 1+r.IntN(400), step, within/2+r.Int64N(within+1), within)
		var all []dedupRow
		for _, s := range splits {
			all = append(all, s...)
		}
		want, late, dups := dedupModel(dedupStampOrder(all), within)
		for i := range 3 {
			g := newDedupRig(t, DedupConfig{Key: []string{"device", "seq"}, Within: component.Duration(within * 1000), Order: orderEvent})
			if i > 0 {
				g.alloc = memory.NewGoAllocator() // The checked one is slow.
			}
			g.memory = int64(i % 2)
			g.play(r, splits, within/2+within)
			dedupDiff(t, "passed", dedupStampOrder(g.out), want)
			dedupDiff(t, "late", dedupStampOrder(g.late), dedupStampOrder(late))
			if c := g.counts(); c.Duplicate != int64(dups) || c.Held != 0 {
				t.Fatalf("counts %+v; want %d duplicates, none held", c, dups)
			}
		}
	}
}
