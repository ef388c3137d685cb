package codec

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/avro"
)

// memoryRegistry has the schemas it is given; those that are "away" cannot be asked for.
type memoryRegistry struct {
	byID    map[int]*dataflow.RegisteredSchema
	fetched map[int]bool
	away    bool
}

func registryOf(schemas ...*dataflow.RegisteredSchema) *memoryRegistry {
	r := &memoryRegistry{byID: map[int]*dataflow.RegisteredSchema{}, fetched: map[int]bool{}}
	for i, s := range schemas {
		s.ID = i + 1
		r.byID[i+1] = s
	}
	return r
}

func (r *memoryRegistry) Known(id int) (*dataflow.RegisteredSchema, bool) {
	return r.byID[id], r.fetched[id]
}

func (r *memoryRegistry) Fetch(_ context.Context, id int) error {
	if r.away {
		return dataflow.Unavailable(fmt.Errorf("away"))
	}
	r.fetched[id] = true
	return nil
}

func (r *memoryRegistry) Subject(_ context.Context, subject string, version int) (*dataflow.RegisteredSchema, error) {
	if s := r.byID[version]; s != nil && subject == "s" {
		return s, nil
	}
	return nil, dataflow.ErrNoSchema
}

func (r *memoryRegistry) Register(context.Context, string, dataflow.RegisteredSchema) (int, error) {
	return 0, dataflow.ErrNoSchema
}

func (r *memoryRegistry) Find(context.Context, string, dataflow.RegisteredSchema) (int, error) {
	return 0, dataflow.ErrNoSchema
}

func (r *memoryRegistry) open(string) (dataflow.SchemaRegistry, error) { return r, nil }

func framed(id int, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), payload...)
}

// rowTexts flushes the rows of d as JSON objects.
func rowTexts(t testing.TB, d dataflow.Decoder) []string {
	t.Helper()
	n := d.Rows()
	cols := d.Flush()
	b := array.NewRecordBatch(d.Schema(), cols, int64(n))
	defer b.Release()
	for _, c := range cols {
		defer c.Release()
		if arr, ok := c.(*array.List); ok && arr.Len() != n {
			t.Fatalf("column of %d rows, want %d", arr.Len(), n)
		}
	}
	out := make([]string, n)
	for i := range out {
		out[i] = string(rowText(b, i))
	}
	return out
}

func rowText(b arrow.RecordBatch, i int) []byte {
	text := []byte{'{'}
	for c, f := range b.Schema().Fields() {
		if c > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%s:", f.Name)
		text = dataflow.AppendJSON(text, b.Column(c), i)
	}
	return append(text, '}')
}

func newDecoder(t testing.TB, c Config, open dataflow.SchemaRegistries) dataflow.Decoder {
	t.Helper()
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	t.Cleanup(func() { alloc.AssertSize(t, 0) })
	if err := c.Bind(t.TempDir(), open); err != nil {
		t.Fatal(err)
	}
	d, err := c.New(alloc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.(interface{ Release() }).Release() })
	return d
}

func avroOf(schema string) Config {
	c := &AvroConfig{}
	c.SetDefaults()
	c.Schema = schema
	return Config{Avro: c}
}

func avroSchema(text string) *dataflow.RegisteredSchema {
	return &dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: text}
}

