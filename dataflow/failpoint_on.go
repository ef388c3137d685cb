//go:build failpoints

package dataflow

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var failpointHits atomic.Int64

// Failpoint kills the process with SIGKILL when FRAZIL_FAILPOINT is "name" or
// "name:n" and this is the n-th time that name is passed.
func Failpoint(name string) {
	want, count, _ := strings.Cut(os.Getenv("FRAZIL_FAILPOINT"), ":")
	if want != name {
		return
	}
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		n = 1
	}
	if failpointHits.Add(1) == n {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
