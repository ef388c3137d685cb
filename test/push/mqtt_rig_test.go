package push_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// proxy stands between the program and the broker: it can hold what goes up, hold
// everything, and come back.
type proxy struct {
	t    *testing.T
	to   string
	ln   net.Listener
	mu   sync.Mutex
	cond *sync.Cond
	// up and down let bytes to the broker and from it pass.
	up, down bool
	conns    map[net.Conn]bool
	closed   bool
	work     sync.WaitGroup
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, to: to, ln: ln, up: true, down: true, conns: map[net.Conn]bool{}}
	p.cond = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", p.to)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[b] = true, true
		p.mu.Unlock()
		p.work.Go(func() { p.copy(b, c, &p.up) })
		p.work.Go(func() { p.copy(c, b, &p.down) })
	}
}

// copy passes bytes on while open says so.
func (p *proxy) copy(dst, src net.Conn, open *bool) {
	defer dst.Close()
	defer src.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		p.mu.Lock()
		for !*open && !p.closed {
			p.cond.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass sets which ways are open. Bytes that were held go on when theirs opens.
func (p *proxy) pass(up, down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down = up, down
	p.cond.Broadcast()
}

// cut ends all connections; what was held is gone.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *proxy) close() {
	p.ln.Close()
	p.mu.Lock()
	p.closed = true
	p.cond.Broadcast()
	p.mu.Unlock()
	p.cut()
	p.work.Wait()
}

// number reads a metric as a number; 0 while there is none.
func (p *place) number(name string) (n float64) {
	_, _ = fmt.Sscan(p.Metric(name), &n) // An absent one stays 0.
	return n
}

// event reads what the source "in" counts.
func (p *place) event(name string) int {
	return int(p.number(fmt.Sprintf(`frazil_stream_events_total{event=%q`, name)))
}

// accepted counts the records that the source "in" made durable in this process.
func (p *place) accepted() int { return int(p.number(`frazil_stream_accepted_rows_total`)) }

// rows are those of a table, sorted; none while there is no table.
func (p *place) rows(table string) []string {
	r := p.Start(nil, "table", "rows", table, "--file", p.File, "--format", "ndjson")
	if r.Wait() != 0 {
		return nil
	}
	text := strings.TrimSpace(r.Stdout.String())
	if text == "" {
		return nil
	}
	return slices.Sorted(slices.Values(strings.Split(text, "\n")))
}

// fates are the ledger's, by step.
func (p *place) fates() map[string]map[string]int64 {
	p.t.Helper()
	out := map[string]map[string]int64{}
	for line := range strings.Lines(p.Run("ledger", "--file", p.File, "--format", "ndjson")) {
		var x struct {
			Step  string
			Fates map[string]int64
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			p.t.Fatalf("%v: %s", err, line)
		}
		out[x.Step] = x.Fates
	}
	return out
}

// device is an MQTT client of version 5.
type device struct {
	client *paho.Client
	got    chan *paho.Publish
}

// connect makes a device with a session that ends with it, or with one that stays.
func connect(ctx context.Context, addr, id string, stays bool) (*device, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	d := &device{got: make(chan *paho.Publish, 1000)}
	d.client = paho.NewClient(paho.ClientConfig{
		ClientID: id, Conn: conn, PacketTimeout: 10 * time.Second,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			d.got <- p.Packet
			return true, nil
		}},
	})
	c := &paho.Connect{ClientID: id, KeepAlive: 30, CleanStart: !stays}
	if stays {
		keep := uint32(3600)
		c.Properties = &paho.ConnectProperties{SessionExpiryInterval: &keep}
	}
	if _, err := d.client.Connect(ctx, c); err != nil {
		return nil, err
	}
	return d, nil
}

// publish returns when the broker has acknowledged the message.
func (d *device) publish(ctx context.Context, topic, payload string, qos byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := d.client.Publish(ctx, &paho.Publish{Topic: topic, Payload: []byte(payload), QoS: qos})
	return err
}

func (d *device) close() {
	_ = d.client.Disconnect(&paho.Disconnect{}) // It may be gone.
}

func (d *device) subscribe(ctx context.Context, filter string) error {
	_, err := d.client.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	return err
}

// rewrite replaces a text in a file.
func (p *place) rewrite(file, old, text string) {
	p.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		p.t.Fatalf("%s holds no %q", file, old)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(b), old, text)), 0o600); err != nil {
		p.t.Fatal(err)
	}
}
