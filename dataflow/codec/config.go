package codec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Config is the decode block of a source. Exactly one format is set.
type Config struct {
	// JSON: each payload is one JSON document.
	JSON *JSONConfig `yaml:"json" choose:"one"`
	// Avro: each payload is one value in Avro's binary form, with or without the head of
	// a schema registry.
	Avro *AvroConfig `yaml:"avro" choose:"one"`
	// JSONSchema: each payload is one JSON document, with or without the head of a schema
	// registry, whose columns a JSON Schema tells.
	JSONSchema *JSONSchemaConfig `yaml:"json_schema" choose:"one"`
	// Protobuf: each payload is one message, with or without the head of a schema
	// registry.
	Protobuf *ProtobufConfig `yaml:"protobuf" choose:"one"`
	// Raw: each payload is a value of one column, as it is.
	Raw *RawConfig `yaml:"raw" choose:"one"`
	// Text: each payload is a value of one column, a text in UTF-8.
	Text *TextConfig `yaml:"text" choose:"one"`
	// Sparkplug: payloads are those of Sparkplug B, one row for each metric. For
	// sources with topics (mqtt).
	Sparkplug *SparkplugConfig `yaml:"sparkplug" choose:"one"`
}

// format is what each of them can.
type format interface {
	Check() error
	ArrowSchema() (*arrow.Schema, error)
	newDecoder(alloc memory.Allocator) (dataflow.Decoder, error)
}

// chosen returns the format that is set and its name.
func (c Config) chosen() (name string, f format, err error) {
	var names []string
	for _, x := range []struct {
		name string
		set  bool
		f    format
	}{
		{"json", c.JSON != nil, c.JSON}, {"avro", c.Avro != nil, c.Avro}, {"json_schema", c.JSONSchema != nil, c.JSONSchema}, {"protobuf", c.Protobuf != nil, c.Protobuf}, {"raw", c.Raw != nil, c.Raw}, {"text", c.Text != nil, c.Text}, {"sparkplug", c.Sparkplug != nil, c.Sparkplug},
	} {
		if x.set {
			name, f = x.name, x.f
			names = append(names, x.name)
		}
	}
	switch len(names) {
	case 0:
		return "", nil, component.Badf("", "decode needs one format; known: avro, json, json_schema, protobuf, raw, sparkplug, text")
	case 1:
		return name, f, nil
	default:
		return "", nil, component.Badf("", "decode has the formats %s: only one is possible", strings.Join(names, ", "))
	}
}

// Check reports everything wrong with the block, as component.Problems.
func (c Config) Check() error {
	name, f, err := c.chosen()
	if err != nil {
		return err
	}
	return under(name, f.Check())
}

// NeedsTopic says whether the format reads payloads together with their topics:
// its decoder is a dataflow.TopicDecoder.
func (c Config) NeedsTopic() bool { return c.Sparkplug != nil }

// bySchema is a format whose columns come from a schema.
func (c Config) bySchema() (name string, s *SchemaConfig, kind string) {
	switch {
	case c.Avro != nil:
		return "avro", &c.Avro.SchemaConfig, dataflow.SchemaAvro
	case c.JSONSchema != nil:
		return "json_schema", &c.JSONSchema.SchemaConfig, dataflow.SchemaJSON
	case c.Protobuf != nil:
		return "protobuf", &c.Protobuf.SchemaConfig, dataflow.SchemaProtobuf
	}
	return "", nil, ""
}

// Bind gets the schema of a format that has one: from its file, relative to dir, or of
// a registry, which is asked. It is called once, before ArrowSchema. Problems are as
// those of Check.
func (c Config) Bind(dir string, open dataflow.SchemaRegistries) error {
	if err := c.Check(); err != nil {
		return err
	}
	name, s, kind := c.bySchema()
	if s == nil {
		return nil
	}
	return under(name, s.bind(dir, kind, open))
}

// BySchema says whether the columns come from a schema outside the block.
func (c Config) BySchema() bool {
	_, s, _ := c.bySchema()
	return s != nil
}

// Binary says whether payloads may hold any byte, so that they are no lines.
func (c Config) Binary() bool { return c.Avro != nil || c.Protobuf != nil }

