package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"frazil/test/simulation/world"
)

// theGuest is the program in which a world passes; it is built once.
var theGuest = sync.OnceValues(func() (string, error) {
	if file := os.Getenv("FRAZIL_SIM_GUEST"); file != "" {
		return filepath.Abs(file)
	}
	dir, err := os.MkdirTemp("", "frazil-simulation-")
	if err != nil {
		return "", err
	}
	built = dir
	return build(dir)
})

// built is the folder of the guest; TestMain removes it.
var built string

// patience is how long a world may take, a hundred times what it does.
const patience = 10 * time.Minute

func guest(t testing.TB) string {
	t.Helper()
	file, err := theGuest()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// run lets a world pass.
func run(t testing.TB, args ...string) world.Result {
	t.Helper()
	return runIn(t, guest(t), args...)
}

// runIn lets a world pass in a process of its own.
func runIn(t testing.TB, file string, args ...string) world.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	errs := &beginning{}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Args[0] = "guest"
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // it says where it is
	cmd.WaitDelay = time.Minute
	// One goroutine runs at a time, and none collects garbage.
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=all", "FRAZIL_SIM_TRACE=0"}
	cmd.Stdout, cmd.Stderr = &out, errs
	if os.Getenv("FRAZIL_SIM_TRACE") != "" {
		cmd.Env[len(cmd.Env)-1], cmd.Stderr = "FRAZIL_SIM_TRACE=1", os.Stderr
	}
	err := cmd.Run()
	var r world.Result
	if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
		r.Failures = append(r.Failures, fmt.Sprintf("the guest said nothing that can be read: %v", jsonErr))
	}
	if err != nil {
		r.Failures = append(r.Failures, fmt.Sprintf("the guest ended: %v\n%s", err, errs))
	}
	return r
}

// beginning keeps the first of what is written to it.
type beginning struct{ buf []byte }

func (b *beginning) Write(p []byte) (int, error) {
	b.buf = append(b.buf, p[:min(len(p), 64<<10-len(b.buf))]...)
	return len(p), nil
}

func (b *beginning) String() string { return string(b.buf) }
