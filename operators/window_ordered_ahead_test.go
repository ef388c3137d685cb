package operators

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestGroupsThatAreWokenEarlyAndLeaveAgainAreNotForgotten: groups that are due soon
// come back together with the first of them. Where there is no room they leave again
// before they are due, and still give their result at their moment.
func TestGroupsThatAreWokenEarlyAndLeaveAgainAreNotForgotten(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer alloc.AssertSize(t, 0)
	const keys, gap = 1500, 3000 // some six groups per key group, of which those of 750 s come back together
	cfg := WindowConfig{
		Session: &SessionWindow{Gap: component.Duration(gap * time.Second)}, By: byColumns("k"),
		Aggregate: component.NamedExprs{{Name: "n", Expr: "count(*)"}},
	}
	feed := newWindowFeed([]arrow.Field{{Name: "k", Type: dataflow.TypeInt64}}, 0, 1)
	r := newOrderedRig(t, alloc, feed.schema, cfg)
	r.memory = 16 << 10
	r.start(1)
	for k := range int64(keys) { // Key k at second k.
		r.rows(feed.batch(alloc, 0, []windowTestRow{{k * 1e6, []any{k}}}))
		r.watermark(feed.watermark())
	}
	w := r.tasks[0].(explainedStampOrder).inner.(*windowOrdered)
	hash := func(k int64) uint64 { return keyHash(appendKeyInt64(nil, k)) }
	again, early := 0, [keys]bool{}
	for k := range int64(keys) {
		r.out[windowOut] = nil
		group := state.GroupOf(hash(k))
		woken := w.cold.next[group] <= (k+gap)*1e6
		if early[k] && w.cold.set.has(hash(k)) {
			again++
		}
		r.watermark(dataflow.Time((k + gap) * 1e6))
		want := []string{fmt.Sprintf(`{"k":%d,"window_start":%q,"window_end":%q,"n":1}`, k, dataflow.Time(k*1e6), dataflow.Time((k+gap)*1e6))}
		if !slices.Equal(r.out[windowOut], want) {
			t.Fatalf("at the end of session %d\n%v\nwant\n%v", k, r.out[windowOut], want)
		}
		for j := k + 1; woken && j < min(keys, k+gap/4); j++ {
			early[j] = early[j] || state.GroupOf(hash(j)) == group && !w.cold.set.has(hash(j))
		}
		if k%50 == 0 {
			r.barrier()
		}
	}
	if again < keys/10 {
		t.Errorf("%d times a group was woken early and left again: the test shows nothing", again)
	}
	r.stop()
}
