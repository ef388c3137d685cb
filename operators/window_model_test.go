package operators

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// The model computes a window's rows from the whole input with big numbers and
// Go maps; it shares nothing with the operator.

var windowModelFields = []arrow.Field{
	{Name: "site", Type: dataflow.TypeString, Nullable: true},
	{Name: "dev", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "i4", Type: dataflow.TypeInt32, Nullable: true},
	{Name: "i8", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "f4", Type: dataflow.TypeFloat32, Nullable: true},
	{Name: "f8", Type: dataflow.TypeFloat64, Nullable: true},
	{Name: "d", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}, Nullable: true},
	{Name: "s", Type: dataflow.TypeString, Nullable: true},
	{Name: "ok", Type: dataflow.TypeBool, Nullable: true},
}

const (
	modelSite = iota
	modelDev
	modelI4
	modelI8
	modelF4
	modelF8
	modelD
	modelS
	modelOK
)

func modelRow(rng *rand.Rand, time int64) windowTestRow {
	cols := []any{
		[]string{"", "a", "b", "\x00"}[rng.IntN(4)], int64(rng.IntN(5) - 2), int32(rng.Uint32()), int64(rng.Uint64()),
		float32(rng.NormFloat64()), rng.NormFloat64() * math.Pow(10, float64(rng.IntN(12))),
		fmt.Sprintf("%d.%02d", rng.IntN(2000)-1000, rng.IntN(100)),
		strings.Repeat("xyz", rng.IntN(3)) + string(rune('a'+rng.IntN(26))), rng.IntN(2) == 0,
	}
	for c := range cols {
		if rng.IntN(8) == 0 {
			cols[c] = nil
		}
	}
	return windowTestRow{time, cols}
}

// windowModelAggs are the aggregates with the model's value of a group as JSON;
// a float64 is compared within 1e-12.
var windowModelAggs = []struct {
	expr  string
	value func(rows []windowTestRow) any
}{
	{"count(*)", func(rows []windowTestRow) any { return fmt.Sprint(len(rows)) }},
	{"count(s)", func(rows []windowTestRow) any { return fmt.Sprint(len(modelValues(rows, modelS))) }},
	{"count(*) filter (where ok)", func(rows []windowTestRow) any { return fmt.Sprint(len(modelTrue(rows))) }},
	{"sum(i4)", func(rows []windowTestRow) any { return modelSum(rows, modelI4, 0, false) }},
	{"sum(i8)", func(rows []windowTestRow) any { return modelSum(rows, modelI8, 0, true) }},
	{"sum(i8) filter (where ok)", func(rows []windowTestRow) any { return modelSum(modelTrue(rows), modelI8, 0, true) }},
	{"sum(d)", func(rows []windowTestRow) any { return modelSum(rows, modelD, 2, true) }},
	{"avg(i4)", func(rows []windowTestRow) any { return modelAvg(rows, modelI4) }},
	{"avg(i8)", func(rows []windowTestRow) any { return modelAvg(rows, modelI8) }},
	{"avg(d) filter (where ok)", func(rows []windowTestRow) any { return modelAvg(modelTrue(rows), modelD) }},
	{"sum(f8)", func(rows []windowTestRow) any { return modelFloat(rows, modelF8, false) }},
	{"avg(f8)", func(rows []windowTestRow) any { return modelFloat(rows, modelF8, true) }},
	{"avg(f4)", func(rows []windowTestRow) any { return modelFloat(rows, modelF4, true) }},
	{"min(i4)", func(rows []windowTestRow) any { return modelExtreme(rows, modelI4, -1) }},
	{"max(i8) filter (where ok)", func(rows []windowTestRow) any { return modelExtreme(modelTrue(rows), modelI8, 1) }},
	{"min(d)", func(rows []windowTestRow) any { return modelExtreme(rows, modelD, -1) }},
	{"max(f8)", func(rows []windowTestRow) any { return modelExtreme(rows, modelF8, 1) }},
	{"min(s)", func(rows []windowTestRow) any { return modelExtreme(rows, modelS, -1) }},
	{"max(s) filter (where ok)", func(rows []windowTestRow) any { return modelExtreme(modelTrue(rows), modelS, 1) }},
}

func modelTrue(rows []windowTestRow) (out []windowTestRow) {
	for _, r := range rows {
		if r.cols[modelOK] == true {
			out = append(out, r)
		}
	}
	return out
}

