package pipelines

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"
	"frazil/pipelines/rehearsal"

	"github.com/apache/arrow-go/v18/arrow"
)

// records makes the records of a step of rows.
func (t *testLoader) records(n *component.Node, src *engine.Source, c *rowsConfig) []rehearsal.Record {
	if (c.Rows.node == nil) == (c.Raw.node == nil) {
		t.add(n, "", "expected rows: [{...}] or raw: [\"...\"], one of them")
		return nil
	}
	blank := rehearsal.Record{Arrived: dataflow.MinTime}
	if c.At != "" {
		if src.EventTime == nil || src.EventTime.MaxAhead == 0 {
			t.add(n, "at", "source %q has no max_ahead, so nothing depends on when rows arrive", src.Name)
		}
		blank.Arrived = dataflow.TimeOf(t.time(n.Get("at"), c.At))
	}
	decoded, schema := t.decoded(src)
	blank.Meta = t.metadata(n, src, c.Metadata.node, src.Schema.Fields()[decoded:])
	var out []rehearsal.Record
	if c.Raw.node != nil {
		for _, text := range t.rawTexts(c.Raw.node) {
			r := blank
			r.Payload = text
			out = append(out, r)
		}
		return out
	}
	if c.Rows.node.Kind != component.List {
		t.add(c.Rows.node, "", "expected a list of payloads, as [{device: a}]; got %s", c.Rows.node.Kind)
		return nil
	}
	for _, item := range c.Rows.node.Items {
		if item.Kind != component.Map {
			t.add(item, "", "expected a payload that is an object, as {device: a}; got %s: other payloads are written under raw", item.Kind)
			continue
		}
		r := blank
		r.Payload = t.payload(item, schema)
		if c.At == "" {
			r.Arrived = eventTimeOf(r.Payload, src, schema)
		}
		out = append(out, r)
	}
	return out
}

// decoded says how many columns of a source come out of the payload, and their
// types; nil: any field may be there.
func (t *testLoader) decoded(src *engine.Source) (int, []dataflow.FieldSpec) {
	var specs []dataflow.FieldSpec
	d := t.steps[src.Name].decode
	if d == nil {
		for _, f := range src.Schema.Fields() {
			if spec, err := dataflow.ParseType(dataflow.TypeName(f.Type)); err == nil {
				specs = append(specs, dataflow.FieldSpec{Name: f.Name, Spec: spec})
			}
		}
		return len(src.Schema.Fields()), specs
	}
	if d.JSON == nil {
		schema, err := d.ArrowSchema()
		if err != nil {
			return 0, nil // The step has this problem.
		}
		return schema.NumFields(), specsOf(rowConfig(schema).JSON)
	}
	n := len(d.JSON.Schema)
	if d.JSON.Whole != "" {
		n++
	}
	return n, specsOf(d.JSON)
}

func specsOf(c *codec.JSONConfig) []dataflow.FieldSpec {
	var out []dataflow.FieldSpec
	for _, f := range c.Schema {
		if spec, err := dataflow.ParseType(f.Type); err == nil {
			out = append(out, dataflow.FieldSpec{Name: f.Name, Spec: spec})
		}
	}
	return out
}

// payload writes a row as the JSON that the source would read.
func (t *testLoader) payload(n *component.Node, specs []dataflow.FieldSpec) []byte {
	var b bytes.Buffer
	t.object(&b, n, specs)
	return b.Bytes()
}

func (t *testLoader) object(b *bytes.Buffer, n *component.Node, specs []dataflow.FieldSpec) {
	b.WriteByte('{')
	for i, e := range n.Entries {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonText(e.Key))
		b.WriteByte(':')
		var spec *dataflow.TypeSpec
		var names []string
		for k := range specs {
			names = append(names, specs[k].Name)
			if specs[k].Name == e.Key {
				spec = &specs[k].Spec
			}
		}
		if spec == nil && component.Nearest(e.Key, names) != "" {
			t.addAt(n, e, "the decode schema has no field %q%s (a field that is meant to be outside of it is written under raw); fields: %s",
				e.Key, component.DidYouMean(e.Key, names), strings.Join(names, ", "))
		}
		t.jsonValue(b, e.Value, spec)
	}
	b.WriteByte('}')
}

