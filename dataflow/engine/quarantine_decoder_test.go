package engine

import (
	"sync/atomic"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Decoders take their memory from Arrow's default allocator.
func TestDecodersOfRowsThatAreSentAgainGiveBackTheirMemory(t *testing.T) {
	old := memory.DefaultAllocator
	defer func() { memory.DefaultAllocator = old }()
	alloc := memory.NewCheckedAllocator(old)
	memory.DefaultAllocator = alloc
	defer alloc.AssertSize(t, 0)

	d, err := newFixedDecoder(lineStep(new(atomic.Int64), 1))
	if err != nil {
		t.Fatal(err)
	}
	defer d.release()
	cols, bad := d.decode(&fixedRecord{Raw: []byte(`{"k":1,"ts":0,"n":2}`)})
	if bad != nil {
		t.Fatal(bad)
	}
	releaseAll(cols)
	if _, bad := d.decode(&fixedRecord{Raw: []byte(`{"k":`)}); bad == nil {
		t.Fatal("half a record was decoded")
	}
}
