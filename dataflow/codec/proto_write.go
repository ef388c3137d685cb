package codec

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoPut writes a field of a message.
type protoPut struct {
	name     string
	num      protowire.Number
	kind     protoreflect.Kind
	presence bool
	list     bool
	packed   bool
	stamp    bool
	// wrapper: the value stands in a message of its own.
	wrapper bool
	symbols map[string]int32
	fields  []protoPutField // of a message
}

// protoPutField is a field of the column or child at.
type protoPutField struct {
	put *protoPut
	at  int
}

type protoEncoder struct {
	head   []byte
	fields []protoPutField
	bufs   [][]byte // of messages inside others, by depth
}

// NewProtobufEncoder writes the columns of fields as a message of a schema, by name; ""
// is the first of the schema. Fields of the message that are no columns are absent.
// framed: each payload begins with the place of the message, as the format of
// registries asks.
func NewProtobufEncoder(s *dataflow.RegisteredSchema, message string, fields []arrow.Field, framed Framing) (Encoder, error) {
	file, err := parseProto(s)
	if err != nil {
		return nil, err
	}
	m, err := messageOf(file, message)
	if err != nil {
		return nil, err
	}
	e := &protoEncoder{}
	if framed == Framed {
		e.head = appendIndexes(nil, protoPath(m))
	}
	e.fields, err = protoPutFields(m, fields)
	return e, err
}

// Framing says whether payloads have what the format of registries puts in front.
type Framing int

const (
	// Bare payloads are the message alone.
	Bare Framing = iota
	// Framed payloads stand in the format of registries.
	Framed
)

// Append implements Encoder.
func (e *protoEncoder) Append(dst []byte, b arrow.RecordBatch, i int) ([]byte, *dataflow.Bad) {
	dst = append(dst, e.head...)
	for k := range e.fields {
		f := &e.fields[k]
		var bad *dataflow.Bad
		if dst, bad = e.field(f.put, dst, b.Column(f.at), i, 0); bad != nil {
			bad.Detail = fmt.Sprintf("column %q: %s", f.put.name, bad.Detail)
			return dst, bad
		}
	}
	return dst, nil
}

func protoPutFields(m protoreflect.MessageDescriptor, have []arrow.Field) ([]protoPutField, error) {
	var out []protoPutField
	for at, f := range have {
		d := m.Fields().ByName(protoreflect.Name(f.Name))
		if d == nil {
			return nil, fmt.Errorf("column %q is no field of message %s: leave it out (project) or take another schema", f.Name, m.FullName())
		}
		put, err := newProtoPut(d, f.Type)
		if err != nil {
			return nil, err
		}
		out = append(out, protoPutField{put, at})
	}
	slices.SortFunc(out, func(a, b protoPutField) int { return int(a.put.num) - int(b.put.num) })
	for i := range m.Fields().Len() {
		if d := m.Fields().Get(i); d.Cardinality() == protoreflect.Required && !slices.ContainsFunc(out, func(p protoPutField) bool { return p.put.num == d.Number() }) {
			return nil, fmt.Errorf("field %q of message %s is required and has no column", d.Name(), m.FullName())
		}
	}
	return out, nil
}

func newProtoPut(f protoreflect.FieldDescriptor, typ arrow.DataType) (*protoPut, error) {
	p := &protoPut{name: string(f.Name()), num: f.Number(), kind: f.Kind(), presence: f.HasPresence(), list: f.IsList() || f.IsMap(), packed: f.IsPacked()}
	unfit := func() (*protoPut, error) {
		what := f.Kind().String()
		if f.Message() != nil {
			what = string(f.Message().FullName())
		}
		if p.list {
			what = "repeated " + what
		}
		return nil, fmt.Errorf("column %q is %s, and the field of the schema is %s", f.Name(), dataflow.TypeName(typ), what)
	}
	of := typ
	if p.list {
		l, ok := typ.(*arrow.ListType)
		if !ok {
			return unfit()
		}
		of = l.Elem()
	}
	k, ok := kindOfType(of)
	if !ok {
		return unfit()
	}
	m := f.Message()
	if m != nil && wrapperNames[m.FullName()] {
		p.wrapper = true
		p.kind = m.Fields().Get(0).Kind()
		m = nil
	}
	switch {
	case m == nil:
		if !fitsProto(k, p.kind) {
			return unfit()
		}
	case m.FullName() == protoTimestamp:
		p.stamp = true
		if k != kTimestamp {
			return unfit()
		}
	case k != kStruct:
		return unfit()
	default:
		var err error
		if p.fields, err = protoPutFields(m, of.(*arrow.StructType).Fields()); err != nil {
			return nil, fmt.Errorf("in %q: %w", f.Name(), err)
		}
	}
	if p.kind == protoreflect.EnumKind {
		p.symbols = map[string]int32{}
		for i := range f.Enum().Values().Len() {
			v := f.Enum().Values().Get(i)
			p.symbols[string(v.Name())] = int32(v.Number())
		}
	}
	return p, nil
}

