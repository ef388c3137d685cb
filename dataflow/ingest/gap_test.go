package ingest

import (
	"errors"
	"testing"

	"frazil/dataflow"
)

// A log that does not hold what is to be read from it is an error at once: nobody
// would ever send the records that are missing.
func TestALogThatEndsBeforeWhatWasReadOfItIsRefused(t *testing.T) {
	r := newRig(t).open()
	defer r.close()
	r.accept(&Request{Records: records(0, 3)})
	for _, at := range []dataflow.SplitAt{
		{Split: Split, From: position(5)},
		{Split: Split, From: position(2), Until: position(5)},
		{Split: Split, Until: position(5)},
	} {
		if err := r.s.Source(r.env()).Assign(t.Context(), []dataflow.SplitAt{at}); !errors.Is(err, dataflow.ErrGap) {
			t.Errorf("from %s until %s: %v, want a gap", at.From, at.Until, err)
		}
	}
	at := dataflow.SplitAt{Split: Split, From: position(4), Until: position(4)}
	if err := r.s.Source(r.env()).Assign(t.Context(), []dataflow.SplitAt{at}); err != nil {
		t.Errorf("what comes next: %v", err)
	}
}
