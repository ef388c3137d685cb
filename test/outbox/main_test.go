package outbox

import (
	"os"
	"testing"

	"frazil/dataflow/flowtest/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