// encodeAvro writes v by another library.
func encodeAvro(t testing.TB, schema string, v any) []byte {
	t.Helper()
	b, err := avro.MustParse(schema).Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const everyAvro = `{"type":"record","name":"shop.Every","fields":[
 {"name":"bool","type":"boolean"},{"name":"i4","type":"int"},{"name":"i8","type":"long"},{"name":"f4","type":"float"},{"name":"f8","type":"double"},
 {"name":"text","type":"string"},{"name":"bin","type":"bytes"},{"name":"fix","type":{"type":"fixed","name":"Fix","size":3}},
 {"name":"dec","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":3}},
 {"name":"fdec","type":{"type":"fixed","name":"D","size":9,"logicalType":"decimal","precision":20,"scale":2}},
 {"name":"day","type":{"type":"int","logicalType":"date"}},
 {"name":"tms","type":{"type":"int","logicalType":"time-millis"}},{"name":"tus","type":{"type":"long","logicalType":"time-micros"}},
 {"name":"ms","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"us","type":{"type":"long","logicalType":"timestamp-micros"}},
 {"name":"ns","type":{"type":"long","logicalType":"timestamp-nanos"}},{"name":"local","type":{"type":"long","logicalType":"local-timestamp-micros"}},
 {"name":"id","type":{"type":"string","logicalType":"uuid"}},
 {"name":"color","type":{"type":"enum","name":"Color","symbols":["RED","GREEN"]}},
 {"name":"maybe","type":["null","string"]},{"name":"late","type":["int","null"]},
 {"name":"list","type":{"type":"array","items":["null","long"]}},
 {"name":"map","type":{"type":"map","values":"int"}},
 {"name":"inner","type":{"type":"record","name":"Inner","fields":[{"name":"a","type":"int"},{"name":"more","type":{"type":"array","items":{"type":"record","name":"Deep","fields":[{"name":"x","type":["null","Fix"]}]}}}]}},
 {"name":"again","type":["null","Inner"]}
]}`

func everyValue() map[string]any {
	return map[string]any{
		"bool": true, "i4": int32(-7), "i8": int64(1) << 60, "f4": float32(1.5), "f8": -2.25, "text": "grüß", "bin": []byte{1, 2}, "fix": []byte{7, 8, 9},
		"dec": big.NewRat(-1234567, 1000), "fdec": big.NewRat(99999999999, 100),
		"day": int32(20000), "tms": int32(3_600_001), "tus": int64(86_399_999_999),
		"ms": int64(1_700_000_000_123), "us": int64(1_700_000_000_123_456), "ns": int64(-1), "local": int64(1_000_000),
		"id": "123e4567-e89b-12d3-a456-426614174000", "color": "GREEN", "maybe": nil, "late": int32(3),
		"list": []any{int64(1), nil, int64(3)}, "map": map[string]any{"k": int32(1)},
		"inner": map[string]any{"a": int32(1), "more": []any{map[string]any{"x": []byte{1, 1, 1}}, map[string]any{"x": nil}}},
		"again": map[string]any{"a": int32(2), "more": []any{}},
	}
}

const everyRow = `{bool:true,i4:-7,i8:1152921504606846976,f4:1.5,f8:-2.25,text:"grüß",bin:"0102",fix:"070809",dec:"-1234.567",fdec:"999999999.99",` +
	`day:"2024-10-04",tms:"01:00:00.001000",tus:"23:59:59.999999",ms:"2023-11-14T22:13:20.123000Z",us:"2023-11-14T22:13:20.123456Z",ns:"1969-12-31T23:59:59.999999Z",local:"1970-01-01T00:00:01.000000",` +
	`id:"123e4567-e89b-12d3-a456-426614174000",color:"GREEN",maybe:null,late:3,list:[1,null,3],map:[{"key":"k","value":1}],` +
	`inner:{"a":1,"more":[{"x":"010101"},{"x":null}]},again:{"a":2,"more":[]}}`

func TestEveryTypeOfAvroBecomesAColumn(t *testing.T) {
	d := newDecoder(t, avroOf(everyAvro), nil)
	payload := encodeAvro(t, everyAvro, everyValue())
	for range 3 {
		if bad := d.Append(payload); bad != nil {
			t.Fatal(bad)
		}
	}
	for _, got := range rowTexts(t, d) {
		if got != everyRow {
			t.Errorf("got  %s\nwant %s", got, everyRow)
		}
	}
	for n := range payload {
		if bad := d.Append(payload[:n]); bad == nil || bad.Reason != ReasonInvalidAvro {
			t.Fatalf("the first %d bytes of %d: %v", n, len(payload), bad)
		}
	}
	if bad := d.Append(append(slices.Clone(payload), 0)); bad == nil || bad.Reason != ReasonInvalidAvro {
		t.Errorf("a byte too many: %v", bad)
	}
	if got := rowTexts(t, d); len(got) != 0 {
		t.Errorf("bad records became rows: %s", got)
	}
}

func field(name, typ string, more ...string) string {
	return fmt.Sprintf(`{"name":%q,"type":%s%s}`, name, typ, strings.Join(more, ""))
}

func recordOf(fields ...string) string {
	return `{"type":"record","name":"r","fields":[` + strings.Join(fields, ",") + `]}`
}

func TestAvroOfOtherVersionsIsResolved(t *testing.T) {
	for name, c := range map[string]struct {
		writer, reader string
		value          any
		row            string // or
		reason         string
	}{
		"same":                 {recordOf(field("a", `"int"`)), recordOf(field("a", `"int"`)), map[string]any{"a": 1}, "{a:1}", ""},
		"promoted":             {recordOf(field("a", `"int"`), field("b", `"int"`), field("c", `"long"`), field("d", `"float"`), field("e", `"bytes"`), field("f", `"string"`)), recordOf(field("a", `"long"`), field("b", `"double"`), field("c", `"float"`), field("d", `"double"`), field("e", `"string"`), field("f", `"bytes"`)), map[string]any{"a": 1, "b": 2, "c": 3, "d": float32(0.5), "e": []byte("x"), "f": "y"}, `{a:1,b:2,c:3,d:0.5,e:"x",f:"79"}`, ""},
		"added with a default": {recordOf(field("a", `"int"`)), recordOf(field("new", `"string"`, `,"default":"d"`), field("a", `"int"`), field("n", `["null","int"]`, `,"default":null`), field("l", `{"type":"array","items":"int"}`, `,"default":[1,2]`), field("u", `["int","null"]`, `,"default":7`)), map[string]any{"a": 1}, `{new:"d",a:1,n:null,l:[1,2],u:7}`, ""},
		"added without one":    {recordOf(field("a", `"int"`)), recordOf(field("a", `"int"`), field("b", `"int"`)), map[string]any{"a": 1}, "", ReasonIncompatibleSchema},
		"removed":              {recordOf(field("x", everyAvro), field("a", `"int"`)), recordOf(field("a", `"int"`)), map[string]any{"x": everyValue(), "a": 1}, "{a:1}", ""},
		"renamed":              {recordOf(field("old", `"int"`)), recordOf(field("a", `"int"`, `,"aliases":["old"]`)), map[string]any{"old": 1}, "{a:1}", ""},
		"moved":                {recordOf(field("b", `"int"`), field("a", `"int"`)), recordOf(field("a", `"int"`), field("b", `"int"`)), map[string]any{"a": 1, "b": 2}, "{a:1,b:2}", ""},
		"narrowed":             {recordOf(field("a", `"long"`)), recordOf(field("a", `"int"`)), map[string]any{"a": 1}, "", ReasonIncompatibleSchema},
		"null became needed":   {recordOf(field("a", `["null","int"]`)), recordOf(field("a", `"int"`)), map[string]any{"a": nil}, "", ReasonIncompatibleSchema},
		"not null there":       {recordOf(field("a", `["null","int"]`)), recordOf(field("a", `"int"`)), map[string]any{"a": 5}, "{a:5}", ""},
		"became optional":      {recordOf(field("a", `"int"`)), recordOf(field("a", `["null","long"]`)), map[string]any{"a": 5}, "{a:5}", ""},
		"one of a union":       {recordOf(field("a", `["null","string","long"]`)), recordOf(field("a", `["null","long"]`)), map[string]any{"a": int64(5)}, "{a:5}", ""},
		"another of a union":   {recordOf(field("a", `["null","string","long"]`)), recordOf(field("a", `["null","long"]`)), map[string]any{"a": "x"}, "", ReasonIncompatibleSchema},
		"symbols":              {recordOf(field("a", `{"type":"enum","name":"e","symbols":["B","A"]}`)), recordOf(field("a", `{"type":"enum","name":"e","symbols":["A","B"]}`)), map[string]any{"a": "B"}, `{a:"B"}`, ""},
		"a symbol less":        {recordOf(field("a", `{"type":"enum","name":"e","symbols":["B","A"]}`)), recordOf(field("a", `{"type":"enum","name":"e","symbols":["A"]}`)), map[string]any{"a": "B"}, "", ReasonIncompatibleSchema},
		"the enum's default":   {recordOf(field("a", `{"type":"enum","name":"e","symbols":["B","A"]}`)), recordOf(field("a", `{"type":"enum","name":"e","symbols":["A"],"default":"A"}`)), map[string]any{"a": "B"}, `{a:"A"}`, ""},
		"the writer's unit":    {recordOf(field("a", `{"type":"long","logicalType":"timestamp-millis"}`)), recordOf(field("a", `{"type":"long","logicalType":"timestamp-micros"}`)), map[string]any{"a": int64(1000)}, `{a:"1970-01-01T00:00:01.000000Z"}`, ""},
		"another scale":        {recordOf(field("a", `{"type":"bytes","logicalType":"decimal","precision":4,"scale":1}`)), recordOf(field("a", `{"type":"bytes","logicalType":"decimal","precision":4,"scale":2}`)), map[string]any{"a": big.NewRat(1, 2)}, "", ReasonIncompatibleSchema},
		"no text":              {recordOf(field("a", `"bytes"`)), recordOf(field("a", `"string"`)), map[string]any{"a": []byte{0xff}}, "", ReasonInvalidUTF8},
		"too late":             {recordOf(field("a", `"long"`)), recordOf(field("a", `{"type":"long","logicalType":"timestamp-micros"}`)), map[string]any{"a": int64(1) << 62}, "", ReasonOutOfRange},
		"no uuid":              {recordOf(field("a", `"string"`)), recordOf(field("a", `{"type":"string","logicalType":"uuid"}`)), map[string]any{"a": "x"}, "", ReasonMistyped},
		"too many digits":      {recordOf(field("a", `"bytes"`)), recordOf(field("a", `{"type":"bytes","logicalType":"decimal","precision":2,"scale":0}`)), map[string]any{"a": []byte{100}}, "", ReasonOutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			r := registryOf(avroSchema(c.reader), avroSchema(c.writer))
			cfg := avroOf(c.reader)
			cfg.Avro.Registry = "r"
			d := newDecoder(t, cfg, r.open)
			bad := d.Append(framed(2, encodeAvro(t, c.writer, c.value)))
			if c.reason != "" {
				if bad == nil || bad.Reason != c.reason {
					t.Errorf("got %v, want %s", bad, c.reason)
				}
				return
			}
			if bad != nil {
				t.Fatal(bad)
			}
			if got := rowTexts(t, d); got[0] != c.row {
				t.Errorf("got %s, want %s", got[0], c.row)
			}
		})
	}
}

