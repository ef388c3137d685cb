package files

import (
	"os"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// Blank lines are no records: they lie before positions and are not counted.
func TestConformance(t *testing.T) {
	for _, mode := range []string{ModeEnd, ModeFollow} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, Config{Mode: mode})
			r.write("a.ndjson", `{"n":1}`+"\n\n"+`{"n":2}`+"\nno\n"+`{"n":3}`+"\n")
			r.write("b.ndjson.gz", `{"n":4}`+"\n"+`{"n":"x"}`+"\n")
			r.write("c.ndjson.zst", `{"n":5}`+"\n\n"+`{"n":6}`+"\n")
			r.write("d.ndjson", "")
			r.write("e.ndjson", `{"n":7}`+"\n")
			flowtest.SourceSuite(t, flowtest.SourceUnderTest{
				New:     func(t *testing.T) dataflow.Source { q := *r; q.t = t; return q.open().Source },
				Records: map[dataflow.Split]int{"0": 9},
				Ends:    mode == ModeEnd,
			})
		})
	}
}
