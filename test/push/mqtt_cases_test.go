package push_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

// C28 of the cases: redelivery, retained and empty messages, poison beyond the
// receive maximum.
func TestC28Redelivery(t *testing.T) {
	program.Long(t)
	b := rig.NewMosquitto(t)
	px := newProxy(t, b.Addr)
	p := newPlace(t, "c28", fmt.Sprintf(`checkpoint: {every: 2s}
sources:
  in:
    mqtt:
      {broker: "mqtt://%s", topics: ["f/+"], qos: 1, client_id: c28, session_expiry: 1h, receive_maximum: 2, retained: skip,
       metadata: {topic: topic, received_at: at}}
    decode: {json: {schema: {mid: string, v: int64}, required: [mid]}}
    event_time: {column: at, out_of_orderness: 1m}
operators:
  once: {from: in, dedup: {key: [mid], within: 1h}}
  bare: {from: once, project: {drop: [at]}}
sinks:
  t: {from: bare, iceberg: {table: c28.rows}}
  bad: {from: in.bad, iceberg: {table: c28.bad}}
`, px.addr()))
	pub := func(topic, payload string, args ...string) {
		b.Pub(t, []byte(payload), append([]string{"-V", "mqttv5", "-q", "1", "-t", topic}, args...)...)
	}
	pub("f/a", `{"mid":"r1","v":0}`, "-r")
	r := p.Start(nil, "run", p.File)
	r.Until("the retained message is skipped", func() bool { return p.event("retained_skipped") >= 1 })
	pub("f/a", `{"mid":"m1","v":1}`)
	r.Until("m1 is committed", func() bool { return len(p.rows("c28.rows")) == 1 })
	px.pass(false, true)
	pub("f/a", `{"mid":"m2","v":2}`)
	r.Until("m2 is durable", func() bool { return p.accepted() == 2 })
	r.Kill()
	px.cut()
	px.pass(true, true)
	pub("f/b", `{"mid":"m3","v":3}`)
	r = p.Start(nil, "run", p.File)
	r.Until("m2 comes again, and m3", func() bool { return p.event("redelivered") >= 1 && p.accepted() >= 2 })
	b.Pub(t, nil, "-V", "mqttv5", "-q", "1", "-t", "f/a", "-r")
	for range 3 {
		pub("f/a", "\x7b\x22\x6d\x69\x64\x22\x3a\x22\x6d\x34\x22\x2c\x22\x76\x22\x3a\xc3\x28\x7d")
	}
	pub("f/b", `{"mid":"m5","v":5}`)
	r.Until("m5 is committed", func() bool { return len(p.rows("c28.rows")) == 4 && p.event("empty_skipped") == 1 })
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.Stderr.String())
	}
	want := []string{
		`{"mid":"m1","v":1,"topic":"f/a"}`, `{"mid":"m2","v":2,"topic":"f/a"}`, `{"mid":"m3","v":3,"topic":"f/b"}`, `{"mid":"m5","v":5,"topic":"f/b"}`,
	}
	if got := p.rows("c28.rows"); !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := p.rows("c28.bad"); len(got) != 3 {
		t.Errorf("bad rows %q, want 3", got)
	}
	if f := p.fates()["once"]; f["duplicate"] != 1 || f["passed"] != 4 {
		t.Errorf("fates of once %v, want 4 passed and 1 duplicate", f)
	}
	nothingUnacked(t, b, "c28", "f/z")
}

// nothingUnacked takes the session of a client over: the first message it gets must
// be one that comes now.
func nothingUnacked(t *testing.T, b *rig.Mosquitto, client, topic string) {
	t.Helper()
	b.Pub(t, []byte("end"), "-q", "1", "-t", topic)
	d, err := connect(t.Context(), b.Addr, client, true)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if m := <-d.got; m.Topic != topic || string(m.Payload) != "end" {
		t.Errorf("the broker still held %s %q for the session", m.Topic, m.Payload)
	}
}

