package program

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait for the program: far beyond what it needs.
const Patience = 3 * time.Minute

// Process is a program that was started.
type Process struct {
	// What was started, for messages.
	What string
	Cmd  *exec.Cmd
	// Stdout may be read once it has ended, Stderr at any time.
	Stdout bytes.Buffer
	Stderr Log
	// Ended is closed when it has.
	Ended chan struct{}

	t testing.TB
}

// Log collects what a program writes while it runs. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all that was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Start starts the program in the place with args and further variables. It is
// killed at the end of the test.
func (p *Place) Start(env []string, args ...string) *Process {
	p.T.Helper()
	r := &Process{t: p.T, What: "frazil " + strings.Join(args, " "), Ended: make(chan struct{})}
	r.Cmd = exec.Command(Bin(p.T), args...)
	r.Cmd.Dir, r.Cmd.Env = p.Dir, append(os.Environ(), env...)
	r.Cmd.Stdout, r.Cmd.Stderr = &r.Stdout, &r.Stderr
	if err := r.Cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	go func() {
		_ = r.Cmd.Wait()
		close(r.Ended)
	}()
	p.T.Cleanup(func() {
		r.Signal(syscall.SIGKILL)
		<-r.Ended
	})
	return r
}

// Signal sends a signal, also to a program that has ended.
func (r *Process) Signal(s syscall.Signal) {
	if err := r.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Errorf("%s: %v", r.What, err)
	}
}

// HasEnded says whether it has.
func (r *Process) HasEnded() bool {
	select {
	case <-r.Ended:
		return true
	default:
		return false
	}
}

// Killed says whether the program has ended by SIGKILL.
func (r *Process) Killed() bool {
	if !r.HasEnded() {
		return false
	}
	w, ok := r.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && w.Signaled() && w.Signal() == syscall.SIGKILL
}

// Kill ends the program at once (SIGKILL).
func (r *Process) Kill() {
	r.Signal(syscall.SIGKILL)
	<-r.Ended
}

// Terminate stops the program gracefully (SIGTERM) and expects exit code 0.
func (r *Process) Terminate() {
	r.t.Helper()
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		r.t.Fatalf("%s: exit code %d after SIGTERM\n%s", r.What, code, Tail(r.Stderr.String(), 5000))
	}
}

// Wait waits for the end and returns the exit code. A panic or a data race fails the
// test.
func (r *Process) Wait() int {
	r.t.Helper()
	select {
	case <-r.Ended:
	case <-time.After(Patience):
		r.Signal(syscall.SIGQUIT)
		<-r.Ended
		r.t.Fatalf("%s did not end; the end of what it wrote:\n%s", r.What, Tail(r.Stderr.String(), 20000))
	}
	for _, bug := range []string{"panic:", "WARNING: DATA RACE", "fatal error:"} {
		if strings.Contains(r.Stderr.String(), bug) {
			r.t.Fatalf("%s:\n%s", r.What, Tail(r.Stderr.String(), 20000))
		}
	}
	return r.Cmd.ProcessState.ExitCode()
}

// Until waits until ok says so, looking again and again; a program that ends before
// fails the test. A wait in vain shows what the program was doing.
func (r *Process) Until(what string, ok func() bool) {
	r.t.Helper()
	failed := r.t.Failed()
	defer func() {
		if r.t.Failed() && !failed {
			r.Signal(syscall.SIGQUIT)
			<-r.Ended
			r.t.Logf("%s wrote at the end:\n%s", r.What, Tail(r.Stderr.String(), 60000))
		}
	}()
	Await(r.t, what, func() bool {
		if r.HasEnded() {
			if !ok() {
				r.t.Fatalf("%s ended while waiting for: %s\n%s", r.What, what, Tail(r.Stderr.String(), 5000))
			}
			return true
		}
		return ok()
	})
}

// PeakRSS is the most memory that the running program had resident, in bytes.
func (r *Process) PeakRSS() int64 {
	r.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.Cmd.Process.Pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				r.t.Fatal(err)
			}
			return n << 10
		}
	}
	r.t.Fatal("the kernel does not tell the memory of the program")
	return 0
}

// Await looks again and again whether ok holds.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// Tail is the end of a text, of at most n bytes.
func Tail(s string, n int) string {
	if len(s) > n {
		return "..." + s[len(s)-n:]
	}
	return s
}
