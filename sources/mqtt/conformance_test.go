package mqtt

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"
)

func TestConformance(t *testing.T) {
	b := newBench(t)
	b.open()
	for _, text := range []string{"a", "b", "\xff", "c", "d"} {
		b.pub("t/x", text, "-q", "1")
	}
	b.await("all", func() bool { return len(b.rows)+len(b.bad) == 5 })
	flowtest.SourceSuite(t, flowtest.SourceUnderTest{
		New:     func(*testing.T) dataflow.Source { return b.srv.stream.Source(b.env()) },
		Records: map[dataflow.Split]int{"0": 5},
	})
}
