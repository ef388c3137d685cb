package push_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

// fleet is many devices; each numbers its messages and sends each again until the
// broker has acknowledged it.
type fleet struct {
	addr   string
	stop   context.CancelFunc
	work   sync.WaitGroup
	pause  sync.RWMutex   // held while nothing may be published
	acked  []atomic.Int64 // by device: numbers from 1 up to it
	tries  atomic.Int64
	pacing time.Duration
}

func startFleet(addr string, n int, pacing time.Duration) *fleet {
	f := &fleet{addr: addr, acked: make([]atomic.Int64, n), pacing: pacing}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	for i := range n {
		f.work.Go(func() { f.run(ctx, i) })
	}
	return f
}

func (f *fleet) total() (n int64) {
	for i := range f.acked {
		n += f.acked[i].Load()
	}
	return n
}

// run is one device. Even ones use qos 1, odd ones 2.
func (f *fleet) run(ctx context.Context, i int) {
	var d *device
	defer func() {
		if d != nil {
			d.close()
		}
	}()
	tick := time.NewTicker(f.pacing)
	defer tick.Stop()
	for ctx.Err() == nil {
		if d == nil {
			var err error
			if d, err = connect(ctx, f.addr, fmt.Sprintf("device-%d", i), false); err != nil {
				d = nil
				<-tick.C
				continue
			}
		}
		f.pause.RLock()
		n := f.acked[i].Load() + 1
		f.tries.Add(1)
		// Not ended by ctx: what was acknowledged must be known.
		err := d.publish(context.Background(), fmt.Sprintf("fleet/%d/data", i), fmt.Sprintf(`{"device":%d,"seq":%d}`, i, n), byte(1+i%2))
		if err == nil {
			f.acked[i].Store(n)
		} else {
			d.close()
			d = nil
		}
		f.pause.RUnlock()
		<-tick.C
	}
}

