package rig

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// A server ends with the process that started it, also if that is killed: here
// PostgreSQL, which runs as another user and has children.
func TestServersEndWithAKilledProcess(t *testing.T) {
	if os.Getenv("FRAZIL_RIG_OWNER") != "" {
		p := NewPostgres(t)
		fmt.Println("\n" + p.dir)
		fmt.Println(p.Addr)
		select {}
	}
	if _, err := postgresPrograms(); err != nil {
		missing(t, "PostgreSQL", "run ./test/install")
	}
	runtime.LockOSThread() // The kernel takes this thread's end for ours.
	defer runtime.UnlockOSThread()
	owner := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	owner.Env = append(os.Environ(), "FRAZIL_RIG_OWNER=yes")
	owner.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	defer owner.Wait()
	var dir, address string
	lines := bufio.NewScanner(out)
	for address == "" && lines.Scan() {
		if info, err := os.Stat(lines.Text()); err == nil && info.IsDir() {
			dir = lines.Text()
			defer os.RemoveAll(dir)
		} else if dir != "" {
			address = lines.Text()
		}
	}
	if conn, err := net.Dial("tcp", address); err != nil {
		t.Fatalf("the server of another process at %q: %v", address, err)
	} else {
		conn.Close()
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(stopWithin); time.Now().Before(end); <-tick.C {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		conn.Close()
	}
	t.Errorf("the server at %s outlives who started it", address)
}
