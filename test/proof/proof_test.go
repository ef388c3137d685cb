package proof

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// TestTheWholeIsRight runs the pipeline without attacking it.
func TestTheWholeIsRight(t *testing.T) {
	program.Long(t)
	x := New(t, Config{Seed: 1, Records: 1500, HTTP: true})
	x.Finish()
	if r := x.Verify(); r.Rows < 7000 {
		t.Errorf("only %d rows were compared", r.Rows)
	}
}
