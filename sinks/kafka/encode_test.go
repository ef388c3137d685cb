package kafka

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
)

// subjects is a registry in memory.
type subjects struct {
	byName  map[string]*dataflow.RegisteredSchema
	refuses string // a subject
	asked   []string
}

func (s *subjects) Known(int) (*dataflow.RegisteredSchema, bool) { return nil, false }
func (s *subjects) Fetch(context.Context, int) error             { return nil }

func (s *subjects) Subject(_ context.Context, subject string, _ int) (*dataflow.RegisteredSchema, error) {
	if r := s.byName[subject]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("%w: %s", dataflow.ErrNoSchema, subject)
}

func (s *subjects) Register(_ context.Context, subject string, r dataflow.RegisteredSchema) (int, error) {
	s.asked = append(s.asked, subject)
	if s.refuses == subject {
		return 0, dataflow.Permanent(dataflow.ErrIncompatibleSchema)
	}
	if s.byName[subject] == nil {
		r.ID = len(s.byName) + 1
		s.byName[subject] = &r
	}
	return s.byName[subject].ID, nil
}

func (s *subjects) Find(_ context.Context, subject string, r dataflow.RegisteredSchema) (int, error) {
	if f := s.byName[subject]; f != nil && f.Text == r.Text {
		return f.ID, nil
	}
	return 0, dataflow.ErrNoSchema
}

func (p *place) encoder(in dataflow.Stream, s *subjects) (dataflow.Writer, error) {
	w, err := newWriter(p.t.Context(), p.env, component.SinkIn{Input: in, PlanEnv: component.PlanEnv{Step: "out",
		Schemas: func(string) (dataflow.SchemaRegistry, error) { return s, nil }}}, p.cfg)
	if err == nil {
		p.t.Cleanup(func() { w.Close() })
	}
	return w, err
}

func encodeAvro(change func(*SchemaConfig)) *EncodeConfig {
	c := &SchemaConfig{}
	c.SetDefaults()
	c.Registry, c.Register = "schemas", true
	change(c)
	return &EncodeConfig{Avro: c}
}

// decoded reads a value by another library.
func decoded(t *testing.T, s *subjects, r *kgo.Record) string {
	t.Helper()
	if r.Value == nil {
		return "null"
	}
	id := int(r.Value[4])
	for name, schema := range s.byName {
		if schema.ID == id {
			var v any
			rest, err := avro.MustParse(schema.Text).Decode(r.Value[5:], &v)
			must(t, err)
			if len(rest) > 0 {
				t.Errorf("%d bytes left", len(rest))
			}
			return fmt.Sprint(name, " ", v)
		}
	}
	return fmt.Sprintf("no schema %d", id)
}

func TestValuesAreEncodedForEachTopic(t *testing.T) {
	p := newPlace(t)
	base := p.cfg.Topic
	p.create(base+".eu", 1)
	p.create(base+".us", 1)
	p.cfg.Topic = base + ".{lower(region)}"
	for _, c := range []struct{ name, eu, us string }{
		{subjectTopic, base + ".eu-value", base + ".us-value"},
		{subjectRecord, "shop.Order", "shop.Order"},
		{subjectTopicRecord, base + ".eu-shop.Order", base + ".us-shop.Order"},
	} {
		s := &subjects{byName: map[string]*dataflow.RegisteredSchema{}}
		p.cfg.Encode = encodeAvro(func(x *SchemaConfig) { x.Record, x.SubjectName = "shop.Order", c.name })
		p.cfg.Delivery = atLeastOnce
		w, err := p.encoder(dataflow.Stream{Schema: orders}, s)
		must(t, err)
		if want := map[bool]int{true: 1}[c.name == subjectRecord]; len(s.asked) != want {
			t.Errorf("%s: asked for %v at the start", c.name, s.asked)
		}
		bad, err := w.Write(t.Context(), batch(t, orders, `[{"id": 1, "region": "EU", "body": "b25l", "at": null}, {"id": 2, "region": "US", "body": null, "at": "1970-01-01T00:00:01Z"}, {"id": 3, "region": "EU", "body": null, "at": null}]`))
		must(t, err)
		same(t, "bad rows", flowtest.Refused(bad), nil)
		flowtest.Stage(t, w, 1, 0, 3)
		var got []string
		for _, topic := range []string{base + ".eu", base + ".us"} {
			records := p.records(topic)
			for _, r := range records[len(records)-map[bool]int{true: 2, false: 1}[topic == base+".eu"]:] {
				got = append(got, decoded(t, s, r))
			}
		}
		same(t, c.name, got, []string{
			c.eu + " map[at:<nil> body:[111 110 101] id:1 region:EU]", c.eu + " map[at:<nil> body:<nil> id:3 region:EU]",
			c.us + " map[at:1970-01-01 00:00:01 +0000 UTC body:<nil> id:2 region:US]",
		})
		// A subject that is refused ends it.
		s.refuses = c.us
		delete(s.byName, c.us)
		w, err = p.encoder(dataflow.Stream{Schema: orders}, s)
		if err == nil {
			_, err = w.Write(t.Context(), batch(t, orders, `[{"id": 1, "region": "US", "body": null, "at": null}]`))
		}
		if !errors.Is(err, dataflow.ErrIncompatibleSchema) || !errors.Is(err, dataflow.ErrPermanent) {
			t.Errorf("%s, refused: %v", c.name, err)
		}
	}
}

