package race

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/leak"
	"frazil/dataflow/flowtest/rig"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// meet are the packages of the short tier. What is expensive and has no goroutines
// of its own, as expressions and codecs, is left to the full one.
var meet = []string{
	"./dataflow/engine", "./dataflow/ingest", "./state/wal", "./sources/mqtt",
}

// packages are all that have tests, as they stand in the portions: new ones at the
// end, so that a portion stays what it is.
var packages = []string{
	"./dataflow/engine", "./dataflow/ingest", "./state", "./state/wal", "./sources/files", "./sources/generate", "./sources/http",
	"./sources/kafka", "./sources/mqtt", "./sinks/files", "./sinks/iceberg", "./sinks/console", "./sinks/drop", "./dataflow",
	"./dataflow/checkpoint", "./dataflow/codec", "./dataflow/component", "./dataflow/spool", "./operators", "./operators/expr",
	"./pipelines", "./cmd/frazil", "./test/crash", "./test/push", "./test/integration", "./test/oracle", "./test/metamorphic",
	"./examples/fleet", "./examples/http", "./examples/kafka/fill", "./examples/mqtt/fleet", "./test/proof", "./test/failpoints",
	"./test/storage", "./test/simulation", "./test/faults", "./test/network", "./sinks/kafka", "./test/simulation/world",
	"./test/proof/model", "./sources/outbox", "./test/outbox", "./examples/outbox/shop",
	"./sinks/postgres", "./sinks/http", "./sinks/mqtt", "./test/sinks", "./dataflow/registry", "./test/registry", "./operators/expr/exprtest", "./test/expressions",
}

// TestRaces: no test makes the detector speak.
func TestRaces(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything anew: left out with -short")
	}
	compiler(t)
	if os.Getenv("FRAZIL_FULL") == "" && os.Getenv("FRAZIL_PORTION") == "" {
		f := run(t, append([]string{"-short"}, meet...), nil)
		t.Logf("races: %s", f)
		return
	}
	program := filepath.Join(t.TempDir(), "frazil")
	goTool(t, "build", "-race", "-tags", "failpoints", "-o", program, "./cmd/frazil")
	full.Suite{Name: "race", Total: len(packages), Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		// The tests of the whole program say themselves if it was found racing.
		env := []string{"FRAZIL_TEST_BIN=" + program, "FRAZIL_FULL=", "FRAZIL_PORTION="}
		if packages[portion] == "./test/simulation/world" {
			env = append(env, "FRAZIL_SIMULATION=1") // Its worlds run on threads, for the detector.
		}
		return run(t, []string{packages[portion]}, env)
	})
}

// TestARaceIsSeen: the detector is there, and what it says fails.
func TestARaceIsSeen(t *testing.T) {
	if testing.Short() {
		t.Skip("builds for the detector: left out with -short")
	}
	compiler(t)
	f, text, err := test(t, []string{"./test/race/testdata/racy"}, nil)
	if err == nil || f["races"] == 0 {
		t.Errorf("%d races were seen (%v):\n%s", f["races"], err, text)
	}
}

// TestAllPackagesAreThere: one that has tests and is in no portion fails, and a
// portion without tests.
func TestAllPackagesAreThere(t *testing.T) {
	root := rig.Root(t)
	// Those that test other packages' tests, or the repository as a whole.
	apart := []string{".", "./docs/tutorial", "./test/race", "./test/bench", "./test/bugs"}
	all := dirs(t, root)
	for _, dir := range all {
		if !slices.Contains(packages, dir) && !slices.Contains(apart, dir) && !strings.HasPrefix(dir, "./dataflow/flowtest/") {
			t.Errorf("%s has tests and is not in packages", dir)
		}
	}
	for _, p := range packages {
		if !slices.Contains(all, p) {
			t.Errorf("%s is in packages and has no tests", p)
		}
	}
}

// dirs are the folders with tests.
func dirs(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "frazil-data") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, "_test.go") {
			rel, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			if dir := "./" + filepath.ToSlash(rel); !slices.Contains(out, dir) {
				out = append(out, dir)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(out, "./."); i >= 0 {
		out[i] = "."
	}
	return out
}

// compiler leaves the test out where there is none, and fails it in CI.
func compiler(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err == nil {
		return
	}
	const text = "the race detector needs gcc and libc6-dev: run ./test/install"
	if os.Getenv("CI") == "true" {
		t.Fatal(text)
	}
	t.Skip("left out: " + text)
}

// run fails t unless all tests pass and no race is seen.
func run(t *testing.T, args, env []string) full.Figures {
	t.Helper()
	f, text, err := test(t, args, env)
	if err != nil || f["races"] > 0 {
		t.Errorf("%d races in %v (%v):\n%s", f["races"], args, err, text)
	}
	if err == nil && f["tests"] == 0 {
		t.Errorf("no test ran in %v", args)
	}
	return f
}

// test runs go test -race and counts; text is what those that failed wrote.
func test(t *testing.T, args, env []string) (full.Figures, string, error) {
	t.Helper()
	cmd := command(t, append([]string{"test", "-race", "-tags", "failpoints", "-json", "-p", "2", "-timeout", "40m"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	f, text, decode := count(&out)
	return f, text + errs.String(), errors.Join(err, decode)
}

// count reads the events of go test -json.
func count(r io.Reader) (full.Figures, string, error) {
	f := full.Figures{"races": 0}
	var text strings.Builder
	said := map[string]*strings.Builder{}
	for dec := json.NewDecoder(r); ; {
		var e struct{ Action, Package, Test, Output string }
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return f, text.String(), nil
		} else if err != nil {
			return f, text.String(), err
		}
		key := e.Package + " " + e.Test
		switch {
		case e.Action == "output":
			if said[key] == nil {
				said[key] = &strings.Builder{}
			}
			said[key].WriteString(e.Output)
			if strings.Contains(e.Output, "WARNING: DATA RACE") {
				f["races"]++
			}
		case e.Action == "pass" && e.Test == "":
			f["packages"]++
		case e.Action == "pass":
			f["tests"]++
			delete(said, key)
		case e.Action == "fail":
			f["failed"]++
			if s := said[key]; s != nil {
				text.WriteString(tail(s.String(), 8000))
			}
		}
	}
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// command is the go tool at the root of the repository.
func command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = rig.Root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	return cmd
}

func goTool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := command(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
