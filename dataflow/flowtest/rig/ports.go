package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

// held are the ports that this process has taken; they are its own until it ends, so that
// a server can come back to its port, and tests of other packages do not take it meanwhile.
var held struct {
	sync.Mutex
	files []*os.File
}

// Address takes a port, and gives HOST:PORT of it on the loopback interface.
func Address(t testing.TB) string {
	t.Helper()
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return addr(ports[0])
}

// freePorts takes ports nobody listens on, below those that outgoing connections take. Any
// goroutine, of any process, may call it.
func freePorts(n int) ([]int, error) {
	held.Lock()
	defer held.Unlock()
	dir := filepath.Join(os.TempDir(), leak.Ports+strconv.Itoa(os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("take ports: %w", err)
	}
	var out []int
	for tries := 0; len(out) < n; tries++ {
		if tries > 1000 {
			return nil, fmt.Errorf("found only %d of %d free ports", len(out), n)
		}
		// A port and the one 10,000 above: some servers derive a second one.
		p := 10000 + rand.IntN(10000)
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(p)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("take port %d: %w", p, err)
		}
		// The lock ends with the process, however that ends.
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !portFree(p) || !portFree(p+10000) {
			f.Close()
			continue
		}
		held.files = append(held.files, f)
		out = append(out, p)
	}
	return out, nil
}

func portFree(p int) bool {
	l, err := net.Listen("tcp", addr(p))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
