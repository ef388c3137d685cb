package state

import (
	"fmt"
	"sort"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestTimersEqualASortedSetOverRestarts(t *testing.T) {
	r := testSeed(t)
	s := openMem(t, vfs.NewMem())
	want := map[plainTimer]bool{}
	now := int64(-500)
	for epoch := 0; epoch < 60; epoch++ {
		kv := openKV(t, s, "step", allGroups)
		must(t, kv.Set(1, []byte("before"), nil)) // Other keys of the operator.
		must(t, kv.Set(1, []byte("u"), nil))
		timers, err := NewTimers(kv, allGroups, 't')
		must(t, err)
		if timers.Len() != len(want) {
			t.Fatalf("epoch %d: %d timers loaded, want %d", epoch, timers.Len(), len(want))
		}
		for i := 0; i < 100; i++ {
			x := plainTimer{now + int64(r.IntN(200)) - 50, r.IntN(3) * 100, fmt.Sprint(r.IntN(10))}
			switch r.IntN(4) {
			case 0, 1:
				must(t, timers.Set(x.at, x.group, []byte(x.key)))
				want[x] = true
			case 2:
				must(t, timers.Cancel(x.at, x.group, []byte(x.key)))
				delete(want, x)
			default:
				now += int64(r.IntN(20))
				due, err := timers.Due(now)
				must(t, err)
				var exp []plainTimer
				for x := range want {
					if x.at <= now {
						exp = append(exp, x)
						delete(want, x)
					}
				}
				sort.Slice(exp, func(i, j int) bool {
					a, b := exp[i], exp[j]
					if a.at != b.at {
						return a.at < b.at
					}
					if a.key != b.key {
						return a.key < b.key
					}
					return a.group < b.group
				})
				var got []plainTimer
				for _, d := range due {
					got = append(got, plainTimer{d.At, d.Group, string(d.Key)})
				}
				if fmt.Sprint(got) != fmt.Sprint(exp) {
					t.Fatalf("due %v, want %v", got, exp)
				}
			}
		}
		must(t, s.Write([]*Delta{kv.Freeze()}, nil))
	}
}

// plainTimer is a comparable Timer.
type plainTimer struct {
	at    int64
	group int
	key   string
}
