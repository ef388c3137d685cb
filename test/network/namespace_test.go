package network

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace without a name and without a loopback device:
// its way to 127.0.0.0/8 is a tun device, whose packets we carry.
type namespace struct {
	file *os.File
	// device is its end of the link.
	device *os.File
	// address is the program's, as the host sees it.
	address string
	// host is the other end of the link.
	host *os.File
}

var links atomic.Uint32

// newNamespace makes one and its link to the host.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	need(t)
	// A link has a net of four addresses; several test programs may run at once.
	net := (uint32(os.Getpid())*64 + links.Add(1)) % (1 << 14)
	prefix := fmt.Sprintf("10.213.%d.", net>>6)
	at := func(i uint32) string { return prefix + fmt.Sprint((net&63)*4+i) }
	n := &namespace{address: at(2)}
	fail := func(err error) {
		if err != nil {
			t.Fatalf("make a network namespace: %v", err)
		}
	}
	var name string
	var err error
	n.host, name, err = tun()
	fail(err)
	t.Cleanup(func() { n.host.Close() })
	fail(ip("address", "add", at(1)+"/30", "dev", name))
	fail(ip("link", "set", name, "up"))
	fail(routeLocalnet(name))
	fail(n.unshare())
	t.Cleanup(func() { n.file.Close() })
	n.do(t, func() {
		n.device, name, err = tun()
		fail(err)
		t.Cleanup(func() { n.device.Close() })
		fail(routeLocalnet(name))
		fail(ip("address", "add", at(2)+"/30", "dev", name))
		fail(ip("link", "set", name, "up"))
		fail(ip("route", "add", "127.0.0.0/8", "dev", name, "src", at(2)))
	})
	return n
}

// need leaves the test out where it cannot run, and fails it in CI as root.
func need(t *testing.T) {
	t.Helper()
	var missing string
	if os.Geteuid() != 0 {
		t.Skip("left out: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		missing = "the program ip is not there: run ./test/install, or install the Debian package iproute2"
	} else if _, err := os.Stat("/dev/net/tun"); err != nil {
		missing = "there are no tun devices: " + err.Error()
	}
	if missing == "" {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(missing)
	}
	t.Skip("left out: " + missing)
}

// unshare makes the namespace in a thread that ends with it.
func (n *namespace) unshare() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // Never unlocked: the thread goes with the goroutine.
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.file, err = os.Open("/proc/thread-self/ns/net")
		}
		done <- err
	}()
	return <-done
}

// do runs f in the namespace: programs that it starts and sockets that it opens
// belong there.
func (n *namespace) do(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatalf("enter the network namespace: %v", err)
	}
	defer func() {
		// If it fails the thread stays locked and goes with its goroutine.
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Errorf("leave the network namespace: %v", err)
			return
		}
		runtime.UnlockOSThread()
	}()
	f()
}

// tun makes a device that is gone when its file is closed.
func tun() (*os.File, string, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, "", fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq("frz%d")
	if err == nil {
		req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("make a tun device: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), req.Name()), req.Name(), nil
}

// routeLocalnet lets packets from and to 127.0.0.0/8 pass a device.
func routeLocalnet(device string) error {
	for name, value := range map[string]string{"route_localnet": "1", "rp_filter": "0"} {
		if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+device+"/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("set %s of %s: %w", name, device, err)
		}
	}
	return nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
