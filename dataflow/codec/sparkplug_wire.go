package codec

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// The payloads of Sparkplug B are protocol buffers of one message type. It has a
// timestamp (field 1), metrics (2) and a sequence number (3); a metric has a name
// (1), an alias (2), a timestamp (3), a data type (4), flags (5 historical, 6
// transient, 7 null) and one value, whose field says how it is written: 10 as 32
// and 11 as 64 bits of an integer, 12 float, 13 double, 14 boolean, 15 text, 16
// bytes, 17 and 18 a table and a template.

type sparkPayload struct {
	time    *uint64
	seq     *uint64
	metrics []sparkMetric
}

type sparkMetric struct {
	name       string
	hasName    bool
	alias      *uint64
	time       *uint64
	datatype   uint32 // 0: not given
	historical bool
	transient  bool
	null       bool
	value      sparkValue
}

// sparkValue is a value as it is written; field 0: none.
type sparkValue struct {
	field protowire.Number
	bits  uint64
	bytes []byte
}

const (
	sparkInt    = 10
	sparkLong   = 11
	sparkFloat  = 12
	sparkDouble = 13
	sparkBool   = 14
	sparkText   = 15
	sparkBytes  = 16
)

var errWire = errors.New("not a Sparkplug B payload")

// fields calls visit for each field of a message. A field that is cut off is an
// error.
func fields(b []byte, visit func(num protowire.Number, bits uint64, bytes []byte) error) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: a tag: %w", errWire, protowire.ParseError(n))
		}
		b = b[n:]
		var bits uint64
		var raw []byte
		switch typ {
		case protowire.VarintType:
			bits, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			bits = uint64(v)
		case protowire.Fixed64Type:
			bits, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			raw, n = protowire.ConsumeBytes(b)
			if raw == nil {
				raw = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: field %d: %w", errWire, num, protowire.ParseError(n))
		}
		b = b[n:]
		if err := visit(num, bits, raw); err != nil {
			return err
		}
	}
	return nil
}

func parseSparkplug(b []byte) (p sparkPayload, err error) {
	err = fields(b, func(num protowire.Number, bits uint64, raw []byte) error {
		switch num {
		case 1:
			p.time = &bits
		case 2:
			m, err := parseMetric(raw)
			if err != nil {
				return fmt.Errorf("metric %d: %w", len(p.metrics), err)
			}
			p.metrics = append(p.metrics, m)
		case 3:
			p.seq = &bits
		}
		return nil
	})
	return p, err
}

func parseMetric(b []byte) (m sparkMetric, err error) {
	if b == nil {
		return m, fmt.Errorf("%w: a metric is no message", errWire)
	}
	err = fields(b, func(num protowire.Number, bits uint64, raw []byte) error {
		switch num {
		case 1:
			if !utf8.Valid(raw) {
				return fmt.Errorf("%w: its name is no UTF-8", errWire)
			}
			m.name, m.hasName = string(raw), true
		case 2:
			m.alias = &bits
		case 3:
			m.time = &bits
		case 4:
			m.datatype = uint32(min(bits, math.MaxUint32))
		case 5:
			m.historical = bits != 0
		case 6:
			m.transient = bits != 0
		case 7:
			m.null = bits != 0
		case sparkInt, sparkLong, sparkFloat, sparkDouble, sparkBool:
			m.value = sparkValue{field: num, bits: bits}
		case sparkText, sparkBytes, 17, 18, 19:
			if raw == nil {
				return fmt.Errorf("%w: field %d is no text, bytes or message", errWire, num)
			}
			m.value = sparkValue{field: num, bytes: raw}
		}
		return nil
	})
	return m, err
}

// rebirthMetric is the name of the command that asks a node for its births.
const rebirthMetric = "Node Control/Rebirth"

// rebirthCommand is the payload that asks for them, at a time in milliseconds.
func rebirthCommand(ms uint64) []byte {
	var m []byte
	m = protowire.AppendString(protowire.AppendTag(m, 1, protowire.BytesType), rebirthMetric)
	m = protowire.AppendVarint(protowire.AppendTag(m, 3, protowire.VarintType), ms)
	m = protowire.AppendVarint(protowire.AppendTag(m, 4, protowire.VarintType), uint64(typeBoolean))
	m = protowire.AppendVarint(protowire.AppendTag(m, sparkBool, protowire.VarintType), 1)
	var p []byte
	p = protowire.AppendVarint(protowire.AppendTag(p, 1, protowire.VarintType), ms)
	return protowire.AppendBytes(protowire.AppendTag(p, 2, protowire.BytesType), m)
}
