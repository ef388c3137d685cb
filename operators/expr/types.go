package expr

import (
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// kind is a type without its modifier.
type kind uint8

const (
	kUnknown kind = iota // null or a string literal whose type the context decides
	kBool
	kInt16 // in expressions only; its values are kept, and leave, as those of kInt32
	kInt32
	kInt64
	kDecimal
	kFloat32
	kFloat64
	kString
	kBinary
	kDate
	kTime
	kTimestamp
	kTimestampTZ
	kInterval
	kUUID
	kJSON   // the document's text; what functions make is in jsonb's canonical form
	kList   // of a type that is no list and no struct
	kNested // struct, other lists: passed on, taken apart, not computed with
	// In the registry only: any type, and a list of texts.
	kAny
	kTexts
)

// typ is a type. Decimals have precision and scale, strings may have a most
// length in characters (varchar(n)), and s is 1 for char(n), whose values are
// kept without the blanks at their end, times a precision below the second; nested
// types keep their Arrow form. Of a list k is kList and the rest that of its elements,
// e their kind; dt is the column's Arrow form where it comes from one.
type typ struct {
	k, e kind
	p, s int32
	dt   arrow.DataType
}

func listOf(e typ) typ { return typ{k: kList, e: e.k, p: e.p, s: e.s} }

// elem is the type of a list's elements.
func (t typ) elem() typ { return typ{k: t.e, p: t.p, s: t.s} }

// same says whether values of t are values of u as they are.
func (t typ) same(u typ) bool {
	if t.k == kNested && u.k == kNested {
		return arrow.TypeEqual(t.dt, u.dt)
	}
	t.dt, u.dt = nil, nil
	return t == u
}

// free marks a decimal whose precision and scale the operand decides.
const free = -1

var (
	tUnknown   = typ{k: kUnknown}
	tBool      = typ{k: kBool}
	tInt16     = typ{k: kInt16}
	tInt32     = typ{k: kInt32}
	tInt64     = typ{k: kInt64}
	tFloat32   = typ{k: kFloat32}
	tFloat64   = typ{k: kFloat64}
	tString    = typ{k: kString}
	tDecimal   = typ{k: kDecimal, p: free}
	tTimestamp = typ{k: kTimestamp}
	tJSON      = typ{k: kJSON}
	tTexts     = typ{k: kList, e: kString}
)

func decimalType(p, s int32) typ { return typ{k: kDecimal, p: p, s: s} }

// String writes t as the language spells it.
func (t typ) String() string {
	switch t.k {
	case kUnknown:
		return "unknown"
	case kInterval:
		return "interval" + t.fieldWords()
	case kAny:
		return "any"
	case kTexts:
		return "string[]"
	case kInt16:
		return "int16"
	case kList:
		if t.e == kUnknown {
			return "list"
		}
		return t.elem().String() + "[]"
	case kDecimal:
		if t.p == free {
			return "decimal"
		}
	case kString:
		switch {
		case t.char() && t.p == 0:
			return "bpchar"
		case t.char():
			return fmt.Sprintf("char(%d)", t.p)
		case t.p > 0:
			return fmt.Sprintf("varchar(%d)", t.p)
		}
	case kTime, kTimestamp, kTimestampTZ:
		if t.p > 0 {
			return fmt.Sprintf("%s(%d)", t.k.name(), t.p-1)
		}
	}
	return dataflow.TypeName(t.arrow())
}

func (k kind) name() string {
	switch k {
	case kNested:
		return "nested"
	case kDecimal:
		return "decimal"
	}
	return typ{k: k}.String()
}

// arrow returns the Arrow form of t.
func (t typ) arrow() arrow.DataType {
	switch t.k {
	case kBool:
		return dataflow.TypeBool
	case kInt16, kInt32:
		return dataflow.TypeInt32
	case kInt64:
		return dataflow.TypeInt64
	case kFloat32:
		return dataflow.TypeFloat32
	case kFloat64:
		return dataflow.TypeFloat64
	case kDecimal:
		return &arrow.Decimal128Type{Precision: max(t.p, 1), Scale: t.s}
	case kBinary:
		return dataflow.TypeBinary
	case kDate:
		return dataflow.TypeDate
	case kTime:
		return dataflow.TypeTime
	case kTimestamp:
		return dataflow.TypeTimestamp
	case kTimestampTZ:
		return dataflow.TypeTimestampTZ
	case kInterval:
		return arrow.FixedWidthTypes.MonthDayNanoInterval
	case kUUID:
		return dataflow.TypeUUID
	case kJSON:
		return dataflow.TypeJSON
	case kList:
		if t.dt != nil {
			return t.dt
		}
		return arrow.ListOf(t.elem().arrow())
	case kNested:
		return t.dt
	}
	return dataflow.TypeString
}

// typeOf returns the type of a column; ok is false if expressions cannot use it.
func typeOf(dt arrow.DataType) (typ, bool) {
	switch dt := dt.(type) {
	case *arrow.Decimal128Type:
		return decimalType(dt.Precision, dt.Scale), true
	case *arrow.TimestampType:
		if dt.Unit != arrow.Microsecond {
			return typ{}, false
		}
		if dt.TimeZone == "" {
			return tTimestamp, true
		}
		return typ{k: kTimestampTZ}, true
	case *arrow.ListType:
		if e, ok := typeOf(dt.Elem()); ok && e.k < kList {
			l := listOf(e)
			l.dt = dt
			return l, true
		}
		return typ{k: kNested, dt: dt}, true
	case *arrow.StructType:
		return typ{k: kNested, dt: dt}, true
	case *arrow.Int16Type:
		return tInt16, true
	}
	for k := kBool; k <= kJSON; k++ {
		if k != kDecimal && k != kInt16 && arrow.TypeEqual(typ{k: k}.arrow(), dt) {
			return typ{k: k}, true
		}
	}
	return typ{}, false
}

// category groups types as PostgreSQL does for choosing functions.
func (k kind) category() byte {
	switch k {
	case kBool:
		return 'B'
	case kInt16, kInt32, kInt64, kDecimal, kFloat32, kFloat64:
		return 'N'
	case kString:
		return 'S'
	case kDate, kTime, kTimestamp, kTimestampTZ:
		return 'D'
	case kInterval:
		return 'T'
	case kList, kTexts:
		return 'A'
	case kUnknown:
		return 'X'
	}
	return 'U'
}

// preferred says whether k is what its category prefers.
func (k kind) preferred() bool {
	switch k {
	case kBool, kFloat64, kString, kTimestampTZ, kInterval:
		return true
	}
	return false
}

func (k kind) whole() bool { return k >= kInt16 && k <= kInt64 }

func (k kind) numeric() bool { return k >= kInt16 && k <= kFloat64 }

// asDecimal is the decimal that holds every value of a whole number type.
func (t typ) asDecimal() typ {
	switch t.k {
	case kInt16:
		return decimalType(5, 0)
	case kInt32:
		return decimalType(10, 0)
	case kInt64:
		return decimalType(19, 0)
	case kDecimal:
		return t
	}
	return decimalType(38, wideScale)
}

// wideScale is the number of decimal places where PostgreSQL's would depend on
// the value: quotients, averages, floats and texts cast to numeric.
const wideScale = 16

// common is the decimal that holds the values of both as far as 38 digits do.
func commonDecimal(a, b typ) typ {
	s := max(a.s, b.s)
	return decimalType(min(38, max(a.p-a.s, b.p-b.s)+s), s)
}

var typeWords = map[string]typ{
	"bool": tBool, "boolean": tBool,
	"smallint": tInt16, "int2": tInt16, "int16": tInt16,
	"int": tInt32, "integer": tInt32, "int4": tInt32, "int32": tInt32,
	"bigint": tInt64, "int8": tInt64, "int64": tInt64,
	"real": tFloat32, "float4": tFloat32, "float32": tFloat32,
	"float8": tFloat64, "float64": tFloat64, "float": tFloat64,
	"numeric": tDecimal, "decimal": tDecimal, "dec": tDecimal,
	"text": tString, "string": tString, "varchar": tString,
	"char": {k: kString, p: 1, s: 1}, "character": {k: kString, p: 1, s: 1}, "bpchar": {k: kString, s: 1},
	"bytea": {k: kBinary}, "binary": {k: kBinary},
	"date": {k: kDate}, "time": {k: kTime},
	"timestamp": tTimestamp, "timestamptz": {k: kTimestampTZ},
	"interval": {k: kInterval}, "uuid": {k: kUUID},
	"json": tJSON, "jsonb": tJSON,
}

var unsupportedTypes = map[string]string{
	"timetz": "use time or timestamptz", "money": "use decimal(p,s)",
}

// typeName reads the name of a type, PostgreSQL's or the language's.
func (p *parser) typeName() (typ, error) {
	t := p.take()
	if t.kind != tokIdent {
		return typ{}, p.unexpected(t, "the name of a type")
	}
	name := t.text
	switch {
	case name == "double" && p.word("precision"):
		name = "float8"
	case (name == "character" || name == "char") && p.word("varying"):
		name = "varchar"
	}
	if name == "list" && p.op("<") { // the language's own spelling
		e, err := p.typeName()
		if err != nil {
			return typ{}, err
		}
		if e.k >= kList {
			return typ{}, errAt(t.pos, "lists of lists are not supported here")
		}
		return listOf(e), p.needOp(">")
	}
	out, ok := typeWords[name]
	if !ok {
		if hint := unsupportedTypes[name]; hint != "" {
			return typ{}, errAt(t.pos, "there is no type %s here: %s", name, hint)
		}
		return typ{}, errAt(t.pos, "unknown type %q%s", name, component.DidYouMean(name, typeWordList()))
	}
	if err := p.typeModifier(t.pos, name, &out); err != nil {
		return typ{}, err
	}
	if out.k == kInterval {
		if err := p.intervalFieldsOf(&out); err != nil {
			return typ{}, err
		}
	}
	if out.k == kTimestamp || out.k == kTime {
		switch {
		case p.word("with", "time", "zone"):
			if out.k == kTime {
				return typ{}, errAt(t.pos, "there is no type time with time zone here: use time or timestamptz")
			}
			out.k = kTimestampTZ
		case p.word("without", "time", "zone"):
		}
	}
	return p.arrayType(out)
}

func (p *parser) typeModifier(pos int, name string, out *typ) error {
	if n := p.peek(); n.kind != tokOp || n.text != "(" {
		return nil
	}
	switch out.k {
	case kDecimal, kTime, kTimestamp, kTimestampTZ:
	case kString:
		if name == "varchar" || out.char() {
			break
		}
		fallthrough
	default:
		return nil
	}
	p.i++
	a, err := p.number()
	if err != nil {
		return err
	}
	switch out.k {
	case kDecimal:
		b := 0
		if p.op(",") {
			if b, err = p.number(); err != nil {
				return err
			}
		}
		if a < 1 || a > 38 || b > a {
			return errAt(pos, "decimal(%d,%d): needs 1 <= precision <= 38 and 0 <= scale <= precision", a, b)
		}
		*out = decimalType(int32(a), int32(b))
	case kString:
		if a < 1 || a > 10485760 {
			return errAt(pos, "%s(%d): the length must be between 1 and 10485760", name, a)
		}
		out.p = int32(a)
	default:
		if a > 6 {
			return errAt(pos, "%s(%d): the precision is at most 6, microseconds", name, a)
		}
		out.p = int32(a) + 1
	}
	return p.needOp(")")
}

func typeWordList() []string {
	out := make([]string, 0, len(typeWords))
	for n := range typeWords {
		out = append(out, n)
	}
	return out
}