func modelValues(rows []windowTestRow, col int) (out []any) {
	for _, r := range rows {
		if r.cols[col] != nil {
			out = append(out, r.cols[col])
		}
	}
	return out
}

func modelRat(v any) *big.Rat {
	switch v := v.(type) {
	case float64:
		return new(big.Rat).SetFloat64(v)
	case float32:
		return new(big.Rat).SetFloat64(float64(v))
	}
	r, ok := new(big.Rat).SetString(fmt.Sprint(v))
	if !ok {
		panic(v)
	}
	return r
}

func modelTotal(rows []windowTestRow, col int) (*big.Rat, int) {
	values, sum := modelValues(rows, col), new(big.Rat)
	for _, v := range values {
		sum.Add(sum, modelRat(v))
	}
	return sum, len(values)
}

// modelSum is an exact sum; decimals are texts in JSON.
func modelSum(rows []windowTestRow, col, scale int, quoted bool) any {
	sum, n := modelTotal(rows, col)
	if n == 0 {
		return "null"
	}
	if quoted {
		return `"` + sum.FloatString(scale) + `"`
	}
	return sum.FloatString(scale)
}

// modelAvg rounds half away from zero, as FloatString does.
func modelAvg(rows []windowTestRow, col int) any {
	sum, n := modelTotal(rows, col)
	if n == 0 {
		return "null"
	}
	text := sum.Quo(sum, big.NewRat(int64(n), 1)).FloatString(16)
	if text == "-0.0000000000000000" {
		text = text[1:]
	}
	return `"` + text + `"`
}

func modelFloat(rows []windowTestRow, col int, avg bool) any {
	sum, n := modelTotal(rows, col)
	if n == 0 {
		return "null"
	}
	if avg {
		sum.Quo(sum, big.NewRat(int64(n), 1))
	}
	f, _ := sum.Float64()
	return f
}

func modelExtreme(rows []windowTestRow, col, sign int) any {
	values := modelValues(rows, col)
	if len(values) == 0 {
		return "null"
	}
	best := slices.MaxFunc(values, func(a, b any) int {
		if s, ok := a.(string); ok && col == modelS {
			return sign * strings.Compare(s, b.(string))
		}
		return sign * modelRat(a).Cmp(modelRat(b))
	})
	switch col {
	case modelF8:
		return best
	case modelS, modelD:
		if col == modelD {
			best = modelRat(best).FloatString(2)
		}
		j, _ := json.Marshal(best)
		return string(j)
	}
	return fmt.Sprint(best)
}

// windowModel is what a run must give.
type windowModel struct {
	results map[string][]any // group (JSON of key and bounds) -> values
	late    []string
	fed     int
	partly  int
	groups  map[string][]windowTestRow
}

func (m *windowModel) add(cfg WindowConfig, row windowTestRow, stamp dataflow.Time) {
	m.fed++
	lateness := cfg.AllowedLateness.D().Microseconds()
	windows := windowModelBounds(cfg, row.time)
	var open [][2]int64
	for _, w := range windows {
		if dataflow.Time(w[1]+lateness) > stamp {
			open = append(open, w)
		}
	}
	if len(open) == 0 {
		w := windows[len(windows)-1]
		m.late = append(m.late, strings.TrimSuffix(modelJSON(row), "}")+","+modelBounds(w)+fmt.Sprintf(`,"watermark":"%s","lateness":%d}`, stamp, int64(stamp)-w[1]-lateness))
		return
	}
	if len(open) < len(windows) {
		m.partly++
	}
	key := "{"
	for _, by := range cfg.By {
		c := slices.IndexFunc(windowModelFields, func(f arrow.Field) bool { return f.Name == by.Name })
		v, _ := json.Marshal(row.cols[c])
		key += fmt.Sprintf("%q:%s,", by.Name, v)
	}
	for _, w := range open {
		at := key + modelBounds(w)
		m.groups[at] = append(m.groups[at], row)
	}
}

func modelBounds(w [2]int64) string {
	return fmt.Sprintf(`"window_start":"%s","window_end":"%s"`, dataflow.Time(w[0]), dataflow.Time(w[1]))
}

