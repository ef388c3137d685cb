package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// EncodeConfig says how values are written. Exactly one format is set.
type EncodeConfig struct {
	// Avro: values are records in Avro's binary form.
	Avro *SchemaConfig `yaml:"avro" choose:"one"`
	// Protobuf: values are messages of Protobuf.
	Protobuf *SchemaConfig `yaml:"protobuf" choose:"one"`
	// JSONSchema: values are JSON objects of all columns, whose schema is in the registry.
	JSONSchema *SchemaConfig `yaml:"json_schema" choose:"one"`
}

// SchemaConfig says what schema values are written in; they begin with the head of a
// registry's format.
type SchemaConfig struct {
	// Registry names a connection of the kind schema_registry.
	Registry string `yaml:"registry,required"`
	// SubjectName says under which subject the schema stands: topic (default:
	// TOPIC-value), record (the full name of the record) or topic_record (TOPIC-RECORD).
	SubjectName string `yaml:"subject_name" oneof:"topic,record,topic_record"`
	// Use says whose schema it is: columns (default: it is made of the columns, and must
	// be in the registry unless register is true) or latest (the last one of the subject;
	// the columns must fit it).
	Use string `yaml:"use" oneof:"columns,latest"`
	// Register: true registers the schema where the subject does not have it. Default:
	// false.
	Register bool `yaml:"register"`
	// Record is the full name of the record or message, as shop.Order. Default: the
	// step's name; of use: latest that of its schema.
	Record string `yaml:"record"`
}

// SetDefaults implements component.Defaulter.
func (c *SchemaConfig) SetDefaults() { *c = SchemaConfig{SubjectName: subjectTopic, Use: useColumns} }

// Values of SubjectName and Use.
const (
	subjectTopic       = "topic"
	subjectRecord      = "record"
	subjectTopicRecord = "topic_record"
	useColumns         = "columns"
	useLatest          = "latest"
)

// chosen returns the format that is set.
func (c *EncodeConfig) chosen() (key, kind string, s *SchemaConfig, n int) {
	for _, x := range []struct {
		key, kind string
		s         *SchemaConfig
	}{{"avro", dataflow.SchemaAvro, c.Avro}, {"protobuf", dataflow.SchemaProtobuf, c.Protobuf}, {"json_schema", dataflow.SchemaJSON, c.JSONSchema}} {
		if x.s != nil {
			key, kind, s, n = x.key, x.kind, x.s, n+1
		}
	}
	return key, kind, s, n
}

// encoding writes values in schemas of a registry. One goroutine uses it.
type encoding struct {
	cfg      *SchemaConfig
	kind     string
	name     string // of the record
	fields   []arrow.Field
	derived  dataflow.RegisteredSchema // of use: columns
	registry dataflow.SchemaRegistry
	byTopic  map[string]*topicEncoding
}

// topicEncoding is how the values of one topic are written.
type topicEncoding struct {
	head []byte
	enc  codec.Encoder // nil: as JSON
}

// newEncoding is nil where values are written as JSON without a registry.
func newEncoding(in component.SinkIn, cfg Config) (*encoding, component.Problems) {
	if cfg.Encode == nil {
		return nil, nil
	}
	key, kind, s, n := cfg.Encode.chosen()
	bad := func(path, format string, args ...any) (*encoding, component.Problems) {
		return nil, component.Problems{{Path: path, Msg: fmt.Sprintf(format, args...)}}
	}
	switch {
	case n != 1:
		return bad("encode", "expected one of avro, protobuf and json_schema, got %d", n)
	case cfg.Value != "":
		return bad("value", "encode writes all columns as the value, and value is another: leave one of them out")
	case s.Use == useLatest && s.Register:
		return bad("encode."+key+".register", "use: latest takes a schema that is there, so none is registered")
	}
	if in.Schemas != nil {
		if _, err := in.Schemas(s.Registry); err != nil {
			return bad("encode."+key+".registry", "%v", err)
		}
	}
	e := &encoding{cfg: s, kind: kind, name: s.Record, fields: dataflow.UserFields(in.Input.Schema), byTopic: map[string]*topicEncoding{}}
	if e.name == "" && s.Use == useColumns {
		e.name = in.Step
	}
	if s.Use == useLatest {
		if s.SubjectName != subjectTopic && s.Record == "" {
			return bad("encode."+key+".record", "the subject is named after the record, whose name must be known: write record: NAME")
		}
		return e, nil
	}
	var err error
	e.derived.Kind = kind
	switch kind {
	case dataflow.SchemaAvro:
		e.derived.Text, err = codec.DeriveAvro(e.name, e.fields)
	case dataflow.SchemaProtobuf:
		e.derived.Text, err = codec.DeriveProtobuf(e.name, e.fields)
	default:
		e.derived.Text, err = codec.DeriveJSONSchema(e.name, e.fields)
	}
	if err == nil {
		_, err = e.encoder(&e.derived)
	}
	if err != nil {
		return bad("encode."+key, "%v", err)
	}
	return e, nil
}

