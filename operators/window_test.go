package operators

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	windowT  = 1772359200000000 // 2026-03-01T10:00:00Z
	windowSe = 1000000          // one second
)

var windowKV = []arrow.Field{
	{Name: "k", Type: dataflow.TypeString, Nullable: true},
	{Name: "v", Type: dataflow.TypeInt32, Nullable: true},
}

func windowKVConfig(lateness time.Duration) WindowConfig {
	return WindowConfig{
		AlignedWindows: testTumbling(component.Duration(time.Minute)), By: byColumns("k"), AllowedLateness: component.Duration(lateness),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "sum", Expr: "sum(v)"}},
	}
}

func kvRow(sec int64, k string, v int32) windowTestRow {
	return windowTestRow{windowT + sec*windowSe, []any{k, v}}
}

// TestWindowLateDataIsAccountedFor is case C13.
func TestWindowLateDataIsAccountedFor(t *testing.T) {
	rows := []windowTestRow{
		kvRow(5, "a", 1), kvRow(50, "a", 2), kvRow(65, "a", 4), kvRow(58, "a", 8),
		kvRow(71, "a", 16), kvRow(59, "a", 32), kvRow(62, "a", 64), kvRow(135, "a", 128),
	}
	for _, size := range []int{1, 3, 8} {
		alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
		feed := newWindowFeed(windowKV, 10*windowSe, 1)
		r := newWindowRig(t, alloc, feed.schema, windowKVConfig(0))
		r.start(2)
		for rest := rows; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			b := feed.batch(alloc, 0, rest[:min(size, len(rest))])
			r.rows(b)
			b.Release()
			r.watermark(feed.watermark())
		}
		r.watermark(dataflow.MaxTime)
		r.stop()
		r.check(windowOut, []string{
			`{"k":"a","window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","n":3,"sum":11}`,
			`{"k":"a","window_start":"2026-03-01T10:01:00.000000Z","window_end":"2026-03-01T10:02:00.000000Z","n":3,"sum":84}`,
			`{"k":"a","window_start":"2026-03-01T10:02:00.000000Z","window_end":"2026-03-01T10:03:00.000000Z","n":1,"sum":128}`,
		})
		r.check(windowLate, []string{
			`{"k":"a","v":32,"window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","watermark":"2026-03-01T10:01:01.000000Z","lateness":1000000}`,
		})
		c := r.fates.Load()
		if want := (dataflow.Counts{In: 8, Absorbed: 7, Late: 1, Created: 3}); c != want || c.Balance() != 0 {
			t.Errorf("fates %+v, want %+v", c, want)
		}
		if r.closed.Get() != windowT+180*windowSe {
			t.Errorf("closed up to %s", r.closed.Get())
		}
		alloc.AssertSize(t, 0)
	}
}

// TestWindowSpeedDoesNotChangeTheAnswer is case C14, with a restart after the
// third row.
func TestWindowSpeedDoesNotChangeTheAnswer(t *testing.T) {
	rows := []windowTestRow{kvRow(1, "a", 1), kvRow(12, "a", 1), kvRow(23, "a", 1), kvRow(34, "a", 1), kvRow(45, "a", 1), kvRow(90, "a", 1)}
	for _, size := range []int{1, 1000} {
		for _, restart := range []int{0, 3} {
			feed := newWindowFeed(windowKV, 5*windowSe, 1)
			r := newWindowRig(t, memory.DefaultAllocator, feed.schema, windowKVConfig(0))
			r.start(1)
			for i := 0; i < len(rows); {
				n := min(size, len(rows)-i)
				if restart > i {
					n = min(n, restart-i)
				}
				b := feed.batch(r.alloc, 0, rows[i:i+n])
				r.rows(b)
				b.Release()
				r.watermark(feed.watermark())
				if i += n; i == restart {
					r.barrier()
					r.stop()
					r.start(3)
				}
			}
			first := `{"k":"a","window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","n":5,"sum":5}`
			r.check(windowOut, []string{first})
			r.watermark(dataflow.MaxTime)
			r.stop()
			r.check(windowOut, []string{first, `{"k":"a","window_start":"2026-03-01T10:01:00.000000Z","window_end":"2026-03-01T10:02:00.000000Z","n":1,"sum":1}`})
			r.check(windowLate, nil)
			if r.kv.len() != 0 {
				t.Errorf("%d entries of fired windows left in the state", r.kv.len())
			}
		}
	}
}

