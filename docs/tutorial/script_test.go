package tutorial_test

import (
	"testing"

	"frazil/dataflow/flowtest"
)

func TestScripts(t *testing.T) { flowtest.Run(t, "testdata/sample") }
