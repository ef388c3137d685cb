package simulation

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) {
	code := leak.Main(m)
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}