// TestWindowAfterDrain: rows for windows that a drain has closed are late in
// the next run, also within the allowed lateness.
func TestWindowAfterDrain(t *testing.T) {
	feed := newWindowFeed(windowKV, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, windowKVConfig(30*time.Second))
	r.start(1)
	send := func(rows ...windowTestRow) {
		b := feed.batch(r.alloc, 0, rows)
		r.rows(b)
		b.Release()
		r.watermark(feed.watermark())
	}
	send(kvRow(5, "a", 1))
	before := r.wm
	r.watermark(dataflow.MaxTime)
	r.barrier()
	r.stop()
	r.wm = before // what the manifest holds
	r.start(2)
	send(kvRow(6, "a", 2), kvRow(61, "a", 4), kvRow(150, "a", 8))
	r.watermark(dataflow.MaxTime)
	r.stop()
	r.check(windowOut, []string{
		`{"k":"a","window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","n":1,"sum":1}`,
		`{"k":"a","window_start":"2026-03-01T10:01:00.000000Z","window_end":"2026-03-01T10:02:00.000000Z","n":1,"sum":4}`,
		`{"k":"a","window_start":"2026-03-01T10:02:00.000000Z","window_end":"2026-03-01T10:03:00.000000Z","n":1,"sum":8}`,
	})
	r.check(windowLate, []string{
		`{"k":"a","v":2,"window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","watermark":"2026-03-01T10:00:05.000000Z","lateness":0}`,
	})
}

// TestWindowDrainedBeforeAnyWatermark: a late row without a stamp has no
// watermark.
func TestWindowDrainedBeforeAnyWatermark(t *testing.T) {
	feed := newWindowFeed(windowKV, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, windowKVConfig(0))
	r.closed.Raise(windowT + 61*windowSe)
	r.start(1)
	b := feed.batch(r.alloc, 0, []windowTestRow{kvRow(5, "a", 1)})
	r.rows(b)
	b.Release()
	r.stop()
	r.check(windowLate, []string{
		`{"k":"a","v":1,"window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","watermark":null,"lateness":1000000}`,
	})
}

func TestWindowAlignsBefore1970(t *testing.T) {
	w := equalCells{60, 0}
	for _, c := range [][2]int64{{0, 0}, {59, 0}, {60, 60}, {-1, -60}, {-60, -60}, {-61, -120}, {int64(dataflow.MinEventTime), int64(dataflow.MinEventTime)}} {
		if got := w.at(w.index(c[0])); got != c[1] {
			t.Errorf("start of %d is %d, want %d", c[0], got, c[1])
		}
	}
	feed := newWindowFeed(windowKV, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, windowKVConfig(0))
	r.start(1)
	b := feed.batch(r.alloc, 0, []windowTestRow{{-61 * windowSe, []any{"a", int32(1)}}, {-1, []any{"a", int32(2)}}, {0, []any{"a", int32(4)}}})
	r.rows(b)
	b.Release()
	r.watermark(feed.watermark())
	r.check(windowOut, []string{
		`{"k":"a","window_start":"1969-12-31T23:58:00.000000Z","window_end":"1969-12-31T23:59:00.000000Z","n":1,"sum":1}`,
		`{"k":"a","window_start":"1969-12-31T23:59:00.000000Z","window_end":"1970-01-01T00:00:00.000000Z","n":1,"sum":2}`,
	})
	r.stop()
}