// windowModelBounds lists the windows of a time by their ends: of all that begin
// near it those that hold it.
func windowModelBounds(cfg WindowConfig, t int64) (out [][2]int64) {
	offset, _ := cfg.Offset.micros()
	micros := func(w Width) int64 {
		p, err := w.parse()
		if err != nil {
			panic(err)
		}
		return p.n
	}
	var size, slide int64
	steps := []int64{}
	switch {
	case cfg.Hopping != nil:
		size, slide = micros(cfg.Hopping.Size), micros(cfg.Hopping.Slide)
		steps = append(steps, size)
	case cfg.Cumulative != nil:
		size = micros(cfg.Cumulative.Size)
		slide = size
		for s := micros(cfg.Cumulative.Step); s <= size; s += micros(cfg.Cumulative.Step) {
			steps = append(steps, s)
		}
	default:
		size = micros(cfg.Tumbling)
		slide = size
		steps = append(steps, size)
	}
	for k := (t-offset-size)/slide - 2; k*slide+offset <= t; k++ {
		for _, s := range steps {
			if w := [2]int64{k*slide + offset, k*slide + offset + s}; w[0] <= t && t < w[1] {
				out = append(out, w)
			}
		}
	}
	return out
}

// modelJSON is the row as the port "late" shows it.
func modelJSON(row windowTestRow) string {
	f := newWindowFeed(windowModelFields, 0, 1)
	b := f.batch(memory.DefaultAllocator, 0, []windowTestRow{row})
	defer b.Release()
	return string(dataflow.RowJSON(b, 0))
}

// checkResults compares results, floats within 1e-12.
func (m *windowModel) checkResults(t *testing.T, got []string, aggs []int) {
	t.Helper()
	if len(got) != len(m.groups) {
		t.Errorf("%d results, want %d", len(got), len(m.groups))
	}
	for _, line := range got {
		group, rest, _ := strings.Cut(line, `,"x0":`)
		rows, ok := m.groups[group]
		if !ok {
			t.Fatalf("no such group: %s", line)
		}
		values := strings.TrimSuffix(rest, "}")
		for i, a := range aggs {
			text := values
			if i+1 < len(aggs) {
				text, values, _ = strings.Cut(values, fmt.Sprintf(`,"x%d":`, i+1))
			}
			if want := windowModelAggs[a].value(rows); !modelSame(text, want) {
				t.Errorf("%s: %s is %s, want %v", group, windowModelAggs[a].expr, text, want)
			}
		}
	}
}

func modelSame(got string, want any) bool {
	f, ok := want.(float64)
	if !ok {
		return got == want
	}
	var g float64
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return false
	}
	return math.Abs(g-f) <= 1e-12*math.Abs(f)
}

// TestWindowAgainstModel: whatever the batching, the interleaving of splits, the
// number of tasks, barriers, restarts and crashes, the rows are the model's (I8).
func TestWindowAgainstModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for run := range uint64(80) {
		t.Run(fmt.Sprintf("seed %d", seed+run), func(t *testing.T) {
			windowModelRun(t, rand.New(rand.NewPCG(seed+run, 1)))
		})
	}
}

func windowModelConfig(rng *rand.Rand) (WindowConfig, []int) {
	cfg := WindowConfig{AlignedWindows: windowModelWindows(rng)}
	if rng.IntN(2) == 0 {
		cfg.AllowedLateness = component.Duration(time.Duration(rng.IntN(20)) * time.Second)
	}
	cfg.By = [][]By{nil, byColumns("site"), byColumns("dev"), byColumns("site", "dev"), byColumns("s", "ok", "dev")}[rng.IntN(5)]
	aggs := rng.Perm(len(windowModelAggs))[:1+rng.IntN(6)]
	for i, a := range aggs {
		cfg.Aggregate = append(cfg.Aggregate, component.NamedExpr{Name: fmt.Sprint("x", i), Expr: windowModelAggs[a].expr})
	}
	return cfg, aggs
}

func windowModelWindows(rng *rand.Rand) (w AlignedWindows) {
	seconds := func(n int) Width { return Width(fmt.Sprint(n, "s")) }
	switch n := 1 + rng.IntN(12); rng.IntN(4) {
	case 0:
		w.Tumbling = seconds(1 + rng.IntN(30))
	case 1:
		w.Hopping = &HoppingWindow{Slide: seconds(n), Size: seconds(n * (1 + rng.IntN(12)))}
	case 2:
		w.Hopping = &HoppingWindow{Slide: seconds(n), Size: seconds(n + rng.IntN(60))}
	case 3:
		w.Cumulative = &CumulativeWindow{Step: seconds(n), Size: seconds(n * (1 + rng.IntN(8)))}
	}
	if rng.IntN(2) == 0 {
		w.Offset = Offset(fmt.Sprint(rng.IntN(100)-50, "s"))
	}
	return w
}

