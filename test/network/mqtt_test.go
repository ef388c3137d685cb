package network

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"
)

// mqttPipeline reads what a device publishes; the broker may send a message again.
const mqttPipeline = `http: %s
connections:
  lake:
    iceberg_catalog:
      type: rest
      uri: %q
      s3: {endpoint: %q, region: us-east-1, access_key: "%s", secret_key: "%s"}
sources:
  in:
    mqtt: {broker: "mqtt://%s", topics: [%s], qos: 1, client_id: %[7]s, session_expiry: 1h, keep_alive: 5s}
    decode: {json: {schema: {id: int64, part: int32, at: int64, et: timestamptz(ms), check: string}, required: [id, part, at, et, check]}}
    event_time: {column: et, out_of_orderness: 5s}
operators:
  once: {from: in, dedup: {key: [id], within: 1h}}
  windows: {from: once, window: {tumbling: 10s, by: [part], aggregate: {n: count(*), s: sum(id)}}}
sinks:
  raw: {from: once, iceberg: {catalog: lake, table: %[8]s}}
  sums: {from: windows, iceberg: {catalog: lake, table: %[9]s}}
checkpoint: {every: 500ms}
`

var mqttEdges = map[string]string{"once": "in.passed", "windows": "once.passed", "raw": "once.passed", "sums": "windows.created"}

// device publishes events, one after the other, and knows that the broker has them.
type device struct {
	t      *testing.T
	topic  string
	client *paho.Client
	sent   *sent
}

// newDevice connects to the broker, not over the link.
func newDevice(t *testing.T, broker, topic string, seed uint64) *device {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", broker)
	if err != nil {
		t.Fatal(err)
	}
	d := &device{t: t, topic: topic, client: paho.NewClient(paho.ClientConfig{ClientID: topic + "-device", Conn: conn}), sent: newSent(seed)}
	if _, err := d.client.Connect(t.Context(), &paho.Connect{ClientID: topic + "-device", KeepAlive: 60, CleanStart: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.client.Disconnect(&paho.Disconnect{}) })
	return d
}

func (d *device) publish(e event) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e.part, e.at = 0, int64(e.id)
	_, err := d.client.Publish(ctx, &paho.Publish{Topic: d.topic, QoS: 1,
		Payload: fmt.Appendf(nil, `{"id":%d,"part":%d,"at":%d,"et":%d,"check":%q}`, e.id, e.part, e.at, e.et.UnixMilli(), e.check())})
	if err == nil {
		d.sent.add(e)
	}
	return err
}

func (d *device) log() *sent { return d.sent }

// feed is as a topic's.
func (d *device) feed() (stop func()) {
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			for range 20 {
				if err := d.publish(d.sent.make(1)); err != nil {
					done <- err
					return
				}
			}
			select {
			case <-tick.C:
			case <-quit:
				done <- nil
				return
			}
		}
	}()
	return func() {
		d.t.Helper()
		close(quit)
		err := <-done
		if err == nil {
			last := d.sent.make(1)
			last.et = dataStart.Add(lastEvent)
			err = d.publish(last)
		}
		if err != nil {
			d.t.Fatalf("publish: %v", err)
		}
	}
}
