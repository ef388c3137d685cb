package push_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// mqttTo is a pipeline from a topic to a files sink.
func mqttTo(addr, more string) string {
	return fmt.Sprintf(`checkpoint: {every: 200ms}
sources:
  in:
    mqtt: {broker: "mqtt://%s", topics: [t/+], %s}
    decode: {json: {schema: {n: int64}}}
sinks:
  out: {from: in, files: {path: out}}
`, addr, more)
}

// A3: the engine's own state is known to others: online while it is connected, and
// offline, by the broker, when it was killed.
func TestMQTTTheBrokerTellsThatTheEngineIsGone(t *testing.T) {
	long(t)
	b := rig.NewMosquitto(t)
	p := newPlace(t, "told", mqttTo(b.Addr, "client_id: told, status: {topic: engines/told}"))
	r := p.start(nil, "run", p.file)
	b.Await(t, "engines/told", "online")
	r.kill()
	b.Await(t, "engines/told", "offline")
	r = p.start(nil, "run", p.file)
	b.Await(t, "engines/told", "online")
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, tail(r.stderr.String(), 3000))
	}
	b.Await(t, "engines/told", "offline")
}

// A3: two processes, one of them with two connections, share a subscription: each
// message comes to one of them.
func TestMQTTProcessesShareASubscription(t *testing.T) {
	long(t)
	b := rig.NewMosquitto(t)
	one := newPlace(t, "one", mqttTo(b.Addr, "client_id: one, share: g"))
	two := newPlace(t, "two", mqttTo(b.Addr, "client_id: two, share: g, connections: 2"))
	a, c := one.start(nil, "run", one.file), two.start(nil, "run", two.file)
	a.until("the first has subscribed", func() bool { return one.event("subscribed") >= 1 })
	c.until("the second has subscribed twice", func() bool { return two.event("subscribed") >= 2 })
	const messages = 60
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprintf(`{"n":%d}`, i))
		b.Pub(t, []byte(want[i]), "-q", "1", "-t", "t/x")
	}
	a.until("all are durable", func() bool { return one.accepted()+two.accepted() >= messages })
	for _, r := range []*proc{a, c} {
		r.signal(syscall.SIGTERM)
		if code := r.wait(); code != 0 {
			t.Fatalf("exit code %d\n%s", code, tail(r.stderr.String(), 3000))
		}
	}
	first, second := strings.Fields(one.files("out")), strings.Fields(two.files("out"))
	got := slices.Concat(first, second)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d and %d rows, want the %d messages once each", len(first), len(second), messages)
	}
	if len(first) == 0 || len(second) == 0 {
		t.Errorf("%d and %d rows: one of them has got nothing", len(first), len(second))
	}
}

// H5: a preview shows messages and acknowledges none, so that the pipeline gets them
// all the same.
func TestMQTTAPreviewAcknowledgesNothing(t *testing.T) {
	long(t)
	b := rig.NewMosquitto(t)
	p := newPlace(t, "shown", mqttTo(b.Addr, "client_id: shown"))
	r := p.start(nil, "run", p.file)
	r.until("it has subscribed", func() bool { return p.event("subscribed") >= 1 })
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, tail(r.stderr.String(), 3000))
	}
	// The broker keeps these for the session of the pipeline.
	for _, m := range []string{`{"n":1}`, `{"n":2}`} {
		b.Pub(t, []byte(m), "-q", "1", "-t", "t/x")
	}
	shown := p.start(nil, "run", "--preview", "--rows", "1", p.file)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-shown.ended:
				return
			default:
				b.Pub(t, []byte(`{"n":3}`), "-q", "0", "-t", "t/x")
			}
		}
	}()
	if code := shown.wait(); code != 0 {
		t.Fatalf("preview: exit code %d\n%s", code, tail(shown.stderr.String(), 3000))
	}
	close(stop)
	<-done
	if !strings.Contains(shown.stdout.String(), `{"n":3}`) {
		t.Errorf("the preview shows\n%s", shown.stdout.String())
	}
	r = p.start(nil, "run", p.file)
	r.until("what was kept has come", func() bool { return p.accepted() >= 2 })
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, tail(r.stderr.String(), 3000))
	}
	if got := p.files("out"); !strings.Contains(got, `{"n":1}`) || !strings.Contains(got, `{"n":2}`) {
		t.Errorf("the table has\n%s", got)
	}
}
