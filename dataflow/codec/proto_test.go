package codec

import (
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

const everyProto = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Every {
  bool b = 1; int32 i4 = 2; sint32 s4 = 3; uint32 u4 = 4; fixed32 x4 = 5; sfixed32 y4 = 6;
  int64 i8 = 7; sint64 s8 = 8; uint64 u8 = 9; fixed64 x8 = 10; sfixed64 y8 = 11;
  float f4 = 12; double f8 = 13; string text = 14; bytes bin = 15;
  Color color = 16; optional int32 maybe = 17; optional string label = 18;
  google.protobuf.Timestamp at = 19; google.protobuf.Int64Value wrapped = 20; google.protobuf.StringValue word = 21;
  repeated int32 packed = 22; repeated sint64 loose = 23 [packed = false]; repeated string words = 24;
  repeated Inner inners = 25; Inner inner = 26; map<string, int32> counts = 27; map<int64, Inner> byid = 28;
  oneof choice { int32 number = 29; string name = 30; Inner other = 31; }
  repeated google.protobuf.Timestamp times = 600;
  repeated Color colors = 33; repeated double d = 34;
  message Inner { int32 a = 1; repeated string more = 2; Deep deep = 3; }
  message Deep { optional bool x = 1; }
  enum Color { NONE = 0; RED = 1; BLUE = -2; }
}
message Second { int32 a = 1; message Within { int32 w = 1; } }
`

func protoOf(schema, message string) Config {
	c := &ProtobufConfig{}
	c.SetDefaults()
	c.Schema, c.Message = schema, message
	return Config{Protobuf: c}
}

func protoSchema(text string) *dataflow.RegisteredSchema {
	return &dataflow.RegisteredSchema{Kind: dataflow.SchemaProtobuf, Text: text}
}

func descriptor(t testing.TB, text, message string) protoreflect.MessageDescriptor {
	t.Helper()
	f, err := parseProto(protoSchema(text))
	if err != nil {
		t.Fatal(err)
	}
	m, err := messageOf(f, message)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// encodeProto writes a message, given as JSON, by another library.
func encodeProto(t testing.TB, m protoreflect.MessageDescriptor, doc string) []byte {
	t.Helper()
	msg := dynamicpb.NewMessage(m)
	if err := protojson.Unmarshal([]byte(doc), msg); err != nil {
		t.Fatal(err)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const everyMessage = `{"b":true,"i4":-1,"s4":-2,"u4":4294967295,"x4":4294967295,"y4":-5,"i8":"-9223372036854775808","s8":"-3","u8":"18446744073709551615","x8":"18446744073709551615","y8":"-7",
"f4":1.5,"f8":-2.25,"text":"grüß","bin":"AQI=","color":"BLUE","maybe":0,"label":"","at":"1969-12-31T23:59:59.999999Z","wrapped":"0","word":"w",
"packed":[1,-1],"loose":["-5","6"],"words":["","x"],"inners":[{"a":1,"more":["p","q"]},{},{"deep":{"x":false},"more":["r"]}],"inner":{"deep":{}},"counts":{"k":3},"byid":{"7":{"a":8}},
"name":"n","times":["2024-01-01T00:00:00Z"],"colors":["RED",17],"d":[0.5]}`

const everyMessageRow = `{b:true,i4:-1,s4:-2,u4:4294967295,x4:4294967295,y4:-5,i8:-9223372036854775808,s8:-3,u8:"18446744073709551615",x8:"18446744073709551615",y8:-7,` +
	`f4:1.5,f8:-2.25,text:"grüß",bin:"0102",color:"BLUE",maybe:0,label:"",at:"1969-12-31T23:59:59.999999Z",wrapped:0,word:"w",` +
	`packed:[1,-1],loose:[-5,6],words:["","x"],inners:[{"a":1,"more":["p","q"],"deep":null},{"a":0,"more":[],"deep":null},{"a":0,"more":["r"],"deep":{"x":false}}],inner:{"a":0,"more":[],"deep":{"x":null}},` +
	`counts:[{"key":"k","value":3}],byid:[{"key":7,"value":{"a":8,"more":[],"deep":null}}],number:null,name:"n",other:null,times:["2024-01-01T00:00:00.000000Z"],colors:["RED","17"],d:[0.5]}`

const noMessageRow = `{b:false,i4:0,s4:0,u4:0,x4:0,y4:0,i8:0,s8:0,u8:"0",x8:"0",y8:0,f4:0,f8:0,text:"",bin:"",color:"NONE",maybe:null,label:null,at:null,wrapped:null,word:null,` +
	`packed:[],loose:[],words:[],inners:[],inner:null,counts:[],byid:[],number:null,name:null,other:null,times:[],colors:[],d:[]}`

func TestEveryTypeOfProtobufBecomesAColumn(t *testing.T) {
	m := descriptor(t, everyProto, "")
	payload := encodeProto(t, m, everyMessage)
	d := newDecoder(t, protoOf(everyProto, ""), nil)
	for _, p := range [][]byte{payload, nil, payload} {
		if bad := d.Append(p); bad != nil {
			t.Fatal(bad)
		}
	}
	got := rowTexts(t, d)
	for i, want := range []string{everyMessageRow, noMessageRow, everyMessageRow} {
		if got[i] != want {
			t.Errorf("row %d:\ngot  %s\nwant %s", i, got[i], want)
		}
	}
	// What comes in parts is one: the last of a value, all of a list, a message merged, the
	// last of a choice.
	for _, c := range []struct{ first, then, row string }{
		{`{"i4":1}`, `{"i4":2}`, `i4:2`},
		{`{"packed":[1],"words":["a"]}`, `{"packed":[2],"words":["b"]}`, `packed:[1,2],loose:[],words:["a","b"]`},
		{`{"inner":{"a":1,"more":["x"]}}`, `{"inner":{"more":["y"],"deep":{"x":true}}}`, `inner:{"a":1,"more":["x","y"],"deep":{"x":true}}`},
		{`{"number":1}`, `{"name":"x"}`, `number:null,name:"x",other:null`},
		{`{"other":{"more":["x"]}}`, `{"number":5}`, `number:5,name:null,other:null`},
		{`{"at":"2024-01-01T00:00:00.5Z"}`, `{"at":"2024-01-01T00:00:01Z"}`, `at:"2024-01-01T00:00:01.500000Z"`},
	} {
		if bad := d.Append(append(encodeProto(t, m, c.first), encodeProto(t, m, c.then)...)); bad != nil {
			t.Fatal(bad)
		}
		if got := rowTexts(t, d); !strings.Contains(got[0], c.row) {
			t.Errorf("%s and then %s: got %s, want %s", c.first, c.then, got[0], c.row)
		}
	}
}

func TestBrokenMessagesAreBad(t *testing.T) {
	d := newDecoder(t, protoOf(everyProto, ""), nil)
	tag := func(n protowire.Number, typ protowire.Type, rest ...byte) []byte {
		return append(protowire.AppendTag(nil, n, typ), rest...)
	}
	for name, c := range map[string]struct {
		payload        []byte
		reason, detail string
	}{
		"cut off":         {tag(2, protowire.VarintType), ReasonInvalidProtobuf, "field 2"},
		"no tag":          {[]byte{0}, ReasonInvalidProtobuf, "byte 0"},
		"inside":          {tag(26, protowire.BytesType, 2, 0x12, 9), ReasonInvalidProtobuf, `field "inner"`},
		"another type":    {tag(2, protowire.BytesType, 0), ReasonIncompatibleSchema, `field "i4": it was written as wire type 2`},
		"no UTF-8":        {tag(14, protowire.BytesType, 1, 0xff), ReasonInvalidUTF8, `field "text"`},
		"no UTF-8 inside": {tag(25, protowire.BytesType, 3, 0x12, 1, 0xff), ReasonInvalidUTF8, `field "inners.more"`},
		"a late time":     {tag(19, protowire.BytesType, append(protowire.AppendVarint([]byte{11, 8}, 1<<63-1), 0)[:12]...), "", ""},
		"packed":          {tag(34, protowire.BytesType, 3, 1, 2, 3), ReasonInvalidProtobuf, `field "d"`},
	} {
		bad := d.Append(c.payload)
		if c.reason == "" {
			if bad == nil {
				t.Errorf("%s: taken", name)
			}
			continue
		}
		if bad == nil || bad.Reason != c.reason || !strings.Contains(bad.Detail, c.detail) {
			t.Errorf("%s: got %v, want %s: %s", name, bad, c.reason, c.detail)
		}
	}
	if d.Rows() != 0 {
		t.Errorf("%d rows of bad messages", d.Rows())
	}
	d.Append(nil)
	if got := rowTexts(t, d); got[0] != noMessageRow {
		t.Errorf("behind bad messages: %s", got[0])
	}
}

func TestTheHeadOfAMessageTellsWhichItIs(t *testing.T) {
	r := registryOf(protoSchema(everyProto))
	cfg := protoOf("", "shop.Second.Within")
	cfg.Protobuf.Registry, cfg.Protobuf.Subject, cfg.Protobuf.Version = "r", "s", 1
	d := newDecoder(t, cfg, r.open)
	at := appendIndexes(nil, protoPath(descriptor(t, everyProto, "shop.Second.Within")))
	if string(at) != "\x04\x02\x00" {
		t.Errorf("the place is %x", at)
	}
	if bad := d.Append(framed(1, append(at, 8, 5))); bad != nil {
		t.Fatal(bad)
	}
	for _, c := range []struct {
		rest   []byte
		reason string
	}{
		{[]byte{0, 8, 5}, ReasonIncompatibleSchema}, {[]byte{2, 2}, ReasonIncompatibleSchema}, {[]byte{2, 12}, ReasonIncompatibleSchema},
		{nil, ReasonNotFramed}, {[]byte{4, 2}, ReasonNotFramed}, {[]byte{1}, ReasonNotFramed},
	} {
		if bad := d.Append(framed(1, c.rest)); bad == nil || bad.Reason != c.reason {
			t.Errorf("%x: got %v, want %s", c.rest, bad, c.reason)
		}
	}
	if got := rowTexts(t, d); len(got) != 1 || got[0] != "{w:5}" {
		t.Error(got)
	}
}

func TestProtobufOfOtherVersionsIsReadByNumbers(t *testing.T) {
	old := `syntax="proto3"; message M { int32 a = 1; string gone = 2; } `
	main := protoSchema(`syntax="proto3"; import "geo/point.proto"; message M { int64 renamed = 1; optional string added = 3; geo.Point at = 4; }`)
	main.References = []dataflow.SchemaReference{{Name: "geo/point.proto", Text: `syntax="proto3"; package geo; message Point { double x = 1; }`}}
	r := registryOf(main, protoSchema(old))
	cfg := protoOf("", "")
	cfg.Protobuf.Registry, cfg.Protobuf.Subject, cfg.Protobuf.Version = "r", "s", 1
	d := newDecoder(t, cfg, r.open)
	if bad := d.Append(framed(2, append([]byte{0}, encodeProto(t, descriptor(t, old, ""), `{"a":-3,"gone":"x"}`)...))); bad != nil {
		t.Fatal(bad)
	}
	if got := rowTexts(t, d); got[0] != `{renamed:-3,added:null,at:null}` {
		t.Error(got)
	}
}

func TestMessagesThatCannotBeColumnsAreExplained(t *testing.T) {
	for _, c := range []struct{ schema, message, want string }{
		{`syntax="proto3"; message M { M m = 1; }`, "", "contains itself"},
		{`syntax="proto3"; message M { E e = 1; message E {} }`, "", "has no fields"},
		{`syntax="proto3"; message M {}`, "", "has no fields"},
		{`syntax="proto3"; `, "", "has no message"},
		{`syntax="proto3"; message M { int32 a = 1; }`, "N", `no message "N"; it has [M]`},
		{`syntax="proto3"; import "other.proto"; message M { int32 a = 1; }`, "", "other.proto"},
		{`syntax="proto3"; import "google/protobuf/struct.proto"; message M { google.protobuf.Struct a = 1; }`, "", "contains itself"},
		{`syntax="proto3"; message M { int32 _a = 1; }`, "", "reserved"},
		{`message`, "", "syntax error"},
	} {
		cfg := protoOf(c.schema, c.message)
		if err := cfg.Bind("", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.ArrowSchema(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.schema, err, c.want)
		}
	}
}

// batchOf decodes one JSON document.
func batchOf(t testing.TB, cols component.NamedTypes, doc string) arrow.RecordBatch {
	t.Helper()
	d, err := NewJSON(JSONConfig{Schema: cols}, memory.NewGoAllocator())
	if err != nil {
		t.Fatal(err)
	}
	defer d.(*JSON).Release()
	if bad := d.Append([]byte(doc)); bad != nil {
		t.Fatal(bad)
	}
	arrs := d.Flush()
	defer func() {
		for _, a := range arrs {
			a.Release()
		}
	}()
	b := array.NewRecordBatch(d.Schema(), arrs, 1)
	t.Cleanup(b.Release)
	return b
}

// TestRowsSurviveProtobuf writes rows and reads them again, by ours and by another
// library.
func TestRowsSurviveProtobuf(t *testing.T) {
	cols := types("b", "bool", "i4", "int32", "i8", "int64", "f4", "float32", "f8", "float64", "text", "string", "bin", "binary", "tz", "timestamptz",
		"list", "list<int64>", "words", "list<string>", "obj", "struct{a: int64, b: string, c: struct{d: list<string>, e: timestamptz}}", "objs", "list<struct{x: int32, more: list<struct{y: int32}>}>", "times", "list<timestamptz>")
	schema, err := DeriveProtobuf("shop.Row", batchOf(t, cols, `{}`).Schema().Fields())
	if err != nil {
		t.Fatal(err)
	}
	m := descriptor(t, schema, "shop.Row")
	d := newDecoder(t, protoOf(schema, ""), nil)
	for _, doc := range []string{
		`{"b":false,"i4":-1,"i8":-9007199254740993,"f4":0.5,"f8":1e300,"text":"a\u0000ü","bin":"AQID","tz":"1960-01-01T00:00:00.000001Z","list":[1,-3],"words":["",""],"obj":{"a":1,"b":"x","c":{"d":["y"],"e":"2024-01-01T00:00:00Z"}},"objs":[{"x":1,"more":[{"y":1},{}]},{"more":[]}],"times":["1970-01-01T00:00:00Z"]}`,
		`{"list":[],"words":[],"objs":[],"times":[]}`,
		`{"list":[],"words":[],"obj":{"c":{"d":[]}},"objs":[],"times":[]}`,
	} {
		b := batchOf(t, cols, doc)
		enc, err := NewProtobufEncoder(protoSchema(schema), "", b.Schema().Fields(), Bare)
		if err != nil {
			t.Fatal(err)
		}
		payload, bad := enc.Append(nil, b, 0)
		if bad != nil {
			t.Fatal(bad)
		}
		msg := dynamicpb.NewMessage(m)
		if err := proto.Unmarshal(payload, msg); err != nil {
			t.Fatal(err)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
		if err != nil || len(msg.GetUnknown()) > 0 {
			t.Fatal(err, msg.GetUnknown())
		}
		for _, p := range [][]byte{payload, again} {
			if bad := d.Append(p); bad != nil {
				t.Fatal(bad)
			}
			if got, want := rowTexts(t, d)[0], string(rowText(b, 0)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	}
}

func TestRowsAreWrittenAsAMessageThatIsThere(t *testing.T) {
	schema := `syntax="proto3"; import "google/protobuf/wrappers.proto"; message M { message Z { uint32 a = 1; } sint32 i = 1; fixed64 u = 2; E e = 3; enum E { A = 0; B = 1; } google.protobuf.Int32Value w = 4; map<string, int32> m = 5; string day = 6; repeated E es = 7; Z z = 9; double other = 10; string dec = 11; }`
	cols := types("dec", "decimal(5,2)", "i", "int64", "u", "decimal(20,0)", "e", "string", "w", "int32", "m", "list<struct{key: string, value: int32}>", "day", "date", "es", "list<string>", "z", "struct{a: int32}")
	m := descriptor(t, schema, "")
	for _, c := range []struct{ doc, want string }{
		{`{"i":-4,"u":18446744073709551615,"e":"B","w":0,"m":[{"key":"k","value":1}],"day":"2024-02-29","es":["B","A"],"z":{"a":7},"dec":-1.5}`, `{"i":-4,"u":"18446744073709551615","e":"B","w":0,"m":{"k":1},"day":"2024-02-29","es":["B","A"],"z":{"a":7},"dec":"-1.50"}`},
		{`{"i":4294967296,"u":1,"e":"A","day":"2024-02-29","dec":1}`, ReasonOutOfRange},
		{`{"i":1,"u":-1,"e":"A","day":"2024-02-29","dec":1}`, ReasonOutOfRange},
		{`{"i":1,"u":1,"e":"C","day":"2024-02-29","dec":1}`, ReasonMistyped},
		{`{"u":1,"e":"A","day":"2024-02-29","dec":1}`, ReasonMissingRequired},
		{`{"i":1,"u":1,"e":"A","day":"2024-02-29","dec":1,"es":[null]}`, ReasonMissingRequired},
		{`{"i":1,"u":1,"e":"A","day":"2024-02-29","dec":1,"z":{"a":-1}}`, ReasonOutOfRange},
	} {
		b := batchOf(t, cols, c.doc)
		enc, err := NewProtobufEncoder(protoSchema(schema), "M", b.Schema().Fields(), Framed)
		if err != nil {
			t.Fatal(err)
		}
		payload, bad := enc.Append(nil, b, 0)
		if bad != nil {
			if bad.Reason != c.want {
				t.Errorf("%s: %v, want %s", c.doc, bad, c.want)
			}
			continue
		}
		if want := append([]byte{0}, encodeProto(t, m, c.want)...); fmt.Sprint(protoOrder(t, m, payload[1:])) != fmt.Sprint(protoOrder(t, m, want[1:])) || payload[0] != 0 {
			t.Errorf("%s:\ngot  %x\nwant %x", c.doc, payload, want)
		}
	}
	for _, c := range []struct{ typ, schema, want string }{
		{"string", `message M { int32 a = 1; }`, `column "a" is string, and the field of the schema is int32`},
		{"string", `message M { int32 b = 1; }`, `column "a" is no field of message M`},
		{"int32", `message M { repeated int32 a = 1; }`, "repeated int32"},
		{"struct{x: int32}", `message M { N a = 1; message N { int32 y = 1; } }`, `column "x" is no field`},
	} {
		spec, _ := dataflow.ParseType(c.typ)
		_, err := NewProtobufEncoder(protoSchema(`syntax="proto3"; `+c.schema), "", []arrow.Field{{Name: "a", Type: spec.Type}}, Bare)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.schema, err, c.want)
		}
	}
}

// protoOrder writes a message again by another library, so that two can be compared.
func protoOrder(t testing.TB, m protoreflect.MessageDescriptor, b []byte) string {
	t.Helper()
	msg := dynamicpb.NewMessage(m)
	if err := proto.Unmarshal(b, msg); err != nil {
		t.Fatal(err)
	}
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(out)
}

// FuzzProtobuf reads any bytes as a message of every type. What is taken another
// library takes as well; written again by that library it is the same row.
func FuzzProtobuf(f *testing.F) {
	m := descriptor(f, everyProto, "")
	f.Add(encodeProto(f, m, everyMessage))
	f.Add([]byte{})
	f.Add(append(encodeProto(f, m, `{"inner":{"a":1}}`), encodeProto(f, m, `{"inner":{"deep":{"x":true}},"number":1}`)...))
	cfg := protoOf(everyProto, "")
	if err := cfg.Bind("", nil); err != nil {
		f.Fatal(err)
	}
	d := fuzzed(f, cfg)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if bad := d.Append(payload); bad != nil {
			return
		}
		row := rowTexts(t, d)[0]
		msg := dynamicpb.NewMessage(m)
		if err := proto.Unmarshal(payload, msg); err != nil {
			t.Fatalf("%x is taken; another library: %v", payload, err)
		}
		if hasMaps(msg) {
			return // Of a key that comes twice the library keeps one, ours is a list.
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
		if err != nil {
			t.Fatal(err)
		}
		if bad := d.Append(again); bad != nil {
			t.Fatalf("%x, which was %x: %v", again, payload, bad)
		}
		if got := rowTexts(t, d)[0]; got != row {
			t.Fatalf("%x\nrow   %s\nagain %s", payload, row, got)
		}
	})
}

func hasMaps(m protoreflect.Message) bool {
	found := false
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		found = found || f.IsMap()
		return !found
	})
	return found
}

func BenchmarkDecodeProtobufBids(b *testing.B) {
	schema := `syntax="proto3"; import "google/protobuf/timestamp.proto"; message Bid { int64 auction = 1; int64 bidder = 2; int64 price = 3; string channel = 4; string url = 5; google.protobuf.Timestamp dateTime = 6; string extra = 7; }`
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
	enc, err := NewProtobufEncoder(protoSchema(schema), "", js.Schema().Fields(), Framed)
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
	cfg := protoOf(schema, "")
	cfg.Protobuf.Registry = "r"
	r := registryOf(protoSchema(schema))
	if err := cfg.Bind("", r.open); err != nil {
		b.Fatal(err)
	}
	benchFormat(b, cfg, payloads)
}

// batchFrom makes a batch of all rows of d, and ends d.
func batchFrom(b *testing.B, d dataflow.Decoder, n int) arrow.RecordBatch {
	cols := d.Flush()
	d.(interface{ Release() }).Release()
	out := array.NewRecordBatch(d.Schema(), cols, int64(n))
	for _, c := range cols {
		c.Release()
	}
	b.Cleanup(out.Release)
	return out
}

// benchFormat measures a decoder.
func benchFormat(b *testing.B, cfg Config, payloads [][]byte) {
	d, err := cfg.New(memory.NewGoAllocator())
	if err != nil {
		b.Fatal(err)
	}
	defer d.(interface{ Release() }).Release()
	// As for JSON.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime()
	for i := range b.N {
		if bad := d.Append(payloads[i%len(payloads)]); bad != nil {
			b.Fatal(bad)
		}
		if d.Rows() == 8192 {
			for _, c := range d.Flush() {
				c.Release()
			}
		}
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/row")
}
