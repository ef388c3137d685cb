package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// An Encoder turns rows into payloads of one schema. One goroutine uses it.
type Encoder interface {
	// Append appends the payload of row i of b, without the head of a registry's format,
	// or says why there is none.
	Append(dst []byte, b arrow.RecordBatch, i int) ([]byte, *dataflow.Bad)
}

// avroPut writes one value of a column in a type of Avro.
type avroPut struct {
	name string
	typ  *avroType // without null
	// null and branch are the places of the two in a union; null -1: it has none;
	// branch -1: there is no union.
	null, branch int
	kind         kind
	// up is by what a decimal is multiplied.
	up      decimal128.Num
	symbols map[string]int
	elem    *avroPut
	// key and value are those of a map's entry.
	fields []avroPutField
}

// avroPutField is a field of a record: of the column or child at, or its default.
type avroPutField struct {
	put *avroPut
	at  int
	def []byte // where at is -1
}

// avroEncoder writes rows as records.
type avroEncoder struct{ fields []avroPutField }

// NewAvroEncoder writes the columns of fields as records of a schema, by name. Fields of
// the schema that are no columns get their default.
func NewAvroEncoder(s *dataflow.RegisteredSchema, fields []arrow.Field) (Encoder, error) {
	t, err := parseAvro(s)
	if err != nil {
		return nil, err
	}
	if t.kind != avRecord {
		return nil, fmt.Errorf("rows are records, and the schema is of %s", t.text())
	}
	out, err := avroPutFields(t, fields)
	if err != nil {
		return nil, err
	}
	return &avroEncoder{out}, nil
}

// Append implements Encoder.
func (e *avroEncoder) Append(dst []byte, b arrow.RecordBatch, i int) ([]byte, *dataflow.Bad) {
	for k := range e.fields {
		f := &e.fields[k]
		if f.at < 0 {
			dst = append(dst, f.def...)
			continue
		}
		var bad *dataflow.Bad
		if dst, bad = f.put.append(dst, b.Column(f.at), i); bad != nil {
			bad.Detail = fmt.Sprintf("column %q: %s", f.put.name, bad.Detail)
			return dst, bad
		}
	}
	return dst, nil
}

func avroPutFields(t *avroType, have []arrow.Field) ([]avroPutField, error) {
	used := make([]bool, len(have))
	var out []avroPutField
	for _, f := range t.fields {
		at := slices.IndexFunc(have, func(x arrow.Field) bool { return x.Name == f.name })
		if at < 0 {
			def := f.def
			if def == nil {
				var null int
				if null = nullBranch(f.typ); null < 0 {
					return nil, fmt.Errorf("field %q of %s has no column and no default", f.name, t.text())
				}
				def = binary.AppendVarint(nil, int64(null))
			} else if f.typ.kind == avUnion && len(def) == 0 {
				def = binary.AppendVarint(nil, int64(nullBranch(f.typ)))
			}
			out = append(out, avroPutField{at: -1, def: def})
			continue
		}
		used[at] = true
		put, err := newAvroPut(f.name, f.typ, have[at].Type)
		if err != nil {
			return nil, err
		}
		out = append(out, avroPutField{put: put, at: at})
	}
	for i, f := range have {
		if !used[i] {
			return nil, fmt.Errorf("column %q is no field of %s: leave it out (project) or take another schema", f.Name, t.text())
		}
	}
	return out, nil
}

func nullBranch(t *avroType) int {
	return slices.IndexFunc(t.branches, func(b *avroType) bool { return b.kind == avNull })
}

func newAvroPut(name string, t *avroType, typ arrow.DataType) (*avroPut, error) {
	p := &avroPut{name: name, typ: t, null: -1, branch: -1}
	if t.kind == avUnion {
		p.null = nullBranch(t)
		var first error
		for i, b := range t.branches {
			if b.kind == avNull {
				continue
			}
			one, err := newAvroPut(name, b, typ)
			if err == nil {
				one.null, one.branch = p.null, i
				return one, nil
			}
			if first == nil {
				first = err
			}
		}
		if first == nil {
			first = fmt.Errorf("field %q is always null, and the column is %s", name, dataflow.TypeName(typ))
		}
		return nil, first
	}
	ok := false
	var err error
	p.kind, ok = kindOfType(typ)
	if ok {
		ok, err = p.fits(t, typ)
	}
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("column %q is %s, and the field of the schema is %s", name, dataflow.TypeName(typ), t.text())
	}
	return p, nil
}

func kindOfType(t arrow.DataType) (kind, bool) {
	switch {
	case arrow.TypeEqual(t, dataflow.TypeUUID):
		return kUUID, true
	case arrow.TypeEqual(t, dataflow.TypeJSON):
		return kJSON, true
	}
	k, ok := kinds[t.ID()]
	return k, ok
}

