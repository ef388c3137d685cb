package main

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) {
	os.Exit(leak.Main(m, leak.WithoutArrow("the Parquet library keeps pooled buffers, and tests leave what they read")))
}
