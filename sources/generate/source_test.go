package generate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/leak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// textDecoder keeps each valid JSON payload whole, in one column.
type textDecoder struct{ b *array.StringBuilder }

var textSchema = arrow.NewSchema([]arrow.Field{{Name: "doc", Type: dataflow.TypeString, Nullable: true}}, nil)

func (d *textDecoder) Schema() *arrow.Schema { return textSchema }
func (d *textDecoder) Rows() int             { return d.b.Len() }
func (d *textDecoder) Bytes() int            { return 0 }
func (d *textDecoder) Flush() []arrow.Array  { return []arrow.Array{d.b.NewArray()} }
func (d *textDecoder) Append(p []byte) *dataflow.Bad {
	var v payload
	if err := json.Unmarshal(p, &v); err != nil || strings.ContainsRune(string(p), 0xfffd) || strings.Contains(string(p), "\xff") {
		return &dataflow.Bad{Reason: "invalid_json", Detail: "no"}
	}
	d.b.Append(string(p))
	return nil
}

func testEnv(t testing.TB) *dataflow.Env {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { mem.AssertSize(t, 0) })
	return &dataflow.Env{
		Step: "made", Alloc: mem, Now: time.Now, Splits: &dataflow.SplitTable{},
		NewDecoder: func() (dataflow.Decoder, error) { return &textDecoder{array.NewStringBuilder(mem)}, nil },
	}
}

