package operators

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var statelessFields = append([]arrow.Field{
	{Name: "price", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "channel", Type: dataflow.TypeString, Nullable: true},
	{Name: "qty", Type: dataflow.TypeInt32, Nullable: true},
}, dataflow.SystemFields(true)...)

var statelessInput = dataflow.Stream{Schema: arrow.NewSchema(statelessFields, nil)}

// statelessRig runs one operator over one batch and collects what it emits as
// JSON, by port.
type statelessRig struct {
	alloc *memory.CheckedAllocator
	env   *dataflow.Env
	got   map[int][]string
	same  bool // the batch that came out was the one that went in
}

func newStatelessRig(t *testing.T) *statelessRig {
	r := &statelessRig{alloc: memory.NewCheckedAllocator(memory.DefaultAllocator), got: map[int][]string{}}
	r.env = &dataflow.Env{Step: "step", Alloc: r.alloc, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}}
	r.env.Splits.ID("src", "0")
	t.Cleanup(func() { r.alloc.AssertSize(t, 0) })
	return r
}

func statelessIn(streams ...dataflow.Stream) component.OperatorIn {
	in := component.OperatorIn{Inputs: streams}
	for i := range streams {
		in.Names = append(in.Names, string(rune('a'+i)))
	}
	return in
}

func (r *statelessRig) run(t *testing.T, op dataflow.Operator, rows string) {
	t.Helper()
	b, _, err := array.RecordFromJSON(r.alloc, statelessInput.Schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	out := dataflow.EmitFunc(func(_ context.Context, port int, e arrow.RecordBatch) error {
		defer e.Release()
		r.same = r.same || e == b
		for i := range int(e.NumRows()) {
			r.got[port] = append(r.got[port], string(dataflow.RowJSON(e, i)))
		}
		return nil
	})
	if err := op.Process(context.Background(), 0, b, out); err != nil {
		t.Fatal(err)
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	r.env.Fates.In.Add(b.NumRows())
	if left := r.env.Fates.Load().Balance(); left != 0 {
		t.Errorf("fates %+v leave %d over", r.env.Fates.Load(), left)
	}
}

func (r *statelessRig) want(t *testing.T, port int, rows ...string) {
	t.Helper()
	if got, want := strings.Join(r.got[port], "\n"), strings.Join(rows, "\n"); got != want {
		t.Errorf("port %d\n got %s\nwant %s", port, got, want)
	}
}

const statelessRows = `[
	{"price": 1500, "channel": "x", "qty": 3, "_time": 1, "_watermark": 0, "_split": 0, "_pos": 10},
	{"price": 900, "channel": "y", "qty": 0, "_time": 2, "_watermark": 0, "_split": 0, "_pos": 11},
	{"price": null, "channel": null, "qty": 1, "_time": 3, "_watermark": 0, "_split": 0, "_pos": 12},
	{"price": 2000, "channel": "é", "qty": 2, "_time": 4, "_watermark": 0, "_split": 0, "_pos": 13}]`

func TestFilterPassesRowsThatAreTrueOnly(t *testing.T) {
	r := newStatelessRig(t)
	op, err := newFilter(context.Background(), r.env, statelessIn(statelessInput), FilterConfig{Where: "price > 1000"})
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, op, statelessRows)
	r.want(t, 0, `{"price":1500,"channel":"x","qty":3}`, `{"price":2000,"channel":"é","qty":2}`)
	if c := r.env.Fates.Load(); c.Passed != 2 || c.Filtered != 2 {
		t.Errorf("fates %+v", c)
	}
}

func TestFilterSendsRowsItCannotJudgeToBad(t *testing.T) {
	r := newStatelessRig(t)
	op, err := newFilter(context.Background(), r.env, statelessIn(statelessInput), FilterConfig{Where: "price / qty > 600"})
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, op, statelessRows)
	r.want(t, 0, `{"price":2000,"channel":"é","qty":2}`)
	r.want(t, 1, `{"reason":"division_by_zero","detail":"price / qty: division by zero","step":"step","source":"src","split":"0","position":"11","raw":null,"row":"{\"price\":900,\"channel\":\"y\",\"qty\":0}"}`)
}

func TestFilterHandsOnABatchThatPassesWhole(t *testing.T) {
	r := newStatelessRig(t)
	op, err := newFilter(context.Background(), r.env, statelessIn(statelessInput), FilterConfig{Where: "qty is not null"})
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, op, statelessRows)
	if !r.same || len(r.got[0]) != 4 {
		t.Errorf("expected the same batch with 4 rows, got %v, same: %v", r.got[0], r.same)
	}
}

