package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// readyWithin bounds every start: a loaded machine with two cores needs up to a
// minute for a JVM.
const readyWithin = 3 * time.Minute

// stopWithin bounds every end in good order; who takes longer is killed.
const stopWithin = 30 * time.Second

// process is a server that runs.
type process struct {
	name string
	log  string // the file of its stdout and stderr
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// launch starts a program whose output goes to a file, and which is killed when we
// die.
func launch(name, dir, log, program string, args ...string) (*process, error) {
	return launchAs(&syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}, name, dir, log, program, args...)
}

// launchAs is launch with a user of its own and another signal when we die.
func launchAs(child *syscall.SysProcAttr, name, dir, log, program string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, out, out
	// A group of its own, so that an interrupt from the keyboard does not reach
	// it before us.
	child.Setpgid = true
	p.cmd.SysProcAttr = child
	started := make(chan error)
	go func() {
		// The kernel takes the end of the thread that started it for our end.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
		}
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// wait polls until ready says so, the process ends, or the time is over.
func (p *process) wait(ready func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(readyWithin)
	for !ready() {
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended at its start:\n%s", p.name, p.tail())
		case <-limit:
			return fmt.Errorf("%s is not ready after %v:\n%s", p.name, readyWithin, p.tail())
		}
	}
	return nil
}

// tail is the end of what it printed.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	text = bytes.ReplaceAll(text, []byte{0}, nil)
	return string(text[max(0, len(text)-4000):])
}

// stop asks the process to end, and kills it if it does not.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		p.kill()
	}
}

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

func (p *process) signal(s syscall.Signal) {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Signal(s)
	}
}

// debian finds a program, also where Debian puts servers.
func debian(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", program))
}

// appendLines adds lines to a file.
func appendLines(path string, lines []string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// childrenOf lists the processes that a process has started and not yet buried.
func childrenOf(pid int) []int {
	entries, _ := os.ReadDir("/proc")
	var out []int
	for _, e := range entries {
		child, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if f := statOf(child); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			out = append(out, child)
		}
	}
	return out
}

// running says whether a process is there and has not ended.
func running(pid int) bool {
	f := statOf(pid)
	return len(f) > 0 && f[0] != "Z" && f[0] != "X"
}

// stopped says whether a process is there and stands still (SIGSTOP).
func stopped(pid int) bool {
	f := statOf(pid)
	return len(f) > 0 && f[0] == "T"
}

// statOf is what the kernel says of a process behind its name: its state, its
// parent, and so on. Nothing if there is no such process.
func statOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

// ownName makes a name that nobody else takes.
func ownName() string { return fmt.Sprintf("t_%016x", rand.Uint64()) }

// answers says whether the address gives status 200.
func answers(url string) func() bool {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return func() bool {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
}

// logs says whether the process printed the text.
func (p *process) logs(text string) func() bool {
	return func() bool {
		b, err := os.ReadFile(p.log)
		return err == nil && strings.Contains(string(b), text)
	}
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
