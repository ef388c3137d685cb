package registry

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
	"frazil/dataflow/registry"

	"github.com/bufbuild/protocompile"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const write = `
connections: {schemas: {schema_registry: {url: %q}}}
sources:
  orders:
    files: {paths: [orders.ndjson]}
    decode:
      json:
        schema: {id: int64, name: string, price: "decimal(10,2)", qty: int32, share: float64, paid: bool, at: timestamptz, tags: list<string>, place: "struct{x: int64, street: string}", note: string}
        required: [id, at]
sinks:
  out:
    from: orders
    kafka:
      brokers: [%q]
      topic: %s
      key: id
      create_topics: {partitions: 1, replication_factor: 1}
      encode: {%s: {registry: schemas, record: shop.Order%s}}
`

const read = `
connections: {schemas: {schema_registry: {url: %q}}}
sources:
  orders:
    kafka: {brokers: [%q], topics: [%s]}
    decode: {%s: {registry: schemas%s}}
sinks:
  table: {from: orders, iceberg: {catalog: local, table: shop.orders}}
  bad: {from: orders.bad, iceberg: {catalog: local, table: shop.bad}}
checkpoint: {every: 200ms}
`

const orders = `{"id":1,"name":"Zürich","price":"12.50","qty":3,"share":0.25,"paid":true,"at":"2024-05-01T10:00:00.123456Z","tags":["a","b"],"place":{"x":7,"street":"Hauptstraße"}}
{"id":2,"at":"1969-12-31T23:59:59.999999Z"}
{"id":3,"name":"","price":"-0.01","qty":0,"share":0,"paid":false,"at":"2024-05-01T10:00:00Z","tags":[],"place":{},"note":"n"}
`

// TestRowsGoThroughATopicInEachFormat: what is written is read as it was, by columns of
// the registry alone.
func TestRowsGoThroughATopicInEachFormat(t *testing.T) {
	program.Long(t)
	r, b := rig.Registry(t), rig.Kafka(t)
	for _, format := range []string{"avro", "protobuf", "json_schema"} {
		t.Run(format, func(t *testing.T) {
			topic := unique(t, format)
			w := program.New(t, "write-"+topic, fmt.Sprintf(write, r, b, topic, format, ", register: true"))
			w.Write("orders.ndjson", orders)
			w.ToEnd()
			p := program.New(t, "read", fmt.Sprintf(read, r, b, topic, format, ", subject: "+topic+"-value"))
			p.ToEnd()
			got := p.Rows("shop.orders")
			want := program.Objects[program.Row](t, wantRows(format))
			if !slices.EqualFunc(got, want, sameRow) {
				t.Errorf("got  %s\nwant %s", show(got), show(want))
			}
			if n := p.Count("shop.bad"); n != 0 {
				t.Errorf("bad: %s", show(p.Rows("shop.bad")))
			}
			readByOthers(t, r, rig.Committed(t, b, topic)[0].Value, format)
			// The same columns again: nothing is registered anew, and with register: false
			// what is there is found.
			again := program.New(t, "again-"+topic, fmt.Sprintf(write, r, b, topic, format, ""))
			again.Write("orders.ndjson", orders)
			again.ToEnd()
			latest := program.New(t, "latest-"+topic, fmt.Sprintf(write, r, b, topic, format, ", use: latest"))
			latest.Write("orders.ndjson", orders)
			latest.ToEnd()
			p.ToEnd()
			if n := p.Count("shop.orders"); n != 9 {
				t.Errorf("%d rows, want 9", n)
			}
		})
	}
}

