package pipelines

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Mender makes payloads of others by expressions. One goroutine uses it.
type Mender struct {
	p     *Pipeline
	exprs component.NamedExprs
	// what was compiled last: payloads that follow each other are often alike.
	schema *arrow.Schema
	op     dataflow.Operator
}

// NewMender mends payloads by expressions, each for a field or column by name.
func (p *Pipeline) NewMender(exprs component.NamedExprs) *Mender { return &Mender{p: p, exprs: exprs} }

// NewTextMender mends payloads by one expression over the text raw, which gives the
// new text.
func (p *Pipeline) NewTextMender(expr string) *Mender {
	return p.NewMender(component.NamedExprs{{Name: mendedText, Expr: expr}})
}

const mendedText = "mended"

// Text makes a new payload, for a text mender.
func (m *Mender) Text(payload []byte) ([]byte, error) {
	expr := m.exprs[0].Expr
	if !utf8.Valid(payload) {
		return nil, errors.New("the payload is not text (UTF-8): give a new one")
	}
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	b.Append(string(payload))
	col := b.NewArray()
	defer col.Release()
	in := array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "raw", Type: dataflow.TypeString}}, nil), []arrow.Array{col}, 1)
	defer in.Release()
	out, err := m.compute(in)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	text, ok := out.Column(dataflow.Column(out.Schema(), mendedText)).(*array.String)
	switch {
	case !ok:
		return nil, fmt.Errorf("%q gives %s, expected string: the new payload", expr, dataflow.TypeName(out.Column(1).DataType()))
	case text.IsNull(0):
		return nil, fmt.Errorf("%q gives null, expected the new payload", expr)
	}
	return []byte(text.Value(0)), nil
}

// JSON sets fields of a payload that is a JSON object, by expressions over its
// fields. A field is what JSON says it is: bool, string, json for lists and
// objects, and for numbers the type of the source's column of that name, if it is
// one of numbers, else int64 or float64.
func (m *Mender) JSON(source string, payload []byte) ([]byte, error) {
	doc, err := parseDocument(payload)
	if err != nil {
		return nil, err
	}
	in := doc.batch(m.p.declared(source))
	defer in.Release()
	out, err := m.compute(in)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	for _, e := range m.exprs {
		v, err := mendedValue(out.Column(dataflow.Column(out.Schema(), e.Name)), m.p.units[source][e.Name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name, err)
		}
		doc.set(e.Name, v)
	}
	return doc.encode(), nil
}

// Row sets columns of a row of a source, a JSON object in the form of
// [engine.Source.NewRowDecoder], by expressions over its columns.
func (m *Mender) Row(source string, row []byte) ([]byte, error) {
	s := m.p.source(source)
	if s == nil || s.NewRowDecoder == nil {
		return nil, fmt.Errorf("source %q has no decode block", source)
	}
	dec, err := s.NewRowDecoder()
	if err != nil {
		return nil, err
	}
	if d, ok := dec.(interface{ Release() }); ok {
		defer d.Release()
	}
	if bad := dec.Append(row); bad != nil {
		return nil, bad
	}
	cols := dec.Flush()
	in := array.NewRecordBatch(dec.Schema(), cols, 1)
	defer in.Release()
	for _, c := range cols {
		c.Release()
	}
	out, err := m.compute(in)
	if err != nil {
		return nil, err
	}
	defer out.Release()
	doc := document{}
	for i, f := range out.Schema().Fields() {
		v, err := mendedValue(out.Column(i), "")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		doc.set(f.Name, v)
	}
	return doc.encode(), nil
}

