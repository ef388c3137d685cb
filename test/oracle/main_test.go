package oracle

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) {
	os.Exit(leak.Main(m, leak.WithoutArrow("models and readers of the oracles leave batches")))
}