func fitsProto(k kind, p protoreflect.Kind) bool {
	switch p {
	case protoreflect.BoolKind:
		return k == kBool
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return k == kInt32 || k == kInt64
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return k == kInt32 || k == kInt64 || k == kDecimal
	case protoreflect.FloatKind:
		return k == kFloat32
	case protoreflect.DoubleKind:
		return k == kFloat32 || k == kFloat64
	case protoreflect.StringKind:
		return k == kString || k == kJSON || k == kUUID || k == kDecimal || k == kDate || k == kTime || k == kTimestamp
	case protoreflect.EnumKind:
		return k == kString
	case protoreflect.BytesKind:
		return k == kBinary
	}
	return false
}

// buf is a buffer for a message at a depth.
func (e *protoEncoder) buf(depth int) []byte {
	for len(e.bufs) <= depth {
		e.bufs = append(e.bufs, nil)
	}
	return e.bufs[depth][:0]
}

func (e *protoEncoder) field(p *protoPut, dst []byte, a arrow.Array, i, depth int) ([]byte, *dataflow.Bad) {
	if p.list {
		return e.list(p, dst, a, i, depth)
	}
	if a.IsNull(i) {
		if p.presence {
			return dst, nil
		}
		return dst, &dataflow.Bad{Reason: ReasonMissingRequired, Detail: "it is null, and a field without optional cannot say so"}
	}
	return e.value(p, dst, a, i, depth)
}

func (e *protoEncoder) list(p *protoPut, dst []byte, a arrow.Array, i, depth int) ([]byte, *dataflow.Bad) {
	if a.IsNull(i) {
		return dst, nil
	}
	l := a.(*array.List)
	from, to := l.ValueOffsets(i)
	values := l.ListValues()
	var packed []byte
	for k := int(from); k < int(to); k++ {
		if values.IsNull(k) {
			return dst, &dataflow.Bad{Reason: ReasonMissingRequired, Detail: fmt.Sprintf("element %d is null, which a repeated field cannot hold", k-int(from))}
		}
		var bad *dataflow.Bad
		if !p.packed {
			dst, bad = e.value(p, dst, values, k, depth)
		} else {
			if packed == nil {
				packed = e.buf(depth)
			}
			packed, bad = p.scalar(packed, values, k)
		}
		if bad != nil {
			bad.Detail = fmt.Sprintf("element %d: %s", k-int(from), bad.Detail)
			return dst, bad
		}
	}
	if packed != nil {
		e.bufs[depth] = packed
		dst = protowire.AppendTag(dst, p.num, protowire.BytesType)
		dst = protowire.AppendBytes(dst, packed)
	}
	return dst, nil
}

// value writes a value that is not null with its tag.
func (e *protoEncoder) value(p *protoPut, dst []byte, a arrow.Array, i, depth int) ([]byte, *dataflow.Bad) {
	var bad *dataflow.Bad
	if !p.stamp && !p.wrapper && p.fields == nil {
		dst = protowire.AppendTag(dst, p.num, wireType(p.kind))
		return p.scalar(dst, a, i)
	}
	b := e.buf(depth)
	switch {
	case p.stamp:
		b = appendStamp(b, int64(a.(*array.Timestamp).Value(i)))
	case p.wrapper:
		b = protowire.AppendTag(b, 1, wireType(p.kind))
		b, bad = p.scalar(b, a, i)
	default:
		st := a.(*array.Struct)
		for k := range p.fields {
			f := &p.fields[k]
			if b, bad = e.field(f.put, b, st.Field(f.at), i, depth+1); bad != nil {
				bad.Detail = fmt.Sprintf("%q: %s", f.put.name, bad.Detail)
				break
			}
		}
	}
	e.bufs[depth] = b
	if bad != nil {
		return dst, bad
	}
	dst = protowire.AppendTag(dst, p.num, protowire.BytesType)
	return protowire.AppendBytes(dst, b), nil
}

