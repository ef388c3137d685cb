package operators

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// What a window of a top is said to hold is what it then gives.
func TestATopGivesWhatItWasSaidToHold(t *testing.T) {
	for _, shape := range []string{
		"tumbling: 10us", "hopping: {size: 25us, slide: 10us}, allowed_lateness: 7us", "cumulative: {size: 30us, step: 10us}, ties: rank",
	} {
		t.Run(shape, func(t *testing.T) {
			alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer alloc.AssertSize(t, 0)
			r := newExplainRigOf(t, alloc, "top", fmt.Sprintf("{%s, by: [k], order_by: [n desc], limit: 2, rank: r}", shape))
			defer r.close()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			var rows []string
			for range 150 {
				rows = append(rows, fmt.Sprintf(`{"k":"k%d","n":%d,"_time":%d}`, rng.IntN(4), rng.IntN(6), 10+rng.IntN(100)))
			}
			r.feed(rows...)
			r.watermark(1)
			seen, held := map[string]bool{}, []string{}
			for k := range 5 {
				for at := range 140 {
					key := fmt.Sprintf("k%d", k)
					for _, w := range r.ask(key, dataflow.Time(at)).Windows {
						id := fmt.Sprint(key, w.Start, w.End)
						if w.Holds == nil || seen[id] {
							continue
						}
						seen[id] = true
						var x struct{ Rows []json.RawMessage }
						if err := json.Unmarshal(w.Holds, &x); err != nil {
							t.Fatal(err)
						}
						for _, row := range x.Rows {
							held = append(held, string(row))
						}
					}
				}
			}
			r.watermark(dataflow.MaxTime)
			slices.Sort(held)
			slices.Sort(r.out)
			if !slices.Equal(held, r.out) || len(held) == 0 {
				t.Errorf("held %d rows, gave %d:\n%s\n%s", len(held), len(r.out), held, r.out)
			}
		})
	}
}
