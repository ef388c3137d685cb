package dataflow

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// The types of the language and their Arrow forms. One table, used by decode
// schemas, expressions and sinks alike.
var (
	TypeBool        arrow.DataType = arrow.FixedWidthTypes.Boolean
	TypeInt32       arrow.DataType = arrow.PrimitiveTypes.Int32
	TypeInt64       arrow.DataType = arrow.PrimitiveTypes.Int64
	TypeFloat32     arrow.DataType = arrow.PrimitiveTypes.Float32
	TypeFloat64     arrow.DataType = arrow.PrimitiveTypes.Float64
	TypeString      arrow.DataType = arrow.BinaryTypes.String
	TypeBinary      arrow.DataType = arrow.BinaryTypes.Binary
	TypeDate        arrow.DataType = arrow.FixedWidthTypes.Date32
	TypeTime        arrow.DataType = arrow.FixedWidthTypes.Time64us
	TypeTimestamp   arrow.DataType = &arrow.TimestampType{Unit: arrow.Microsecond}
	TypeTimestampTZ arrow.DataType = &arrow.TimestampType{Unit: arrow.Microsecond, TimeZone: "UTC"}
	// TypeUUID is stored as 16 bytes.
	TypeUUID arrow.DataType = extensions.NewUUIDType()
	// TypeJSON is stored as the document's text.
	TypeJSON arrow.DataType = mustJSON()
)

func mustJSON() arrow.DataType {
	t, err := extensions.NewJSONType(arrow.BinaryTypes.String)
	if err != nil {
		panic(err)
	}
	return t
}

var typeNames = map[string]arrow.DataType{
	"bool": TypeBool, "int32": TypeInt32, "int64": TypeInt64, "float32": TypeFloat32,
	"float64": TypeFloat64, "string": TypeString, "binary": TypeBinary, "date": TypeDate,
	"time": TypeTime, "timestamp": TypeTimestamp, "timestamptz": TypeTimestampTZ,
	"uuid": TypeUUID, "json": TypeJSON,
}

// otherNames are what types are called elsewhere: by SQL, Iceberg, Avro and JSON Schema.
var otherNames = map[string]string{
	"bigint": "int64", "long": "int64", "int": "int32", "integer": "int32", "int4": "int32",
	"smallint": "int32", "int2": "int32", "int16": "int32", "double": "float64", "float8": "float64", "number": "float64",
	"float": "float32 or float64", "real": "float32", "float4": "float32", "numeric": "decimal(p,s)",
	"text": "string", "varchar": "string", "char": "string", "boolean": "bool", "bytes": "binary", "bytea": "binary", "blob": "binary",
	"jsonb": "json", "object": "json", "datetime": "timestamp", "array": "list<T>", "record": "struct{name: T, ...}",
}

// TypeNames lists the names that stand alone, sorted, for error messages.
func TypeNames() []string {
	out := make([]string, 0, len(typeNames))
	for n := range typeNames {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// TypeSpec is a parsed type: its Arrow form and, for a number that is a time,
// the unit of the number in the payload.
type TypeSpec struct {
	Type arrow.DataType
	// Unit is "" (text, RFC 3339) or one of "s", "ms", "us", "ns": the payload
	// holds a number of that unit since 1970. Only for timestamp, timestamptz.
	Unit string
	// Fields holds the specs of a struct's fields or of a list's element, in
	// order, since they may have units of their own.
	Fields []FieldSpec
}

// FieldSpec is one named column or struct field.
type FieldSpec struct {
	Name string
	Spec TypeSpec
}

// ParseType reads the text of a type: bool, decimal(10,2), timestamptz(ms),
// list<int64>, struct{a: int64, b: list<string>}.
func ParseType(text string) (TypeSpec, error) {
	p := &typeParser{rest: text}
	spec, err := p.parse()
	if err == nil {
		p.space()
		if p.rest != "" {
			err = fmt.Errorf("unexpected %q after the type", p.rest)
		}
	}
	if err != nil {
		return TypeSpec{}, fmt.Errorf("type %q: %w", text, err)
	}
	return spec, nil
}

type typeParser struct{ rest string }

func (p *typeParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *typeParser) word() string {
	p.space()
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	})
	if n < 0 {
		n = len(p.rest)
	}
	w := p.rest[:n]
	p.rest = p.rest[n:]
	return w
}

func (p *typeParser) accept(tok string) bool {
	p.space()
	if strings.HasPrefix(p.rest, tok) {
		p.rest = p.rest[len(tok):]
		return true
	}
	return false
}

