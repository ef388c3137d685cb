package engine

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) {
	os.Exit(leak.Main(m, leak.WithoutArrow("tests of parts of the engine leave batches")))
}