// C29 of the cases: levels of topics become columns.
func TestC29TopicToColumns(t *testing.T) {
	program.Long(t)
	b := rig.NewMosquitto(t, "sys_interval 1")
	p := newPlace(t, "c29", fmt.Sprintf(`checkpoint: {every: 1s}
sources:
  in:
    mqtt:
      broker: "mqtt://%s"
      topics: ["#"]
      columns_from_topic: ["plant/{site}/{line}/temp", "plant/{site}/temp", "/sys/{prod}/{dev}/post"]
      client_id: c29
      metadata: {topic: topic}
    decode: {json: {schema: {v: int64}}}
sinks:
  t: {from: in, iceberg: {table: c29.rows}}
  bad: {from: in.bad, iceberg: {table: c29.bad}}
`, b.Addr))
	r := p.Start(nil, "run", p.File)
	subscribed := func() bool { return p.event("subscribed") >= 1 }
	r.Until("the source has subscribed", subscribed)
	for _, topic := range []string{
		"plant/s1/l4/temp", "plant/s1/temp", "/sys/p9/d7/post", "sys/p9/d7/post", "plant//l4/temp", "plant/s1/l4/temp/x",
		"plant/größe/l4/temp", "Plant/s1/l4/temp",
	} {
		b.Pub(t, []byte(`{"v":1}`), "-q", "1", "-t", topic)
	}
	b.Pub(t, []byte("online"), "-q", "1", "-t", "plant/s1/l4/temp")
	r.Until("all is committed", func() bool { return len(p.rows("c29.rows")) >= 5 && len(p.rows("c29.bad")) >= 4 })
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.Stderr.String())
	}
	want := []string{
		`{"v":1,"site":"","line":"l4","prod":null,"dev":null,"topic":"plant//l4/temp"}`,
		`{"v":1,"site":"größe","line":"l4","prod":null,"dev":null,"topic":"plant/größe/l4/temp"}`,
		`{"v":1,"site":"s1","line":"l4","prod":null,"dev":null,"topic":"plant/s1/l4/temp"}`,
		`{"v":1,"site":"s1","line":null,"prod":null,"dev":null,"topic":"plant/s1/temp"}`,
		`{"v":1,"site":null,"line":null,"prod":"p9","dev":"d7","topic":"/sys/p9/d7/post"}`,
	}
	if got := p.rows("c29.rows"); !slices.Equal(got, want) {
		t.Errorf("rows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	var bad []string
	for _, row := range p.rows("c29.bad") {
		var x struct{ Reason, Detail string }
		if err := json.Unmarshal([]byte(row), &x); err != nil {
			t.Fatal(err)
		}
		topic := x.Detail
		if _, rest, ok := strings.Cut(x.Detail, `"`); ok {
			topic, _, _ = strings.Cut(rest, `"`)
		}
		bad = append(bad, x.Reason+" "+topic)
	}
	slices.Sort(bad)
	wantBad := []string{"invalid_json byte 0: expected JSON, got online", "no_topic_pattern Plant/s1/l4/temp", "no_topic_pattern plant/s1/l4/temp/x", "no_topic_pattern sys/p9/d7/post"}
	if !slices.Equal(bad, wantBad) {
		t.Errorf("bad\n%s\nwant\n%s", strings.Join(bad, "\n"), strings.Join(wantBad, "\n"))
	}
}

// C20 of the cases, variant 3: the program is stopped long before its next
// checkpoint. What it acknowledged is in the table, and what it did not comes again.
func TestC20StopWithALongInterval(t *testing.T) {
	program.Long(t)
	b := rig.NewMosquitto(t)
	px := newProxy(t, b.Addr)
	p := newPlace(t, "c20", fmt.Sprintf(`checkpoint: {every: 10m}
sources:
  in:
    mqtt: {broker: "mqtt://%s", topics: [c20], client_id: c20}
    decode: {json: {schema: {id: int64}}}
sinks:
  t: {from: in, iceberg: {table: c20.rows}}
`, px.addr()))
	r := p.Start(nil, "run", p.File)
	r.Until("the source has subscribed", func() bool { return p.event("subscribed") >= 1 })
	for i := range 3 {
		b.Pub(t, fmt.Appendf(nil, `{"id":%d}`, i+1), "-q", "1", "-t", "c20")
	}
	r.Until("all are durable", func() bool { return p.accepted() == 3 })
	if got := p.rows("c20.rows"); len(got) > 0 {
		t.Fatalf("%q is committed already", got)
	}
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.Stderr.String())
	}
	want := []string{`{"id":1}`, `{"id":2}`, `{"id":3}`}
	if got := p.rows("c20.rows"); !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	// Killed instead: what was acknowledged is read from the log, without the broker.
	r = p.Start(nil, "run", p.File)
	r.Until("the source is there again", func() bool { return p.event("subscribed") >= 1 })
	b.Pub(t, []byte(`{"id":4}`), "-q", "1", "-t", "c20")
	r.Until("it is durable", func() bool { return p.accepted() == 1 })
	r.Kill()
	px.pass(false, false)
	r = p.Start(nil, "run", p.File)
	r.Until("it is read", func() bool { return p.number("frazil_source_rows_total") >= 1 })
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, r.Stderr.String())
	}
	if got := p.rows("c20.rows"); !slices.Equal(got, append(want, `{"id":4}`)) {
		t.Errorf("rows %q, want 4 more", got)
	}
}
