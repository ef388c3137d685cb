// Package proof attacks the whole program and proves its tables: one pipeline with
// every kind of step, whose tables package model knows, is fed while a test does to it
// what it likes; in the end outside readers (PyIceberg and DuckDB) read all tables,
// and every row and every count must be what the model says.
//
//	x := proof.New(t, proof.Config{Seed: 1, Records: 2000, HTTP: true})
//	r := x.Start(nil, "run", x.File)
//	x.Allow(0.5)            // half of the input may be fed
//	r.Kill()
//	...
//	x.Finish()              // feeds the rest and runs to the end
//	x.Verify()              // fails the test unless everything is as it must be
//
// The tests of this package kill the program at any moment, and measure how long it
// takes to come back with much state.
package proof

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"text/template"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
	"frazil/test/proof/model"
)

// Config says what a trial is made of.
type Config struct {
	// Seed of the input.
	Seed int64
	// Records of each split.
	Records int
	// Kafka is the broker of a topic with two partitions; "" leaves the source out.
	Kafka string
	// HTTP adds a source that records are posted to.
	HTTP bool
	// Catalog is a REST catalog in which the tables are; nil means SQLite and local
	// files in the trial's folder.
	Catalog *rig.Catalog
	// URI and S3 are where the program finds the catalog and its store, if that is not
	// where the verifier does: a proxy. "" means the same.
	URI, S3 string
	// Every is the time between checkpoints, 200ms by default.
	Every string
	// Order is that of dedup: arrival (default) or event.
	Order string
	// More is added to the pipeline, at the top level.
	More string
}

// Trial is a pipeline in a folder of its own, its input, and what must come of it.
// Allow, Finish and Verify are called from one goroutine.
type Trial struct {
	*program.Place
	// Input are the records of each split.
	Input model.Input

	config    Config
	topic     string
	address   string // of the source http
	namespace string
	feed      *feed
}

const pipeline = `connections:
  lake: {iceberg_catalog: [[.Lake]]}
sources:
[[- define "decode"]]
    decode: {json: {schema: {src: string, split: int64, pos: int64, id: string, site: string, et: timestamptz(ms), v: int64, sum: string}, required: [id]}}
    event_time: {column: et, out_of_orderness: 5s}
[[- end]]
  lines:
    files: {paths: ["in/*"], mode: follow, poll: 50ms}
[[- template "decode"]]
  side:
    files: {paths: ["side/*"], mode: follow, poll: 50ms}
[[- template "decode"]]
[[- if .Topic]]
  topic:
    kafka: {brokers: ["[[.Kafka]]"], topics: ["[[.Topic]]"], group: "[[.Topic]]"}
[[- template "decode"]]
[[- end]]
[[- if .Address]]
  pushed:
    http: {listen: "[[.Address]]", path: /rows, on_bad: keep}
[[- template "decode"]]
[[- end]]
operators:
  all: {from: [lines[[if .Topic]], topic[[end]][[if .Address]], pushed[[end]]], union: {}}
  once: {from: all, dedup: {key: [id], within: 20s, order: [[.Order]]}}
  valid: {from: once, filter: {where: "v % 10 <> 0"}}
  plain: {from: valid, project: {compute: {w: "v * 2"}}}
  minutes: {from: plain, window: {tumbling: 10s, by: [site], aggregate: {n: count(*), s: sum(v), hi: max(v)}, allowed_lateness: 3s}}
  best: {from: plain, top: {by: [site], order_by: ["v desc", id], limit: 3, rank: place, tumbling: 10s}}
  totals: {from: plain, group: {by: [site], aggregate: {n: count(*), s: sum(v)}, expire_after: 100000h}}
sinks:
  raw_table: {from: all, iceberg: {catalog: lake, table: [[.Namespace]].raw}}
  plain_table: {from: plain, iceberg: {catalog: lake, table: [[.Namespace]].plain}}
  minutes_table: {from: minutes, iceberg: {catalog: lake, table: [[.Namespace]].minutes}}
  late_table: {from: minutes.late, iceberg: {catalog: lake, table: [[.Namespace]].late}}
  best_table: {from: best, iceberg: {catalog: lake, table: [[.Namespace]].best}}
  stale_table: {from: once.late, iceberg: {catalog: lake, table: [[.Namespace]].stale}}
  bad_table: {from: lines.bad, iceberg: {catalog: lake, table: [[.Namespace]].bad}}
  totals_files: {from: totals, files: {path: totals}}
  side_table: {from: side, iceberg: {catalog: lake, table: [[.Namespace]].side}}
checkpoint: {every: [[.Every]]}
[[.More]]`