func TestAvroReferencesAreFollowed(t *testing.T) {
	main := avroSchema(recordOf(field("at", `"geo.Point"`), field("old", `["null","geo.Point"]`)))
	main.References = []dataflow.SchemaReference{{Name: "geo.Unit", Text: `{"type":"enum","name":"Unit","namespace":"geo","symbols":["M"]}`}, {Name: "geo.Point", Text: `{"type":"record","name":"geo.Point","fields":[{"name":"x","type":"int"},{"name":"u","type":"Unit"}]}`}}
	r := registryOf(main)
	cfg := avroOf("")
	cfg.Avro.Registry, cfg.Avro.Subject, cfg.Avro.Version = "r", "s", 1
	d := newDecoder(t, cfg, r.open)
	if bad := d.Append(framed(1, []byte{2, 0, 0})); bad != nil {
		t.Fatal(bad)
	}
	if got := rowTexts(t, d); got[0] != `{at:{"x":1,"u":"M"},old:null}` {
		t.Error(got)
	}
}

func TestAnUnknownSchemaIsBadAndOneThatCannotBeAskedForIsMissing(t *testing.T) {
	text := recordOf(field("a", `"int"`))
	r := registryOf(avroSchema(text))
	cfg := avroOf(text)
	cfg.Avro.Registry = "r"
	d := newDecoder(t, cfg, r.open).(dataflow.WaitingDecoder)
	r.away = true
	fetch := d.Missing(framed(1, []byte{2}))
	if fetch == nil || fetch(t.Context()) == nil {
		t.Fatal("a schema that nobody has asked for is not missing, or a registry that is away answers")
	}
	r.away = false
	if err := fetch(t.Context()); err != nil || d.Missing(framed(1, []byte{2})) != nil {
		t.Fatal("a schema that was fetched is missing", err)
	}
	if err := d.Missing(framed(9, nil))(t.Context()); err != nil || d.Missing(framed(9, nil)) != nil {
		t.Fatal("an id that is not there is missing for ever", err)
	}
	bad := d.Append(framed(9, nil))
	if bad == nil || bad.Reason != ReasonUnknownSchema || !strings.Contains(bad.Detail, "schema 9") {
		t.Errorf("got %v", bad)
	}
	for _, p := range [][]byte{nil, {0, 0, 0, 0}, {1, 0, 0, 0, 1, 2}, []byte(`{"a":1}`)} {
		if d.Missing(p) != nil {
			t.Errorf("%q waits", p)
		}
		if bad := d.Append(p); bad == nil || bad.Reason != ReasonNotFramed {
			t.Errorf("%q: %v", p, bad)
		}
	}
	if bad := d.Append(framed(1, []byte{2})); bad != nil {
		t.Error(bad)
	}
	if got := rowTexts(t, d); len(got) != 1 || got[0] != "{a:1}" {
		t.Error(got)
	}
}

