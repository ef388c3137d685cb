package metamorphic

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) {
	os.Exit(leak.Main(m, leak.WithoutArrow("rehearsals that are refused half-way leave their batches")))
}
