package operators

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestWindowBadRows: a row whose argument fails is bad once and in no aggregate;
// where the filter is not true, the argument is not computed; a late row stays
// late.
func TestWindowBadRows(t *testing.T) {
	fields := []arrow.Field{{Name: "a", Type: dataflow.TypeInt32, Nullable: true}, {Name: "b", Type: dataflow.TypeInt32, Nullable: true}}
	feed := newWindowFeed(fields, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, WindowConfig{
		AlignedWindows: testTumbling(component.Duration(time.Minute)),
		Aggregate: component.NamedExprs{
			{Name: "n", Expr: "count(*)"}, {Name: "q", Expr: "sum(100 / a) filter (where b > 0)"}, {Name: "p", Expr: "max(10 % b)"},
		},
	})
	r.start(1)
	row := func(sec int64, a, b any) windowTestRow { return windowTestRow{windowT + sec*windowSe, []any{a, b}} }
	b := feed.batch(r.alloc, 0, []windowTestRow{
		row(1, int32(10), int32(3)), // counts
		row(2, int32(0), int32(-4)), // 100 / 0 is not computed
		row(3, int32(0), int32(7)),  // bad: q
		row(4, int32(0), int32(0)),  // bad: p
		row(5, nil, nil),            // counts
		row(70, int32(1), int32(1)), // the next window
		row(6, int32(0), int32(0)),  // late, not bad
	})
	r.rows(b)
	b.Release()
	r.watermark(dataflow.MaxTime)
	r.stop()
	r.check(windowOut, []string{
		`{"window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z","n":3,"q":10,"p":2}`,
		`{"window_start":"2026-03-01T10:01:00.000000Z","window_end":"2026-03-01T10:02:00.000000Z","n":1,"q":100,"p":0}`,
	})
	if len(r.out[windowBad]) != 2 || !strings.Contains(r.out[windowBad][0], `"reason":"division_by_zero","detail":"aggregate q: `) || !strings.Contains(r.out[windowBad][1], `"detail":"aggregate p: `) {
		t.Errorf("bad rows %s", r.out[windowBad])
	}
	if len(r.out[windowLate]) != 1 {
		t.Errorf("late rows %s", r.out[windowLate])
	}
	if c, want := r.fates.Load(), (dataflow.Counts{In: 7, Absorbed: 4, Late: 1, Bad: 2, Created: 2}); c != want {
		t.Errorf("fates %+v, want %+v", c, want)
	}
}

// TestWindowStateIsRefused: bytes of another version, or cut ones, are an error
// and not a wrong result.
func TestWindowStateIsRefused(t *testing.T) {
	feed := newWindowFeed(windowKV, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, windowKVConfig(0))
	r.start(1)
	b := feed.batch(r.alloc, 0, []windowTestRow{kvRow(1, "a", 1)})
	r.rows(b)
	b.Release()
	r.barrier()
	r.stop()
	spec := component.OperatorNamed("window")
	for g, m := range r.kv.groups {
		for k, v := range m {
			for cut := range len(v) + 1 {
				bad := slices.Clone(v[:cut])
				if cut == len(v) {
					bad[0]++
				}
				_ = r.kv.Set(g, []byte(k), bad)
				if _, err := spec.New(context.Background(), r.env(0, 1), r.in, &r.cfg); err == nil {
					t.Errorf("value %x is accepted", bad)
				}
			}
		}
	}
}

// TestWindowStateFormat pins the bytes: they are in the state of users.
func TestWindowStateFormat(t *testing.T) {
	fields := []arrow.Field{
		{Name: "k", Type: dataflow.TypeString}, {Name: "i", Type: dataflow.TypeInt64}, {Name: "d", Type: &arrow.Decimal128Type{Precision: 10, Scale: 2}},
		{Name: "f", Type: dataflow.TypeFloat64}, {Name: "s", Type: dataflow.TypeString, Nullable: true},
	}
	feed := newWindowFeed(fields, 0, 1)
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, WindowConfig{
		AlignedWindows: testTumbling(component.Duration(time.Minute)), By: byColumns("k"),
		Aggregate: component.NamedExprs{
			{Name: "n", Expr: "count(*)"}, {Name: "lo", Expr: "min(s)"}, {Name: "i", Expr: "sum(i)"}, {Name: "d", Expr: "avg(d)"},
			{Name: "f", Expr: "sum(f)"}, {Name: "top", Expr: "max(f)"}, {Name: "dlo", Expr: "min(d)"}, {Name: "hi", Expr: "max(s)"},
		},
	})
	r.start(1)
	row := func(k string, i int64, d string, f float64, s any) windowTestRow {
		return windowTestRow{-1, []any{k, i, d, f, s}}
	}
	b := feed.batch(r.alloc, 0, []windowTestRow{row("ab", -3, "1.25", 0.5, "x"), row("ab", 1, "-2.00", math.Inf(1), "yz"), row("", 7, "0.01", 1, nil)})
	r.rows(b)
	b.Release()
	r.barrier()
	r.stop()
	var got []string
	for g, m := range r.kv.groups {
		for k, v := range m {
			got = append(got, fmt.Sprintf("%02x %x %x", g, k, v))
		}
	}
	slices.Sort(got)
	// Key: 'w', the minute before 1970, the key. Value: the version, then n, lo,
	// i (2 words, count), d (3 words, count), f (sum, rest, infinite, count), top,
	// dlo, hi, and the bytes of lo and hi.
	want := []string{
		"b7 77" + "7ffffffffc6c7900" + "01026162 01" + "0200000000000000" + "0100000000000000" +
			"feffffffffffffff" + "ffffffffffffffff" + "0200000000000000" +
			"b5ffffffffffffff" + "ffffffffffffffff" + "ffffffffffffffff" + "0200000000000000" +
			"000000000000e03f" + "0000000000000000" + "000000000000f07f" + "0200000000000000" +
			"0100000000000000" + "000000000000f0ff" + "0100000000000000" + "0000000000000080" + "c700000000000000" +
			"0100000000000000" + "0178" + "02797a",
		"d9 77" + "7ffffffffc6c7900" + "0100 01" + "0100000000000000" + "0000000000000000" +
			"0700000000000000" + "0000000000000000" + "0100000000000000" +
			"0100000000000000" + "0000000000000000" + "0000000000000000" + "0100000000000000" +
			"000000000000f03f" + "0000000000000000" + "0000000000000000" + "0100000000000000" +
			"0100000000000000" + "000000000000f0bf" + "0100000000000000" + "ffffffffffffff7f" + "feffffffffffffff" +
			"0000000000000000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