func TestSchemasThatCannotBeColumnsAreExplained(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"union":     {recordOf(field("a", `["null","int","string"]`)), `field "a" is a union of several types, [null, int, string]`},
		"null":      {recordOf(field("a", `"null"`)), `field "a" is always null`},
		"itself":    {recordOf(field("a", `["null","r"]`)), `field "a": record r contains itself`},
		"digits":    {recordOf(field("a", `{"type":"bytes","logicalType":"decimal","precision":39,"scale":1}`)), "at most 38 digits"},
		"reserved":  {recordOf(field("_a", `"int"`)), "reserved"},
		"no fields": {recordOf(), "no fields"},
		"no json":   {"{", "the schema"},
	} {
		cfg := avroOf(c.schema)
		if err := cfg.Bind("", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.ArrowSchema(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestWhereTheSchemaComesFromIsChecked(t *testing.T) {
	for _, c := range []struct {
		cfg  SchemaConfig
		want string
	}{
		{SchemaConfig{}, "write schema_file: FILE, or registry"},
		{SchemaConfig{Registry: "r"}, "write subject: SUBJECT"},
		{SchemaConfig{Subject: "s"}, "registry: CONNECTION"},
		{SchemaConfig{Schema: "{}", SchemaFile: "f"}, "expected one of"},
		{SchemaConfig{Schema: "{}", Version: 2}, "a version is one of a subject"},
		{SchemaConfig{Registry: "r", Subject: "s", Version: -1}, "expected 1 or more"},
		{SchemaConfig{Registry: "r", Subject: "t"}, "no such schema"},
		{SchemaConfig{Registry: "r", Subject: "s", Version: 2}, "of the kind JSON"},
		{SchemaConfig{SchemaFile: "nothing.avsc"}, "no such file"},
	} {
		cfg := avroOf("")
		cfg.Avro.SchemaConfig = c.cfg
		r := registryOf(avroSchema(`"int"`), &dataflow.RegisteredSchema{Kind: dataflow.SchemaJSON, Text: "{}"})
		if err := cfg.Bind(t.TempDir(), r.open); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.cfg, err, c.want)
		}
	}
}

// TestRowsSurviveAvro writes rows of every type of the language and reads them again,
// by ours and by another library.
func TestRowsSurviveAvro(t *testing.T) {
	cfg := everyType
	cfg.Required, cfg.Whole, cfg.Schema = nil, "", slices.Clone(cfg.Schema)
	for i, c := range cfg.Schema { // Avro has no type for json: it is text there.
		cfg.Schema[i].Type = strings.ReplaceAll(c.Type, "json", "string")
	}
	js := decoder(t, cfg)
	docs := []string{
		`{"bool":true,"i4":1,"i8":-9007199254740993,"f4":0.5,"f8":1e300,"dec":-123456789.125,"big":"999999999999999999999999999999999999.99","text":"a\u0000ü","bin":"AQID","day":"2024-02-29","clock":"23:59:59.000001","ts":"2024-01-01T00:00:00.5","tz":"1960-01-01T00:00:00Z","s":1,"ms":2,"us":3,"ns":4000,"id":"123e4567-e89b-12d3-a456-426614174000","doc":"{}","list":[1,null,3],"obj":{"a":1,"b":"x","c":{"d":["y",null]}},"objs":[{"x":"-1.5","y":"[]"},null,{}]}`,
		`{}`,
		`{"dec":0,"big":-0.01,"list":[],"obj":{},"objs":[]}`,
	}
	for _, doc := range docs {
		if bad := js.Append([]byte(doc)); bad != nil {
			t.Fatal(bad)
		}
	}
	cols := js.Flush()
	b := array.NewRecordBatch(js.Schema(), cols, int64(len(docs)))
	defer b.Release()
	for _, c := range cols {
		c.Release()
	}
	schema, err := DeriveAvro("shop.Row", js.Schema().Fields())
	if err != nil {
		t.Fatal(err)
	}
	enc, err := NewAvroEncoder(avroSchema(schema), js.Schema().Fields())
	if err != nil {
		t.Fatal(err)
	}
	d := newDecoder(t, avroOf(schema), nil)
	other := avro.MustParse(schema)
	for i := range docs {
		payload, bad := enc.Append(nil, b, i)
		if bad != nil {
			t.Fatal(bad)
		}
		var v any
		if rest, err := other.Decode(payload, &v); err != nil || len(rest) > 0 {
			t.Fatalf("row %d is read by another library: %v, %d bytes left", i, err, len(rest))
		}
		again, err := other.Encode(v)
		if err != nil || string(again) != string(payload) {
			t.Fatalf("another library writes row %d as %x, %v; ours %x", i, again, err, payload)
		}
		if bad := d.Append(payload); bad != nil {
			t.Fatal(bad)
		}
	}
	got := rowTexts(t, d)
	for i := range docs {
		if want := string(rowText(b, i)); got[i] != want {
			t.Errorf("row %d:\ngot  %s\nwant %s", i, got[i], want)
		}
	}
}

func TestRowsAreWrittenInASchemaThatIsThere(t *testing.T) {
	at := time.Date(2024, 5, 1, 0, 0, 0, 1_999_000, time.UTC)
	cols := component.NamedTypes{{Name: "n", Type: "int64"}, {Name: "e", Type: "string"}, {Name: "at", Type: "timestamptz"}, {Name: "d", Type: "decimal(5,1)"}, {Name: "m", Type: "list<struct{key: string, value: int32}>"}, {Name: "f", Type: "binary"}}
	schema := recordOf(field("at", `{"type":"long","logicalType":"timestamp-millis"}`), field("n", `["null","int"]`), field("extra", `"string"`, `,"default":"x"`), field("none", `["null","int"]`),
		field("e", `{"type":"enum","name":"e","symbols":["A","B"]}`), field("d", `{"type":"fixed","name":"d8","size":8,"logicalType":"decimal","precision":6,"scale":3}`), field("m", `{"type":"map","values":"int"}`), field("f", `{"type":"fixed","name":"f2","size":2}`))
	for _, c := range []struct{ doc, want string }{
		{`{"n":1,"e":"B","at":"` + at.Format(time.RFC3339Nano) + `","d":-1.5,"m":[{"key":"k","value":2}],"f":"AQI="}`, `map[at:2024-05-01 00:00:00.001 +0000 UTC d:-3/2 e:B extra:x f:[1 2] m:map[k:2] n:1 none:<nil>]`},
		{`{"n":4294967296,"e":"B","at":"2024-01-01T00:00:00Z","d":1,"m":[],"f":"AQI="}`, ReasonOutOfRange},
		{`{"n":1,"e":"C","at":"2024-01-01T00:00:00Z","d":1,"m":[],"f":"AQI="}`, ReasonMistyped},
		{`{"n":1,"e":"A","d":1,"m":[],"f":"AQI="}`, ReasonMissingRequired},
		{`{"n":1,"e":"A","at":"2024-01-01T00:00:00Z","d":1000,"m":[],"f":"AQI="}`, ReasonOutOfRange},
		{`{"n":1,"e":"A","at":"2024-01-01T00:00:00Z","d":1,"m":[{"key":"k"}],"f":"AQI="}`, ReasonMissingRequired},
		{`{"n":1,"e":"A","at":"2024-01-01T00:00:00Z","d":1,"m":[],"f":"AQ=="}`, ReasonOutOfRange},
	} {
		js := decoder(t, JSONConfig{Schema: cols})
		if bad := js.Append([]byte(c.doc)); bad != nil {
			t.Fatal(bad)
		}
		arrs := js.Flush()
		b := array.NewRecordBatch(js.Schema(), arrs, 1)
		enc, err := NewAvroEncoder(avroSchema(schema), js.Schema().Fields())
		if err != nil {
			t.Fatal(err)
		}
		payload, bad := enc.Append(nil, b, 0)
		got := ""
		if bad != nil {
			got = bad.Reason
		} else {
			var v any
			if _, err := avro.MustParse(schema).Decode(payload, &v); err != nil {
				t.Fatalf("%x: %v", payload, err)
			}
			got = fmt.Sprint(v)
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s (%v)\nwant %s", c.doc, got, bad, c.want)
		}
		b.Release()
		for _, a := range arrs {
			a.Release()
		}
	}
	for _, c := range []struct{ cols, schema, want string }{
		{"string", recordOf(field("a", `"int"`)), `column "a" is string, and the field of the schema is int`},
		{"string", recordOf(field("a", `"string"`), field("b", `"string"`)), `field "b" of record r has no column and no default`},
		{"string", recordOf(field("b", `["null","string"]`)), `column "a" is no field of record r`},
		{"string", `"string"`, "rows are records"},
		{"decimal(10,3)", recordOf(field("a", `{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}`)), "decimal(10,2)"},
	} {
		spec, _ := dataflow.ParseType(c.cols)
		_, err := NewAvroEncoder(avroSchema(c.schema), []arrow.Field{{Name: "a", Type: spec.Type, Nullable: true}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// FuzzAvro reads any bytes as a record of every type. What is taken another library
// takes as well; and a record that is read back and forth stays the same row.
func FuzzAvro(f *testing.F) {
	f.Add(encodeAvro(f, everyAvro, everyValue()))
	for _, s := range []string{"", "00", "0101010101"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	other := avro.MustParse(everyAvro)
	cfg := avroOf(everyAvro)
	if err := cfg.Bind("", nil); err != nil {
		f.Fatal(err)
	}
	// Read once more with a schema that has none of the fields: all are skipped.
	r := registryOf(avroSchema(everyAvro))
	none := avroOf(recordOf(field("none", `"int"`, `,"default":1`)))
	none.Avro.Registry = "r"
	if err := none.Bind("", r.open); err != nil {
		f.Fatal(err)
	}
	d, skips := fuzzed(f, cfg), fuzzed(f, none)
	f.Fuzz(func(t *testing.T, payload []byte) {
		bad := d.Append(payload)
		skipped := skips.Append(framed(1, payload))
		rowTexts(t, skips)
		if bad == nil && skipped != nil {
			t.Fatalf("%x is read and cannot be skipped: %v", payload, skipped)
		}
		if bad == nil {
			var v any
			if rest, err := other.Decode(payload, &v); err != nil || len(rest) > 0 {
				t.Fatalf("%x is taken; another library: %v, %d bytes left", payload, err, len(rest))
			}
			rowTexts(t, d)
		}
	})
}

// fuzzed is a decoder of all inputs: to make one takes longer than to use it.
func fuzzed(f *testing.F, cfg Config) dataflow.Decoder {
	f.Helper()
	d, err := cfg.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(d.(interface{ Release() }).Release)
	return d
}

func BenchmarkDecodeAvroBids(b *testing.B) {
	schema := recordOf(field("auction", `"long"`), field("bidder", `"long"`), field("price", `"long"`), field("channel", `"string"`), field("url", `"string"`), field("dateTime", `{"type":"long","logicalType":"timestamp-millis"}`), field("extra", `"string"`))
	js, err := NewJSON(JSONConfig{Schema: bidSchema}, nil)
	if err != nil {
		b.Fatal(err)
	}
	docs := bids(2000, inOrder)
	for _, doc := range docs {
		if bad := js.Append(doc); bad != nil {
			b.Fatal(bad)
		}
	}
	rows := batchFrom(b, js, len(docs))
	enc, err := NewAvroEncoder(avroSchema(schema), notNull(js.Schema().Fields()))
	if err != nil {
		b.Fatal(err)
	}
	payloads := make([][]byte, len(docs))
	for i := range payloads {
		payload, bad := enc.Append(nil, rows, i)
		if bad != nil {
			b.Fatal(bad)
		}
		payloads[i] = framed(1, payload)
	}
	cfg := avroOf(schema)
	cfg.Avro.Registry = "r"
	r := registryOf(avroSchema(schema))
	if err := cfg.Bind("", r.open); err != nil {
		b.Fatal(err)
	}
	b.Run("decode", func(b *testing.B) { benchFormat(b, cfg, payloads) })
	b.Run("another library, to maps", func(b *testing.B) {
		other := avro.MustParse(schema)
		b.ReportAllocs()
		b.ResetTimer()
		start := cpuTime()
		for i := range b.N {
			var v any
			if _, err := other.Decode(payloads[i%len(payloads)][frameSize:], &v); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/row")
	})
	b.Run("encode", func(b *testing.B) {
		var buf []byte
		b.ReportAllocs()
		b.ResetTimer()
		start := cpuTime()
		for i := range b.N {
			var bad *dataflow.Bad
			if buf, bad = enc.Append(buf[:0], rows, i%len(docs)); bad != nil {
				b.Fatal(bad)
			}
		}
		b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/row")
	})
}

func notNull(fields []arrow.Field) []arrow.Field {
	out := slices.Clone(fields)
	for i := range out {
		out[i].Nullable = false
	}
	return out
}
