package operators

import (
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestUnwrittenBytesAreWhatABarrierGivesBack: rows as they were count from the first
// change to the next barrier, once each; new groups do not.
func TestUnwrittenBytesAreWhatABarrierGivesBack(t *testing.T) {
	for _, name := range []string{"group", "top"} {
		t.Run(name, func(t *testing.T) {
			alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer alloc.AssertSize(t, 0)
			m := changeModels[name]
			r := newChangeRig(t, alloc, m.name, m.cfg, 1)
			r.start(1)
			defer r.close()
			pos := int64(0)
			bytes := func(what string) int64 {
				t.Helper()
				n := r.tasks[0].(dataflow.Unwritten).UnwrittenBytes()
				t.Logf("%s: %d", what, n)
				return n
			}
			send := func(keys ...int64) {
				var rows []changeRow
				for _, k := range keys {
					pos++
					rows = append(rows, changeRow{k: k, v: pos, t: 100, stamp: 90, pos: pos})
				}
				r.send(rows)
			}
			send(1, 2, 3)
			if n := bytes("new groups"); n != 0 {
				t.Errorf("new groups count %d bytes", n)
			}
			r.barrier()
			send(1)
			one := bytes("one changed")
			if one <= 0 {
				t.Errorf("a changed group counts %d bytes", one)
			}
			send(1, 1)
			if n := bytes("the same one changed again"); n != one {
				t.Errorf("changed again it counts %d bytes, want %d", n, one)
			}
			send(2, 3, 4)
			if n := bytes("three changed, one new"); n < 2*one {
				t.Errorf("three changed groups count %d bytes, one %d", n, one)
			}
			r.barrier()
			if n := bytes("after a barrier"); n != 0 {
				t.Errorf("after a barrier there are %d bytes", n)
			}
		})
	}
}