func (p *Pipeline) source(name string) *engine.Source {
	for _, s := range p.Graph.Sources {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// declared are the types of a source's columns.
func (p *Pipeline) declared(source string) map[string]arrow.DataType {
	out := map[string]arrow.DataType{}
	if s := p.source(source); s != nil && s.Schema != nil {
		for _, f := range s.Schema.Fields() {
			out[f.Name] = f.Type
		}
	}
	return out
}

// unitsOf are the units of columns whose times are numbers in the payload.
func unitsOf(s *step) map[string]string {
	out := map[string]string{}
	if s.decode == nil || s.decode.JSON == nil {
		return out
	}
	for _, c := range s.decode.JSON.Schema {
		if spec, err := dataflow.ParseType(c.Type); err == nil && spec.Unit != "" {
			out[c.Name] = spec.Unit
		}
	}
	return out
}

// compute evaluates the expressions over one row by the operator that is made for
// it.
func (m *Mender) compute(in arrow.RecordBatch) (arrow.RecordBatch, error) {
	if m.op == nil || !m.schema.Equal(in.Schema()) {
		if err := m.compile(in.Schema()); err != nil {
			return nil, err
		}
	}
	var out arrow.RecordBatch
	var bad error
	err := m.op.Process(context.Background(), 0, in, dataflow.EmitFunc(func(_ context.Context, port int, b arrow.RecordBatch) error {
		if port > 0 && b.NumRows() > 0 {
			bad = errors.New(b.Column(1).(*array.String).Value(0))
		}
		if port == 0 && b.NumRows() == 1 {
			out = b
			return nil
		}
		b.Release()
		return nil
	}))
	if err == nil && out == nil {
		err = bad
		if bad == nil {
			err = errors.New("the expressions gave no row")
		}
	}
	return out, err
}

// compile makes the operator for payloads with these fields.
func (m *Mender) compile(schema *arrow.Schema) error {
	if err := m.Close(); err != nil {
		return err
	}
	spec := component.OperatorNamed("project")
	if spec == nil {
		return errors.New("this program has no expressions: the operator project is not part of it")
	}
	fields := map[string]string{}
	for _, e := range m.exprs {
		fields[e.Name] = strings.ReplaceAll(e.Expr, "${", "$${")
	}
	text, err := json.Marshal(map[string]any{"compute": fields})
	if err != nil {
		return err
	}
	node, problems := component.Parse("expression", text, func(string) (string, bool) { return "", false })
	cfg := spec.NewConfig()
	if len(problems) == 0 {
		problems = component.Decode(node, cfg)
	}
	if len(problems) > 0 {
		return errors.New(problems[0].Msg)
	}
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: schema}}, Names: []string{"payload"}}
	if _, err := spec.Plan(in, cfg); err != nil {
		var ps component.Problems
		if errors.As(err, &ps) && len(ps) > 0 {
			return fmt.Errorf("%s: %s", strings.TrimPrefix(ps[0].Path, "compute."), ps[0].Msg)
		}
		return err
	}
	env := &dataflow.Env{Step: "fix", Tasks: 1, Alloc: memory.DefaultAllocator, Log: slog.New(slog.DiscardHandler), Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}}
	if m.op, err = spec.New(context.Background(), env, in, cfg); err != nil {
		m.op = nil
		return err
	}
	m.schema = schema
	return nil
}

// Close frees what was compiled.
func (m *Mender) Close() error {
	if m.op == nil {
		return nil
	}
	err := m.op.Close()
	m.op = nil
	return err
}

// mendedValue is value 0 of a column as a payload holds it.
func mendedValue(a arrow.Array, unit string) (json.RawMessage, error) {
	if a.IsNull(0) {
		return json.RawMessage("null"), nil
	}
	switch a := a.(type) {
	case *array.Binary:
		return json.Marshal(base64.StdEncoding.EncodeToString(a.Value(0)))
	case *array.Timestamp:
		us := int64(a.Value(0))
		switch unit {
		case "s", "ms":
			per := map[string]int64{"s": 1e6, "ms": 1e3}[unit]
			if us%per != 0 {
				return nil, fmt.Errorf("%s has a part below the unit %s of the column", dataflow.Time(us), unit)
			}
			return json.RawMessage(strconv.FormatInt(us/per, 10)), nil
		case "us":
			return json.RawMessage(strconv.FormatInt(us, 10)), nil
		case "ns":
			return json.RawMessage(strconv.FormatInt(us, 10) + "000"), nil
		}
	}
	return dataflow.AppendJSON(nil, a, 0), nil
}