// TestWindowZerosAndNaNsAreOneKey: -0 meets 0, every NaN the others, null
// itself.
func TestWindowZerosAndNaNsAreOneKey(t *testing.T) {
	fields := []arrow.Field{{Name: "f", Type: dataflow.TypeFloat64, Nullable: true}}
	feed := newWindowFeed(fields, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, WindowConfig{
		AlignedWindows: testTumbling(component.Duration(time.Minute)), By: byColumns("f"),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "lo", Expr: "min(f)"}, {Name: "hi", Expr: "max(f)"}, {Name: "s", Expr: "sum(f)"}},
	})
	r.start(3)
	var rows []windowTestRow
	for _, f := range []any{0.0, math.Copysign(0, -1), math.NaN(), math.Float64frombits(0xfff8000000000007), nil, nil, 1.5} {
		rows = append(rows, windowTestRow{windowT, []any{f}})
	}
	b := feed.batch(r.alloc, 0, rows)
	r.rows(b)
	b.Release()
	r.watermark(dataflow.MaxTime)
	r.stop()
	at := `"window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z"`
	r.check(windowOut, []string{
		`{"f":0,` + at + `,"n":2,"lo":0,"hi":0,"s":0}`,
		`{"f":"NaN",` + at + `,"n":2,"lo":"NaN","hi":"NaN","s":"NaN"}`,
		`{"f":null,` + at + `,"n":2,"lo":null,"hi":null,"s":null}`,
		`{"f":1.5,` + at + `,"n":1,"lo":1.5,"hi":1.5,"s":1.5}`,
	})
}

// TestWindowResultThatDoesNotFit leaves by bad, alone.
func TestWindowResultThatDoesNotFit(t *testing.T) {
	fields := []arrow.Field{{Name: "k", Type: dataflow.TypeInt64}, {Name: "d", Type: &arrow.Decimal128Type{Precision: 38}, Nullable: true}}
	feed := newWindowFeed(fields, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, WindowConfig{
		AlignedWindows: testTumbling(component.Duration(time.Minute)), By: byColumns("k"),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(d)"}},
	})
	r.start(1)
	nines := strings.Repeat("9", 38)
	var rows []windowTestRow
	for k := range int64(5) {
		rows = append(rows, windowTestRow{windowT, []any{k, nines}})
		switch k {
		case 1, 4: // does not fit
			rows = append(rows, windowTestRow{windowT, []any{k, "1"}})
		case 2: // does not fit in between
			rows = append(rows, windowTestRow{windowT, []any{k, nines}}, windowTestRow{windowT, []any{k, nines}}, windowTestRow{windowT, []any{k, "-" + nines}}, windowTestRow{windowT, []any{k, "-" + nines}})
		}
	}
	b := feed.batch(r.alloc, 0, rows)
	r.rows(b)
	b.Release()
	r.barrier()
	r.stop()
	r.start(1)
	r.watermark(dataflow.MaxTime)
	r.stop()
	at := `"window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z"`
	r.check(windowOut, []string{
		`{"k":0,` + at + `,"n":1,"s":"` + nines + `"}`, `{"k":2,` + at + `,"n":5,"s":"` + nines + `"}`, `{"k":3,` + at + `,"n":1,"s":"` + nines + `"}`,
	})
	detail := `aggregate s: the result 1` + strings.Repeat("0", 38) + ` has more than 38 digits`
	bad := func(k string) string {
		row := `{\"k\":` + k + `,` + strings.ReplaceAll(at, `"`, `\"`) + `,\"n\":2,\"s\":null}`
		return `{"reason":"out_of_range","detail":"` + detail + `","step":"win","source":null,"split":null,"position":null,"raw":null,"row":"` + row + `"}`
	}
	r.check(windowBad, []string{bad("1"), bad("4")})
	if c := r.fates.Load(); c.Balance() != 0 || c.Created != 5 {
		t.Errorf("fates %+v", c)
	}
}

// TestWindowSortsByKey holds the sorter against bytes.Compare, on keys that are
// equal for long, differ in one byte, and are few or many.
func TestWindowSortsByKey(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var s windowSorter
	for range 60 {
		table := state.NewTable(1)
		share := strings.Repeat("same", rng.IntN(12))
		for range rng.IntN(3000) {
			key := appendKeyInt64(nil, int64(rng.IntN(1<<rng.IntN(20)+1))-7)
			key = appendKeyString(key, share+strings.Repeat("x", rng.IntN(40)))
			key = appendKeyInt64(key, int64(rng.IntN(3)))
			table.Upsert(keyHash(key), key)
		}
		got := s.sort(table)
		if len(got) != table.Len() {
			t.Fatalf("%d entries, want %d", len(got), table.Len())
		}
		for i := 1; i < len(got); i++ {
			if bytes.Compare(table.Key(got[i-1].entry), table.Key(got[i].entry)) >= 0 {
				t.Fatalf("%x before %x", table.Key(got[i-1].entry), table.Key(got[i].entry))
			}
		}
	}
}

