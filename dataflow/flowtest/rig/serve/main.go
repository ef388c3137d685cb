// Command serve starts the real servers, runs a command that finds them by
// environment variables, and stops them:
//
//	serve [-within DURATION] COMMAND [ARGUMENT...]
//
// It ends with the command's exit code; 1 if a server did not start, 124 if the
// command took too long.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"frazil/dataflow/flowtest/rig"
)

func main() {
	within := flag.Duration("within", time.Hour, "the longest the command may take")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: serve [-within DURATION] COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := serve(flag.Args(), *within)
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
	}
	os.Exit(code)
}

func serve(args []string, within time.Duration) (int, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	dir, err := os.MkdirTemp("", "frazil-rig-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	servers, err := rig.StartServers(dir)
	if err != nil {
		return 1, err
	}
	defer servers.Stop()
	fmt.Printf("serve: ready in %.1f s\n  %s\n", time.Since(began).Seconds(), strings.Join(servers.Env, "\n  "))

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), servers.Env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.After(within)
	select {
	case err := <-ended:
		return exitCode(err)
	case <-late:
		end(cmd.Process.Pid, ended)
		return 124, fmt.Errorf("%s took longer than %v", args[0], within)
	case s := <-signals:
		end(cmd.Process.Pid, ended)
		return 1, fmt.Errorf("ended by %v", s)
	}
}

// end stops the command and all that it started in its group.
func end(pid int, ended <-chan error) {
	_ = syscall.Kill(-pid, syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), nil
	}
	return 1, err
}
