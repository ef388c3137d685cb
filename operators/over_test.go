package operators

import (
	"errors"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestPlanOverRefuses(t *testing.T) {
	n := component.NamedExprs{{Name: "n", Expr: "count(*)"}}
	hour, timed := component.Duration(time.Hour), overSchema
	untimed := arrow.NewSchema(overSchema.Fields()[:4], nil)
	for _, c := range []struct {
		name   string
		schema *arrow.Schema
		cfg    OverConfig
		path   string
		says   string
	}{
		{"no frame", timed, OverConfig{Aggregate: n}, "", "exactly one of rows_preceding"},
		{"two frames", timed, OverConfig{Aggregate: n, RowsPreceding: 3, RangePreceding: hour, ExpireAfter: hour}, "", "exactly one of rows_preceding"},
		{"rows without a bound", timed, OverConfig{Aggregate: n, RowsPreceding: 3}, "expire_after", "the state needs a bound"},
		{"unbounded without a bound", timed, OverConfig{Aggregate: n, Unbounded: &OverUnbounded{}}, "unbounded.expire_after", "the state needs a bound"},
		{"less than no rows", timed, OverConfig{Aggregate: n, RowsPreceding: -1, ExpireAfter: hour}, "rows_preceding", "at least one row"},
		{"a bound of a range", timed, OverConfig{Aggregate: n, RangePreceding: hour, ExpireAfter: hour}, "expire_after", "leave it out"},
		{"a bound beside unbounded", timed, OverConfig{Aggregate: n, Unbounded: &OverUnbounded{ExpireAfter: hour}, ExpireAfter: hour}, "expire_after", "belongs into unbounded"},
		{"a range in nanoseconds", timed, OverConfig{Aggregate: n, RangePreceding: hour + 1}, "range_preceding", "whole microseconds"},
		{"no event time", untimed, OverConfig{Aggregate: n, RangePreceding: hour}, "", "have no event time"},
		{"a name that is taken", timed, OverConfig{Aggregate: component.NamedExprs{{Name: "s", Expr: "count(*)"}}, RangePreceding: hour}, "aggregate.s", "have a column \"s\" already"},
		{"a reserved name", timed, OverConfig{Aggregate: component.NamedExprs{{Name: "_n", Expr: "count(*)"}}, RangePreceding: hour}, "aggregate._n", "reserved"},
		{"no aggregate", timed, OverConfig{RangePreceding: hour}, "aggregate", "at least one"},
		{"an unknown partition", timed, OverConfig{By: byColumns("kk"), Aggregate: n, RangePreceding: hour}, "by[0]", `unknown column "kk"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := planOver(component.OperatorIn{Inputs: []dataflow.Stream{{Schema: c.schema}}, Names: []string{"rows"}, Sources: []string{"in"}}, c.cfg)
			var problems component.Problems
			if !errors.As(err, &problems) || len(problems) != 1 {
				t.Fatalf("got %v, want one problem", err)
			}
			if p := problems[0]; p.Path != c.path || !strings.Contains(p.Msg, c.says) {
				t.Errorf("got %q: %s\nwant %q: ... %s", p.Path, p.Msg, c.path, c.says)
			}
		})
	}
}

// TestOverForgets: neither partitions that are over nor their log nor what was put
// aside stay in the state or in memory.
func TestOverForgets(t *testing.T) {
	bound := component.Duration(100 * time.Microsecond)
	n := component.NamedExprs{{Name: "n", Expr: "count(distinct s)"}, {Name: "m", Expr: "max(s)"}}
	for name, cfg := range map[string]OverConfig{
		"rows":      {RowsPreceding: 3, ExpireAfter: bound, Aggregate: n},
		"range":     {RangePreceding: bound, Aggregate: n},
		"unbounded": {Unbounded: &OverUnbounded{ExpireAfter: bound}, Aggregate: n},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.By = byColumns("k")
			alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
			defer alloc.AssertSize(t, 0)
			r := newOverRig(t, alloc, cfg)
			r.memory = 20_000
			r.start(1, int64(dataflow.MinTime))
			defer r.close()
			at, most := int64(0), 0
			for range 60 {
				var rows []overRow
				for range 100 {
					rows = append(rows, overRow{k: at, s: "abc", t: at, stamp: at, pos: at})
					at++
				}
				r.send(rows)
				r.watermark(at)
				r.barrier()
				most = max(most, r.kv.len())
			}
			if most < 70 { // About 200 partitions are remembered, and 60 have room.
				t.Errorf("%d entries in the state at most: nothing was put aside", most)
			}
			if o := r.tasks[0].(*stampOrder).inner.(*overKeyed); len(o.frames) > 400 || o.table.Len() > 800 || o.cold.set.n > 400 {
				t.Errorf("%d frames, %d entries, %d partitions in the store for about 200", len(o.frames), o.table.Len(), o.cold.set.n)
			}
			for range 40 { // The partitions are over, one after the other goes on.
				at += 50
				r.send([]overRow{{k: 1, s: "x", t: at, stamp: at, pos: at}})
				r.watermark(at + 1)
				r.barrier()
			}
			o := r.tasks[0].(*stampOrder).inner.(*overKeyed)
			if o.table.Len()-o.dropped != 1 || o.cold.set.n != 0 {
				t.Errorf("%d partitions in memory, %d in the store, want 1", o.table.Len()-o.dropped, o.cold.set.n)
			}
			if n := r.kv.len(); n > 256+3 {
				t.Errorf("%d entries in the state", n)
			}
		})
	}
}