func TestWindowPlan(t *testing.T) {
	user := []arrow.Field{
		{Name: "site", Type: dataflow.TypeString}, {Name: "temp", Type: dataflow.TypeFloat64}, {Name: "doc", Type: dataflow.TypeJSON},
		{Name: "window_start", Type: dataflow.TypeTimestampTZ},
	}
	timed := newWindowFeed(user, 0, 1).schema
	plain := arrow.NewSchema(append(user[:4:4], dataflow.SystemFields(false)...), nil)
	n := component.NamedExprs{{Name: "n", Expr: "count(*)"}}
	minute := component.Duration(time.Minute)
	for _, c := range []struct {
		name   string
		schema *arrow.Schema
		cfg    WindowConfig
		want   string
	}{
		{"no event time", plain, WindowConfig{AlignedWindows: testTumbling(minute), Aggregate: n}, `rows of "readings" have no event time, so they belong to no window: give the source "plant" event_time`},
		{"no width", timed, WindowConfig{Aggregate: n}, "say what the windows are: tumbling: 1m"},
		{"odd width", timed, WindowConfig{AlignedWindows: testTumbling(1500), Aggregate: n}, "whole microseconds"},
		{"unknown column", timed, WindowConfig{AlignedWindows: testTumbling(minute), By: byColumns("sit"), Aggregate: n}, `by[0]: unknown column "sit"; did you mean "site"?`},
		{"column twice", timed, WindowConfig{AlignedWindows: testTumbling(minute), By: byColumns("site", "site"), Aggregate: n}, `by[1]: column "site" stands twice`},
		{"json key", timed, WindowConfig{AlignedWindows: testTumbling(minute), By: byColumns("doc"), Aggregate: n}, `by[0]: column "doc" is json`},
		{"bounds as key", timed, WindowConfig{AlignedWindows: testTumbling(minute), By: byColumns("window_start"), Aggregate: n}, `by[0]: the result has a column "window_start" of its own`},
		{"no aggregate", timed, WindowConfig{AlignedWindows: testTumbling(minute)}, "aggregate: expected at least one"},
		{"name taken", timed, WindowConfig{AlignedWindows: testTumbling(minute), By: byColumns("site"), Aggregate: component.NamedExprs{{Name: "site", Expr: "count(*)"}}}, `aggregate.site: the result has another column "site"`},
		{"system name", timed, WindowConfig{AlignedWindows: testTumbling(minute), Aggregate: component.NamedExprs{{Name: "_n", Expr: "count(*)"}}}, `aggregate._n: names that begin with "_" are reserved`},
		{"sum of text", timed, WindowConfig{AlignedWindows: testTumbling(minute), Aggregate: component.NamedExprs{{Name: "x", Expr: "sum(site)"}}}, "aggregate.x: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: c.schema}}, Names: []string{"readings"}, Sources: []string{"plant"}}
			_, err := planWindow(in, c.cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: timed}}, Names: []string{"readings"}}
	plan, err := planWindow(in, WindowConfig{AlignedWindows: testTumbling(minute), By: byColumns("site"), AllowedLateness: 5 * minute, Aggregate: component.NamedExprs{
		{Name: "n", Expr: "count(*)"}, {Name: "avg", Expr: "avg(temp)"}, {Name: "top", Expr: "max(temp)"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plan.Fingerprint, `window/1 tumbling 60000000us lateness 300000000us by "site" string, aggregate count(*); avg(temp float64); max(temp float64);`; got != want {
		t.Errorf("fingerprint %s\nwant %s", got, want)
	}
	if got, want := plan.State, "56 bytes of accumulators and the key per group and open window; a window is dropped when the watermark is 5m past its end"; got != want {
		t.Errorf("state %s\nwant %s", got, want)
	}
	if plan.Delay != 5*time.Minute || !plan.Keyed || plan.NotReplayable != "" {
		t.Errorf("plan %+v", plan)
	}
	var late []string
	for _, f := range plan.Ports[windowLate].Stream.Schema.Fields() {
		late = append(late, f.Name)
	}
	if got, want := strings.Join(late, " "), "site temp doc window_start late_window_start window_end watermark lateness _time _watermark _split _pos"; got != want {
		t.Errorf("late columns %s\nwant %s", got, want)
	}
}
