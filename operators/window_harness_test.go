package operators

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// windowTestKV is a KV in sorted-on-demand maps. Tasks that own different groups
// share one.
type windowTestKV struct {
	groups [state.NumGroups]map[string][]byte
}

func (kv *windowTestKV) Get(group int, key []byte) ([]byte, error) {
	if v, ok := kv.groups[group][string(key)]; ok {
		return bytes.Clone(v), nil
	}
	return nil, state.ErrNotFound
}

func (kv *windowTestKV) Set(group int, key, value []byte) error {
	if kv.groups[group] == nil {
		kv.groups[group] = map[string][]byte{}
	}
	kv.groups[group][string(key)] = bytes.Clone(value)
	return nil
}

func (kv *windowTestKV) Delete(group int, key []byte) error {
	delete(kv.groups[group], string(key))
	return nil
}

func (kv *windowTestKV) DeleteRange(group int, lo, hi []byte) error {
	for k := range kv.groups[group] {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			delete(kv.groups[group], k)
		}
	}
	return nil
}

func (kv *windowTestKV) Scan(group int, lo, hi []byte, visit func(key, value []byte) error) error {
	var keys []string
	for k := range kv.groups[group] {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if err := visit([]byte(k), kv.groups[group][k]); err != nil {
			return err
		}
	}
	return nil
}

func (kv *windowTestKV) clone() *windowTestKV {
	c := &windowTestKV{}
	for g, m := range kv.groups {
		for k, v := range m {
			_ = c.Set(g, []byte(k), v)
		}
	}
	return c
}

func (kv *windowTestKV) len() (n int) {
	for _, m := range kv.groups {
		n += len(m)
	}
	return n
}

// windowRig runs a window of some tasks behind some splits, as the engine does.
type windowRig struct {
	t      testing.TB
	alloc  memory.Allocator
	in     component.OperatorIn
	cfg    WindowConfig
	plan   component.OperatorPlan
	kv     *windowTestKV
	closed *dataflow.ClosedUpTo
	fates  *dataflow.Fates
	splits *dataflow.SplitTable
	before dataflow.Operator
	tasks  []*windowKeyed
	wm     dataflow.Time
	passed dataflow.Time // the watermark that the readers have
	// What left by each port, as JSON.
	out [3][]string
}

func newWindowRig(t testing.TB, alloc memory.Allocator, schema *arrow.Schema, cfg WindowConfig) *windowRig {
	r := &windowRig{
		t: t, alloc: alloc, cfg: cfg, kv: &windowTestKV{}, closed: dataflow.NewClosedUpTo(dataflow.MinTime),
		fates: &dataflow.Fates{}, splits: &dataflow.SplitTable{},
		in: component.OperatorIn{Inputs: []dataflow.Stream{{Schema: schema}}, Names: []string{"rows"}},
		wm: dataflow.MinTime, passed: dataflow.MinTime,
	}
	var err error
	if r.plan, err = planWindow(r.in, cfg); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *windowRig) env(task, tasks int) *dataflow.Env {
	return &dataflow.Env{
		Step: "win", Task: task, Tasks: tasks, Alloc: r.alloc, State: r.kv, Groups: state.GroupsOf(task, tasks),
		Fates: r.fates, Closed: r.closed, Splits: r.splits,
	}
}

