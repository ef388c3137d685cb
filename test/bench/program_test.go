package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/leak"
)

// program builds the command once.
var program = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("FRAZIL_BENCH_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	dir, err := os.MkdirTemp("", "frazil-bench-bin")
	if err != nil {
		return "", err
	}
	built = dir
	bin := filepath.Join(dir, "frazil")
	build := exec.Command("go", "build", "-o", bin, "frazil/cmd/frazil")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return bin, nil
})

// built is the folder to remove at the end.
var built string

func TestMain(m *testing.M) {
	code := leak.Main(m)
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// job is a pipeline in a working directory of its own.
type job struct {
	tb  testing.TB
	dir string
}

// newJob makes a job of all but the name.
func newJob(tb testing.TB, pipeline string) *job {
	tb.Helper()
	return newFile(tb, "name: bench\n"+pipeline)
}

func newFile(tb testing.TB, pipeline string) *job {
	tb.Helper()
	j := &job{tb: tb, dir: tb.TempDir()}
	if err := os.WriteFile(filepath.Join(j.dir, "pipeline.yaml"), []byte(pipeline), 0o644); err != nil {
		tb.Fatal(err)
	}
	return j
}

// command is one call of the program on the job's file.
func (j *job) command(args ...string) *exec.Cmd {
	j.tb.Helper()
	bin, err := program()
	if err != nil {
		j.tb.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Dir = j.dir
	return cmd
}

// usage is what a process has cost.
type usage struct {
	user, sys, wall time.Duration
	maxRSS          int64 // bytes
}

func (u usage) cpu() time.Duration { return u.user + u.sys }

// run runs the pipeline to its end and returns what it has cost.
func (j *job) run(args ...string) (u usage, out string) {
	j.tb.Helper()
	cmd := j.command(append([]string{"run", "pipeline.yaml"}, args...)...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	start := time.Now()
	if err := cmd.Start(); err != nil {
		j.tb.Fatal(err)
	}
	stop := j.profile()
	err := cmd.Wait()
	u.wall = time.Since(start)
	stop()
	if err != nil {
		j.tb.Fatalf("run: %v\n%s", err, both.String())
	}
	r := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	u.user, u.sys, u.maxRSS = cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime(), r.Maxrss*1024
	return u, both.String()
}

// rows reads a table by the program itself: one JSON object a line, without the
// order of lines.
func (j *job) rows(table string) []string {
	j.tb.Helper()
	out, err := j.command("table", "rows", table, "--file", "pipeline.yaml", "--format", "ndjson").Output()
	if err != nil {
		j.tb.Fatalf("read %s: %v", table, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// url asks the running program for its address and returns the URL of a path.
func (j *job) url(path string) (string, error) {
	end := time.Now().Add(30 * time.Second)
	for {
		// The state is under the pipeline's name.
		found, err := filepath.Glob(filepath.Join(j.dir, "frazil-data/state/*/run.json"))
		var raw []byte
		if len(found) == 1 {
			raw, err = os.ReadFile(found[0])
		}
		var info struct{ HTTP string }
		if err == nil && json.Unmarshal(raw, &info) == nil && info.HTTP != "" {
			return "http://" + info.HTTP + path, nil
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("the program has no address: %w", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// profile takes a CPU profile of the running program, if one is wanted: from two
// seconds after its start, for ten.
func (j *job) profile() (stop func()) {
	dir := os.Getenv("FRAZIL_BENCH_PROFILE")
	if dir == "" {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(2 * time.Second)
		for _, p := range []string{"profile?seconds=10", "heap"} {
			if err := j.fetch("/debug/pprof/"+p, filepath.Join(dir, strings.NewReplacer("/", "-", "?", "-").Replace(j.tb.Name()+"-"+p)+".pprof")); err != nil {
				j.tb.Logf("profile: %v", err)
			}
		}
	}()
	return func() { <-done }
}

func (j *job) fetch(path, file string) error {
	url, err := j.url(path)
	if err != nil {
		return err
	}
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, body, 0o644)
}