// fits says whether values of typ can be written as t, and prepares for it.
func (p *avroPut) fits(t *avroType, typ arrow.DataType) (bool, error) {
	plain := t.logical == ""
	switch p.kind {
	case kBool:
		return t.kind == avBoolean, nil
	case kInt32:
		return plain && (t.kind == avInt || t.kind == avLong || t.kind == avDouble), nil
	case kInt64:
		return plain && (t.kind == avInt || t.kind == avLong), nil
	case kFloat32:
		return t.kind == avFloat || t.kind == avDouble, nil
	case kFloat64:
		return t.kind == avDouble, nil
	case kString, kJSON:
		if t.kind == avEnum {
			p.symbols = map[string]int{}
			for i, s := range t.symbols {
				p.symbols[s] = i
			}
		}
		return plain && (t.kind == avString || t.kind == avEnum || t.kind == avBytes), nil
	case kBinary:
		return plain && (t.kind == avBytes || t.kind == avFixed), nil
	case kUUID:
		return t.kind == avString || t.kind == avFixed && t.size == 16, nil
	case kDecimal:
		scale := int(typ.(*arrow.Decimal128Type).Scale)
		if t.logical != "decimal" || t.scale < scale || t.scale-scale > 38 {
			return false, nil
		}
		p.up = decimal128.GetScaleMultiplier(t.scale - scale)
		return true, nil
	case kDate:
		return t.logical == "date", nil
	case kTime:
		return t.logical == "time-millis" || t.logical == "time-micros", nil
	case kTimestamp:
		zoned := typ.(*arrow.TimestampType).TimeZone != ""
		return t.isTime() && t.kind == avLong && zoned == (t.logical[0] == 't') && t.logical != "time-micros", nil
	case kList:
		return p.fitsList(t, typ.(*arrow.ListType).Elem())
	}
	if t.kind != avRecord {
		return false, nil
	}
	var err error
	if p.fields, err = avroPutFields(t, typ.(*arrow.StructType).Fields()); err != nil {
		return false, fmt.Errorf("in %q: %w", p.name, err)
	}
	return true, nil
}

func (p *avroPut) fitsList(t *avroType, elem arrow.DataType) (bool, error) {
	var err error
	switch t.kind {
	case avArray:
		p.elem, err = newAvroPut(p.name, t.elem, elem)
		return true, err
	case avMap:
		entry, ok := elem.(*arrow.StructType)
		if !ok || entry.NumFields() != 2 || entry.Field(0).Name != "key" || entry.Field(0).Type.ID() != arrow.STRING || entry.Field(1).Name != "value" {
			return false, nil
		}
		p.elem, err = newAvroPut(p.name, t.elem, entry.Field(1).Type)
		return true, err
	}
	return false, nil
}

func (p *avroPut) append(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	if a.IsNull(i) {
		if p.null < 0 {
			return dst, &dataflow.Bad{Reason: ReasonMissingRequired, Detail: fmt.Sprintf("it is null, and the schema has %s without null", p.typ.text())}
		}
		return binary.AppendVarint(dst, int64(p.null)), nil
	}
	if p.branch >= 0 {
		dst = binary.AppendVarint(dst, int64(p.branch))
	}
	switch a := a.(type) {
	case *array.Boolean:
		v := byte(0)
		if a.Value(i) {
			v = 1
		}
		return append(dst, v), nil
	case *array.Int32:
		if p.typ.kind == avDouble {
			return appendDouble(dst, float64(a.Value(i))), nil
		}
		return binary.AppendVarint(dst, int64(a.Value(i))), nil
	case *array.Int64:
		if v := a.Value(i); p.typ.kind != avInt || int64(int32(v)) == v {
			return binary.AppendVarint(dst, v), nil
		}
		return dst, &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf("%d does not fit an int", a.Value(i))}
	case *array.Float32:
		if p.typ.kind == avDouble {
			return appendDouble(dst, float64(a.Value(i))), nil
		}
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(a.Value(i))), nil
	case *array.Float64:
		return appendDouble(dst, a.Value(i)), nil
	case *array.Date32:
		return binary.AppendVarint(dst, int64(a.Value(i))), nil
	case *array.Time64:
		return binary.AppendVarint(dst, inUnit(int64(a.Value(i)), p.typ.digits())), nil
	case *array.Timestamp:
		return p.timestamp(dst, int64(a.Value(i)))
	case *array.Decimal128:
		return p.decimal(dst, a.Value(i))
	case *array.String:
		return p.text(dst, a.Value(i))
	case *array.Binary:
		return p.bytes(dst, a.Value(i))
	case *extensions.JSONArray:
		return p.text(dst, a.Storage().(*array.String).Value(i))
	case *extensions.UUIDArray:
		if p.typ.kind == avFixed {
			return append(dst, a.Storage().(*array.FixedSizeBinary).Value(i)...), nil
		}
		return p.text(dst, a.Value(i).String())
	case *array.List:
		return p.list(dst, a, i)
	case *array.Struct:
		return p.record(dst, a, i)
	}
	return dst, &dataflow.Bad{Reason: ReasonMistyped, Detail: fmt.Sprintf("a value of %s cannot be written", a.DataType())}
}