// start makes the instances for a number of tasks, restored from kv.
func (r *windowRig) start(tasks int) {
	r.t.Helper()
	spec := component.OperatorNamed("window")
	before, err := spec.NewBefore(context.Background(), r.env(0, 1), r.in, &r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.before = before
	for task := range tasks {
		op, err := spec.New(context.Background(), r.env(task, tasks), r.in, &r.cfg)
		if err != nil {
			r.t.Fatal(err)
		}
		r.tasks = append(r.tasks, op.(*windowKeyed))
	}
	r.passed = dataflow.MinTime
	r.watermark(r.wm)
}

// stop closes the instances; what they hold is lost.
func (r *windowRig) stop() {
	if r.before == nil {
		return
	}
	for _, op := range r.tasks {
		if err := op.Close(); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.before.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.before, r.tasks = nil, nil
}

// emitter collects rows. It checks their schema, and of results their system
// columns and their order.
func (r *windowRig) emitter() dataflow.Emitter {
	last := ""
	return dataflow.EmitFunc(func(_ context.Context, port int, b arrow.RecordBatch) error {
		defer b.Release()
		if !b.Schema().Equal(r.plan.Ports[port].Stream.Schema) {
			r.t.Errorf("port %d: schema %v, want %v", port, b.Schema(), r.plan.Ports[port].Stream.Schema)
		}
		for i := range int(b.NumRows()) {
			if port == windowOut {
				last = r.checkResult(b, i, last)
			}
			r.out[port] = append(r.out[port], string(dataflow.RowJSON(b, i)))
		}
		return nil
	})
}

func (r *windowRig) checkResult(b arrow.RecordBatch, i int, last string) string {
	s := b.Schema()
	end := int64(b.Column(dataflow.Column(s, "window_end")).(*array.Timestamp).Value(i))
	time := b.Column(dataflow.Column(s, dataflow.SysTime)).(*array.Int64).Value(i)
	stamp := b.Column(dataflow.Column(s, dataflow.SysStamp)).(*array.Int64).Value(i)
	if time != end-1 || stamp != end-1 {
		r.t.Errorf("result of the window to %d has time %d, stamp %d", end, time, stamp)
	}
	if stamp < int64(r.passed) {
		r.t.Errorf("result with stamp %d behind the watermark %d that went out", stamp, r.passed)
	}
	e, err := newKeyEncoder(s, seq(len(r.cfg.By)))
	if err != nil {
		r.t.Fatal(err)
	}
	e.bind(b)
	place := string(e.append(appendWindowStart(nil, end), i))
	if place <= last {
		r.t.Errorf("results out of order: %x after %x", place, last)
	}
	return place
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// rows sends a batch through the front half and the exchange.
func (r *windowRig) rows(b arrow.RecordBatch) {
	r.t.Helper()
	r.fates.In.Add(b.NumRows())
	collect := r.emitter()
	err := r.before.Process(context.Background(), 0, b, dataflow.EmitFunc(func(ctx context.Context, port int, b arrow.RecordBatch) error {
		if port != 0 {
			return collect.Emit(ctx, port, b)
		}
		defer b.Release()
		if !b.Schema().Equal(r.plan.Exchange) {
			r.t.Errorf("exchange schema %v", b.Schema())
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
			err = r.tasks[task].Process(ctx, 0, part, collect)
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

func (r *windowRig) watermark(wm dataflow.Time) {
	r.t.Helper()
	r.wm = wm
	for _, op := range r.tasks {
		if err := op.OnWatermark(context.Background(), wm, r.emitter()); err != nil {
			r.t.Fatal(err)
		}
	}
	r.passed = wm.Sub(r.plan.Delay)
}

func (r *windowRig) barrier() {
	r.t.Helper()
	for _, op := range r.tasks {
		if err := op.OnBarrier(context.Background(), 1, r.emitter()); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *windowRig) check(port int, want []string) {
	r.t.Helper()
	got := slices.Clone(r.out[port])
	want = slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("port %d:\ngot\n%s\nwant\n%s", port, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// windowTestRow is a row with its event time; the rig's feeder stamps it.
type windowTestRow struct {
	time int64
	cols []any
}

// windowFeed is a source of one split after another with a bound of disorder.
type windowFeed struct {
	schema *arrow.Schema
	ooo    int64
	wm     []dataflow.Time
	pos    []int64
}

func newWindowFeed(user []arrow.Field, ooo int64, splits int) *windowFeed {
	f := &windowFeed{schema: arrow.NewSchema(append(slices.Clone(user), dataflow.SystemFields(true)...), nil), ooo: ooo}
	for range splits {
		f.wm, f.pos = append(f.wm, dataflow.MinTime), append(f.pos, 0)
	}
	return f
}

// batch makes a batch of a split's next rows, each stamped with the split's
// watermark just before it.
func (f *windowFeed) batch(alloc memory.Allocator, split int, rows []windowTestRow) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, f.schema)
	defer b.Release()
	for _, row := range rows {
		for c, v := range row.cols {
			windowTestAppend(b.Field(c), v)
		}
		n := len(row.cols)
		b.Field(n).(*array.Int64Builder).Append(row.time)
		b.Field(n + 1).(*array.Int64Builder).Append(int64(f.wm[split]))
		b.Field(n + 2).(*array.Int32Builder).Append(int32(split))
		b.Field(n + 3).(*array.Int64Builder).Append(f.pos[split])
		f.pos[split]++
		f.wm[split] = max(f.wm[split], dataflow.Time(row.time-f.ooo))
	}
	return b.NewRecordBatch()
}

func (f *windowFeed) watermark() dataflow.Time { return slices.Min(f.wm) }

func windowTestAppend(b array.Builder, v any) {
	if v == nil {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(v.(string))
	case *array.Int64Builder:
		b.Append(v.(int64))
	case *array.Int32Builder:
		b.Append(v.(int32))
	case *array.Float64Builder:
		b.Append(v.(float64))
	case *array.Float32Builder:
		b.Append(v.(float32))
	case *array.BooleanBuilder:
		b.Append(v.(bool))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.(int64)))
	case *array.Date32Builder:
		b.Append(arrow.Date32(v.(int32)))
	default:
		if err := b.AppendValueFromString(fmt.Sprint(v)); err != nil {
			panic(err)
		}
	}
}

// randomCut cuts n into random pieces of at most most.
func randomCut(rng *rand.Rand, n, most int) (cuts []int) {
	for n > 0 {
		k := min(n, 1+rng.IntN(most))
		cuts = append(cuts, k)
		n -= k
	}
	return cuts
}

func testTumbling(width component.Duration) AlignedWindows {
	return AlignedWindows{Tumbling: Width(width.D().String())}
}

func testHopping(size, slide Width) AlignedWindows {
	return AlignedWindows{Hopping: &HoppingWindow{Size: size, Slide: slide}}
}