func newTestSource(t testing.TB, env *dataflow.Env, cfg Config) *source {
	t.Helper()
	s, err := newSource(env, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// place is one record as it came out.
type place struct {
	pos, arrived int64
	text         string
}

// drain polls until every assigned split rested, checks what each Polled says
// of itself, and returns the records by split, good and bad in one order.
func drain(t *testing.T, s *source, limit dataflow.PollLimit, at map[dataflow.Split]int64) map[dataflow.Split][]place {
	t.Helper()
	out := map[dataflow.Split][]place{}
	for {
		p, err := s.Poll(context.Background(), limit)
		if err != nil {
			t.Fatal(err)
		}
		if p.Split == "" {
			p.Release()
			return out
		}
		next, err := parsePosition(p.Next)
		if err != nil {
			t.Fatal(err)
		}
		var got []place
		if b := p.Batch; b != nil {
			n := int(b.NumCols())
			pos, arrived := b.Column(n-2).(*array.Int64), b.Column(n-1).(*array.Int64)
			for i := range int(b.NumRows()) {
				got = append(got, place{pos.Value(i), arrived.Value(i), b.Column(0).ValueStr(i)})
			}
		}
		if b := p.Bad; b != nil {
			for i := range int(b.NumRows()) {
				var pos int64
				fmt.Sscan(b.Column(5).(*array.String).Value(i), &pos)
				got = append(got, place{pos, -1, string(b.Column(6).(*array.Binary).Value(i))})
			}
		}
		if limit.Rows > 0 && len(got) > limit.Rows {
			t.Fatalf("%d records with a limit of %d", len(got), limit.Rows)
		}
		seen := map[int64]place{}
		for _, g := range got {
			seen[g.pos] = g
		}
		for i := at[p.Split]; i < next; i++ {
			g, ok := seen[i]
			if !ok {
				t.Fatalf("split %s: record %d is missing before position %d", p.Split, i, next)
			}
			out[p.Split] = append(out[p.Split], g)
		}
		if len(got) != int(next-at[p.Split]) {
			t.Fatalf("split %s: %d records from %d to %d", p.Split, len(got), at[p.Split], next)
		}
		at[p.Split] = next
		p.Release()
	}
}

func TestASourceEmitsTheRecordsOfTheFleetWhereverItIsCut(t *testing.T) {
	cfg := smallFleet(11)
	cfg.Events = 3000
	f := mustFleet(t, cfg)
	for _, limit := range []dataflow.PollLimit{{Rows: 7, Bytes: 1 << 20}, {Rows: 1000, Bytes: 1 << 20}, {Rows: 1000, Bytes: 500}} {
		for _, cut := range []int64{0, 1, 333, 600, 750} {
			env := testEnv(t)
			at := map[dataflow.Split]int64{}
			got := map[dataflow.Split][]place{}
			collect := func(m map[dataflow.Split][]place) {
				for k, v := range m {
					got[k] = append(got[k], v...)
				}
			}
			first, second := newTestSource(t, env, Config{Fleet: &cfg}), newTestSource(t, env, Config{Fleet: &cfg})
			splits, _ := first.Discover(context.Background())
			begin, err := first.Start(context.Background(), splits)
			if err != nil {
				t.Fatal(err)
			}
			var assign, rest []dataflow.SplitAt
			for n, name := range splits {
				until := position(min(cut, f.Len(n)))
				assign = append(assign, dataflow.SplitAt{Split: name, From: begin[name], Until: until})
				rest = append(rest, dataflow.SplitAt{Split: name, From: until})
			}
			if err := first.Assign(context.Background(), assign); err != nil {
				t.Fatal(err)
			}
			collect(drain(t, first, limit, at))
			for n, name := range splits {
				if at[name] != min(cut, f.Len(n)) {
					t.Fatalf("split %s stands at %d, want %d", name, at[name], cut)
				}
			}
			if err := second.Assign(context.Background(), rest); err != nil {
				t.Fatal(err)
			}
			collect(drain(t, second, limit, at))
			for n, name := range splits {
				i := 0
				for r := range f.Records(n, 0) {
					g := got[name][i]
					if g.pos != r.Index || g.text != string(r.Payload) || g.arrived != int64(r.Arrived) && r.Kind != Malformed ||
						(g.arrived < 0) != (r.Kind == Malformed) {
						t.Fatalf("split %s record %d: got %+v, want %+v", name, i, g, r)
					}
					i++
				}
				if i != len(got[name]) {
					t.Fatalf("split %s: %d records, want %d", name, len(got[name]), i)
				}
			}
		}
	}
}

// say lists the Polled of one split without their rows.
func say(t *testing.T, s *source, limit dataflow.PollLimit) string {
	t.Helper()
	var out []string
	for {
		p, err := s.Poll(context.Background(), limit)
		if err != nil {
			t.Fatal(err)
		}
		if p.Split == "" {
			return strings.Join(out, " ")
		}
		rows := int64(0)
		if p.Batch != nil {
			rows = p.Batch.NumRows()
		}
		text := fmt.Sprintf("%s:%d@%s", p.Split, rows, strings.TrimLeft(string(p.Next), "0"))
		for _, f := range []struct {
			name string
			on   bool
		}{{"until", p.AtUntil}, {"ended", p.Ended}, {"caught", p.CaughtUp}} {
			if f.on {
				text += "," + f.name
			}
		}
		out = append(out, text)
		p.Release()
	}
}

func TestUntilIsExactAndMayBeMoved(t *testing.T) {
	c := DefaultCounter()
	c.Count = 10
	s := newTestSource(t, testEnv(t), Config{Counter: &c})
	steps := []struct {
		from, until int64 // -1: none
		want        string
	}{
		{-1, 0, "0:0@,until"},
		{0, 3, "0:3@3,until"},
		{3, 3, "0:0@3,until"},
		{3, 9, "0:4@7 0:2@9,until"},
		{9, 10, "0:1@10,until,ended,caught"},
		{10, -1, "0:0@10,ended,caught"},
		{8, 50, "0:2@10,ended,caught"},
		{-1, -1, "0:4@4 0:4@8 0:2@10,ended,caught"},
	}
	for _, step := range steps {
		at := dataflow.SplitAt{Split: "0"}
		if step.from >= 0 {
			at.From = position(step.from)
		}
		if step.until >= 0 {
			at.Until = position(step.until)
		}
		if err := s.Assign(context.Background(), []dataflow.SplitAt{at}); err != nil {
			t.Fatal(err)
		}
		if got := say(t, s, dataflow.PollLimit{Rows: 4, Bytes: 1 << 20}); got != step.want {
			t.Errorf("from %d until %d: got %q, want %q", step.from, step.until, got, step.want)
		}
	}
	if err := s.Unassign(context.Background(), []dataflow.Split{"0"}); err != nil {
		t.Fatal(err)
	}
	if got := say(t, s, dataflow.PollLimit{}); got != "" {
		t.Errorf("unassigned: got %q", got)
	}
}

func TestWrongAssignmentsAreRefused(t *testing.T) {
	c := DefaultCounter()
	c.Count = 10
	s := newTestSource(t, testEnv(t), Config{Counter: &c})
	for _, at := range []dataflow.SplitAt{
		{Split: "1"}, {Split: "00"}, {Split: "x"}, {Split: "0", From: dataflow.Position("3")},
		{Split: "0", From: position(11)}, {Split: "0", From: position(4), Until: position(3)},
	} {
		if err := s.Assign(context.Background(), []dataflow.SplitAt{at}); err == nil {
			t.Errorf("%+v is accepted", at)
		}
	}
}

func TestTheSplitThatStandsEarliestIsReadFirst(t *testing.T) {
	c := DefaultCounter()
	c.Count, c.Splits = 12, 3
	s := newTestSource(t, testEnv(t), Config{Counter: &c})
	for _, split := range []dataflow.Split{"2", "0", "1"} {
		if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: split}}); err != nil {
			t.Fatal(err)
		}
	}
	want := "0:2@2 1:2@2 2:2@2 0:2@4,ended,caught 1:2@4,ended,caught 2:2@4,ended,caught"
	if got := say(t, s, dataflow.PollLimit{Rows: 2}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheCounterGivesItsRows(t *testing.T) {
	c := DefaultCounter()
	c.Count, c.Splits, c.Keys, c.Step = 5, 2, 3, component.Duration(time.Second)
	s := newTestSource(t, testEnv(t), Config{Counter: &c})
	if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: "1"}}); err != nil {
		t.Fatal(err)
	}
	p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	want := []string{
		`{"n":1,"split":1,"ts":"2026-01-01T00:00:01.000000Z","key":"key-1","value":0.1}`,
		`{"n":3,"split":1,"ts":"2026-01-01T00:00:03.000000Z","key":"key-0","value":0.3}`,
	}
	if p.Batch.NumRows() != int64(len(want)) {
		t.Fatalf("%d rows, want %d", p.Batch.NumRows(), len(want))
	}
	for i, w := range want {
		if got := string(dataflow.RowJSON(p.Batch, i)); got != w {
			t.Errorf("row %d: got %s, want %s", i, got, w)
		}
	}
}

