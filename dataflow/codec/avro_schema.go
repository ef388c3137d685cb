package codec

import (
	"fmt"
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/twmb/avro"
)

// avroKind is a type of Avro as it lies in a payload.
type avroKind uint8

const (
	avNull avroKind = iota
	avBoolean
	avInt
	avLong
	avFloat
	avDouble
	avBytes
	avString
	avFixed
	avEnum
	avArray
	avMap
	avRecord
	avUnion
)

var avroKinds = map[string]avroKind{
	"null": avNull, "boolean": avBoolean, "int": avInt, "long": avLong, "float": avFloat, "double": avDouble,
	"bytes": avBytes, "string": avString, "fixed": avFixed, "enum": avEnum, "array": avArray, "map": avMap,
	"record": avRecord, "error": avRecord, "union": avUnion,
}

var avroNames = [...]string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "array", "map", "record", "union"}

// avroType is a schema with its references followed; it may hold itself.
type avroType struct {
	kind avroKind
	name string // full name of record, enum, fixed
	// logical is a logical type that the kind can have, else "".
	logical     string
	size        int // fixed
	prec, scale int
	symbols     []string
	enumDefault string // "": none
	fields      []avroField
	elem        *avroType // array, map
	branches    []*avroType
}

type avroField struct {
	name    string
	aliases []string
	typ     *avroType
	// def is the encoded default, in the type of the field; nil without one.
	def []byte
}

// text names the type for people.
func (t *avroType) text() string {
	switch {
	case t.logical == "decimal":
		return fmt.Sprintf("decimal(%d,%d)", t.prec, t.scale)
	case t.logical != "":
		return t.logical
	case t.kind == avUnion:
		var names []string
		for _, b := range t.branches {
			names = append(names, b.text())
		}
		return "[" + strings.Join(names, ", ") + "]"
	case t.name != "":
		return avroNames[t.kind] + " " + t.name
	case t.elem != nil:
		return avroNames[t.kind] + " of " + t.elem.text()
	}
	return avroNames[t.kind]
}

// parseAvro reads a schema and those that it refers to.
func parseAvro(s *dataflow.RegisteredSchema) (*avroType, error) {
	if s.Kind != dataflow.SchemaAvro {
		return nil, fmt.Errorf("expected a schema of Avro, got one of %s", s.Kind)
	}
	var cache avro.SchemaCache
	p := avroParser{named: map[string]*avroType{}}
	for _, ref := range s.References {
		sch, err := cache.Parse(ref.Text)
		if err == nil {
			_, err = p.node(sch.Root(), "")
		}
		if err != nil {
			return nil, fmt.Errorf("reference %q: %w", ref.Name, err)
		}
	}
	sch, err := cache.Parse(s.Text)
	if err != nil {
		return nil, err
	}
	return p.node(sch.Root(), "")
}

type avroParser struct {
	named map[string]*avroType
}

func fullName(namespace, name string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

// node reads a node that stands in a namespace.
func (p *avroParser) node(n *avro.SchemaNode, in string) (*avroType, error) {
	kind, ok := avroKinds[n.Type]
	if !ok {
		for _, name := range []string{fullName(in, n.Type), n.Type} {
			if t := p.named[name]; t != nil {
				return t, nil
			}
		}
		return nil, fmt.Errorf("type %q is not there", n.Type)
	}
	t := &avroType{kind: kind, size: n.Size, symbols: n.Symbols}
	if n.HasEnumDefault {
		t.enumDefault = n.EnumDefault
	}
	if kind == avRecord || kind == avEnum || kind == avFixed {
		t.name = fullName(n.Namespace, n.Name)
		p.named[t.name] = t
		in = t.name[:max(0, strings.LastIndexByte(t.name, '.'))]
	}
	t.setLogical(n)
	var err error
	switch kind {
	case avArray:
		t.elem, err = p.node(n.Items, in)
	case avMap:
		t.elem, err = p.node(n.Values, in)
	case avUnion:
		for i := range n.Branches {
			b, err := p.node(&n.Branches[i], in)
			if err != nil {
				return nil, err
			}
			t.branches = append(t.branches, b)
		}
	case avRecord:
		for i := range n.Fields {
			f, err := p.field(&n.Fields[i], in)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", n.Fields[i].Name, err)
			}
			t.fields = append(t.fields, f)
		}
	}
	return t, err
}

func (p *avroParser) field(n *avro.SchemaField, in string) (avroField, error) {
	f := avroField{name: n.Name, aliases: n.Aliases}
	var err error
	if f.typ, err = p.node(&n.Type, in); err != nil || !n.HasDefault {
		return f, err
	}
	sch, err := n.Type.Schema()
	if err != nil {
		return f, err
	}
	if f.def, err = sch.Encode(n.Default); err != nil {
		return f, fmt.Errorf("its default: %w", err)
	}
	if f.def == nil {
		f.def = []byte{} // of null
	}
	return f, nil
}

// setLogical takes a logical type that its kind can have; others are ignored, as the
// specification asks.
func (t *avroType) setLogical(n *avro.SchemaNode) {
	fits := false
	switch n.LogicalType {
	case "decimal":
		fits = (t.kind == avBytes || t.kind == avFixed) && n.Precision > 0 && n.Scale >= 0 && n.Scale <= n.Precision
		t.prec, t.scale = n.Precision, n.Scale
	case "uuid":
		fits = t.kind == avString || t.kind == avFixed && t.size == 16
	case "date", "time-millis":
		fits = t.kind == avInt
	case "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos", "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos":
		fits = t.kind == avLong
	}
	if fits {
		t.logical = n.LogicalType
	}
}