func appendDouble(dst []byte, v float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
}

// inUnit is a number of microseconds with so many digits below the second; what is
// finer is cut off.
func inUnit(us int64, digits int) int64 {
	switch digits {
	case 3:
		ms := us / 1000
		if us%1000 < 0 {
			ms--
		}
		return ms
	case 9:
		return us * 1000
	}
	return us
}

func (p *avroPut) timestamp(dst []byte, us int64) ([]byte, *dataflow.Bad) {
	digits := p.typ.digits()
	if digits == 9 && (us > math.MaxInt64/1000 || us < math.MinInt64/1000) {
		return dst, &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf("%d microseconds since 1970 do not fit nanoseconds in 64 bits", us)}
	}
	return binary.AppendVarint(dst, inUnit(us, digits)), nil
}

func (p *avroPut) text(dst []byte, s string) ([]byte, *dataflow.Bad) {
	if p.symbols == nil {
		dst = binary.AppendVarint(dst, int64(len(s)))
		return append(dst, s...), nil
	}
	at, ok := p.symbols[s]
	if !ok {
		return dst, &dataflow.Bad{Reason: ReasonMistyped, Detail: fmt.Sprintf("%s is no symbol of %s", excerpt([]byte(s)), p.typ.text())}
	}
	return binary.AppendVarint(dst, int64(at)), nil
}

func (p *avroPut) bytes(dst, b []byte) ([]byte, *dataflow.Bad) {
	if p.typ.kind == avFixed {
		if len(b) != p.typ.size {
			return dst, &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf("%d bytes, and %s has %d", len(b), p.typ.text(), p.typ.size)}
		}
		return append(dst, b...), nil
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...), nil
}

// decimal writes a number in two's complement, the highest byte first: in as few bytes
// as it has, or in those of a fixed.
func (p *avroPut) decimal(dst []byte, v decimal128.Num) ([]byte, *dataflow.Bad) {
	digits := int32(p.typ.prec) - int32(len(p.up.BigInt().String())-1)
	if p.typ.prec < 38 || digits < 38 {
		if digits < 1 && v != (decimal128.Num{}) || digits >= 1 && !v.FitsInPrecision(min(digits, 38)) {
			return dst, &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf("the number does not fit %s", p.typ.text())}
		}
	}
	v = v.Mul(p.up)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(v.HighBits()))
	binary.BigEndian.PutUint64(b[8:], v.LowBits())
	from := 0
	for from < 15 && (b[from] == 0 && b[from+1] < 0x80 || b[from] == 0xff && b[from+1] >= 0x80) {
		from++
	}
	short := b[from:]
	if p.typ.kind == avBytes {
		dst = binary.AppendVarint(dst, int64(len(short)))
		return append(dst, short...), nil
	}
	if len(short) > p.typ.size {
		return dst, &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf("the number does not fit %s in %d bytes", p.typ.text(), p.typ.size)}
	}
	fill := byte(0)
	if v.Sign() < 0 {
		fill = 0xff
	}
	for range p.typ.size - len(short) {
		dst = append(dst, fill)
	}
	return append(dst, short...), nil
}

func (p *avroPut) list(dst []byte, a *array.List, i int) ([]byte, *dataflow.Bad) {
	from, to := a.ValueOffsets(i)
	if from < to {
		dst = binary.AppendVarint(dst, to-from)
	}
	values := a.ListValues()
	var keys *array.String
	if p.typ.kind == avMap {
		entries := values.(*array.Struct)
		keys, values = entries.Field(0).(*array.String), entries.Field(1)
	}
	for k := int(from); k < int(to); k++ {
		if keys != nil {
			dst = binary.AppendVarint(dst, int64(len(keys.Value(k))))
			dst = append(dst, keys.Value(k)...)
		}
		var bad *dataflow.Bad
		if dst, bad = p.elem.append(dst, values, k); bad != nil {
			bad.Detail = fmt.Sprintf("element %d: %s", k-int(from), bad.Detail)
			return dst, bad
		}
	}
	return append(dst, 0), nil
}

func (p *avroPut) record(dst []byte, a *array.Struct, i int) ([]byte, *dataflow.Bad) {
	for k := range p.fields {
		f := &p.fields[k]
		if f.at < 0 {
			dst = append(dst, f.def...)
			continue
		}
		var bad *dataflow.Bad
		if dst, bad = f.put.append(dst, a.Field(f.at), i); bad != nil {
			bad.Detail = fmt.Sprintf("%q: %s", f.put.name, bad.Detail)
			return dst, bad
		}
	}
	return dst, nil
}