// TestKillsLoseNothing: a program that is killed again and again while it reads one topic
// of Avro and writes another gives each order once.
func TestKillsLoseNothing(t *testing.T) {
	program.Long(t)
	url, broker := rig.Registry(t), rig.Kafka(t)
	in, out := unique(t, "in"), unique(t, "out")
	cl, err := registry.New(registry.Config{URL: url}, "")
	must(t, err)
	id, err := cl.Register(t.Context(), in+"-value", dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: first})
	must(t, err)
	kafka, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(in), kgo.UnknownTopicRetries(100))
	must(t, err)
	defer kafka.Close()
	_, err = kadm.NewClient(kafka).CreateTopic(t.Context(), 2, 1, nil, in)
	must(t, err)
	schema, n := avro.MustParse(first), 0
	send := func() {
		t.Helper()
		var records []*kgo.Record
		for range 5000 {
			v, err := schema.AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), map[string]any{"id": int64(n), "label": fmt.Sprint("n", n), "gone": nil})
			must(t, err)
			records = append(records, &kgo.Record{Key: []byte(fmt.Sprint(n)), Value: v})
			n++
		}
		must(t, kafka.ProduceSync(t.Context(), records...).FirstErr())
	}
	p := program.New(t, "copy-"+in, fmt.Sprintf(`
connections: {schemas: {schema_registry: {url: %q}}}
sources:
  orders:
    kafka: {brokers: [%q], topics: [%s], fetch_max: 64KiB}
    decode: {avro: {registry: schemas, subject: %s-value}}
sinks:
  out:
    from: orders
    kafka:
      brokers: [%q]
      topic: %s
      key: id
      create_topics: {partitions: 3, replication_factor: 1}
      encode: {avro: {registry: schemas, register: true, record: shop.Copy}}
checkpoint: {every: 50ms}
`, url, broker, in, in, broker, out))
	engine := p.Start(nil, "run", p.File)
	for kill := range 6 {
		send()
		engine.Until("rows", func() bool { return p.Metric("frazil_source_rows_total") > "0" })
		if kill%2 == 1 {
			engine.Until("a commit", func() bool { return p.Metric("frazil_sink_committed_rows_total") > "0" })
		}
		engine.Kill()
		engine = p.Start(nil, "run", p.File)
	}
	engine.Kill()
	p.ToEnd()
	seen := map[string]int{}
	for _, r := range rig.Committed(t, broker, out) {
		seen[string(r.Key)]++
	}
	for i := range n {
		if c := seen[fmt.Sprint(i)]; c != 1 {
			t.Fatalf("order %d is there %d times; %d keys, want %d", i, c, len(seen), n)
		}
	}
}

// readByOthers reads the first order with other libraries.
func readByOthers(t *testing.T, url string, value []byte, format string) {
	t.Helper()
	var head sr.ConfluentHeader
	id, rest, err := head.DecodeID(value)
	must(t, err)
	cl, err := sr.NewClient(sr.URLs(url), sr.HTTPClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	must(t, err)
	schema, err := cl.SchemaByID(t.Context(), id)
	must(t, err)
	got := ""
	switch format {
	case "avro":
		s, err := avro.Parse(schema.Schema)
		must(t, err)
		var v any
		_, err = s.Decode(rest, &v)
		must(t, err)
		got = fmt.Sprint(v)
	case "protobuf":
		place, rest, err := head.DecodeIndex(rest, 5)
		must(t, err)
		c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{"s.proto": schema.Schema})})}
		files, err := c.Compile(t.Context(), "s.proto")
		must(t, err)
		m := dynamicpb.NewMessage(files[0].Messages().Get(place[0]))
		must(t, proto.Unmarshal(rest, m))
		b, err := protojson.Marshal(m)
		must(t, err)
		var v any
		must(t, json.Unmarshal(b, &v))
		got = fmt.Sprint(v)
	default:
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(schema.Schema))
		must(t, err)
		c := jsonschema.NewCompiler()
		must(t, c.AddResource("s.json", v))
		s, err := c.Compile("s.json")
		must(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(rest))
		must(t, err)
		must(t, s.Validate(doc))
		got = fmt.Sprint(doc)
	}
	want := map[string]string{
		"avro":        "map[at:2024-05-01 10:00:00.123456 +0000 UTC id:1 name:Zürich note:<nil> paid:true place:map[street:Hauptstraße x:7] price:25/2 qty:3 share:0.25 tags:[a b]]",
		"protobuf":    "map[at:2024-05-01T10:00:00.123456Z id:1 name:Zürich paid:true place:map[street:Hauptstraße x:7] price:12.50 qty:3 share:0.25 tags:[a b]]",
		"json_schema": "map[at:2024-05-01T10:00:00.123456Z id:1 name:Zürich note:<nil> paid:true place:map[street:Hauptstraße x:7] price:12.50 qty:3 share:0.25 tags:[a b]]",
	}[format]
	if got != want {
		t.Errorf("read by others:\ngot  %s\nwant %s", got, want)
	}
}

// wantRows are the orders as they come out. A list of Protobuf is not null, and a JSON
// Schema has no decimals.
func wantRows(format string) string {
	out := `{"id":1,"name":"Zürich","price":"12.50","qty":3,"share":0.25,"paid":true,"at":"2024-05-01T10:00:00.123456Z","tags":["a","b"],"place":{"x":7,"street":"Hauptstraße"},"note":null}
{"id":2,"name":null,"price":null,"qty":null,"share":null,"paid":null,"at":"1969-12-31T23:59:59.999999Z","tags":null,"place":null,"note":null}
{"id":3,"name":"","price":"-0.01","qty":0,"share":0,"paid":false,"at":"2024-05-01T10:00:00.000000Z","tags":[],"place":{"x":null,"street":null},"note":"n"}
`
	if format == "protobuf" {
		out = strings.Replace(out, `"tags":null`, `"tags":[]`, 1)
	}
	return out
}

