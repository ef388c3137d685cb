package network

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

// servers are those of all portions.
type servers struct {
	kafka   *rig.Broker
	catalog rig.Catalog
	mqtt    *rig.Mosquitto
}

// producer loads the pipeline.
type producer interface {
	// feed sends some events ten times a second until the returned function is
	// called, which then sends the last ones and waits until the broker has all.
	feed() (stop func())
	log() *sent
}

// trial is one portion: a pipeline behind a link, and what is done to it.
type trial struct {
	t *testing.T
	*servers
	seed uint64
	rng  *rand.Rand
	link *link
	// The ports of the servers.
	broker, rest, store uint16
	producer            producer
	// edges say which rows the steps read; the step counted has each event once.
	edges        map[string]string
	counted      string
	place        *program.Place
	run          *program.Process
	raw, windows string
	figures      full.Figures
}

// scenario is a way to be bad. It returns when the network is good again; load is
// on the pipeline all the time.
type scenario struct {
	name string
	run  func(x *trial)
	// mqtt: the broker is Mosquitto instead of Kafka.
	mqtt bool
}

// TestOnBadNetworks: whatever the network and the servers do, the tables hold what
// was sent, each row once, and the ledger says so.
func TestOnBadNetworks(t *testing.T) {
	need(t)
	s := &servers{kafka: rig.NewBroker(t), catalog: rig.REST(t), mqtt: rig.NewMosquitto(t)}
	suite := full.Suite{Name: "network", Total: len(scenarios), Short: 2}
	planted := false
	suite.Run(t, func(t *testing.T, portion int) full.Figures {
		sc := scenarios[portion%len(scenarios)]
		t.Logf("portion %d: %s", portion, sc.name)
		x := newTrial(t, s, portion, sc.mqtt)
		stop := x.producer.feed()
		x.awaitRows("the first rows", func(n int64) bool { return n > 0 })
		sc.run(x)
		stop()
		x.finish()
		if !planted && !t.Failed() {
			x.plant()
			planted = true
		}
		return x.figures
	})
}

// pipeline is the one under test.
const pipeline = `http: %s
connections:
  lake:
    iceberg_catalog:
      type: rest
      uri: %q
      s3: {endpoint: %q, region: us-east-1, access_key: "%s", secret_key: "%s"}
sources:
  in:
    kafka: {brokers: [%q], topics: [%s], metadata: {partition: part, offset: at}}
    decode: {json: {schema: {id: int64, et: timestamptz(ms), check: string}, required: [id, et, check]}}
    event_time: {column: et, out_of_orderness: 5s}
operators:
  windows: {from: in, window: {tumbling: 10s, by: [part], aggregate: {n: count(*), s: sum(id)}}}
sinks:
  raw: {from: in, iceberg: {catalog: lake, table: %s}}
  sums: {from: windows, iceberg: {catalog: lake, table: %s}}
checkpoint: {every: 500ms}
`

// edges say which rows the steps read.
var edges = map[string]string{"windows": "in.passed", "raw": "in.passed", "sums": "windows.created"}

func newTrial(t *testing.T, s *servers, portion int, mqtt bool) *trial {
	t.Helper()
	x := &trial{t: t, servers: s, seed: uint64(portion), rng: rand.New(rand.NewPCG(uint64(portion), 2)), figures: full.Figures{"portions": 1}}
	x.rest, x.store = port(t, s.catalog.URI), port(t, s.catalog.Store.Endpoint)
	id := fmt.Sprintf("network-%d-%d", os.Getpid(), portion)
	ns := strings.ReplaceAll(id, "-", "_")
	x.raw, x.windows = ns+".raw", ns+".sums"
	x.link = newLink(t, x.seed)
	text, broker := pipeline, s.kafka.Addr
	if mqtt {
		text, broker = mqttPipeline, s.mqtt.Addr
	}
	x.broker = port(t, broker)
	st := s.catalog.Store
	x.place = program.New(t, id, fmt.Sprintf(text, x.link.ns.address+":0", s.catalog.URI, st.Endpoint, st.AccessKey, st.SecretKey, broker, id, x.raw, x.windows))
	program.Bin(t)
	if mqtt {
		x.edges, x.counted = mqttEdges, "once.passed"
		x.producer = newDevice(t, broker, id, x.seed)
		x.start()
		// What is published before has nobody who wants it.
		x.run.Until("the subscription", func() bool { return x.metric(`frazil_stream_events_total{event="subscribed"`) > 0 })
		return x
	}
	x.edges, x.counted = edges, "in.in"
	x.producer = newTopic(t, broker, id, 3, x.seed)
	x.start()
	return x
}

