package expressions

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
