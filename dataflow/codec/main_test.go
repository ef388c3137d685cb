package codec

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) {
	os.Exit(leak.Main(m, leak.WithoutArrow("tests leave decoders with rows that are not flushed")))
}