// edges say what each step reads.
var edges = map[string]string{
	"once": "all.passed", "valid": "once.passed", "plain": "valid.passed", "minutes": "plain.passed", "best": "plain.passed", "totals": "plain.passed",
	"raw_table": "all.passed", "plain_table": "plain.passed", "minutes_table": "minutes.created", "late_table": "minutes.late", "best_table": "best.created",
	"stale_table": "once.late", "bad_table": "lines.bad", "totals_files": "totals.created", "side_table": "side.passed",
}

// New makes a trial that has not been fed yet; the folder and what feeds it end with
// the test.
func New(t testing.TB, c Config) *Trial {
	t.Helper()
	if c.Every == "" {
		c.Every = "200ms"
	}
	if c.Order == "" {
		c.Order = "arrival"
	}
	x := &Trial{config: c, namespace: fmt.Sprintf("proof_%08x", rand.Uint32()), Input: model.Input{}}
	splits := []model.Split{{Source: "lines"}, {Source: "side"}}
	if c.Kafka != "" {
		x.topic = strings.ReplaceAll(x.namespace, "_", "-")
		splits = append(splits, model.Split{Source: "topic"}, model.Split{Source: "topic", Number: 1})
	}
	if c.HTTP {
		x.address = freeAddress(t)
		splits = append(splits, model.Split{Source: "pushed"})
	}
	for _, s := range splits {
		x.Input[s] = model.Generate(c.Seed, s, c.Records)
	}
	var text bytes.Buffer
	err := template.Must(template.New("pipeline").Delims("[[", "]]").Parse(pipeline)).Execute(&text, map[string]string{
		"Lake": x.lake(), "Kafka": c.Kafka, "Topic": x.topic, "Address": x.address, "Order": c.Order, "Namespace": x.namespace, "Every": c.Every, "More": c.More,
	})
	if err != nil {
		t.Fatal(err)
	}
	x.Place = program.New(t, "proof", text.String())
	for _, dir := range []string{"in", "side"} {
		if err := os.Mkdir(x.Path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	x.feed = newFeed(x)
	return x
}

// lake is the connection.
func (x *Trial) lake() string {
	c := x.config.Catalog
	if c == nil {
		return "{type: sql, uri: lake.db, warehouse: ./lake, name: local}"
	}
	uri, s3 := c.URI, c.Store.Endpoint
	if x.config.URI != "" {
		uri = x.config.URI
	}
	if x.config.S3 != "" {
		s3 = x.config.S3
	}
	credential := ""
	if c.Credential != "" {
		credential = fmt.Sprintf("credential: %q, ", c.Credential)
	}
	return fmt.Sprintf("{type: rest, uri: %q, warehouse: %q, %ss3: {endpoint: %q, region: us-east-1, access_key: %q, secret_key: %q}}",
		uri, c.Warehouse, credential, s3, c.Store.AccessKey, c.Store.SecretKey)
}

// freeAddress is one at which nobody listens, below the ports of outgoing
// connections, so that a program can come back to it.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		a := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		if l, err := net.Listen("tcp", a); err == nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			return a
		}
	}
	t.Fatal("no port is free")
	return ""
}
