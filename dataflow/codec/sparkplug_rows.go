package codec

import (
	"fmt"
	"math"
	"unicode/utf8"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

func (m *sparkMetric) label() string {
	switch {
	case m.hasName && m.alias != nil:
		return fmt.Sprintf("%q, alias %d", m.name, *m.alias)
	case m.alias != nil:
		return fmt.Sprintf("alias %d", *m.alias)
	default:
		return fmt.Sprintf("%q", m.name)
	}
}

func typeName(t uint32) string {
	if int(t) < len(sparkTypes) {
		return sparkTypes[t]
	}
	return fmt.Sprintf("type %d", t)
}

// check says why the value of m cannot be one of its type; "" if it can.
func (m *sparkMetric) check(def sparkDef) (reason, detail string) {
	if m.null || m.value.field == 0 {
		return "", ""
	}
	v, ok := m.value, false
	switch def.datatype {
	case typeInt8, typeInt16, typeInt32, typeInt64, typeUInt8, typeUInt16, typeUInt32, typeUInt64, typeDateTime:
		ok = v.field == sparkInt || v.field == sparkLong
		if ok && def.datatype == typeUInt64 && v.bits > math.MaxInt64 {
			return ReasonOutOfRange, fmt.Sprintf("%d, expected at most %d (value_int has 64 bits with a sign)", v.bits, int64(math.MaxInt64))
		}
		if ok && def.datatype == typeDateTime && v.bits > uint64(dataflow.MaxEventTime)/1000 {
			return ReasonOutOfRange, fmt.Sprintf("%d milliseconds since 1970, expected a time up to the year 9999", v.bits)
		}
	case typeFloat, typeDouble:
		ok = v.field == sparkFloat || v.field == sparkDouble
	case typeBoolean:
		ok = v.field == sparkBool
	case typeString, typeText, typeUUID:
		if ok = v.field == sparkText; ok && !utf8.Valid(v.bytes) {
			return ReasonInvalidUTF8, "expected UTF-8"
		}
	default:
		ok = v.bytes != nil
	}
	if !ok {
		return ReasonMistyped, fmt.Sprintf("got a value in field %d", v.field)
	}
	return "", ""
}

// row appends a row; m is nil for a message without metrics.
func (d *Sparkplug) row(t sparkTopic, p sparkPayload, m *sparkMetric, def sparkDef) {
	text := func(col int, s string, valid bool) {
		if b := d.b.Field(col).(*array.StringBuilder); valid {
			b.Append(s)
		} else {
			b.AppendNull()
		}
	}
	text(sparkMessage, t.message, true)
	text(sparkGroup, t.group, true)
	text(sparkNode, t.node, true)
	text(sparkDevice, t.device, t.device != "")
	text(sparkName, def.name, m != nil)
	text(sparkType, typeName(def.datatype), m != nil)
	for col := sparkValueInt; col <= sparkValueTime; col++ {
		if m == nil || m.null || m.value.field == 0 || col != valueColumn(def.datatype) {
			d.b.Field(col).AppendNull()
		} else {
			m.value.append(d.b.Field(col), def.datatype)
		}
	}
	at := p.time
	if m != nil && m.time != nil {
		at = m.time
	}
	if ts := d.b.Field(sparkTimestamp).(*array.TimestampBuilder); at == nil || *at > uint64(dataflow.MaxEventTime)/1000 {
		ts.AppendNull()
	} else {
		ts.Append(arrow.Timestamp(*at * 1000))
	}
	if seq := d.b.Field(sparkSeq).(*array.Int32Builder); p.seq == nil || *p.seq > math.MaxInt32 {
		seq.AppendNull()
	} else {
		seq.Append(int32(*p.seq))
	}
	flag := func(col int, v bool) { d.b.Field(col).(*array.BooleanBuilder).Append(v) }
	flag(sparkHistorical, m != nil && m.historical)
	flag(sparkTransient, m != nil && m.transient)
	flag(sparkNull, m == nil || m.null || m.value.field == 0)
	d.rows++
	d.bytes += 120 + len(t.group) + len(t.node) + len(t.device) + len(def.name)
	if m != nil {
		d.bytes += len(m.value.bytes)
	}
}

func valueColumn(datatype uint32) int {
	switch datatype {
	case typeInt8, typeInt16, typeInt32, typeInt64, typeUInt8, typeUInt16, typeUInt32, typeUInt64:
		return sparkValueInt
	case typeFloat, typeDouble:
		return sparkValueDouble
	case typeBoolean:
		return sparkValueBool
	case typeString, typeText, typeUUID:
		return sparkValueString
	case typeDateTime:
		return sparkValueTime
	default:
		return sparkValueBytes
	}
}

// append appends a value that was checked. Integers with a sign ride in fields
// without one, in as many bits as their type has, or sign-extended.
func (v sparkValue) append(b array.Builder, datatype uint32) {
	switch b := b.(type) {
	case *array.Int64Builder:
		b.Append(integer(v.bits, datatype))
	case *array.Float64Builder:
		if v.field == sparkFloat {
			b.Append(float64(math.Float32frombits(uint32(v.bits))))
		} else {
			b.Append(math.Float64frombits(v.bits))
		}
	case *array.BooleanBuilder:
		b.Append(v.bits != 0)
	case *array.StringBuilder:
		b.BinaryBuilder.Append(v.bytes)
	case *array.BinaryBuilder:
		b.Append(v.bytes)
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.bits * 1000))
	}
}

func integer(bits uint64, datatype uint32) int64 {
	switch datatype {
	case typeInt8:
		return int64(int8(bits))
	case typeInt16:
		return int64(int16(bits))
	case typeInt32:
		return int64(int32(bits))
	case typeUInt8:
		return int64(uint8(bits))
	case typeUInt16:
		return int64(uint16(bits))
	case typeUInt32:
		return int64(uint32(bits))
	default:
		return int64(bits)
	}
}