// windowModelState is what a checkpoint holds beside the KV.
type windowModelState struct {
	kv    *windowTestKV
	next  []int
	feed  windowFeed
	out   [3][]string
	wm    dataflow.Time
	fates dataflow.Counts
}

func windowModelRun(t *testing.T, rng *rand.Rand) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	cfg, aggs := windowModelConfig(rng)
	const splits = 3
	feed := newWindowFeed(windowModelFields, int64(rng.IntN(20))*windowSe, splits)
	model := &windowModel{groups: map[string][]windowTestRow{}}
	input := make([][]windowTestRow, splits)
	origin := []int64{windowT, 0, -50 * windowSe}[rng.IntN(3)]
	for s := range input {
		stamp := dataflow.MinTime
		for i := range 20 + rng.IntN(150) {
			row := modelRow(rng, origin+int64(i+rng.IntN(40)-20)*windowSe)
			input[s] = append(input[s], row)
			model.add(cfg, row, stamp)
			stamp = max(stamp, dataflow.Time(row.time-feed.ooo))
		}
	}
	r := newWindowRig(t, alloc, feed.schema, cfg)
	tasks := []int{1, 3, 2}
	restarts := 0
	r.start(tasks[0])
	next, most := make([]int, splits), 1+rng.IntN(80)
	saved := windowModelSave(r, feed, next)
	for {
		var open []int
		for s := range input {
			if next[s] < len(input[s]) {
				open = append(open, s)
			}
		}
		if len(open) == 0 {
			break
		}
		s := open[rng.IntN(len(open))]
		n := min(1+rng.IntN(most), len(input[s])-next[s])
		b := feed.batch(alloc, s, input[s][next[s]:next[s]+n])
		next[s] += n
		r.rows(b)
		b.Release()
		if wm := feed.watermark(); wm > r.wm && rng.IntN(3) > 0 {
			r.watermark(wm)
		}
		switch rng.IntN(8) {
		case 0: // a checkpoint, and sometimes a planned restart on it
			r.barrier()
			saved = windowModelSave(r, feed, next)
			if rng.IntN(2) == 0 {
				restarts++
				r.stop()
				r.start(tasks[restarts%3])
			}
		case 1: // a crash: back to the last checkpoint
			restarts++
			r.stop()
			windowModelLoad(r, feed, next, saved)
			r.start(tasks[restarts%3])
		}
	}
	r.watermark(dataflow.MaxTime)
	r.barrier()
	r.stop()
	model.checkResults(t, r.out[windowOut], aggs)
	r.check(windowLate, model.late)
	r.check(windowBad, nil)
	for g, m := range r.kv.groups {
		for k := range m {
			if k != string(rune(windowFiredKey)) {
				t.Errorf("group %d: entry %x is left in the state", g, k)
			}
		}
	}
	c := r.fates.Load()
	want := dataflow.Counts{In: int64(model.fed), Late: int64(len(model.late)), PartlyLate: int64(model.partly), Absorbed: int64(model.fed - len(model.late)), Created: int64(len(model.groups))}
	if c != want || c.Balance() != 0 {
		t.Errorf("fates %+v, want %+v", c, want)
	}
}

func windowModelSave(r *windowRig, feed *windowFeed, next []int) windowModelState {
	s := windowModelState{kv: r.kv.clone(), next: slices.Clone(next), wm: r.wm, fates: r.fates.Load()}
	s.feed.wm, s.feed.pos = slices.Clone(feed.wm), slices.Clone(feed.pos)
	for p := range r.out {
		s.out[p] = slices.Clone(r.out[p])
	}
	return s
}

func windowModelLoad(r *windowRig, feed *windowFeed, next []int, s windowModelState) {
	r.kv, r.wm = s.kv.clone(), s.wm
	copy(next, s.next)
	copy(feed.wm, s.feed.wm)
	copy(feed.pos, s.feed.pos)
	for p := range r.out {
		r.out[p] = slices.Clone(s.out[p])
	}
	*r.fates = dataflow.Fates{}
	r.fates.In.Store(s.fates.In)
	r.fates.Late.Store(s.fates.Late)
	r.fates.PartlyLate.Store(s.fates.PartlyLate)
	r.fates.Absorbed.Store(s.fates.Absorbed)
	r.fates.Created.Store(s.fates.Created)
}
