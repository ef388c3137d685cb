package push_test

import (
	"database/sql"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

// B4: over the high-water mark messages are not acknowledged, so that the broker
// keeps what is beyond the receive maximum; with a commit it goes on by itself, and
// each message is in the table once.
func TestMQTTOverTheHighWaterMarkTheBrokerKeepsTheRest(t *testing.T) {
	program.Long(t)
	b := rig.NewMosquitto(t)
	p := newPlace(t, "marked", fmt.Sprintf(`checkpoint: {every: 200ms}
sources:
  in:
    mqtt: {broker: "mqtt://%s", topics: [t], client_id: marked, receive_maximum: 200, buffer: {bytes: 1MiB}}
    decode: {json: {schema: {n: int64, text: string}}}
sinks:
  out: {from: in, iceberg: {table: t.rows}}
`, b.Addr))
	r := p.Start(nil, "run", p.File)
	r.Until("it has subscribed", func() bool { return p.event("subscribed") >= 1 })
	b.Pub(t, []byte(`{"n":0,"text":"first"}`), "-q", "1", "-t", "t")
	r.Until("the table exists", func() bool { return p.number(`frazil_sink_committed_rows_total`) == 1 })

	db, err := sql.Open("sqlite", "file:"+p.Path("frazil-data", "catalog.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	// Fewer than there are packet identifiers: mosquitto_pub ends when the last one
	// it gave is acknowledged.
	const messages = 40_000
	var lines strings.Builder
	for i := 1; i < messages; i++ {
		fmt.Fprintf(&lines, `{"n":%d,"text":"%s"}`+"\n", i, strings.Repeat("x", 100))
	}
	host, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		t.Fatal(err)
	}
	pub := exec.Command("mosquitto_pub", "-h", host, "-p", port, "-q", "1", "-t", "t", "-l")
	pub.Stdin = strings.NewReader(lines.String())
	if out, err := pub.CombinedOutput(); err != nil {
		t.Fatalf("mosquitto_pub: %v: %s", err, out)
	}
	r.Until("the stream is over its mark", func() bool { return p.number(`frazil_stream_refused_requests_total`) > 3 })
	if n := p.accepted(); n >= messages {
		t.Errorf("%d of %d messages were accepted over the mark", n, messages)
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	r.Until("all are committed", func() bool { return p.number(`frazil_sink_committed_rows_total`) >= messages })
	if n := p.accepted(); n != messages {
		t.Errorf("%d messages were accepted, want %d: none comes twice without a lost connection", n, messages)
	}
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	everyNumberOnce(t, "the table", p.Run("table", "rows", "t.rows", "--file", p.File, "--format", "ndjson"), messages)
}