func TestProjectComputesOnTheInput(t *testing.T) {
	r := newStatelessRig(t)
	cfg := ProjectConfig{
		Compute: component.NamedExprs{{Name: "total", Expr: "price * qty"}, {Name: "price", Expr: "price * 0.5"}},
		Rename:  map[string]string{"channel": "via"},
		Drop:    []string{"qty"},
	}
	plan, err := planProject(statelessIn(statelessInput), cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := plan.Ports[0].Stream.Schema
	var names []string
	for _, f := range got.Fields() {
		names = append(names, f.Name)
	}
	if s := strings.Join(names, " "); s != "price via total _time _watermark _split _pos" {
		t.Errorf("columns %s", s)
	}
	op, err := newProject(context.Background(), r.env, statelessIn(statelessInput), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, op, statelessRows)
	r.want(t, 0, `{"price":"750.0","via":"x","total":4500}`, `{"price":"450.0","via":"y","total":0}`,
		`{"price":null,"via":null,"total":null}`, `{"price":"1000.0","via":"é","total":4000}`)
}

func TestProjectSendsAFailedRowToBadOnce(t *testing.T) {
	r := newStatelessRig(t)
	cfg := ProjectConfig{
		Compute: component.NamedExprs{{Name: "a", Expr: "price / qty"}, {Name: "b", Expr: "channel::int"}},
		Select:  []string{"b", "a"},
	}
	op, err := newProject(context.Background(), r.env, statelessIn(statelessInput), cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, op, statelessRows)
	r.want(t, 0, `{"b":null,"a":null}`)
	if c := r.env.Fates.Load(); c.Passed != 1 || c.Bad != 3 {
		t.Errorf("fates %+v", c)
	}
	if !strings.Contains(r.got[1][1], `"reason":"invalid_cast","detail":"b: channel: invalid input for int32: \"y\""`) {
		t.Errorf("the first column that fails names the reason, got %s", r.got[1][1])
	}
}

func TestWrongStatelessConfigsAreRefusedWithTheirPlace(t *testing.T) {
	other := dataflow.Stream{Schema: arrow.NewSchema([]arrow.Field{
		{Name: "price", Type: dataflow.TypeFloat64}, statelessFields[1], statelessFields[2]}, nil)}
	keyed := dataflow.Stream{Schema: statelessInput.Schema, Changelog: true, Key: []string{"channel"}}
	project := func(s dataflow.Stream, cfg ProjectConfig) error {
		_, err := planProject(statelessIn(s), cfg)
		return err
	}
	filter := func(where string) error {
		_, err := planFilter(statelessIn(statelessInput), FilterConfig{Where: where})
		return err
	}
	union := func(s ...dataflow.Stream) error {
		_, err := planUnion(statelessIn(s...), UnionConfig{})
		return err
	}
	short := dataflow.Stream{Schema: arrow.NewSchema(append(statelessFields[:2:2], statelessFields[3:]...), nil)}
	for _, c := range []struct {
		err  error
		want string
	}{
		{filter("prise > 1"), `where @0: unknown column "prise"; did you mean "price"?`},
		{filter("true and qty"), `where @9: and needs a boolean, this is int32`},
		{filter("qty + 1"), `where @0: expected a condition (bool), this expression gives int32`},
		{project(statelessInput, ProjectConfig{}), ` @0: project has nothing to do: give compute, rename, drop or select`},
		{project(statelessInput, ProjectConfig{Compute: component.NamedExprs{{Name: "x", Expr: "1 + nope"}}}), `compute.x @4: unknown column "nope"; known: price, channel, qty`},
		{project(statelessInput, ProjectConfig{Compute: component.NamedExprs{{Name: "_x", Expr: "1"}}}), `compute._x @0: column name "_x" is not allowed: names with "_" are reserved for the system`},
		{project(statelessInput, ProjectConfig{Compute: component.NamedExprs{{Name: "x", Expr: "interval '1 day'"}}}), `compute.x @0: an interval cannot be a column: convert it, as extract(epoch from ...)`},
		{project(statelessInput, ProjectConfig{Drop: []string{"prize"}}), `drop[0] @0: unknown column "prize"; did you mean "price"?`},
		{project(statelessInput, ProjectConfig{Drop: []string{"price", "channel", "qty"}}), `drop @0: no column is left: keep at least one`},
		{project(statelessInput, ProjectConfig{Drop: []string{"qty"}, Select: []string{"price"}}), `drop @0: drop and select do not go together: select lists what stays`},
		{project(statelessInput, ProjectConfig{Rename: map[string]string{"qty": "price"}}), `rename.qty @0: the result would have two columns "price": rename or drop one`},
		{project(statelessInput, ProjectConfig{Select: []string{"price", "price"}}), `select[1] @0: column "price" is selected twice`},
		{project(statelessInput, ProjectConfig{Select: []string{"_time"}}), `select[0] @0: unknown column "_time": names with "_" are reserved for the system`},
		{project(statelessInput, ProjectConfig{Compute: component.NamedExprs{{Name: "x", Expr: "1"}}, Select: []string{"price"}}), `compute.x @0: column "x" is computed but not selected: add it to select`},
		{project(keyed, ProjectConfig{Drop: []string{"channel"}}), ` @0: column "channel" is part of the key of this changelog: it must stay as it is`},
		{union(statelessInput, other), ` @0: union needs the same columns on every input, but "a" and "b" differ: column "price" has type int64 in the first and float64 in the second; align them with a project step`},
		{union(statelessInput, short), ` @0: union needs the same columns on every input, but "a" and "b" differ: only the first has column "qty"; align them with a project step`},
		{union(statelessInput, keyed), ` @0: union needs the same columns on every input, but "a" and "b" differ: the first is append only, the second a changelog by [channel]; align them with a project step`},
	} {
		var got []string
		for _, p := range component.AsProblems(c.err) {
			got = append(got, fmt.Sprintf("%s @%d: %s", p.Path, p.Offset, p.Msg))
		}
		if s := strings.Join(got, "\n"); s != c.want {
			t.Errorf("\n got %s\nwant %s", s, c.want)
		}
	}
}

func TestUnionPassesEveryInput(t *testing.T) {
	r := newStatelessRig(t)
	op, err := newUnion(context.Background(), r.env, statelessIn(statelessInput, statelessInput), UnionConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, op, statelessRows)
	if len(r.got[0]) != 4 || r.env.Fates.Load().Passed != 4 {
		t.Errorf("got %v", r.got[0])
	}
}

// BenchmarkStateless: a filter and three expressions, as measured.md has it.
func BenchmarkStateless(b *testing.B) {
	for _, n := range []int{1024, 8192, 65536} {
		b.Run(fmt.Sprintf("filter+3/rows=%d", n), func(b *testing.B) {
			s := dataflow.Stream{Schema: arrow.NewSchema([]arrow.Field{statelessFields[0], statelessFields[1], {Name: "url", Type: dataflow.TypeString}}, nil)}
			rb := array.NewRecordBuilder(memory.DefaultAllocator, s.Schema)
			x := uint64(1)
			for i := range n {
				x = x*6364136223846793005 + 1442695040888963407
				rb.Field(0).(*array.Int64Builder).Append(int64(x>>33) % 2000)
				rb.Field(1).(*array.StringBuilder).Append([]string{"x", "apple"}[x>>40&1])
				rb.Field(2).(*array.StringBuilder).Append(fmt.Sprintf("https://www.nexmark.com/item.htm?query=%d", i%100))
			}
			batch := rb.NewRecordBatch()
			env := &dataflow.Env{Alloc: memory.DefaultAllocator, Fates: &dataflow.Fates{}}
			ctx := context.Background()
			f, err := newFilter(ctx, env, statelessIn(s), FilterConfig{Where: "price > 1000 and channel = 'x'"})
			if err != nil {
				b.Fatal(err)
			}
			p, err := newProject(ctx, env, statelessIn(s), ProjectConfig{Compute: component.NamedExprs{
				{Name: "euro", Expr: "price * 0.908"}, {Name: "up", Expr: "upper(channel)"}, {Name: "where", Expr: "channel || '/' || url"}}})
			if err != nil {
				b.Fatal(err)
			}
			out := dataflow.EmitFunc(func(_ context.Context, _ int, e arrow.RecordBatch) error { e.Release(); return nil })
			mid := dataflow.EmitFunc(func(ctx context.Context, _ int, e arrow.RecordBatch) error {
				defer e.Release()
				return p.Process(ctx, 0, e, out)
			})
			b.ReportAllocs()
			for b.Loop() {
				if err := f.Process(ctx, 0, batch, mid); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/row")
		})
	}
}
