package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoOp reads a field into its column.
type protoOp struct {
	name     string
	num      protowire.Number
	kind     protoreflect.Kind
	col      *column
	list     bool
	presence bool
	// value reads an element of a list; nil where there is none.
	value *protoOp
	// msg is what a message consists of; of a map's entry its key and its value.
	msg *protoMsg
	// stamp and wrapper: the message is one value.
	stamp, wrapper bool
	symbols        map[int32][]byte
	zero           []byte // the symbol of 0
	others         []*protoOp
	cost           int
	seen           uint64
}

// protoMsg is what a message consists of.
type protoMsg struct {
	ops []*protoOp
	// byNum holds those with small numbers, at their number.
	byNum []*protoOp
}

const smallNum = 512

func newProtoMsg(m protoreflect.MessageDescriptor, cols []*column) *protoMsg {
	out := &protoMsg{}
	oneofs := map[protoreflect.FullName][]*protoOp{}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		op := newProtoOp(f, cols[i])
		out.ops = append(out.ops, op)
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			oneofs[o.FullName()] = append(oneofs[o.FullName()], op)
		}
		if n := int(op.num); n < smallNum {
			out.byNum = append(out.byNum, make([]*protoOp, max(0, n+1-len(out.byNum)))...)
			out.byNum[n] = op
		}
	}
	for _, ops := range oneofs {
		for _, op := range ops {
			op.others = slices.DeleteFunc(slices.Clone(ops), func(x *protoOp) bool { return x == op })
		}
	}
	return out
}

func newProtoOp(f protoreflect.FieldDescriptor, col *column) *protoOp {
	op := &protoOp{name: string(f.Name()), num: f.Number(), kind: f.Kind(), col: col, presence: f.HasPresence()}
	if f.IsList() || f.IsMap() {
		op.list, op.cost = true, 1+col.elem.rowBytes()
		op.value = &protoOp{name: op.name, num: op.num, col: col.elem, presence: true}
		op.value.fill(f)
		return op
	}
	op.fill(f)
	return op
}

// fill sets what reads one value of f.
func (op *protoOp) fill(f protoreflect.FieldDescriptor) {
	op.kind = f.Kind()
	switch {
	case f.Kind() == protoreflect.EnumKind:
		op.symbols = map[int32][]byte{}
		for i := range f.Enum().Values().Len() {
			v := f.Enum().Values().Get(i)
			if _, ok := op.symbols[int32(v.Number())]; !ok { // The first name of a number.
				op.symbols[int32(v.Number())] = []byte(v.Name())
			}
		}
		op.zero = symbolOf(op.symbols, 0)
	case f.Message() == nil:
	case f.Message().FullName() == protoTimestamp:
		op.stamp = true
	case wrapperNames[f.Message().FullName()]:
		op.wrapper = true
		op.value = &protoOp{name: op.name, num: 1, col: op.col}
		op.value.fill(f.Message().Fields().Get(0))
	default:
		op.msg = newProtoMsg(f.Message(), op.col.obj.cols)
	}
}

func symbolOf(symbols map[int32][]byte, n int32) []byte {
	if s := symbols[n]; s != nil {
		return s
	}
	return strconv.AppendInt(nil, int64(n), 10)
}

// protoReader reads payloads of one message.
type protoReader struct {
	gen  uint64
	room int
	bad  *dataflow.Bad
	path []string
}

// read reads a payload into row.
func (r *protoReader) read(m *protoMsg, b []byte, row int) *dataflow.Bad {
	r.room, r.bad, r.path = roomOf(len(b)), nil, r.path[:0]
	if !r.message(m, b, row) && len(r.path) > 0 {
		slices.Reverse(r.path)
		r.bad.Detail = fmt.Sprintf("field %q: %s", strings.Join(r.path, "."), r.bad.Detail)
	}
	return r.bad
}

