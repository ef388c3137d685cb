package codec

import (
	"encoding/json"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

func jsonSchemaOf(schema string) Config {
	c := &JSONSchemaConfig{}
	c.SetDefaults()
	c.Schema = schema
	return Config{JSONSchema: c}
}

func jsonSchema(text string) *dataflow.RegisteredSchema {
	return &dataflow.RegisteredSchema{Kind: dataflow.SchemaJSON, Text: text}
}

const everyJSONSchema = `{"type":"object","required":["i","at","gone"],"properties":{
 "i":{"type":"integer","minimum":1},"small":{"type":"integer","connect.type":"int32"},"n":{"type":"number"},"s":{"type":"string","maxLength":3},"b":{"type":"boolean"},
 "at":{"type":"string","format":"date-time"},"day":{"type":"string","format":"date"},"id":{"type":"string","format":"uuid"},
 "maybe":{"type":["null","string"]},"gone":{"oneOf":[{"type":"null"},{"type":"integer"}]},"color":{"enum":["RED","BLUE"]},
 "list":{"type":"array","items":{"type":"integer"}},"obj":{"$ref":"#/definitions/point"},"any":{},"mixed":{"type":["string","integer"]},
 "tree":{"$ref":"#/$defs/tree"},"free":{"type":"object"},"odd":{"type":"object","properties":{"a-b":{"type":"integer"}}}},
 "definitions":{"point":{"type":"object","properties":{"x":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}}}}},
 "$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}}}`

func TestAJSONSchemaGivesColumns(t *testing.T) {
	cfg := jsonSchemaOf(everyJSONSchema)
	if err := cfg.Bind("", nil); err != nil {
		t.Fatal(err)
	}
	schema, err := cfg.ArrowSchema()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range schema.Fields() {
		text := f.Name + " " + dataflow.TypeName(f.Type)
		if !f.Nullable {
			text += "!"
		}
		got = append(got, text)
	}
	want := "i int64!; small int32; n float64; s string; b bool; at timestamptz!; day date; id uuid; maybe string; gone int64; color string; list list<int64>; obj struct{x: float64, tags: list<string>}; any json; mixed json; tree struct{v: int64, kids: list<json>}; free json; odd json"
	if strings.Join(got, "; ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), want)
	}
}

func TestDocumentsThatTheirSchemaDoesNotAllowAreBad(t *testing.T) {
	d := newDecoder(t, jsonSchemaOf(everyJSONSchema), nil)
	for _, c := range []struct{ doc, reason, detail string }{
		{`{"i":1,"at":"2024-01-01T00:00:00Z","gone":null,"obj":{"x":1}}`, "", ""},
		{`{"i":0,"at":"2024-01-01T00:00:00Z","gone":null}`, ReasonSchemaViolation, "at '/i': minimum: got 0, want 1"},
		{`{"i":1,"at":"2024-01-01T00:00:00Z"}`, ReasonSchemaViolation, "gone"},
		{`{"i":1,"at":"2024-01-01T00:00:00Z","gone":null,"color":"GREEN"}`, ReasonSchemaViolation, "/color"},
		{`{"i":1,"at":"2024-01-01T00:00:00Z","gone":null,"s":"long"}`, ReasonSchemaViolation, "/s"},
		{`{"i":1,"at":"yesterday","gone":null}`, ReasonInvalidTime, "at"},
		{`{"i":1`, ReasonInvalidJSON, ""},
	} {
		bad := d.Append([]byte(c.doc))
		switch {
		case c.reason == "" && bad != nil:
			t.Errorf("%s: %v", c.doc, bad)
		case c.reason != "" && (bad == nil || bad.Reason != c.reason || !strings.Contains(bad.Detail, c.detail)):
			t.Errorf("%s: got %v, want %s: %s", c.doc, bad, c.reason, c.detail)
		}
	}
	if got := rowTexts(t, d); len(got) != 1 || !strings.Contains(got[0], `obj:{"x":1,"tags":null}`) {
		t.Error(got)
	}
	cfg := jsonSchemaOf(everyJSONSchema)
	cfg.JSONSchema.Validate = false
	d = newDecoder(t, cfg, nil)
	if bad := d.Append([]byte(`{"i":0,"at":"2024-01-01T00:00:00Z","gone":null}`)); bad != nil {
		t.Errorf("validate: false: %v", bad)
	}
	if bad := d.Append([]byte(`{"i":"0","at":"2024-01-01T00:00:00Z"}`)); bad == nil || bad.Reason != ReasonMistyped {
		t.Errorf("validate: false: %v", bad)
	}
	for _, c := range d.Flush() {
		c.Release()
	}
}

func TestJSONSchemasRefer(t *testing.T) {
	main := jsonSchema(`{"type":"object","properties":{"at":{"$ref":"point.json"},"inner":{"$ref":"point.json#/$defs/tag"}}}`)
	main.References = []dataflow.SchemaReference{{Name: "point.json", Text: `{"type":"object","required":["x"],"properties":{"x":{"type":"integer"},"t":{"$ref":"#/$defs/tag"}},"$defs":{"tag":{"type":"string"}}}`}}
	stricter := jsonSchema(`{"type":"object","properties":{"at":false}}`)
	r := registryOf(main, stricter)
	cfg := jsonSchemaOf("")
	cfg.JSONSchema.Registry, cfg.JSONSchema.Subject, cfg.JSONSchema.Version = "r", "s", 1
	d := newDecoder(t, cfg, r.open)
	doc := []byte(`{"at":{"x":1,"t":"u"},"inner":"v"}`)
	if bad := d.Append(framed(1, doc)); bad != nil {
		t.Fatal(bad)
	}
	if bad := d.Append(framed(1, []byte(`{"at":{}}`))); bad == nil || bad.Reason != ReasonSchemaViolation {
		t.Error(bad)
	}
	if bad := d.Append(framed(2, doc)); bad == nil || bad.Reason != ReasonSchemaViolation {
		t.Errorf("the schema of the writer is the one that counts: %v", bad)
	}
	if got := rowTexts(t, d); len(got) != 1 || got[0] != `{at:{"x":1,"t":"u"},inner:"v"}` {
		t.Error(got)
	}
}

func TestJSONSchemasWithoutColumnsAreExplained(t *testing.T) {
	for _, c := range []struct{ schema, want string }{
		{`{"type":"string"}`, "expected an object with properties"},
		{`{"type":"object"}`, "expected an object with properties"},
		{`{"type":"object","properties":{"a":{"$ref":"http://example.com/x"}}}`, "no reference of the schema"},
		{`{"type":"object","properties":{"_a":{"type":"string"}}}`, "reserved"},
		{`{"type":5}`, "schema"},
		{`{`, "schema"},
	} {
		cfg := jsonSchemaOf(c.schema)
		if err := cfg.Bind("", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := cfg.ArrowSchema(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.schema, err, c.want)
		}
	}
}

// TestRowsFitTheJSONSchemaOfTheirColumns: what is written is allowed by the schema that
// is made of the columns.
func TestRowsFitTheJSONSchemaOfTheirColumns(t *testing.T) {
	for _, doc := range []string{
		`{"bool":true,"i4":1,"i8":-9007199254740993,"f4":0.5,"f8":1e300,"dec":-1.125,"big":"9.99","text":"x","bin":"AQID","day":"2024-02-29","clock":"23:59:59.000001","ts":"2024-01-01T00:00:00.5","tz":"1960-01-01T00:00:00Z","s":1,"ms":2,"us":3,"ns":4000,"id":"123e4567-e89b-12d3-a456-426614174000","doc":{"a":[1]},"list":[1,null,3],"obj":{"a":1,"b":"x","c":{"d":["y",null]}},"objs":[{"x":"-1.5","y":[]},null,{}]}`,
		`{}`,
	} {
		b := batchOf(t, everyType.Schema, doc)
		schema, err := DeriveJSONSchema("Row", b.Schema().Fields())
		if err != nil {
			t.Fatal(err)
		}
		v, err := compileJSONSchema(jsonSchema(schema))
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal([]byte(dataflow.RowJSON(b, 0)), &got); err != nil {
			t.Fatal(err)
		}
		if err := v.Validate(got); err != nil {
			t.Errorf("%s: %v", dataflow.RowJSON(b, 0), err)
		}
		if err := CheckJSONSchema(jsonSchema(schema), b.Schema().Fields()); err != nil {
			t.Error(err)
		}
	}
	err := CheckJSONSchema(jsonSchema(`{"required":["a","b"]}`), []arrow.Field{{Name: "a", Type: dataflow.TypeString}})
	if err == nil || !strings.Contains(err.Error(), `requires "b"`) {
		t.Error(err)
	}
}

// TestTheCheckIsLeftOutOnlyWhereTheColumnsSayAllOfIt: where it is left out, documents are
// allowed and refused as the schema does it.
func TestTheCheckIsLeftOutOnlyWhereTheColumnsSayAllOfIt(t *testing.T) {
	prop := func(p string, more ...string) string {
		return `{"type":"object","properties":{"a":` + p + `}` + strings.Join(more, "") + `}`
	}
	docs := []string{`{}`, `{"a":null}`, `{"a":1}`, `{"a":1.5}`, `{"a":"x"}`, `{"a":"2024-01-01"}`, `{"a":[]}`, `{"a":[null]}`, `{"a":[1]}`, `{"a":{}}`, `{"a":{"x":null}}`, `{"a":{"x":1}}`, `{"a":{"x":"s"}}`, `{"b":1}`, `[]`, `1`}
	for _, c := range []struct {
		schema string
		left   bool
	}{
		{prop(`{"type":"integer"}`), false}, {prop(`{"type":"integer"}`, `,"required":["a"]`), true}, {prop(`{"oneOf":[{"type":"null"},{"type":"integer"}]}`), true},
		{prop(`{"oneOf":[{"type":"integer"},{"type":"null"}],"title":"t"}`, `,"description":"d"`), true}, {prop(`{"oneOf":[{"type":"null"},{"type":"integer"}]}`, `,"required":["a"]`), false},
		{prop(`{"type":"integer","minimum":1}`, `,"required":["a"]`), false}, {prop(`{"type":"string"}`, `,"required":["a"]`), true}, {prop(`{"type":"integer"}`, `,"required":["a","b"]`), false},
		{prop(`{"type":"integer"}`, `,"required":["a"],"additionalProperties":false`), false}, {prop(`{}`), true}, {prop(`{"type":["integer","null"]}`), false},
		{prop(`{"type":"array","items":{"type":"integer"}}`, `,"required":["a"]`), false}, {prop(`{"type":"array","items":{"oneOf":[{"type":"null"},{"type":"integer"}]}}`, `,"required":["a"]`), true},
		{prop(`{"type":"object","properties":{"x":{"oneOf":[{"type":"null"},{"type":"integer"}]}}}`, `,"required":["a"]`), true}, {prop(`{"type":"object","properties":{"x":{"type":"integer"}}}`, `,"required":["a"]`), false},
		{prop(`{"oneOf":[{"type":"null"},{"type":"integer"},{"type":"string"}]}`), false}, {prop(`{"anyOf":[{"type":"null"},{"type":"integer"}]}`), false}, {prop(`true`), false},
	} {
		cfg := jsonSchemaOf(c.schema)
		if err := cfg.Bind("", nil); err != nil {
			t.Fatal(err)
		}
		cols, err := cfg.JSONSchema.columns()
		if err != nil {
			t.Fatal(c.schema, err)
		}
		if got := enforced(c.schema, cols); got != c.left {
			t.Errorf("%s: left out: %v", c.schema, got)
		}
		d := newDecoder(t, cfg, nil)
		v, err := compileJSONSchema(jsonSchema(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			var x any
			if err := json.Unmarshal([]byte(doc), &x); err != nil {
				t.Fatal(err)
			}
			if bad, err := d.Append([]byte(doc)), v.Validate(x); (bad == nil) != (err == nil) {
				t.Errorf("%s: %s: %v, and the schema says %v", c.schema, doc, bad, err)
			}
		}
		rowTexts(t, d)
	}
}

// FuzzJSONSchema: any text is read as a schema, and any document by it, without end or
// panic.
func FuzzJSONSchema(f *testing.F) {
	f.Add(everyJSONSchema, `{"i":1,"at":"2024-01-01T00:00:00Z","gone":null,"tree":{"kids":[{"v":1}]}}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#/properties/d"},"d":{"$ref":"#/properties/c"}}}`, `{"a":1}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{}}}`)
	f.Fuzz(func(t *testing.T, schema, doc string) {
		cfg := jsonSchemaOf(schema)
		if cfg.Bind("", nil) != nil {
			return
		}
		d, err := cfg.New(nil)
		if err != nil {
			return
		}
		defer d.(interface{ Release() }).Release()
		d.Append([]byte(doc))
		rowTexts(t, d)
	})
}

func BenchmarkDecodeJSONSchemaBids(b *testing.B) {
	schema := `{"type":"object","properties":{"auction":{"type":"integer"},"bidder":{"type":"integer"},"price":{"type":"integer"},"channel":{"type":"string"},"url":{"type":"string"},"dateTime":{"type":"integer"},"extra":{"type":"string"}}}`
	docs := bids(2000, inOrder)
	for i := range docs {
		docs[i] = framed(1, docs[i])
	}
	for _, validate := range []bool{true, false} {
		cfg := jsonSchemaOf(schema)
		cfg.JSONSchema.Registry, cfg.JSONSchema.Validate = "r", validate
		r := registryOf(jsonSchema(schema))
		if err := cfg.Bind("", r.open); err != nil {
			b.Fatal(err)
		}
		name := "validate=true"
		if !validate {
			name = "validate=false"
		}
		b.Run(name, func(b *testing.B) { benchFormat(b, cfg, docs) })
	}
}