func appendStamp(b []byte, us int64) []byte {
	sec, rest := us/microsPerSecond, us%microsPerSecond
	if rest < 0 {
		sec, rest = sec-1, rest+microsPerSecond
	}
	if sec != 0 {
		b = protowire.AppendTag(b, 1, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(sec))
	}
	if rest != 0 {
		b = protowire.AppendTag(b, 2, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(rest*1000))
	}
	return b
}

// scalar writes a value without its tag.
func (p *protoPut) scalar(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	switch a := a.(type) {
	case *array.Boolean:
		return protowire.AppendVarint(dst, protowire.EncodeBool(a.Value(i))), nil
	case *array.Int32:
		return p.integer(dst, int64(a.Value(i)))
	case *array.Int64:
		return p.integer(dst, a.Value(i))
	case *array.Float32:
		if p.kind == protoreflect.DoubleKind {
			return protowire.AppendFixed64(dst, math.Float64bits(float64(a.Value(i)))), nil
		}
		return protowire.AppendFixed32(dst, math.Float32bits(a.Value(i))), nil
	case *array.Float64:
		return protowire.AppendFixed64(dst, math.Float64bits(a.Value(i))), nil
	case *array.Binary:
		return protowire.AppendBytes(dst, a.Value(i)), nil
	case *array.String:
		if p.symbols == nil {
			return protowire.AppendString(dst, a.Value(i)), nil
		}
		return p.symbol(dst, a.Value(i))
	case *extensions.JSONArray:
		return protowire.AppendString(dst, a.Storage().(*array.String).Value(i)), nil
	case *array.Decimal128:
		if p.kind == protoreflect.StringKind {
			return protowire.AppendString(dst, a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)), nil
		}
		return p.unsigned(dst, a.Value(i), a.DataType().(*arrow.Decimal128Type).Scale)
	}
	// What is left is written as JSON does, without its quotes.
	text := dataflow.AppendJSON(nil, a, i)
	if n := len(text); n > 1 && text[0] == '"' {
		text = text[1 : n-1]
	}
	return protowire.AppendBytes(dst, text), nil
}

func (p *protoPut) symbol(dst []byte, s string) ([]byte, *dataflow.Bad) {
	n, ok := p.symbols[s]
	if !ok {
		x, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			return dst, &dataflow.Bad{Reason: ReasonMistyped, Detail: fmt.Sprintf("%s is no value of the enum", excerpt([]byte(s)))}
		}
		n = int32(x)
	}
	return protowire.AppendVarint(dst, uint64(int64(n))), nil
}

// unsigned writes a decimal as 64 bits without a sign.
func (p *protoPut) unsigned(dst []byte, v decimal128.Num, scale int32) ([]byte, *dataflow.Bad) {
	whole, err := v.Rescale(scale, 0)
	if err != nil || whole.HighBits() != 0 {
		return dst, &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf("%s does not fit 64 bits without a sign", v.ToString(scale))}
	}
	if p.kind == protoreflect.Fixed64Kind {
		return protowire.AppendFixed64(dst, whole.LowBits()), nil
	}
	return protowire.AppendVarint(dst, whole.LowBits()), nil
}

func (p *protoPut) integer(dst []byte, v int64) ([]byte, *dataflow.Bad) {
	fits := true
	switch p.kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		fits = int64(int32(v)) == v
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		fits = int64(uint32(v)) == v
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		fits = v >= 0
	}
	if !fits {
		return dst, &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf("%d does not fit %s", v, p.kind)}
	}
	switch p.kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		return protowire.AppendVarint(dst, protowire.EncodeZigZag(v)), nil
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
		return protowire.AppendFixed32(dst, uint32(v)), nil
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return protowire.AppendFixed64(dst, uint64(v)), nil
	}
	return protowire.AppendVarint(dst, uint64(v)), nil
}
