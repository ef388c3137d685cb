package operators

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/leak"
)

// TestScripts runs every file below testdata, straight and in many other ways (I8).
func TestScripts(t *testing.T) { flowtest.Run(t, "testdata") }

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
