package push_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/program"
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
	program.Long(t)
	b := rig.NewMosquitto(t)
	p := newPlace(t, "told", mqttTo(b.Addr, "client_id: told, status: {topic: engines/told}"))
	r := p.Start(nil, "run", p.File)
	b.Await(t, "engines/told", "online")
	r.Kill()
	b.Await(t, "engines/told", "offline")
	r = p.Start(nil, "run", p.File)
	b.Await(t, "engines/told", "online")
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	b.Await(t, "engines/told", "offline")
}

// A3: two processes, one of them with two connections, share a subscription: each
// message comes to one of them.
func TestMQTTProcessesShareASubscription(t *testing.T) {
	program.Long(t)
	b := rig.NewMosquitto(t)
	one := newPlace(t, "one", mqttTo(b.Addr, "client_id: one, share: g"))
	two := newPlace(t, "two", mqttTo(b.Addr, "client_id: two, share: g, connections: 2"))
	a, c := one.Start(nil, "run", one.File), two.Start(nil, "run", two.File)
	a.Until("the first has subscribed", func() bool { return one.event("subscribed") >= 1 })
	c.Until("the second has subscribed twice", func() bool { return two.event("subscribed") >= 2 })
	const messages = 60
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprintf(`{"n":%d}`, i))
		b.Pub(t, []byte(want[i]), "-q", "1", "-t", "t/x")
	}
	a.Until("all are durable", func() bool { return one.accepted()+two.accepted() >= messages })
	for _, r := range []*proc{a, c} {
		r.Signal(syscall.SIGTERM)
		if code := r.Wait(); code != 0 {
			t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
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
	program.Long(t)
	b := rig.NewMosquitto(t)
	p := newPlace(t, "shown", mqttTo(b.Addr, "client_id: shown"))
	r := p.Start(nil, "run", p.File)
	r.Until("it has subscribed", func() bool { return p.event("subscribed") >= 1 })
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	// The broker keeps these for the session of the pipeline.
	for _, m := range []string{`{"n":1}`, `{"n":2}`} {
		b.Pub(t, []byte(m), "-q", "1", "-t", "t/x")
	}
	shown := p.Start(nil, "run", "--preview", "--rows", "1", p.File)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-shown.Ended:
				return
			default:
				b.Pub(t, []byte(`{"n":3}`), "-q", "0", "-t", "t/x")
			}
		}
	}()
	if code := shown.Wait(); code != 0 {
		t.Fatalf("preview: exit code %d\n%s", code, program.Tail(shown.Stderr.String(), 3000))
	}
	close(stop)
	<-done
	if !strings.Contains(shown.Stdout.String(), `{"n":3}`) {
		t.Errorf("the preview shows\n%s", shown.Stdout.String())
	}
	r = p.Start(nil, "run", p.File)
	r.Until("what was kept has come", func() bool { return p.accepted() >= 2 })
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	if got := p.files("out"); !strings.Contains(got, `{"n":1}`) || !strings.Contains(got, `{"n":2}`) {
		t.Errorf("the table has\n%s", got)
	}
}