// A fleet publishes with qos 1 and 2 while the program is killed, the broker is
// restarted, the network is cut for longer than the keep-alive, and the session
// expires once: every message that a device was told is safe is in the table, once,
// and the ledger counts those that came again.
func TestMQTTFleet(t *testing.T) {
	program.Long(t)
	random := program.Random(t)
	devices, kills, restarts := 200, 5, 1
	if full() {
		devices, kills, restarts = 1000, 30, 3
	} else {
		t.Log("200 devices, 5 kills, 1 restart of the broker; FRAZIL_LONG=1 has 1,000, 30 and 3")
	}
	b := rig.NewMosquitto(t, "sys_interval 1")
	px := newProxy(t, b.Addr)
	pipeline := func(expiry string) string {
		return fmt.Sprintf(`checkpoint: {every: 500ms}
sources:
  in:
    mqtt:
      {broker: "mqtt://%s", topics: ["fleet/+/data"], qos: 2, client_id: fleet-reader, session_expiry: %s, keep_alive: 1s,
       metadata: {received_at: at}}
    decode: {json: {schema: {device: int32, seq: int64}, required: [device, seq]}}
    event_time: {column: at, out_of_orderness: 1m}
operators:
  once: {from: in, dedup: {key: [device, seq], within: 2h}}
  bare: {from: once, project: {drop: [at]}}
sinks:
  t: {from: bare, iceberg: {table: fleet.rows}}
`, px.addr(), expiry)
	}
	p := newPlace(t, "fleet", pipeline("1h"))
	r := p.Start(nil, "run", p.File)
	subscribed := func() bool { return p.event("subscribed") >= 1 }
	r.Until("the source has subscribed", subscribed)
	f := startFleet(b.Addr, devices, 100*time.Millisecond)
	defer f.work.Wait()
	defer f.stop()
	flows := func(n int) func() bool { return func() bool { return p.accepted() >= n } }
	redelivered, reconnects := 0, 0
	for range kills {
		r.Until("messages flow", flows(50))
		time.Sleep(time.Duration(random.Int63n(int64(500 * time.Millisecond)))) // anywhere between two checkpoints
		redelivered, reconnects = redelivered+p.event("redelivered"), reconnects+p.event("reconnects")
		r.Kill()
		r = p.Start(nil, "run", p.File)
	}
	r.Until("messages flow", flows(50))
	for range restarts {
		b.Stop()
		if err := b.Start(); err != nil {
			t.Fatal(err)
		}
		n := p.accepted()
		r.Until("messages flow after the broker's restart", flows(n+50))
	}
	// The network is gone for longer than the keep-alive: nothing answers.
	up := p.event("reconnects")
	px.pass(false, false)
	r.Until("the program notices", func() bool { return strings.Count(r.Stderr.String(), "not connected to the broker") > restarts })
	px.cut()
	px.pass(true, true)
	r.Until("the program is back", func() bool { return p.event("reconnects") > up })
	n := p.accepted()
	r.Until("messages flow after the cut", flows(n+50))

	// The session expires while nothing is on its way: that would be gone, whoever
	// reads.
	f.pause.Lock()
	paused := true
	defer func() {
		if paused {
			f.pause.Unlock()
		}
		if t.Failed() {
			t.Logf("%d acknowledged, %d rows, %d accepted, redelivered %d; streams %s", f.total(), len(p.rows("fleet.rows")), p.accepted(), p.event("redelivered"), p.Run("streams", "--file", p.File))
		}
	}()
	r.Until("all is committed", func() bool { return int64(len(p.rows("fleet.rows"))) >= f.total() })
	redelivered += p.event("redelivered")
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 5000))
	}
	text := p.Path(p.File)
	p.rewrite(text, "session_expiry: 1h", "session_expiry: 1s")
	r = p.Start(nil, "run", p.File)
	r.Until("the source has subscribed", subscribed)
	r.Kill()
	expired(t, b)
	p.rewrite(text, "session_expiry: 1s", "session_expiry: 1h")
	r = p.Start(nil, "run", p.File)
	r.Until("the lost session is noticed", func() bool { return p.event("sessions_lost") == 1 && subscribed() })
	if got := p.health(); !slices.Contains(got, "in connection") {
		t.Errorf("health says %q, want that the session was lost", got)
	}
	paused = false
	f.pause.Unlock()
	r.Until("messages flow after the loss", flows(50))
	f.stop()
	f.work.Wait()
	want := f.total()
	r.Until("all is committed", func() bool { return int64(len(p.rows("fleet.rows"))) >= want })
	redelivered, reconnects = redelivered+p.event("redelivered"), reconnects+p.event("reconnects")
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 5000))
	}
	f.check(t, p.rows("fleet.rows"))
	once := p.fates()["once"]
	t.Logf("%d messages acknowledged to %d devices, %d tries, %d redeliveries noticed, %d reconnections; fates of dedup: %v", want, devices, f.tries.Load(), redelivered, reconnects, once)
	if once["in"] != once["passed"]+once["duplicate"]+once["late"] || once["late"] != 0 {
		t.Errorf("fates of dedup %v: rows are missing from the ledger", once)
	}
}

// check compares the rows with what was acknowledged. A message whose
// acknowledgement was lost may be there as well, once: the device's last.
func (f *fleet) check(t *testing.T, rows []string) {
	t.Helper()
	seen := make([]map[int64]int, len(f.acked))
	for _, row := range rows {
		var x struct {
			Device int
			Seq    int64
		}
		if err := json.Unmarshal([]byte(row), &x); err != nil {
			t.Fatal(err)
		}
		if seen[x.Device] == nil {
			seen[x.Device] = map[int64]int{}
		}
		seen[x.Device][x.Seq]++
	}
	for i := range f.acked {
		last := f.acked[i].Load()
		for n := int64(1); n <= last; n++ {
			if seen[i][n] != 1 {
				t.Errorf("device %d: message %d of %d is %d times in the table", i, n, last, seen[i][n])
			}
			delete(seen[i], n)
		}
		delete(seen[i], last+1)
		if len(seen[i]) > 0 {
			t.Errorf("device %d: messages %v were never published", i, seen[i])
		}
	}
}

// expired waits until the broker says that a session has expired.
func expired(t *testing.T, b *rig.Mosquitto) {
	t.Helper()
	d, err := connect(t.Context(), b.Addr, "watch", false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.subscribe(t.Context(), "$SYS/broker/clients/expired"); err != nil {
		t.Fatal(err)
	}
	for m := range d.got {
		if string(m.Payload) != "0" {
			return
		}
	}
}