// document is a JSON object with its fields in order.
type document struct {
	names  []string
	values map[string]json.RawMessage
}

func (d *document) set(name string, v json.RawMessage) {
	if d.values == nil {
		d.values = map[string]json.RawMessage{}
	}
	if _, ok := d.values[name]; !ok {
		d.names = append(d.names, name)
	}
	d.values[name] = v
}

func parseDocument(payload []byte) (*document, error) {
	dec := json.NewDecoder(bytes.NewReader(payload))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("the payload is no JSON object, so it has no fields to set: give a new one, or an expression over its text (--with)")
	}
	d := &document{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("the payload is no JSON: %w: give a new one, or an expression over its text (--with)", err)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, fmt.Errorf("the payload is no JSON: %w: give a new one, or an expression over its text (--with)", err)
		}
		d.set(t.(string), v)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("the payload is no JSON: %w: give a new one, or an expression over its text (--with)", err)
	}
	return d, nil
}

func (d *document) encode() []byte {
	out := []byte{'{'}
	for i, n := range d.names {
		if i > 0 {
			out = append(out, ',')
		}
		k, _ := json.Marshal(n)
		out = append(append(append(out, k...), ':'), d.values[n]...)
	}
	return append(out, '}')
}

// batch is the document as one row. Fields with the prefix of system columns are
// left out.
func (d *document) batch(declared map[string]arrow.DataType) arrow.RecordBatch {
	var fields []arrow.Field
	var cols []arrow.Array
	for _, n := range d.names {
		if dataflow.IsSystem(n) || n == "" {
			continue
		}
		c := column(d.values[n], declared[n])
		defer c.Release()
		fields = append(fields, arrow.Field{Name: n, Type: c.DataType(), Nullable: true})
		cols = append(cols, c)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, 1)
}

// column is one JSON value as a column.
func column(v json.RawMessage, declared arrow.DataType) arrow.Array {
	t, fill := columnType(v, declared)
	b := array.NewBuilder(memory.DefaultAllocator, t)
	defer b.Release()
	fill(b)
	return b.NewArray()
}

func columnType(v json.RawMessage, declared arrow.DataType) (arrow.DataType, func(array.Builder)) {
	text := string(bytes.TrimSpace(v))
	switch text[0] {
	case 'n':
		if declared == nil {
			declared = dataflow.TypeString
		}
		return declared, func(b array.Builder) { b.AppendNull() }
	case 't', 'f':
		return dataflow.TypeBool, func(b array.Builder) { b.(*array.BooleanBuilder).Append(text[0] == 't') }
	case '"':
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			s = text
		}
		return dataflow.TypeString, func(b array.Builder) { b.(*array.StringBuilder).Append(s) }
	case '{', '[':
		return dataflow.TypeJSON, func(b array.Builder) { _ = b.AppendValueFromString(text) }
	}
	if d, ok := declared.(*arrow.Decimal128Type); ok {
		if n, err := decimal128.FromString(text, d.Precision, d.Scale); err == nil {
			return d, func(b array.Builder) { b.(*array.Decimal128Builder).Append(n) }
		}
	}
	floats := declared != nil && (declared.ID() == arrow.FLOAT64 || declared.ID() == arrow.FLOAT32)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && !floats {
		return dataflow.TypeInt64, func(b array.Builder) { b.(*array.Int64Builder).Append(n) }
	}
	f, _ := strconv.ParseFloat(text, 64)
	return dataflow.TypeFloat64, func(b array.Builder) { b.(*array.Float64Builder).Append(f) }
}
