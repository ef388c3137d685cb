package exprtest

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
