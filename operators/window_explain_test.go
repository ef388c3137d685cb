package operators

import (
	"context"
	"encoding/json"
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

var explainSchema = arrow.NewSchema(append([]arrow.Field{
	{Name: "k", Type: dataflow.TypeString, Nullable: true}, {Name: "n", Type: dataflow.TypeInt64},
}, dataflow.SystemFields(true)...), nil)

// explainRig is a step of two tasks, its config written as in a file.
type explainRig struct {
	t     *testing.T
	alloc memory.Allocator
	plan  component.OperatorPlan
	fore  dataflow.Operator
	tasks []dataflow.Operator
	out   []string
}

func newExplainRig(t *testing.T, alloc memory.Allocator, text string) *explainRig {
	t.Helper()
	return newExplainRigOf(t, alloc, "window", text)
}

func newExplainRigOf(t *testing.T, alloc memory.Allocator, name, text string) *explainRig {
	t.Helper()
	node, problems := component.Parse("test", []byte(text), func(string) (string, bool) { return "", false })
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	spec := component.OperatorNamed(name)
	cfg := spec.NewConfig()
	if problems := component.Decode(node, cfg); len(problems) > 0 {
		t.Fatal(problems)
	}
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: explainSchema}}, Names: []string{"rows"}}
	plan, err := spec.Plan(in, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &explainRig{t: t, alloc: alloc, plan: plan}
	splits := &dataflow.SplitTable{}
	splits.ID("rows", "0")
	env := func(task, tasks int) *dataflow.Env {
		return &dataflow.Env{Step: "win", Task: task, Tasks: tasks, Alloc: alloc, State: &windowTestKV{}, Groups: state.GroupsOf(task, tasks),
			Fates: &dataflow.Fates{}, Closed: dataflow.NewClosedUpTo(dataflow.MinTime), Splits: splits}
	}
	if r.fore, err = spec.NewBefore(t.Context(), env(0, 1), in, cfg); err != nil {
		t.Fatal(err)
	}
	for task := range 2 {
		op, err := spec.New(t.Context(), env(task, 2), in, cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.tasks = append(r.tasks, op)
	}
	return r
}

func (r *explainRig) close() {
	for _, op := range append(r.tasks, r.fore) {
		if err := op.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// feed sends rows {"k":...,"n":...,"_time":...}, all with the stamp 0: where stamps
// decide, the watermark 1 releases them.
func (r *explainRig) feed(rows ...string) {
	r.t.Helper()
	for i := range rows {
		rows[i] = strings.TrimSuffix(rows[i], "}") + fmt.Sprintf(`,"_watermark":0,"_split":0,"_pos":%d}`, i)
	}
	b, _, err := array.RecordFromJSON(r.alloc, explainSchema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer b.Release()
	route := dataflow.Column(r.plan.Exchange, r.plan.RouteBy)
	err = r.fore.Process(r.t.Context(), 0, b, dataflow.EmitFunc(func(ctx context.Context, port int, b arrow.RecordBatch) error {
		defer b.Release()
		if port != 0 {
			return fmt.Errorf("%d rows left by port %d", b.NumRows(), port)
		}
		for task, op := range r.tasks {
			var mine []int32
			for i, h := range b.Column(route).(*array.Uint64).Uint64Values() {
				if state.TaskOf(state.GroupOf(h), 2) == task {
					mine = append(mine, int32(i))
				}
			}
			part, err := dataflow.TakeBatch(r.alloc, b, mine)
			if err != nil {
				return err
			}
			err = op.Process(ctx, 0, part, r)
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

func (r *explainRig) watermark(wm dataflow.Time) {
	r.t.Helper()
	for _, op := range r.tasks {
		if err := op.(dataflow.WatermarkHandler).OnWatermark(r.t.Context(), wm, r); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Emit implements dataflow.Emitter.
func (r *explainRig) Emit(_ context.Context, port int, b arrow.RecordBatch) error {
	defer b.Release()
	for i := range int(b.NumRows()) {
		if port != windowOut {
			return fmt.Errorf("a row left by port %d: %s", port, dataflow.RowJSON(b, i))
		}
		r.out = append(r.out, string(dataflow.RowJSON(b, i)))
	}
	return nil
}

// ask asks all tasks; exactly one must hold the key.
func (r *explainRig) ask(key string, at dataflow.Time) dataflow.Explanation {
	r.t.Helper()
	var mine dataflow.Explanation
	n := 0
	for _, op := range r.tasks {
		x, err := op.(dataflow.Explainer).Explain(key, at)
		if err != nil {
			r.t.Fatal(err)
		}
		if x.Mine {
			mine = x
			n++
		}
	}
	if n != 1 {
		r.t.Fatalf("%d tasks hold the key %s", n, key)
	}
	return mine
}

// What a window is said to hold is what it then gives, for all kinds of windows.
func TestAWindowGivesWhatItWasSaidToHold(t *testing.T) {
	const aggs = `aggregate: {n: count(*), s: sum(n), d: count(distinct n), m: max(n)}`
	for _, shape := range []string{
		"tumbling: 10us", "hopping: {size: 30us, slide: 10us}", "hopping: {size: 25us, slide: 10us}, allowed_lateness: 7us",
		"cumulative: {size: 30us, step: 10us}", "global: {}", "session: {gap: 5us}", "session: {gap: 3us}, allowed_lateness: 4us",
	} {
		t.Run(shape, func(t *testing.T) {
			alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer alloc.AssertSize(t, 0)
			r := newExplainRig(t, alloc, fmt.Sprintf("{%s, by: [k], %s}", shape, aggs))
			defer r.close()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 3 {
				var rows []string
				for range 60 {
					rows = append(rows, fmt.Sprintf(`{"k":"k%d","n":%d,"_time":%d}`, rng.IntN(4), rng.IntN(6), 10+rng.IntN(100)))
				}
				r.feed(rows...)
			}
			r.watermark(1)
			held := map[string]bool{}
			for k := range 5 {
				for at := range 140 {
					for _, w := range r.ask(fmt.Sprintf("k%d", k), dataflow.Time(at)).Windows {
						if w.Holds != nil {
							held[string(w.Holds)] = true
						}
						if w.Due < w.End || w.End != dataflow.MaxTime && (dataflow.Time(at) < w.Start-5 || dataflow.Time(at) > w.End) {
							t.Fatalf("the window at %d is %+v", at, w)
						}
					}
				}
			}
			r.watermark(dataflow.MaxTime)
			if len(held) != len(r.out) || len(held) == 0 {
				t.Errorf("%d windows were said to hold rows, %d gave results", len(held), len(r.out))
			}
			for _, row := range r.out {
				if !held[row] {
					t.Errorf("this result was not foretold: %s", row)
				}
			}
		})
	}
}

// While windows fire, those that are left hold what they held.
func TestAWindowIsExplainedWhileOthersFire(t *testing.T) {
	r := newExplainRig(t, memory.DefaultAllocator, "{hopping: {size: 30us, slide: 10us}, by: [k], aggregate: {n: count(*)}}")
	defer r.close()
	r.feed(`{"k":"a","n":1,"_time":15}`, `{"k":"a","n":1,"_time":25}`, `{"k":"b","n":1,"_time":25}`)
	r.watermark(20)
	var got []string
	for _, w := range r.ask("a", 15).Windows {
		got = append(got, fmt.Sprintf("%d..%d due %d: %s", w.Start, w.End, w.Due, w.Holds))
	}
	want := []string{
		"-10..20 due 20: ",
		`0..30 due 30: {"k":"a","window_start":"1970-01-01T00:00:00.000000Z","window_end":"1970-01-01T00:00:00.000030Z","n":2}`,
		`10..40 due 40: {"k":"a","window_start":"1970-01-01T00:00:00.000010Z","window_end":"1970-01-01T00:00:00.000040Z","n":2}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("windows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if x := r.ask("nobody", 15); len(x.Windows) != 3 || x.Windows[1].Holds != nil {
		t.Errorf("a key without rows: %+v", x)
	}
}

// Updating and count windows tell of what is open; rows that wait are counted.
func TestOrderedWindowsAreExplained(t *testing.T) {
	r := newExplainRig(t, memory.DefaultAllocator, "{tumbling: 10us, by: [k], emit: updates, allowed_lateness: 20us, aggregate: {n: count(*)}}")
	defer r.close()
	r.feed(`{"k":"a","n":1,"_time":15}`, `{"k":"a","n":1,"_time":16}`)
	r.watermark(25) // on time at 20, kept until 40
	w := r.ask("a", 12).Windows
	if len(w) != 1 || w[0].Due != 40 || !strings.Contains(string(w[0].Holds), `"n":2`) || len(r.out) != 1 {
		t.Errorf("%+v after %v", w, r.out)
	}
	c := newExplainRig(t, memory.DefaultAllocator, "{count: {rows: 3, expire_after: 1h}, by: [k], aggregate: {n: count(*)}}")
	defer c.close()
	c.feed(`{"k":"a","n":1,"_time":15}`, `{"k":"a","n":1,"_time":16}`)
	if x := c.ask("a", 0); x.Waiting+c.ask("b", 0).Waiting < 2 || len(x.Windows) != 0 {
		t.Errorf("rows that wait: %+v", x)
	}
	c.watermark(1)
	if w := c.ask("a", 0).Windows; len(w) != 1 || w[0].Start != 15 || !strings.Contains(string(w[0].Holds), `"n":2`) {
		t.Errorf("%+v", w)
	}
	if w := c.ask("b", 0).Windows; len(w) != 0 {
		t.Errorf("a key without rows: %+v", w)
	}
}

func TestKeysAreReadAsPeopleWriteThem(t *testing.T) {
	env := &dataflow.Env{Alloc: memory.DefaultAllocator}
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "site", Type: dataflow.TypeString, Nullable: true}, {Name: "n", Type: dataflow.TypeInt64, Nullable: true}, {Name: "at", Type: dataflow.TypeTimestampTZ, Nullable: true},
	}, nil)
	same := `{"site":"hall","n":7,"at":"2026-03-01T10:00:00.000000Z"}`
	var first askedKey
	for i, text := range []string{"hall,7,2026-03-01T10:00:00Z", `{"n":7,"site":"hall","at":"2026-03-01T10:00:00Z"}`, same} {
		k, err := readKey(env, schema, text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if i == 0 {
			first = k
		}
		if string(k.shown) != same || k.hash != first.hash || string(k.bytes) != string(first.bytes) {
			t.Errorf("%s was read as %s", text, k.shown)
		}
	}
	one, none := arrow.NewSchema(schema.Fields()[:1], nil), arrow.NewSchema(nil, nil)
	for _, c := range []struct {
		schema     *arrow.Schema
		text, want string
	}{{one, "a,b", `{"site":"a,b"}`}, {one, `{"site":null}`, `{"site":null}`}, {none, "-", `{}`}} {
		k, err := readKey(env, c.schema, c.text)
		if err != nil || !json.Valid(k.shown) || string(k.shown) != c.want {
			t.Errorf("%s: %s, %v", c.text, k.shown, err)
		}
	}
	for text, want := range map[string]string{
		"hall,7": "it has 2 values; expected site,n,at", "hall,x,2026-03-01": "column n", `{"site":"a"}`: "does not name every column",
		`{"sit":"a","n":1,"at":null}`: `no column "sit"`, "{": "unexpected end",
	} {
		if _, err := readKey(env, schema, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := readKey(env, none, "x"); err == nil {
		t.Error("a key where there is none was taken")
	}
}
