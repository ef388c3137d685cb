// Package program tests the real program from outside: it builds it once for a
// package of tests, starts it in a folder of its own, kills it, and reads what it
// prints. It is no part of the product.
//
//	func TestMain(m *testing.M) { os.Exit(program.Main(m)) }
//
//	p := program.New(t, "orders", pipeline)
//	r := p.Start(nil, "run", p.File)
//	r.Until("the first rows", func() bool { return p.Count("t.orders") > 0 })
//	r.Kill()
//	p.ToEnd()
//
// FRAZIL_TEST_BIN names a program built with -tags failpoints that is to be tested
// instead of a new one; FRAZIL_SEED repeats the random choices of a run; FRAZIL_KEEP
// names a folder in which the places of tests are kept.
package program

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"frazil/dataflow/flowtest/leak"
)

// built is the folder to remove at the end.
var built string

// Main runs the tests of a package, looks at what they left, and removes the program
// that they had built. It is for TestMain.
func Main(m *testing.M) int {
	defer func() {
		if built != "" {
			os.RemoveAll(built)
		}
	}()
	return leak.Main(m)
}

var build = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("FRAZIL_TEST_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	dir, err := os.MkdirTemp("", "frazil-program-")
	if err != nil {
		return "", err
	}
	built = dir
	bin := filepath.Join(dir, "frazil")
	cmd := exec.Command("go", "build", "-tags", "failpoints", "-o", bin, "frazil/cmd/frazil")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return bin, nil
})

// Bin is the path of the program, which has failpoints; it is built at the first
// call.
func Bin(t testing.TB) string {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Long leaves a test out with -short and lets it run beside others.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the program many times: left out with -short")
	}
	t.Parallel()
}

// Random gives a source of choices that FRAZIL_SEED repeats; it logs its seed.
func Random(t testing.TB) *rand.Rand {
	t.Helper()
	seed := time.Now().UnixNano()
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatalf("FRAZIL_SEED: %v", err)
		}
	}
	t.Logf("FRAZIL_SEED=%d", seed)
	return rand.New(rand.NewSource(seed))
}
