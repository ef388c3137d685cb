package operators

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestGroupKeepsMoreGroupsThanItsMemoryHolds: the memory stays below the ceiling
// while groups come, come back after a restart, and have the right rows; when they
// have expired nothing of them is left.
func TestGroupKeepsMoreGroupsThanItsMemoryHolds(t *testing.T) {
	const groups, ceiling = 20_000, 400 << 10
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	r := newChangeRig(t, alloc, "group", &GroupConfig{
		By: []By{{Name: "k"}}, ExpireAfter: component.Duration(time.Hour),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}, {Name: "s", Expr: "sum(v)"}, {Name: "m", Expr: "max(v::text)"}},
	}, 1)
	defer r.close()
	r.memory = ceiling
	r.start(1)
	const hour = int64(time.Hour / time.Microsecond)
	want := map[string]string{}
	send := func(round int64) {
		for from := int64(0); from < groups; from += 500 {
			var rows []changeRow
			for k := from; k < from+500; k++ {
				rows = append(rows, changeRow{k: k, v: k%7 + round, t: round * 1000, stamp: int64(dataflow.MinTime)})
				n, s := round+1, (k%7)*(round+1)+round*(round+1)/2
				want[fmt.Sprint(k, "/")] = fmt.Sprintf(`{"k":%d,"n":%d,"s":"%d","m":"%d"}`, k, n, s, k%7+round)
			}
			r.send(rows)
			r.barrier()
			o := r.tasks[0].(*groupKeyed)
			if o.used()+o.cold.bytes > ceiling {
				t.Fatalf("%d bytes of groups and %d of filters are in memory, the ceiling is %d", o.used(), o.cold.bytes, ceiling)
			}
		}
		if !maps.Equal(r.table, want) {
			t.Fatalf("round %d: %d groups, want %d, or they have other rows", round, len(r.table), len(want))
		}
	}
	for round := range int64(3) {
		send(round)
		if moved := r.tasks[0].(*groupKeyed).cold.moved; moved < groups/2 {
			t.Fatalf("only %d groups have left the memory", moved)
		}
		r.start(1)
		// Groups that are always there stay.
		r.send([]changeRow{{k: 1, v: 0, t: round * 1000, stamp: int64(dataflow.MinTime)}})
		r.start(1)
	}
	for i := range int64(20) {
		r.watermark(dataflow.Time((3 + i) * hour))
		r.barrier()
	}
	o := r.tasks[0].(*groupKeyed)
	var left []string
	for _, m := range r.kv.groups {
		for k := range m {
			if k[0] == groupColdPrefix {
				left = append(left, k)
			}
		}
	}
	if len(left) > 0 || o.cold.bytes != 0 || slices.Max(o.live[:]) > 0 {
		t.Errorf("%d entries, %d bytes of filters, at most %d groups in a key group are left", len(left), o.cold.bytes, slices.Max(o.live[:]))
	}
}