func (t *testLoader) jsonValue(b *bytes.Buffer, n *component.Node, spec *dataflow.TypeSpec) {
	switch n.Kind {
	case component.Null:
		b.WriteString("null")
	case component.Bool:
		b.WriteString(strings.ToLower(n.Text))
	case component.Number:
		num, ok := jsonNumber(n.Text)
		if !ok {
			t.add(n, "", "JSON has no number %s", n.Text)
		}
		b.WriteString(num)
	case component.Text:
		if spec != nil && spec.Unit != "" {
			if at, err := time.Parse(time.RFC3339Nano, n.Text); err == nil {
				b.WriteString(t.inUnit(n, at, spec.Unit))
				return
			}
		}
		b.Write(jsonText(n.Text))
	case component.List:
		b.WriteByte('[')
		for i, item := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			var of *dataflow.TypeSpec
			if spec != nil && spec.Type.ID() == arrow.LIST && len(spec.Fields) == 1 {
				of = &spec.Fields[0].Spec
			}
			t.jsonValue(b, item, of)
		}
		b.WriteByte(']')
	case component.Map:
		var of []dataflow.FieldSpec
		if spec != nil && spec.Type.ID() == arrow.STRUCT {
			of = spec.Fields
		}
		t.object(b, n, of)
	}
}

// inUnit writes a time as the number that the payload holds.
func (t *testLoader) inUnit(n *component.Node, at time.Time, unit string) string {
	per := map[string]int64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}[unit]
	sec := int64(1e9) / per
	if int64(at.Nanosecond())%per != 0 {
		t.add(n, "", "%s has digits below one %s, which the payload's number cannot hold", n.Text, unit)
	}
	return strconv.FormatInt(at.Unix()*sec+int64(at.Nanosecond())/per, 10)
}

func jsonText(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // Text always encodes.
	return bytes.TrimRight(b.Bytes(), "\n")
}

// jsonNumber writes YAML's form of a number as JSON's.
func jsonNumber(text string) (string, bool) {
	text = strings.ReplaceAll(text, "_", "")
	if json.Valid([]byte(text)) {
		return text, true
	}
	if i, err := strconv.ParseInt(strings.TrimPrefix(text, "+"), 0, 64); err == nil {
		return strconv.FormatInt(i, 10), true
	}
	f, err := strconv.ParseFloat(text, 64)
	if out := strconv.FormatFloat(f, 'g', -1, 64); err == nil && json.Valid([]byte(out)) {
		return out, true
	}
	return "null", false
}

func (t *testLoader) rawTexts(n *component.Node) [][]byte {
	items := []*component.Node{n}
	if n.Kind == component.List {
		items = n.Items
	}
	var out [][]byte
	for _, item := range items {
		if item.Kind == component.List || item.Kind == component.Map {
			t.add(item, "", "expected a payload as text, got %s: write it in quotes", item.Kind)
			continue
		}
		b, err := bytesOf(item.Text)
		if err != nil {
			t.add(item, "", "%v", err)
		}
		out = append(out, b)
	}
	return out
}

// bytesOf reads text, or bytes as \x and hex digits.
func bytesOf(text string) ([]byte, error) {
	digits, ok := strings.CutPrefix(text, `\x`)
	if !ok {
		return []byte(text), nil
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, fmt.Errorf("text that begins with \\x is bytes in hex, as \\x00ff: %w", err)
	}
	return b, nil
}

// metadata writes the columns that a source gives beside the payload.
func (t *testLoader) metadata(n *component.Node, src *engine.Source, m *component.Node, fields []arrow.Field) []byte {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
		if !f.Nullable && m.Get(f.Name) == nil {
			t.add(n, "metadata", "source %q gives the column %q beside the payload, and it is never null: write metadata: {%s: ...}", src.Name, f.Name, f.Name)
		}
	}
	if m == nil {
		return nil
	}
	var specs []dataflow.FieldSpec
	for _, e := range m.Entries {
		if !contains(names, e.Key) {
			t.addAt(m, e, "source %q gives no column %q beside the payload%s; columns: %s", src.Name, e.Key, component.DidYouMean(e.Key, names), component.Names(names))
		}
		specs = append(specs, dataflow.FieldSpec{Name: e.Key, Spec: dataflow.TypeSpec{Type: arrow.Null}})
	}
	return t.payload(m, specs)
}

// eventTimeOf reads the event time of a payload, MinTime where there is none:
// such a row is bad in any case.
func eventTimeOf(payload []byte, src *engine.Source, specs []dataflow.FieldSpec) dataflow.Time {
	if src.EventTime == nil {
		return dataflow.MinTime
	}
	var row map[string]json.RawMessage
	if json.Unmarshal(payload, &row) != nil {
		return dataflow.MinTime
	}
	for _, s := range specs {
		if s.Name != src.EventTime.Column {
			continue
		}
		per := map[string]int64{"s": 1e6, "ms": 1e3, "us": 1}[s.Spec.Unit]
		if x, err := strconv.ParseInt(string(row[s.Name]), 10, 64); err == nil && per > 0 {
			return dataflow.Time(x * per)
		} else if err == nil && s.Spec.Unit == "ns" {
			return dataflow.Time(x / 1e3)
		}
		var text string
		if json.Unmarshal(row[s.Name], &text) == nil {
			if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
				return dataflow.TimeOf(at)
			}
		}
	}
	return dataflow.MinTime
}
