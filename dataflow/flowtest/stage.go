package flowtest

import (
	"fmt"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Place is where one source stands that has read n rows of its only split.
func Place(n int) dataflow.Positions {
	return dataflow.Positions{"in": {"0": dataflow.Position(fmt.Sprintf("%06d", n))}}
}

// Stage ends an epoch of a writer that has read up to n, from from, and returns what is
// to be committed.
func Stage(t testing.TB, w dataflow.Writer, e dataflow.Epoch, from, n int) dataflow.Commit {
	t.Helper()
	c := dataflow.Commit{Epoch: e, From: Place(from), At: Place(n), Plan: "plan"}
	if from == 0 {
		c.From = dataflow.Positions{}
	}
	pending, err := w.Prepare(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if pending != nil {
		part, err := pending.Part(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Parts = append(c.Parts, part)
	}
	return c
}

// Refused are reason and detail of rows that were refused; it releases b.
func Refused(b arrow.RecordBatch) (out []string) {
	if b == nil {
		return nil
	}
	defer b.Release()
	for i := range int(b.NumRows()) {
		out = append(out, b.Column(0).(*array.String).Value(i)+": "+b.Column(1).(*array.String).Value(i))
	}
	return out
}
