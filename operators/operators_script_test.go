package operators

import (
	"testing"

	"frazil/dataflow/flowtest"

	"go.uber.org/goleak"
)

// TestScripts runs every file below testdata, straight and in many other ways (I8).
func TestScripts(t *testing.T) { flowtest.Run(t, "testdata") }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
