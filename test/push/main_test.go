// Package push_test starts the real program, pushes records to it as devices and
// services do, kills it, cuts its network, and compares every table, row by row,
// with what the producers were told is safe.
//
// FRAZIL_LONG=1 runs what takes minutes in its full length; package program says
// what else is read.
package push_test

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

// full says whether tests that take minutes run in their full length.
func full() bool { return os.Getenv("FRAZIL_LONG") != "" }

// place is a working directory with a pipeline in it.
type place struct {
	*program.Place
	t *testing.T
}

type proc = program.Process

// newPlace writes a pipeline called name into a new directory. Its state is in
// ./state, and it answers HTTP at a port of its own.
func newPlace(t *testing.T, name, text string) *place {
	t.Helper()
	return &place{program.New(t, name, text), t}
}
