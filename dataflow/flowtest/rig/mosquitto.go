package rig

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Mosquitto is an MQTT broker of one test's own. Its methods are called from one
// goroutine.
type Mosquitto struct {
	// Addr is HOST:PORT, the same after each Start: no TLS, anyone may come.
	Addr string
	// TLSAddr is HOST:PORT of a listener with TLS that asks for a client certificate
	// and for User and Password.
	TLSAddr        string
	User, Password string
	// CA, Cert and Key are files in PEM: whom to trust, and a client's own.
	CA, Cert, Key string

	dir     string
	starts  int
	process *process
}

// NewMosquitto starts a broker with its data in a folder of the test; it ends with
// the test. extra are further lines of its configuration.
func NewMosquitto(t testing.TB, extra ...string) *Mosquitto {
	t.Helper()
	if _, err := debian("mosquitto"); err != nil {
		missing(t, "MQTT broker", "run ./test/install, or install the Debian packages mosquitto and mosquitto-clients")
	}
	b, err := newMosquitto(t.TempDir(), extra)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	return b
}

// The broker saves what it holds once a second, and when it is stopped.
const mosquittoConf = `per_listener_settings true
listener %[1]s 127.0.0.1
allow_anonymous true
listener %[2]s 127.0.0.1
allow_anonymous false
password_file %[3]s/passwords
cafile %[3]s/ca.pem
certfile %[3]s/server.pem
keyfile %[3]s/server.key
require_certificate true
persistence true
persistence_location %[3]s/
autosave_interval 1
max_queued_messages 0
max_inflight_messages 1000
log_type error
log_type warning
log_type notice
log_dest stderr
`

func newMosquitto(dir string, extra []string) (*Mosquitto, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	b := &Mosquitto{
		Addr: addr(ports[0]), TLSAddr: addr(ports[1]), User: "frazil", Password: "very secret", dir: dir,
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key"),
	}
	if err := certificates(dir); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	tool, err := debian("mosquitto_passwd")
	if err != nil {
		return nil, err
	}
	if out, err := exec.Command(tool, "-b", "-c", filepath.Join(dir, "passwords"), b.User, b.Password).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mosquitto_passwd: %w: %s", err, out)
	}
	conf := fmt.Sprintf(mosquittoConf, strconv.Itoa(ports[0]), strconv.Itoa(ports[1]), dir)
	if os.Getuid() == 0 { // It would become another user, who may not write here.
		conf += "user root\n"
	}
	for _, line := range extra {
		conf += line + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "m.conf"), []byte(conf), 0o600); err != nil {
		return nil, err
	}
	return b, b.Start()
}

// Start starts the broker again on the data it has, and returns when it serves.
func (b *Mosquitto) Start() error {
	if b.process != nil {
		return fmt.Errorf("the broker at %s runs already", b.Addr)
	}
	program, err := debian("mosquitto")
	if err != nil {
		return err
	}
	b.starts++
	p, err := launch("mosquitto", b.dir, filepath.Join(b.dir, "log."+strconv.Itoa(b.starts)), program, "-c", "m.conf")
	if err != nil {
		return err
	}
	b.process = p
	if err := p.wait(func() bool {
		c, err := net.Dial("tcp", b.Addr)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}); err != nil {
		b.Kill()
		return err
	}
	return nil
}

// Stop ends the broker in good order (SIGTERM): it saves what it holds.
func (b *Mosquitto) Stop() {
	if b.process != nil {
		b.process.stop()
		b.process = nil
	}
}

// Kill ends the broker at once (SIGKILL).
func (b *Mosquitto) Kill() {
	if b.process != nil {
		b.process.kill()
		b.process = nil
	}
}

// Reset forgets all that the broker held. It must be stopped.
func (b *Mosquitto) Reset() error {
	err := os.Remove(filepath.Join(b.dir, "mosquitto.db"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// PID is that of the running broker, for what it takes of the processor.
func (b *Mosquitto) PID() int { return b.process.cmd.Process.Pid }

// Pub publishes with mosquitto_pub.
func (b *Mosquitto) Pub(t testing.TB, payload []byte, args ...string) {
	t.Helper()
	tool, err := debian("mosquitto_pub")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-h", host, "-p", port}, args...)
	if len(payload) > 0 {
		args = append(args, "-s") // the whole of its input is one message
	} else {
		args = append(args, "-n")
	}
	cmd := exec.Command(tool, args...)
	cmd.Stdin = bytes.NewReader(payload)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub %q: %v: %s", args, err, out)
	}
}

// Await waits until a topic's retained or next message is payload.
func (b *Mosquitto) Await(t testing.TB, topic, payload string) {
	t.Helper()
	tool, err := debian("mosquitto_sub")
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(readyWithin); time.Now().Before(end); {
		out, err := exec.Command(tool, "-h", host, "-p", port, "-q", "1", "-t", topic, "-C", "1", "-W", "60").Output()
		if err == nil && string(bytes.TrimSpace(out)) == payload {
			return
		}
	}
	t.Fatalf("the topic %s never said %q", topic, payload)
}