func TestARateFollowsTheClockOfTheEnvironment(t *testing.T) {
	c := DefaultCounter()
	c.Count, c.Splits, c.Rate = 1000, 2, 100
	env := testEnv(t)
	clock := time.Unix(1000, 0)
	env.Now = func() time.Time { return clock }
	s := newTestSource(t, env, Config{Counter: &c})
	if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: "0"}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		pass time.Duration
		want string
	}{
		{0, ""}, {19 * time.Millisecond, ""}, {time.Millisecond, "0:1@1,caught"}, {time.Second, "0:40@41 0:10@51,caught"},
		{time.Hour, "0:40@91 0:40@131 0:40@171 0:40@211 0:40@251 0:40@291 0:40@331 0:40@371 0:40@411 0:40@451 0:40@491 0:9@500,ended,caught"},
	} {
		clock = clock.Add(step.pass)
		if got := say(t, s, dataflow.PollLimit{Rows: 40}); got != step.want {
			t.Errorf("after %s: got %q, want %q", step.pass, got, step.want)
		}
	}
}

func TestPollEndsWithItsContextAndWithClose(t *testing.T) {
	c := DefaultCounter()
	s := newTestSource(t, testEnv(t), Config{Counter: &c})
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error)
	poll := func() { _, err := s.Poll(ctx, dataflow.PollLimit{WaitMicros: 1 << 40}); errs <- err }
	go poll()
	cancel()
	if err := <-errs; err != context.Canceled {
		t.Errorf("cancelled: got %v", err)
	}
	ctx = context.Background()
	go poll()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; err != errClosed {
		t.Errorf("closed: got %v", err)
	}
}