// Waits says whether decoders may have to wait for a registry: they are
// dataflow.WaitingDecoders, and the source must let them.
func (c Config) Waits() bool {
	_, s, _ := c.bySchema()
	return s != nil && s.Registry != ""
}

// ArrowSchema returns the columns that decoding gives.
func (c Config) ArrowSchema() (*arrow.Schema, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	name, f, _ := c.chosen()
	schema, err := f.ArrowSchema()
	return schema, under(name, err)
}

// New makes a decoder, for one goroutine.
func (c Config) New(alloc memory.Allocator) (dataflow.Decoder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	_, f, _ := c.chosen()
	return f.newDecoder(alloc)
}

func (c *JSONConfig) newDecoder(alloc memory.Allocator) (dataflow.Decoder, error) {
	return NewJSON(*c, alloc)
}

// under puts prefix before the paths of err's problems.
func under(prefix string, err error) error {
	ps, ok := err.(component.Problems)
	if !ok {
		return err
	}
	out := slices.Clone(ps)
	for i := range out {
		if out[i].Path == "" {
			out[i].Path = prefix
		} else {
			out[i].Path = prefix + "." + out[i].Path
		}
	}
	return out
}

// JSONConfig says how JSON documents become rows. A missing field and null are
// null; a value of another type makes the record bad, nothing is coerced; of a
// key that comes twice the last one counts. Numbers with a fraction of zero are
// integers; a decimal may also be a text that holds a number; binary is a text in
// base64; digits of a time below the microsecond are cut off.
type JSONConfig struct {
	// Schema maps the fields of the document to columns, in the order of the
	// columns: {device: string, ts: timestamptz(ms)}. Required unless whole is
	// set.
	Schema component.NamedTypes `yaml:"schema"`
	// Required lists columns that must be there and not null; a record without
	// one is bad (missing_required). Default: none.
	Required []string `yaml:"required"`
	// Extra says what a field outside the schema does: ignore (counted by name)
	// or bad (the record is bad, extra_field). Default: ignore.
	Extra string `yaml:"extra" oneof:"ignore,bad"`
	// Whole names a further column, of type json, that keeps the whole document,
	// without the white space between its tokens. Documents that are no objects
	// are then rows as well. Default: none.
	Whole string `yaml:"whole"`
	// TimeRange bounds the times of timestamp and timestamptz columns: [from, to],
	// each a date or an RFC 3339 time; from is included, to is not. A record with
	// a time outside is bad (out_of_range). It catches a wrong unit. Default:
	// the years 1 to 9999.
	TimeRange []string `yaml:"time_range"`
	// MaxFields bounds the members of all objects in one document together; one with
	// more is bad (too_many_fields). Default: 10000.
	MaxFields int `yaml:"max_fields"`
	// Depth bounds how deep arrays and objects nest, 1 to 256. Default: 64.
	Depth int `yaml:"depth"`
	// MaxRecord bounds the size of one document. Default: 1MiB.
	MaxRecord component.Bytes `yaml:"max_record"`
}

// Values of JSONConfig.Extra.
const (
	ExtraIgnore = "ignore"
	ExtraBad    = "bad"
)

// maxDepth is where the parser of the reference stops well before its own limit.
const maxDepth = 256

// maxPayload bounds max_record: offsets of a batch are 32 bits wide.
const maxPayload = 256 << 20

// DefaultJSONConfig holds the defaults.
func DefaultJSONConfig() JSONConfig {
	return JSONConfig{Extra: ExtraIgnore, MaxFields: 10_000, Depth: 64, MaxRecord: 1 << 20}
}

// withDefaults fills what is not set.
func (c JSONConfig) withDefaults() JSONConfig {
	def := DefaultJSONConfig()
	if c.Extra == "" {
		c.Extra = def.Extra
	}
	if c.MaxFields == 0 {
		c.MaxFields = def.MaxFields
	}
	if c.Depth == 0 {
		c.Depth = def.Depth
	}
	if c.MaxRecord == 0 {
		c.MaxRecord = def.MaxRecord
	}
	return c
}