func sameRow(a, b program.Row) bool { return show([]program.Row{a}) == show([]program.Row{b}) }

func show(rows []program.Row) string {
	b, _ := json.Marshal(rows) // Rows came out of JSON.
	return string(b)
}

func unique(t *testing.T, what string) string {
	t.Helper()
	return fmt.Sprintf("orders-%s-%d", strings.ReplaceAll(what, "_", "-"), os.Getpid())
}

const first = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"label","type":"string"},{"name":"gone","type":["null","int"],"default":null}]}`
const second = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"long"},{"name":"name","type":"string","aliases":["label"]},{"name":"color","type":{"type":"enum","name":"Color","symbols":["RED","BLUE"]},"default":"RED"},{"name":"at","type":["null",{"type":"long","logicalType":"timestamp-millis"}],"default":null},{"name":"where","type":["null","geo.Point"],"default":null}]}`
const point = `{"type":"record","name":"geo.Point","fields":[{"name":"x","type":"double"},{"name":"y","type":"double"}]}`

// TestRecordsOfOtherVersions: records of several versions are read into the columns of
// one; what no schema is known of is bad; while the registry is away the topic waits, the
// program ends at once if it is told to, and nothing is lost.
func TestRecordsOfOtherVersions(t *testing.T) {
	program.Long(t)
	reg, broker := rig.NewRegistry(t), rig.NewBroker(t)
	topic := unique(t, "versions")
	cl, err := registry.New(registry.Config{URL: reg.URL}, "")
	must(t, err)
	ctx := t.Context()
	subject := topic + "-value"
	id1, err := cl.Register(ctx, subject, dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: first})
	must(t, err)
	_, err = cl.Register(ctx, topic+"-point", dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: point})
	must(t, err)
	refs := []dataflow.SchemaReference{{Name: "geo.Point", Subject: topic + "-point", Version: 1}}
	id2, err := cl.Register(ctx, subject, dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: second, References: refs})
	must(t, err)

	kafka, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(100))
	must(t, err)
	defer kafka.Close()
	_, err = kadm.NewClient(kafka).CreateTopic(ctx, 1, 1, nil, topic)
	must(t, err)
	send := func(values ...[]byte) {
		t.Helper()
		for _, v := range values {
			must(t, kafka.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("k"), Value: v}).FirstErr())
		}
	}
	var cache avro.SchemaCache
	_, err = cache.Parse(point)
	must(t, err)
	newer, err := cache.Parse(second)
	must(t, err)
	encode := func(id int, s *avro.Schema, v map[string]any) []byte {
		t.Helper()
		b, err := s.AppendEncode(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), v)
		must(t, err)
		return b
	}
	older := avro.MustParse(first)
	send(encode(id1, older, map[string]any{"id": int64(1), "label": "one", "gone": int32(9)}),
		nil, // a tombstone
		encode(id2, newer, map[string]any{"id": int64(2), "name": "two", "color": "BLUE", "at": int64(1700000000123), "where": map[string]any{"x": 1.5, "y": -2.0}}),
		binary.BigEndian.AppendUint32([]byte{0}, 4711), []byte(`{"id":3}`), encode(id2, newer, map[string]any{"id": int64(4), "name": "four", "color": "RED", "at": nil, "where": nil}))

	p := program.New(t, "versions", fmt.Sprintf(read, reg.URL, broker.Addr, topic, "avro", ", schema_file: order.avsc"))
	p.Write("order.avsc", strings.Replace(second, `"geo.Point"`, point, 1))
	engine := p.Start(nil, "run", p.File)
	engine.Until("the rows", func() bool { return p.Count("shop.orders") == 3 && p.Count("shop.bad") == 2 })
	want := []string{
		`{"at":null,"color":"RED","id":1,"name":"one","where":null}`,
		`{"at":"2023-11-14T22:13:20.123000Z","color":"BLUE","id":2,"name":"two","where":{"x":1.5,"y":-2}}`,
		`{"at":null,"color":"RED","id":4,"name":"four","where":null}`,
	}
	check := func() {
		t.Helper()
		var got []string
		for _, row := range p.Rows("shop.orders") {
			got = append(got, strings.Trim(show([]program.Row{row}), "[]"))
		}
		slices.SortFunc(got, func(a, b string) int { return strings.Compare(idOf(a), idOf(b)) })
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	check()
	var reasons []string
	for _, row := range p.Rows("shop.bad") {
		reasons = append(reasons, fmt.Sprint(row["reason"], " ", row["detail"]))
	}
	slices.Sort(reasons)
	if len(reasons) != 2 || !strings.HasPrefix(reasons[0], "not_framed") || reasons[1] != "unknown_schema the registry has no schema 4711" {
		t.Errorf("bad: %q", reasons)
	}

	// A third version is registered, and the registry is away before the program asks for
	// it.
	third := strings.Replace(second, `{"name":"id","type":"long"}`, `{"name":"id","type":"int"},{"name":"more","type":"string","default":""}`, 1)
	id3, err := cl.Register(ctx, subject, dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: third, References: refs})
	must(t, err)
	must(t, err)
	var cache3 avro.SchemaCache
	_, err = cache3.Parse(point)
	must(t, err)
	s3, err := cache3.Parse(third)
	must(t, err)
	reg.Stop()
	send(encode(id3, s3, map[string]any{"id": int32(5), "more": "m", "name": "five", "color": "BLUE", "at": nil, "where": nil}),
		encode(id1, older, map[string]any{"id": int64(6), "label": "six", "gone": nil}))
	engine.Until("health to name the registry", func() bool { return strings.Contains(health(p), "schema registry") })
	engine.Terminate() // It ends at once although it waits.
	if n := p.Count("shop.orders"); n != 3 {
		t.Errorf("%d rows while the registry is away, want 3", n)
	}
	must(t, reg.Start())
	engine = p.Start(nil, "run", p.File)
	want = append(want, `{"at":null,"color":"BLUE","id":5,"name":"five","where":null}`, `{"at":null,"color":"RED","id":6,"name":"six","where":null}`)
	engine.Until("the rows behind", func() bool { return p.Count("shop.orders") == 5 })
	check()
	// Away once more, and back while the program runs.
	fourth := strings.Replace(third, `"default":""`, `"default":"x"`, 1)
	id4, err := cl.Register(ctx, subject, dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: fourth, References: refs})
	must(t, err)
	reg.Stop()
	send(encode(id4, s3, map[string]any{"id": int32(7), "more": "m", "name": "seven", "color": "BLUE", "at": nil, "where": nil}))
	engine.Until("health to name the registry", func() bool { return strings.Contains(health(p), "schema registry") })
	must(t, reg.Start())
	want = append(want, `{"at":null,"color":"BLUE","id":7,"name":"seven","where":null}`)
	engine.Until("the row behind", func() bool { return p.Count("shop.orders") == 6 })
	check()
	engine.Terminate()
	if n := p.Count("shop.bad"); n != 2 {
		t.Errorf("bad: %s", show(p.Rows("shop.bad")))
	}
}

