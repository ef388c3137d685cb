package ingest

import (
	"testing"

	"frazil/dataflow"
)

// What was being read from the log when a reader is closed is closed with it: the file
// and what was read ahead.
func TestAReaderThatIsClosedHoldsNothing(t *testing.T) {
	r := newRig(t).open()
	defer func() { r.close() }()
	for i := range 20 {
		r.accept(&Request{Records: records(3*i, 3*i+3)})
	}
	r.reopen() // So that they are no longer in memory.
	src := r.s.Source(r.env()).(*source)
	must(t, src.Assign(t.Context(), []dataflow.SplitAt{{Split: Split}}))
	p, err := src.Poll(t.Context(), dataflow.PollLimit{Rows: 1, Bytes: 1 << 20})
	must(t, err)
	p.Release()
	if src.cursor == nil {
		t.Fatal("the log is not being read")
	}
	must(t, src.Close())
	if src.cursor != nil || src.hasHeld {
		t.Error("the file of the log stays open")
	}
	if _, err := src.Poll(t.Context(), dataflow.PollLimit{Rows: 1, Bytes: 1 << 20}); err != ErrClosed {
		t.Errorf("a reader that is closed answers %v", err)
	}
}