// Check reports everything wrong with c, as component.Problems. It is pure.
func (c JSONConfig) Check() error {
	c = c.withDefaults()
	var ps component.Problems
	add := func(path, format string, args ...any) {
		ps = append(ps, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if len(c.Schema) == 0 && c.Whole == "" {
		add("schema", "the columns are not declared: write schema: {name: type, ...}, or whole: COLUMN to keep documents as they are")
	}
	names := c.checkSchema(add)
	for i, r := range c.Required {
		if !slices.Contains(names, r) {
			add(fmt.Sprintf("required[%d]", i), "%q is no column of the schema; columns: %s", r, strings.Join(names, ", "))
		}
	}
	if c.Extra != ExtraIgnore && c.Extra != ExtraBad {
		add("extra", "%q is unknown: expected ignore or bad", c.Extra)
	}
	if c.Whole != "" {
		if slices.Contains(names, c.Whole) {
			add("whole", "column %q is in the schema already: choose another name", c.Whole)
		}
		if dataflow.IsSystem(c.Whole) {
			add("whole", "column %q: names beginning with %q are reserved", c.Whole, dataflow.SysPrefix)
		}
	}
	if _, _, err := c.times(); err != nil {
		add("time_range", "%v", err)
	}
	if c.MaxFields < 1 {
		add("max_fields", "%d is out of range: expected 1 or more", c.MaxFields)
	}
	if c.Depth < 1 || c.Depth > maxDepth {
		add("depth", "%d is out of range: expected 1 to %d", c.Depth, maxDepth)
	}
	if c.MaxRecord < 1 || c.MaxRecord > maxPayload {
		add("max_record", "%s is out of range: expected 1B to %s", c.MaxRecord, component.Bytes(maxPayload))
	}
	if len(ps) == 0 {
		return nil
	}
	return ps
}

func (c JSONConfig) checkSchema(add func(path, format string, args ...any)) (names []string) {
	for _, f := range c.Schema {
		path := "schema." + f.Name
		switch {
		case f.Name == "":
			add("schema", "a column has no name")
		case dataflow.IsSystem(f.Name):
			add(path, "column %q: names beginning with %q are reserved", f.Name, dataflow.SysPrefix)
		case slices.Contains(names, f.Name):
			add(path, "column %q is declared twice", f.Name)
		}
		if _, err := dataflow.ParseType(f.Type); err != nil {
			add(path, "%v", err)
		}
		names = append(names, f.Name)
	}
	return names
}

// times returns the range of TimeRange: lo included, hi not.
func (c JSONConfig) times() (lo, hi dataflow.Time, err error) {
	lo, hi = dataflow.MinEventTime, dataflow.MaxEventTime+1
	if len(c.TimeRange) == 0 {
		return lo, hi, nil
	}
	if len(c.TimeRange) != 2 {
		return lo, hi, fmt.Errorf("expected two times, as [2000-01-01, 2100-01-01]")
	}
	var t [2]dataflow.Time
	for i, text := range c.TimeRange {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			at, err = time.Parse(time.DateOnly, text)
		}
		if err != nil {
			return lo, hi, fmt.Errorf("%q is no time: expected a date or RFC 3339, as 2000-01-01 or 2000-01-01T00:00:00Z", text)
		}
		t[i] = dataflow.TimeOf(at)
	}
	if t[0] >= t[1] || t[0] < lo || t[1] > hi {
		return lo, hi, fmt.Errorf("[%s, %s] is no range inside the years 1 to 9999", c.TimeRange[0], c.TimeRange[1])
	}
	return t[0], t[1], nil
}

// ArrowSchema returns the columns: those of Schema, then Whole. Columns that can
// never be null (required ones and Whole) say so.
func (c JSONConfig) ArrowSchema() (*arrow.Schema, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	var fields []arrow.Field
	for _, f := range c.Schema {
		spec, err := dataflow.ParseType(f.Type)
		if err != nil {
			return nil, err
		}
		fields = append(fields, arrow.Field{Name: f.Name, Type: spec.Type, Nullable: !slices.Contains(c.Required, f.Name)})
	}
	if c.Whole != "" {
		fields = append(fields, arrow.Field{Name: c.Whole, Type: dataflow.TypeJSON})
	}
	return arrow.NewSchema(fields, nil), nil
}