// metric reads one of the program's; 0 while it has none.
func (x *trial) metric(name string) (n float64) {
	_, _ = fmt.Sscan(x.place.Metric(name), &n) // An absent one stays 0.
	return n
}

// start starts the program behind the link.
func (x *trial) start() {
	x.t.Helper()
	x.link.ns.do(x.t, func() { x.run = x.place.Start(nil, "run", x.place.File) })
}

// rows is how many the table of raw rows has now; 0 while there is none.
func (x *trial) rows(table string) int64 {
	x.t.Helper()
	ns, name, _ := strings.Cut(table, ".")
	resp, err := http.Get(x.catalog.URI + "/v1/namespaces/" + ns + "/tables/" + name)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0
	}
	var found struct {
		Metadata struct {
			Current   int64 `json:"current-snapshot-id"`
			Snapshots []struct {
				ID      int64             `json:"snapshot-id"`
				Summary map[string]string `json:"summary"`
			} `json:"snapshots"`
		} `json:"metadata"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&found); err != nil {
		x.t.Fatal(err)
	}
	for _, s := range found.Metadata.Snapshots {
		if s.ID == found.Metadata.Current {
			n, err := strconv.ParseInt(s.Summary["total-records"], 10, 64)
			if err != nil {
				x.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func (x *trial) awaitRows(what string, ok func(int64) bool) {
	x.t.Helper()
	x.run.Until(what, func() bool { return ok(x.rows(x.raw)) })
}

// finish waits for all rows, stops the program and compares everything.
func (x *trial) finish() {
	t := x.t
	t.Helper()
	raw, windows := x.producer.log().rows()
	x.run.Until(fmt.Sprintf("%d rows and %d windows", len(raw), len(windows)), func() bool {
		return x.rows(x.raw) >= int64(len(raw)) && x.rows(x.windows) >= int64(len(windows))
	})
	x.run.Terminate()
	rig.SameRows(t, rig.Table{Catalog: x.catalog.URI, Name: x.raw, Store: x.catalog.Store}, raw)
	rig.SameRows(t, rig.Table{Catalog: x.catalog.URI, Name: x.windows, Store: x.catalog.Store}, windows)
	l := x.place.Ledger()
	program.Balanced(t, l, x.edges)
	if step, fate, _ := strings.Cut(x.counted, "."); l[step][fate] != int64(len(raw)) {
		t.Errorf("the ledger has %d of %s, %d were sent", l[step][fate], x.counted, len(raw))
	}
	x.figures["duplicates"] = l["once"]["duplicate"]
	carried, lost, cut, overtook := x.link.count()
	x.figures["rows"] = int64(len(raw) + len(windows))
	x.figures["packets"], x.figures["packets_lost"], x.figures["packets_cut"], x.figures["packets_overtook"] = carried, lost, cut, overtook
	if lost+cut+overtook+x.figures["broker_kills"]+x.figures["broker_stops"] == 0 {
		t.Error("nothing happened: the portion shows nothing")
	}
	if s := x.run.Stderr.String(); strings.Contains(s, "level=ERROR") {
		t.Logf("the program logged errors:\n%s", program.Tail(s, 2000))
	}
}

// last returns after d, in which the program must not end.
func (x *trial) last(d time.Duration) {
	x.t.Helper()
	select {
	case <-x.run.Ended:
		x.t.Fatalf("the program ended:\n%s", program.Tail(x.run.Stderr.String(), 5000))
	case <-time.After(d):
	}
}

// some is a time from lo to twice as much.
func (x *trial) some(lo time.Duration) time.Duration {
	return lo + time.Duration(x.rng.Int64N(int64(lo)))
}

// all sets the weather to all servers, both ways.
func (x *trial) all(w weather) {
	for _, p := range []uint16{x.broker, x.rest, x.store} {
		x.link.set(p, w, w)
	}
}

// kill ends the program at once.
func (x *trial) kill() {
	x.run.Signal(syscall.SIGKILL)
	<-x.run.Ended
	x.figures["kills"]++
}