func (p *typeParser) expect(tok string) error {
	if !p.accept(tok) {
		return fmt.Errorf("expected %q before %q", tok, p.rest)
	}
	return nil
}

func (p *typeParser) parse() (TypeSpec, error) {
	w := p.word()
	switch w {
	case "decimal":
		return p.decimal()
	case "list":
		return p.list()
	case "struct":
		return p.structure()
	case "timestamp", "timestamptz":
		spec := TypeSpec{Type: typeNames[w]}
		if p.accept("(") {
			spec.Unit = p.word()
			switch spec.Unit {
			case "s", "ms", "us", "ns":
			default:
				return TypeSpec{}, fmt.Errorf("unit %q of %s: expected s, ms, us or ns", spec.Unit, w)
			}
			if err := p.expect(")"); err != nil {
				return TypeSpec{}, err
			}
		}
		return spec, nil
	}
	if t, ok := typeNames[w]; ok {
		return TypeSpec{Type: t}, nil
	}
	if known := otherNames[strings.ToLower(w)]; known != "" {
		return TypeSpec{}, fmt.Errorf("unknown type name %q: it is %s here", w, known)
	}
	return TypeSpec{}, fmt.Errorf("unknown type name %q; known: %s, decimal(p,s), list<T>, struct{name: T, ...}", w, strings.Join(TypeNames(), ", "))
}

func (p *typeParser) decimal() (TypeSpec, error) {
	if err := p.expect("("); err != nil {
		return TypeSpec{}, fmt.Errorf("decimal needs precision and scale, as decimal(10,2): %w", err)
	}
	prec, err1 := strconv.Atoi(p.word())
	if err := p.expect(","); err != nil {
		return TypeSpec{}, err
	}
	scale, err2 := strconv.Atoi(p.word())
	if err := p.expect(")"); err != nil {
		return TypeSpec{}, err
	}
	if err1 != nil || err2 != nil || prec < 1 || prec > 38 || scale < 0 || scale > prec {
		return TypeSpec{}, fmt.Errorf("decimal(p,s) needs 1 <= p <= 38 and 0 <= s <= p")
	}
	return TypeSpec{Type: &arrow.Decimal128Type{Precision: int32(prec), Scale: int32(scale)}}, nil
}

func (p *typeParser) list() (TypeSpec, error) {
	if err := p.expect("<"); err != nil {
		return TypeSpec{}, err
	}
	el, err := p.parse()
	if err != nil {
		return TypeSpec{}, err
	}
	if err := p.expect(">"); err != nil {
		return TypeSpec{}, err
	}
	return TypeSpec{Type: arrow.ListOf(el.Type), Fields: []FieldSpec{{Name: "element", Spec: el}}}, nil
}

func (p *typeParser) structure() (TypeSpec, error) {
	if err := p.expect("{"); err != nil {
		return TypeSpec{}, err
	}
	var specs []FieldSpec
	var fields []arrow.Field
	seen := map[string]bool{}
	for {
		name := p.word()
		if name == "" || seen[name] {
			return TypeSpec{}, fmt.Errorf("struct field name %q is empty or used twice", name)
		}
		seen[name] = true
		if err := p.expect(":"); err != nil {
			return TypeSpec{}, err
		}
		spec, err := p.parse()
		if err != nil {
			return TypeSpec{}, err
		}
		specs = append(specs, FieldSpec{Name: name, Spec: spec})
		fields = append(fields, arrow.Field{Name: name, Type: spec.Type, Nullable: true})
		if p.accept("}") {
			return TypeSpec{Type: arrow.StructOf(fields...), Fields: specs}, nil
		}
		if err := p.expect(","); err != nil {
			return TypeSpec{}, err
		}
	}
}

// TypeName writes t as the language spells it.
func TypeName(t arrow.DataType) string {
	for n, k := range typeNames {
		if arrow.TypeEqual(k, t) {
			return n
		}
	}
	switch t := t.(type) {
	case *arrow.Decimal128Type:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case *arrow.ListType:
		return "list<" + TypeName(t.Elem()) + ">"
	case *arrow.StructType:
		parts := make([]string, t.NumFields())
		for i, f := range t.Fields() {
			parts[i] = f.Name + ": " + TypeName(f.Type)
		}
		return "struct{" + strings.Join(parts, ", ") + "}"
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return "timestamp"
		}
		return "timestamptz"
	}
	return t.String()
}
