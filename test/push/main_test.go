// Package push_test starts the real program, pushes records to it as devices and
// services do, kills it, cuts its network, and compares every table, row by row,
// with what the producers were told is safe.
//
// FRAZIL_SEED repeats the random choices of a run; FRAZIL_TEST_BIN names a program
// built with -tags failpoints that is to be tested instead of a new one;
// FRAZIL_LONG=1 runs what takes minutes in its full length.
package push_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bin is the program under test.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if testing.Short() {
			return m.Run()
		}
		if bin = os.Getenv("FRAZIL_TEST_BIN"); bin != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "frazil-push")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		bin = filepath.Join(dir, "frazil")
		build := exec.Command("go", "build", "-tags", "failpoints", "-o", bin, "../../cmd/frazil")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
			return 1
		}
		return m.Run()
	}())
}

// long leaves a test out with -short and lets it run beside others.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the program many times: left out with -short")
	}
	t.Parallel()
}

// full says whether tests that take minutes run in their full length.
func full() bool { return os.Getenv("FRAZIL_LONG") != "" }

// random gives a source of choices that FRAZIL_SEED repeats.
func random(t *testing.T) *rand.Rand {
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

// place is a working directory with a pipeline in it.
type place struct {
	t    *testing.T
	dir  string
	file string
}

// newPlace writes a pipeline called name into a new directory. Its state is in
// ./state.
func newPlace(t *testing.T, name, text string) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), file: "pipeline.yaml"}
	p.write(p.file, "name: "+name+"\nhttp: 127.0.0.1:0\nstate: {dir: ./state}\n"+text)
	return p
}

func (p *place) path(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// patience bounds every wait for the program: far beyond what it needs.
const patience = 3 * time.Minute

// proc is a running program.
type proc struct {
	t      *testing.T
	what   string
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr log
	ended  chan struct{}
	err    error
}

// log collects what a program writes while it runs.
type log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start starts the program with args and further variables.
func (p *place) start(env []string, args ...string) *proc {
	p.t.Helper()
	r := &proc{t: p.t, what: "frazil " + strings.Join(args, " "), ended: make(chan struct{})}
	r.cmd = exec.Command(bin, args...)
	r.cmd.Dir, r.cmd.Env = p.dir, append(os.Environ(), env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	if err := r.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	p.t.Cleanup(func() {
		r.signal(syscall.SIGKILL)
		<-r.ended
	})
	return r
}

func (r *proc) signal(s syscall.Signal) {
	if err := r.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Errorf("%s: %v", r.what, err)
	}
}

// kill ends the program at once.
func (r *proc) kill() {
	r.signal(syscall.SIGKILL)
	<-r.ended
}

// wait returns the exit code.
func (r *proc) wait() int {
	r.t.Helper()
	select {
	case <-r.ended:
	case <-time.After(patience):
		r.signal(syscall.SIGQUIT)
		<-r.ended
		r.t.Fatalf("%s did not end; the end of what it wrote:\n%s", r.what, tail(r.stderr.String(), 20000))
	}
	for _, bug := range []string{"panic:", "WARNING: DATA RACE", "fatal error:"} {
		if strings.Contains(r.stderr.String(), bug) {
			r.t.Fatalf("%s:\n%s", r.what, tail(r.stderr.String(), 20000))
		}
	}
	return r.cmd.ProcessState.ExitCode()
}

// until waits until ok says so, looking again and again.
func (r *proc) until(what string, ok func() bool) {
	r.t.Helper()
	failed := r.t.Failed()
	defer func() {
		if r.t.Failed() && !failed { // What it was doing.
			r.signal(syscall.SIGQUIT)
			<-r.ended
			r.t.Logf("%s wrote at the end:\n%s", r.what, tail(r.stderr.String(), 60000))
		}
	}()
	await(r.t, what, func() bool {
		select {
		case <-r.ended:
			if !ok() {
				r.t.Fatalf("%s ended while waiting for: %s\n%s", r.what, what, tail(r.stderr.String(), 5000))
			}
			return true
		default:
		}
		return ok()
	})
}

// await looks again and again whether ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}

// run runs the program to its end, which must be a good one, and returns what it
// printed.
func (p *place) run(args ...string) string {
	p.t.Helper()
	r := p.start(nil, args...)
	if code := r.wait(); code != 0 {
		p.t.Fatalf("%s: exit code %d\n%s", r.what, code, tail(r.stderr.String(), 5000))
	}
	return r.stdout.String()
}

// fail runs the program, which must end with code and say all of words.
func (p *place) fail(code int, words []string, args ...string) {
	p.t.Helper()
	r := p.start(nil, args...)
	if got := r.wait(); got != code {
		p.t.Fatalf("%s: exit code %d, want %d\n%s", r.what, got, code, tail(r.stderr.String(), 5000))
	}
	for _, w := range words {
		if !strings.Contains(r.stderr.String(), w) {
			p.t.Errorf("%s does not say %q:\n%s", r.what, w, tail(r.stderr.String(), 5000))
		}
	}
}

// metric asks the running program for a number; "" while there is none. name may go
// on with labels: frazil_stream_x{step="y".
func (p *place) metric(name string) string {
	raw, err := os.ReadFile(p.path("state", "run.json"))
	if err != nil {
		return ""
	}
	var run map[string]any
	if json.Unmarshal(raw, &run) != nil {
		return ""
	}
	resp, err := http.Get(fmt.Sprintf("http://%v/metrics", run["http"]))
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), name) {
			return lines.Text()[strings.LastIndex(lines.Text(), " ")+1:]
		}
	}
	return ""
}