// digits are those of the unit below the second.
func (t *avroType) digits() int {
	switch {
	case strings.HasSuffix(t.logical, "millis"):
		return 3
	case strings.HasSuffix(t.logical, "nanos"):
		return 9
	}
	return 6
}

// isTime says whether the type counts from 1970 or from midnight.
func (t *avroType) isTime() bool {
	return strings.HasPrefix(t.logical, "time") || strings.HasPrefix(t.logical, "local-")
}

// optional returns the only branch beside null, and whether null is one. plain is nil
// where there are several.
func (t *avroType) optional() (plain *avroType, null bool) {
	if t.kind != avUnion {
		return t, false
	}
	n := 0
	for _, b := range t.branches {
		if b.kind == avNull {
			null = true
		} else {
			plain = b
			n++
		}
	}
	if n != 1 {
		plain = nil
	}
	return plain, null
}

// columns are those of a record, or one of the given name for any other type.
func (t *avroType) columns(name string) ([]schemaField, error) {
	if t.kind != avRecord {
		f, err := avroColumn(name, t, nil)
		return []schemaField{f}, err
	}
	var out []schemaField
	for _, f := range t.fields {
		c, err := avroColumn(f.name, f.typ, []*avroType{t})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, checkNames(out)
}

// avroColumn is the column of a field; above are the records it stands in.
func avroColumn(name string, t *avroType, above []*avroType) (schemaField, error) {
	plain, null := t.optional()
	f := schemaField{FieldSpec: dataflow.FieldSpec{Name: name}, nullable: null}
	if plain == nil && t.kind == avUnion && len(t.branches) > 1 {
		return f, fmt.Errorf("field %q is a union of several types, %s, and a column has one: write a schema (schema or schema_file) in which the field has one of them, or in which it is left out", name, t.text())
	}
	var err error
	if f.Spec, err = avroSpec(name, plain, above); err != nil {
		return f, err
	}
	return f, nil
}

func avroSpec(name string, t *avroType, above []*avroType) (dataflow.TypeSpec, error) {
	plain := func(x arrow.DataType) (dataflow.TypeSpec, error) { return dataflow.TypeSpec{Type: x}, nil }
	switch {
	case t == nil || t.kind == avNull:
		return dataflow.TypeSpec{}, fmt.Errorf("field %q is always null: a column has a type; write a schema (schema or schema_file) without it", name)
	case t.logical == "decimal":
		if t.prec > 38 {
			return dataflow.TypeSpec{}, fmt.Errorf("field %q is %s, and a decimal has at most 38 digits", name, t.text())
		}
		return plain(&arrow.Decimal128Type{Precision: int32(t.prec), Scale: int32(t.scale)})
	case t.logical == "uuid":
		return plain(dataflow.TypeUUID)
	case t.logical == "date":
		return plain(dataflow.TypeDate)
	case strings.HasPrefix(t.logical, "time-"):
		return plain(dataflow.TypeTime)
	case strings.HasPrefix(t.logical, "timestamp-"):
		return plain(dataflow.TypeTimestampTZ)
	case strings.HasPrefix(t.logical, "local-"):
		return plain(dataflow.TypeTimestamp)
	}
	switch t.kind {
	case avBoolean:
		return plain(dataflow.TypeBool)
	case avInt:
		return plain(dataflow.TypeInt32)
	case avLong:
		return plain(dataflow.TypeInt64)
	case avFloat:
		return plain(dataflow.TypeFloat32)
	case avDouble:
		return plain(dataflow.TypeFloat64)
	case avBytes, avFixed:
		return plain(dataflow.TypeBinary)
	case avString, avEnum:
		return plain(dataflow.TypeString)
	case avRecord:
		return avroStruct(name, t, above)
	}
	elem, err := avroColumn(name, t.elem, above)
	if err != nil {
		return dataflow.TypeSpec{}, err
	}
	if t.kind == avMap {
		return listOf(mapEntry(elem.Spec)), nil
	}
	return listOf(elem.Spec), nil
}

func avroStruct(name string, t *avroType, above []*avroType) (dataflow.TypeSpec, error) {
	for _, a := range above {
		if a == t {
			return dataflow.TypeSpec{}, fmt.Errorf("field %q: %s contains itself, and a column cannot: write a schema (schema or schema_file) without the field", name, t.text())
		}
	}
	if len(t.fields) == 0 {
		return dataflow.TypeSpec{}, fmt.Errorf("field %q: %s has no fields: write a schema (schema or schema_file) without it", name, t.text())
	}
	var fields []dataflow.FieldSpec
	for _, f := range t.fields {
		c, err := avroColumn(f.name, f.typ, append(above[:len(above):len(above)], t))
		if err != nil {
			return dataflow.TypeSpec{}, fmt.Errorf("in %q: %w", name, err)
		}
		fields = append(fields, c.FieldSpec)
	}
	return structOf(fields), nil
}

func listOf(elem dataflow.TypeSpec) dataflow.TypeSpec {
	return dataflow.TypeSpec{Type: arrow.ListOf(elem.Type), Fields: []dataflow.FieldSpec{{Name: "element", Spec: elem}}}
}

// mapEntry is an element of the list that a map becomes.
func mapEntry(value dataflow.TypeSpec) dataflow.TypeSpec {
	return structOf([]dataflow.FieldSpec{{Name: "key", Spec: dataflow.TypeSpec{Type: dataflow.TypeString}}, {Name: "value", Spec: value}})
}

func structOf(fields []dataflow.FieldSpec) dataflow.TypeSpec {
	var out []arrow.Field
	for _, f := range fields {
		out = append(out, arrow.Field{Name: f.Name, Type: f.Spec.Type, Nullable: true})
	}
	return dataflow.TypeSpec{Type: arrow.StructOf(out...), Fields: fields}
}
