package kafka

import (
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/twmb/franz-go/pkg/kgo"
)

// rowsOf reads all of a topic with one partition: rows as JSON, without system columns,
// and bad records as reason and detail.
func rowsOf(t *testing.T, s *source, records int) (rows, bad []string) {
	t.Helper()
	for len(rows)+len(bad) < records {
		p, err := s.Poll(t.Context(), testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if p.Batch != nil {
			for i := range int(p.Batch.NumRows()) {
				rows = append(rows, string(dataflow.RowJSON(p.Batch, i)))
			}
		}
		if p.Bad != nil {
			for i := range int(p.Bad.NumRows()) {
				var text []string
				for _, c := range []int{0, 1} {
					text = append(text, p.Bad.Column(c).ValueStr(i))
				}
				bad = append(bad, strings.Join(text, ": "))
			}
		}
		p.Release()
	}
	return rows, bad
}

func TestKeysAreDecoded(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	for _, rec := range []struct{ key, value string }{
		{`{"id":1,"who":"123e4567-e89b-12d3-a456-426614174000"}`, "a"}, {"", "b"}, {`{"id":3}`, "!broken"}, {`{"id":"x"}`, "c"}, {`{"id":5,"tags":["x"]}`, "d"}, {"", "e"},
	} {
		k := &kgo.Record{Topic: "t", Value: []byte(rec.value)}
		if rec.key != "" {
			k.Key = []byte(rec.key)
		}
		r.putRecord(r.client, k)
	}
	cfg := r.config("t")
	cfg.Key = &codec.Config{JSON: &codec.JSONConfig{Schema: component.NamedTypes{{Name: "id", Type: "int64"}, {Name: "who", Type: "uuid"}, {Name: "tags", Type: "list<string>"}}, Required: []string{"id"}}}
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	rows, bad := rowsOf(t, s, 6)
	want(t, "rows", rows, []string{
		`{"v":"a","id":1,"who":"123e4567-e89b-12d3-a456-426614174000","tags":null}`, `{"v":"b","id":null,"who":null,"tags":null}`,
		`{"v":"d","id":5,"who":null,"tags":["x"]}`, `{"v":"e","id":null,"who":null,"tags":null}`,
	})
	want(t, "bad", bad, []string{"text: begins with !", `mistyped: the key: column "id": expected int64, got string "x" at byte 6`})
}

func TestHeadersAreColumns(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	head := func(pairs ...string) (out []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return out
	}
	r.putRecord(r.client, &kgo.Record{Topic: "t", Value: []byte("a"), Headers: head("traceparent", "00-1", "other", "x", "traceparent", "00-2")})
	r.putRecord(r.client, &kgo.Record{Topic: "t", Value: []byte("b"), Headers: head("Traceparent", "00-3")})
	r.putRecord(r.client, &kgo.Record{Topic: "t", Value: []byte("c"), Headers: head("traceparent", "\xff")})
	r.putRecord(r.client, &kgo.Record{Topic: "t", Value: []byte("d"), Headers: []kgo.RecordHeader{{Key: "traceparent"}}})
	cfg := r.config("t")
	cfg.Metadata.Header = map[string]string{"traceparent": "trace", "tenant": "tenant"}
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	rows, bad := rowsOf(t, s, 4)
	want(t, "rows", rows, []string{`{"v":"a","tenant":null,"trace":"00-2"}`, `{"v":"b","tenant":null,"trace":null}`, `{"v":"d","tenant":null,"trace":null}`})
	want(t, "bad", bad, []string{`invalid_utf8: header "traceparent" is no UTF-8: "\xff"; metadata.headers gives headers as bytes`})
}

func TestCloudEventsAreRead(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	put := func(value string, pairs ...string) {
		t.Helper()
		rec := &kgo.Record{Topic: "t", Value: []byte(value)}
		for i := 0; i < len(pairs); i += 2 {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		r.putRecord(r.client, rec)
	}
	put("a", "ce_specversion", "1.0", "ce_id", "1", "ce_source", "/ä%20b", "ce_type", "t", "ce_time", "2024-05-01T10:00:00Z", "ce_tenant", "x", "content-type", "text/plain", "other", "y")
	put(`{"specversion":"1.0","id":"2","source":"/s","type":"t","subject":"sub","data":{"x":1}}`, "content-type", "application/cloudevents+json; charset=UTF-8")
	put("no event")
	put("no id", "ce_specversion", "1.0", "ce_source", "/s", "ce_type", "t")
	put(`{"specversion":"0.3"}`, "content-type", "application/cloudevents+json")
	cfg := r.config("t")
	cfg.CloudEvents = true
	cfg.Metadata.EventMetadata = codec.EventMetadata{EventID: "id", EventSource: "src", EventSubject: "sub", EventTime: "at", EventContentType: "ct", EventExtensions: "ext"}
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	rows, bad := rowsOf(t, s, 5)
	want(t, "rows", rows, []string{
		`{"v":"a","id":"1","src":"/ä%20b","sub":null,"at":"2024-05-01T10:00:00.000000Z","ct":"text/plain","ext":{"tenant":"x"}}`,
		`{"v":"{\"x\":1}","id":"2","src":"/s","sub":"sub","at":null,"ct":null,"ext":null}`,
	})
	want(t, "bad", bad, []string{`invalid_event: attribute "specversion" is missing`, `invalid_event: attribute "id" is missing`, `invalid_event: attribute "specversion": expected 1.0, got 0.3`})
}

func TestKeysHeadersAndEventsArePlanned(t *testing.T) {
	text := &codec.TextConfig{Column: "v", MaxRecord: 100}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"taken by the value": {func(c *Config) { c.Key = &codec.Config{Text: text} }, `key: column "v" is a decoded column already: choose another name`},
		"taken by the key": {func(c *Config) {
			c.Key = &codec.Config{Text: &codec.TextConfig{Column: "k", MaxRecord: 100}}
			c.Metadata.Offset = "k"
		}, `metadata.offset: column "k" is a column of the key already: choose another name`},
		"no format": {func(c *Config) { c.Key = &codec.Config{} }, `key: decode needs one format`},
		"for topics": {func(c *Config) {
			k := &codec.Config{Sparkplug: &codec.SparkplugConfig{}}
			k.Sparkplug.SetDefaults()
			c.Key = k
		}, `key: this format reads payloads together with their topics`},
		"events not asked of": {func(c *Config) { c.Metadata.EventID = "id" }, `metadata: columns of attributes (ce_...) are of CloudEvents: write cloudevents: true beside metadata`},
	} {
		cfg := DefaultConfig()
		cfg.Brokers, cfg.Topics = []string{"localhost:9092"}, []string{"t"}
		c.change(&cfg)
		_, err := plan(component.SourceIn{Decoded: textSchema}, cfg)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Topics = []string{"localhost:9092"}, []string{"t"}
	cfg.Key = &codec.Config{Text: &codec.TextConfig{Column: "k", MaxRecord: 100}}
	cfg.Metadata.Header = map[string]string{"b": "hb", "a": "ha"}
	got, err := plan(component.SourceIn{Decoded: textSchema}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got.Schema.Fields() {
		names = append(names, f.Name)
		if f.Name != "v" && !f.Nullable {
			t.Errorf("%s is never null", f.Name)
		}
	}
	if !slices.Equal(names, []string{"v", "k", "ha", "hb"}) {
		t.Error(names)
	}
}