func idOf(row string) string {
	_, id, _ := strings.Cut(row, `"id":`)
	return id
}

func health(p *program.Place) string {
	resp, err := http.Get("http://" + p.Address() + "/health")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

// TestARegistryRefusesWhatIsIncompatible: a schema that the subject's level does not
// allow ends the run before anything is written, with what to do.
func TestARegistryRefusesWhatIsIncompatible(t *testing.T) {
	program.Long(t)
	url, broker := rig.Registry(t), rig.Kafka(t)
	topic := unique(t, "refused")
	cl, err := registry.New(registry.Config{URL: url}, "")
	must(t, err)
	_, err = cl.Register(context.Background(), topic+"-value", dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: `{"type":"record","name":"shop.Order","fields":[{"name":"id","type":"string"}]}`})
	must(t, err)
	req, err := http.NewRequest("PUT", url+"/config/"+topic+"-value", strings.NewReader(`{"compatibility":"BACKWARD"}`))
	must(t, err)
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	resp.Body.Close()
	p := program.New(t, "write-"+topic, fmt.Sprintf(write, url, broker, topic, "avro", ", register: true"))
	p.Write("orders.ndjson", orders)
	p.Fail(1, []string{topic + "-value", "refuses", "compatibility level"}, "run", p.File, "--until", "end")
	p = program.New(t, "again-"+topic, fmt.Sprintf(write, url, broker, topic, "avro", ""))
	p.Write("orders.ndjson", orders)
	p.Fail(1, []string{"is not under subject", "register: true"}, "run", p.File, "--until", "end")
	p = program.New(t, "latest-"+topic, fmt.Sprintf(write, url, broker, topic, "avro", ", use: latest"))
	p.Write("orders.ndjson", orders)
	p.Fail(1, []string{`column "id" is int64, and the field of the schema is string`}, "run", p.File, "--until", "end")
	_, err = cl.Subject(context.Background(), "nothing-"+topic, 0)
	if !errors.Is(err, dataflow.ErrNoSchema) {
		t.Errorf("a subject that is not there: %v", err)
	}
}