func TestAnEncodedChangelogHasTombstones(t *testing.T) {
	p := newPlace(t)
	s := &subjects{byName: map[string]*dataflow.RegisteredSchema{p.cfg.Topic + "-value": {ID: 9, Kind: dataflow.SchemaAvro,
		Text: `{"type":"record","name":"r","fields":[{"name":"region","type":{"type":"enum","name":"e","symbols":["a","c"]}},{"name":"id","type":"long"},{"name":"v","type":"int","default":7}]}`}}}
	fields := append(orders.Fields()[:2:2], dataflow.OpField())
	in := dataflow.Stream{Schema: arrow.NewSchema(fields, nil), Changelog: true, Key: []string{"id"}}
	p.cfg.Encode = encodeAvro(func(x *SchemaConfig) { x.Use, x.Register = useLatest, false })
	w, err := p.encoder(in, s)
	must(t, err)
	bad, err := w.Write(t.Context(), batch(t, in.Schema, `[{"id": 1, "region": "a", "_op": 1}, {"id": 1, "region": "a", "_op": 2}, {"id": 1, "region": "c", "_op": 3}, {"id": 3, "region": "x", "_op": 1}, {"id": 4, "region": null, "_op": 1}, {"id": 2, "region": "zz", "_op": 4}]`))
	must(t, err)
	same(t, "bad rows", flowtest.Refused(bad), []string{`mistyped: column "region": x is no symbol of enum e`, `missing_required: column "region": it is null, and the schema has enum e without null`})
	must(t, p.committer().Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 6)))
	var got []string
	for _, r := range p.records(p.cfg.Topic) {
		got = append(got, text(r.Key)+"="+decoded(t, s, r))
	}
	sort.Strings(got)
	name := p.cfg.Topic + "-value "
	same(t, "records", got, []string{"1=" + name + "map[id:1 region:a v:7]", "1=" + name + "map[id:1 region:c v:7]", "2=null"})
}

func TestCloudEventsAreWritten(t *testing.T) {
	p := newPlace(t)
	p.cfg.CloudEvents = &EventConfig{ID: "id", Source: "'/shop'", Type: "'order.' || region", Time: "at", Extensions: component.NamedExprs{{Name: "tenant", Expr: "nullif(region, 'EU')"}}}
	w := p.writer(dataflow.Stream{Schema: orders})
	bad, err := w.Write(t.Context(), batch(t, orders, `[{"id": 1, "region": "EU", "body": null, "at": "2024-05-01T10:00:00Z"}, {"id": 2, "region": null, "body": null, "at": null}, {"id": 3, "region": "US", "body": null, "at": null}]`))
	must(t, err)
	same(t, "bad rows", flowtest.Refused(bad), []string{"invalid_event: ('order.' || region) is null, and an event has a ce_type"})
	must(t, p.committer().Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 3)))
	var got []string
	for _, r := range p.records(p.cfg.Topic) {
		got = append(got, fmt.Sprint(headerTexts(r)))
	}
	sort.Strings(got)
	same(t, "headers", got, []string{
		"[ce_specversion=1.0 ce_id=1 ce_source=/shop ce_type=order.EU ce_time=2024-05-01T10:00:00.000000Z content-type=application/json]",
		"[ce_specversion=1.0 ce_id=3 ce_source=/shop ce_type=order.US content-type=application/json ce_tenant=US]",
	})
}

func TestWhatIsWrongWithFormatsIsSaid(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Encode = &EncodeConfig{} }, "encode: expected one of avro, protobuf and json_schema, got 0"},
		{func(c *Config) { c.Encode = encodeAvro(func(*SchemaConfig) {}); c.Value = "body" }, "value: encode writes all columns as the value"},
		{func(c *Config) { c.Encode = encodeAvro(func(x *SchemaConfig) { x.Use = useLatest }) }, "encode.avro.register: use: latest takes a schema that is there"},
		{func(c *Config) {
			c.Encode = encodeAvro(func(x *SchemaConfig) { x.Use, x.Register, x.SubjectName = useLatest, false, subjectRecord })
		}, "encode.avro.record: the subject is named after the record"},
		{func(c *Config) { c.Encode = encodeAvro(func(x *SchemaConfig) { x.Record = "a-b" }) }, `encode.avro: "a-b": expected names of letters`},
		{func(c *Config) { c.CloudEvents = &EventConfig{ID: "nix", Source: "'s'", Type: "'t'"} }, `cloudevents.id: unknown column "nix"`},
		{func(c *Config) { c.CloudEvents = &EventConfig{ID: "id", Source: "'s'", Type: "'t'", Time: "id"} }, "cloudevents.time: expected timestamptz"},
		{func(c *Config) {
			c.CloudEvents = &EventConfig{ID: "id", Source: "'s'", Type: "'t'", Extensions: component.NamedExprs{{Name: "My_Ext", Expr: "id"}}}
		}, `cloudevents.extensions.My_Ext: attribute "My_Ext"`},
	} {
		cfg := DefaultConfig()
		cfg.Brokers, cfg.Topic = []string{"localhost:9092"}, "t"
		c.change(&cfg)
		_, err := plan(component.SinkIn{Input: dataflow.Stream{Schema: orders}, PlanEnv: component.PlanEnv{Step: "out"}}, cfg)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