func TestEndsAndBeginningsAreKnown(t *testing.T) {
	c := DefaultCounter()
	c.Count, c.Splits = 5, 2
	s := newTestSource(t, testEnv(t), Config{Counter: &c})
	ends, err := s.Ends(context.Background(), []dataflow.Split{"0", "1"})
	if err != nil || string(ends["0"]) != "00000000000000000003" || string(ends["1"]) != "00000000000000000002" {
		t.Errorf("ends %v, %v", ends, err)
	}
	begin, err := s.Begin(context.Background(), []dataflow.Split{"1"})
	if err != nil || len(begin) != 1 || string(begin["1"]) != "00000000000000000000" {
		t.Errorf("begins %v, %v", begin, err)
	}
	c.Count = 0
	if _, err := newTestSource(t, testEnv(t), Config{Counter: &c}).Ends(context.Background(), []dataflow.Split{"0"}); err == nil {
		t.Error("an endless counter has an end")
	}
}

// decode reads the block of a source as the loader does.
func decode(t *testing.T, text string) (Config, component.Problems) {
	t.Helper()
	n, p := component.Parse("x.yaml", []byte(text), nil)
	if len(p) > 0 {
		t.Fatal(p)
	}
	var cfg Config
	return cfg, component.Decode(n, &cfg)
}

func TestPlanTakesExactlyOneKind(t *testing.T) {
	fleet, counter := DefaultFleet(), DefaultCounter()
	for _, c := range []struct {
		cfg     Config
		decoded *arrow.Schema
		want    string
	}{
		{Config{}, nil, "exactly one of"},
		{Config{Fleet: &fleet, Counter: &counter}, nil, "exactly one of"},
		{Config{Fleet: &fleet}, nil, "add to the source decode"},
		{Config{Counter: &counter}, textSchema, "remove decode"},
		{Config{Fleet: &fleet}, textSchema, ""},
		{Config{Counter: &counter}, nil, ""},
	} {
		p, err := plan(component.SourceIn{Decoded: c.decoded}, c.cfg)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: got %v, want %q", c.cfg, err, c.want)
			}
			continue
		}
		if err != nil || p.Schema == nil || p.Bounded != (c.cfg.Fleet != nil) || !p.Arrived {
			t.Errorf("%+v: plan %+v, %v", c.cfg, p, err)
		}
	}
}

func TestDefaultsHoldForWhatABlockLeavesOut(t *testing.T) {
	cfg, p := decode(t, "fleet: {events: 5, duplicates: 0, disorder: 2s, start: 2026-05-01T00:00:00Z}")
	if len(p) > 0 {
		t.Fatal(p)
	}
	want := DefaultFleet()
	want.Events, want.Duplicates, want.Disorder, want.Start = 5, 0, component.Duration(2*time.Second), "2026-05-01T00:00:00Z"
	if cfg.Counter != nil || cfg.Fleet == nil || *cfg.Fleet != want {
		t.Errorf("got %+v", cfg.Fleet)
	}
	if cfg, p = decode(t, "counter: {}"); len(p) > 0 || cfg.Fleet != nil || *cfg.Counter != DefaultCounter() {
		t.Errorf("got %+v, %v", cfg.Counter, p)
	}
	if _, p = decode(t, "fleet: {event: 5}"); len(p) != 1 || !strings.Contains(p[0].Msg, "events") || p[0].Path != "fleet.event" {
		t.Errorf("an unknown key gives %+v", p)
	}
}

func BenchmarkCounter(b *testing.B) {
	c := DefaultCounter()
	env := testEnv(b)
	env.Alloc = memory.DefaultAllocator
	s := newTestSource(b, env, Config{Counter: &c})
	if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: "0"}}); err != nil {
		b.Fatal(err)
	}
	rows := 0
	for b.Loop() {
		p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 8192, Bytes: 1 << 20})
		if err != nil {
			b.Fatal(err)
		}
		rows += int(p.Batch.NumRows())
		p.Release()
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