func (r *protoReader) fail(reason, format string, args ...any) bool {
	if r.bad == nil {
		r.bad = &dataflow.Bad{Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	return false
}

func (r *protoReader) take(n int) bool {
	if r.room -= n; r.room < 0 {
		return r.fail(ReasonTooLarge, "the record takes too much memory: more than 16 times its size and 16 MiB")
	}
	return true
}

func (m *protoMsg) find(n protowire.Number) *protoOp {
	if int(n) < len(m.byNum) {
		return m.byNum[n]
	}
	if n < smallNum {
		return nil
	}
	for _, op := range m.ops {
		if op.num == n {
			return op
		}
	}
	return nil
}

// message reads the fields of a message into row of its columns.
func (r *protoReader) message(m *protoMsg, b []byte, row int) bool {
	r.gen++
	gen := r.gen
	for i := 0; i < len(b); {
		num, typ, n := protowire.ConsumeTag(b[i:])
		if n < 0 || num > protowire.MaxValidNumber {
			return r.fail(ReasonInvalidProtobuf, "no tag of a field at byte %d", i)
		}
		i += n
		op := m.find(num)
		if n = protowire.ConsumeFieldValue(num, typ, b[i:]); n < 0 {
			return r.fail(ReasonInvalidProtobuf, "the value of field %d at byte %d is cut off or broken", num, i)
		}
		v := b[i : i+n]
		i += n
		if op == nil {
			continue
		}
		again := op.seen == gen
		if op.seen = gen; op.list && !again {
			op.absent(row)
		}
		ok := false
		switch {
		case op.list:
			ok = r.element(op, typ, v, row)
		case again && op.kind == protoreflect.MessageKind && typ == protowire.BytesType:
			ok = r.merged(op, b[:i], row)
		default:
			ok = r.value(op, typ, v, row)
		}
		if !ok {
			r.path = append(r.path, op.name)
			return false
		}
		for _, other := range op.others {
			other.col.setNull(row)
		}
	}
	for _, op := range m.ops {
		if op.seen != gen {
			op.absent(row)
		}
	}
	return true
}

// merged reads a message that came in several parts: together they are one, as the
// specification says, as if they had come in one piece.
func (r *protoReader) merged(op *protoOp, b []byte, row int) bool {
	var all []byte
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		b = b[n:]
		n = protowire.ConsumeFieldValue(num, typ, b)
		if num == op.num && typ == protowire.BytesType {
			v, _ := protowire.ConsumeBytes(b)
			all = append(all, v...)
		}
		b = b[n:]
	}
	if !r.take(len(all)) {
		return false
	}
	return r.value(op, protowire.BytesType, protowire.AppendBytes(nil, all), row)
}

// absent writes what a field is that does not come.
func (op *protoOp) absent(row int) {
	c := op.col
	switch {
	case op.list:
		c.markValid(row)
		c.offs[row+1] = c.offs[row]
	case op.presence:
		c.setNull(row)
	default:
		c.setNull(row) // Zeros.
		c.markValid(row)
		if op.zero != nil {
			c.setBytes(row, op.zero)
		}
	}
}

// element appends to a list: one value, or those of a packed field.
func (r *protoReader) element(op *protoOp, typ protowire.Type, v []byte, row int) bool {
	want := wireType(op.value.kind)
	if typ == want || want == protowire.BytesType {
		return r.one(op, typ, v, row)
	}
	if typ != protowire.BytesType {
		return r.wrongType(op.value, typ)
	}
	packed, _ := protowire.ConsumeBytes(v)
	for len(packed) > 0 {
		n := protowire.ConsumeFieldValue(op.num, want, packed)
		if n < 0 {
			return r.fail(ReasonInvalidProtobuf, "its packed values are cut off or broken")
		}
		if !r.one(op, want, packed[:n], row) {
			return false
		}
		packed = packed[n:]
	}
	return true
}

func (r *protoReader) one(op *protoOp, typ protowire.Type, v []byte, row int) bool {
	if !r.take(op.cost) {
		return false
	}
	at := int(op.col.offs[row+1])
	op.col.elem.ensure(at + 1)
	op.value.absent(at)
	if !r.value(op.value, typ, v, at) {
		return false
	}
	op.col.offs[row+1] = int32(at + 1)
	return true
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	}
	return protowire.VarintType
}

func (r *protoReader) wrongType(op *protoOp, typ protowire.Type) bool {
	return r.fail(ReasonIncompatibleSchema, "it was written as wire type %d, and a %s is of type %d", typ, op.kind, wireType(op.kind))
}