// open connects to the registry, which is asked where the topic is known already: what
// it refuses is known before a row is written.
func (e *encoding) open(ctx context.Context, in component.SinkIn, l *layout) error {
	if in.Schemas == nil {
		return dataflow.Permanentf("kafka sink %q: no schema registries", in.Step)
	}
	var err error
	if e.registry, err = in.Schemas(e.cfg.Registry); err != nil {
		return dataflow.Permanent(err)
	}
	topic, constant := l.topic.Constant()
	if !constant && e.cfg.SubjectName != subjectRecord {
		return nil
	}
	_, err = e.of(ctx, topic)
	return err
}

func (e *encoding) subject(topic string) string {
	switch e.cfg.SubjectName {
	case subjectRecord:
		return e.name
	case subjectTopicRecord:
		return topic + "-" + e.name
	}
	return topic + "-value"
}

// of is how the values of a topic are written.
func (e *encoding) of(ctx context.Context, topic string) (*topicEncoding, error) {
	if t := e.byTopic[topic]; t != nil {
		return t, nil
	}
	subject := e.subject(topic)
	s, id := &e.derived, 0
	var err error
	switch {
	case e.cfg.Use == useLatest:
		if s, err = e.registry.Subject(ctx, subject, 0); err == nil {
			id = s.ID
		}
	case e.cfg.Register:
		id, err = e.registry.Register(ctx, subject, e.derived)
	default:
		id, err = e.registry.Find(ctx, subject, e.derived)
	}
	if err != nil {
		return nil, e.explain(subject, err)
	}
	t := &topicEncoding{head: binary.BigEndian.AppendUint32([]byte{0}, uint32(id))}
	if t.enc, err = e.encoder(s); err != nil {
		return nil, dataflow.Permanent(fmt.Errorf("the columns do not fit the last schema of subject %q: %w", subject, err))
	}
	e.byTopic[topic] = t
	return t, nil
}

// encoder writes the columns in a schema; nil: as JSON.
func (e *encoding) encoder(s *dataflow.RegisteredSchema) (codec.Encoder, error) {
	if s.Kind != e.kind {
		return nil, fmt.Errorf("it is a schema of the kind %s, and the sink writes %s", s.Kind, e.kind)
	}
	switch e.kind {
	case dataflow.SchemaAvro:
		return codec.NewAvroEncoder(s, e.fields)
	case dataflow.SchemaProtobuf:
		return codec.NewProtobufEncoder(s, e.name, e.fields, codec.Framed)
	}
	return nil, codec.CheckJSONSchema(s, e.fields)
}

func (e *encoding) explain(subject string, err error) error {
	if !errors.Is(err, dataflow.ErrNoSchema) {
		return err
	}
	if e.cfg.Use == useLatest {
		return dataflow.Permanent(fmt.Errorf("use: latest needs a schema under subject %q: %w", subject, err))
	}
	return dataflow.Permanent(fmt.Errorf("the schema of the columns is not under subject %q; register: true registers it: %s: %w", subject, e.derived.Text, err))
}
