// Package crash_test starts the real program on real input, kills it at any
// moment, starts it again, and compares every table, row by row, with a model
// that is computed from the input records alone.
//
// Tests with Kafka read FRAZIL_TEST_KAFKA (host:port of a broker) and are left
// out without it, unless CI is set. FRAZIL_TEST_READERS names
// a Python with PyIceberg and DuckDB that reads the tables as well. Package program
// says what else is read.
package crash_test

import (
	"os"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// kafka is the address of a broker that tests share.
func kafka(t *testing.T) string {
	t.Helper()
	addr := os.Getenv("FRAZIL_TEST_KAFKA")
	if addr == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("FRAZIL_TEST_KAFKA is not set, and CI leaves no test out")
		}
		t.Skip("FRAZIL_TEST_KAFKA (host:port of a broker) is not set: left out")
	}
	return addr
}

// place is a working directory with a pipeline in it.
type place struct {
	*program.Place
	t *testing.T
}

type (
	proc  = program.Process
	row   = program.Row
	flow  = map[string]string
	fates = program.Fates
)

// newPlace writes a pipeline called name into a new directory. Its state is in
// ./state.
func newPlace(t *testing.T, name, text string) *place {
	t.Helper()
	if !strings.Contains(text, "http:") {
		text = "http: off\n" + text
	}
	return &place{program.New(t, name, text), t}
}