// value writes a value, whose bytes are whole, into row.
func (r *protoReader) value(op *protoOp, typ protowire.Type, v []byte, row int) bool {
	if typ != wireType(op.kind) {
		return r.wrongType(op, typ)
	}
	c := op.col
	switch typ {
	case protowire.BytesType:
		b, _ := protowire.ConsumeBytes(v)
		return r.bytes(op, b, row)
	case protowire.Fixed32Type:
		bits := binary.LittleEndian.Uint32(v)
		if op.kind == protoreflect.Fixed32Kind {
			c.set8(row, uint64(bits))
		} else {
			c.set4(row, bits)
		}
		return true
	case protowire.Fixed64Type:
		bits := binary.LittleEndian.Uint64(v)
		if op.kind == protoreflect.Fixed64Kind {
			c.set16(row, bits, 0)
		} else {
			c.set8(row, bits)
		}
		return true
	}
	n, _ := protowire.ConsumeVarint(v)
	switch op.kind {
	case protoreflect.BoolKind:
		c.setBool(row, n != 0)
	case protoreflect.Int32Kind:
		c.set4(row, uint32(n))
	case protoreflect.Sint32Kind:
		c.set4(row, uint32(protowire.DecodeZigZag(n&math.MaxUint32)))
	case protoreflect.Uint32Kind:
		c.set8(row, n&math.MaxUint32)
	case protoreflect.Int64Kind:
		c.set8(row, n)
	case protoreflect.Sint64Kind:
		c.set8(row, uint64(protowire.DecodeZigZag(n)))
	case protoreflect.Uint64Kind:
		c.set16(row, n, 0)
	case protoreflect.EnumKind:
		s := symbolOf(op.symbols, int32(n))
		c.setBytes(row, s)
		return r.take(len(s))
	}
	return true
}

func (r *protoReader) bytes(op *protoOp, b []byte, row int) bool {
	switch {
	case op.stamp:
		return r.stamp(op, b, row)
	case op.wrapper:
		return r.wrapped(op, b, row)
	case op.msg != nil:
		op.col.markValid(row)
		return r.message(op.msg, b, row)
	case op.kind == protoreflect.StringKind && !utf8.Valid(b):
		return r.fail(ReasonInvalidUTF8, "byte %d of the text is no UTF-8", invalidUTF8(b))
	}
	op.col.setBytes(row, b)
	return true
}

// wrapped reads a message of one field that stands for its value.
func (r *protoReader) wrapped(op *protoOp, b []byte, row int) bool {
	in := op.value
	in.absent(row)
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return r.fail(ReasonInvalidProtobuf, "the message is cut off or broken")
		}
		_, _, tag := protowire.ConsumeTag(b)
		if num == 1 && !r.value(in, typ, b[tag:n], row) {
			return false
		}
		b = b[n:]
	}
	return true
}

// stamp reads a google.protobuf.Timestamp.
func (r *protoReader) stamp(op *protoOp, b []byte, row int) bool {
	var part [3]uint64 // at 1 seconds, at 2 nanoseconds
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			return r.fail(ReasonInvalidProtobuf, "the timestamp is cut off or broken")
		}
		if _, _, tag := protowire.ConsumeTag(b); typ == protowire.VarintType && (num == 1 || num == 2) {
			part[num], _ = protowire.ConsumeVarint(b[tag:])
		}
		b = b[n:]
	}
	sec, nanos := int64(part[1]), int64(int32(part[2]))
	if sec < math.MinInt64/(2*microsPerSecond) || sec > math.MaxInt64/(2*microsPerSecond) || nanos < 0 || nanos > 999_999_999 {
		return r.fail(ReasonOutOfRange, "%d seconds and %d nanoseconds are no time in the years 1 to 9999", sec, nanos)
	}
	us := sec*microsPerSecond + nanos/1000
	if us < op.col.lo || us >= op.col.hi {
		return r.fail(ReasonOutOfRange, "%d seconds since 1970: expected a time in the years 1 to 9999", sec)
	}
	op.col.set8(row, uint64(us))
	return true
}
