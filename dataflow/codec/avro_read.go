package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// avroReader reads one payload. Errors are told by bad, so that nothing is allocated
// where all is well.
type avroReader struct {
	b []byte
	i int
	// room is what the payload may still take in memory: few bytes of arrays and enums
	// can become many.
	room int
	// depth of records that are skipped: they may hold themselves.
	depth int
	bad   *dataflow.Bad
	path  []string // of the failure, innermost first
}

// roomOf is what a payload of n bytes may take in memory.
func roomOf(n int) int { return 16<<20 + 16*n }

// maxSkipDepth bounds how deep records nest that are skipped.
const maxSkipDepth = 256

// read runs a whole payload into row.
func (r *avroReader) read(op *avroOp, b []byte, row int) *dataflow.Bad {
	r.b, r.i, r.room, r.depth, r.bad, r.path = b, 0, roomOf(len(b)), 0, nil, r.path[:0]
	if r.run(op, row) && r.i != len(b) {
		r.fail(ReasonInvalidAvro, "%d bytes behind the end of the record", len(b)-r.i)
	}
	r.b = nil
	if r.bad != nil && len(r.path) > 0 {
		for i, j := 0, len(r.path)-1; i < j; i, j = i+1, j-1 {
			r.path[i], r.path[j] = r.path[j], r.path[i]
		}
		r.bad.Detail = fmt.Sprintf("field %q: %s", strings.Join(r.path, "."), r.bad.Detail)
	}
	return r.bad
}

func (r *avroReader) fail(reason, format string, args ...any) bool {
	if r.bad == nil {
		r.bad = &dataflow.Bad{Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	return false
}

func (r *avroReader) short() bool {
	return r.fail(ReasonInvalidAvro, "the payload ends at byte %d, inside a value", len(r.b))
}

// run reads the value of op into row of its column.
func (r *avroReader) run(op *avroOp, row int) bool {
	if op.refuse != "" {
		return r.fail(ReasonIncompatibleSchema, "%s", op.refuse)
	}
	if op.kind == avRecord {
		return r.record(op, row)
	}
	if op.kind == avUnion {
		at, ok := r.long()
		if !ok {
			return false
		}
		if uint64(at) >= uint64(len(op.subs)) {
			return r.fail(ReasonInvalidAvro, "branch %d of a union of %d", at, len(op.subs))
		}
		return r.run(op.subs[at], row)
	}
	if op.col == nil {
		return r.skip(op)
	}
	switch op.kind {
	case avNull:
		op.col.setNull(row)
		return true
	case avBoolean:
		if r.i >= len(r.b) {
			return r.short()
		}
		v := r.b[r.i]
		if v > 1 {
			return r.fail(ReasonInvalidAvro, "0x%02x is no boolean", v)
		}
		r.i++
		op.col.setBool(row, v == 1)
		return true
	case avInt, avLong:
		v, ok := r.long()
		if !ok {
			return false
		}
		if op.kind == avInt && int64(int32(v)) != v {
			return r.fail(ReasonInvalidAvro, "%d does not fit an int", v)
		}
		return r.number(op, row, v)
	case avFloat, avDouble:
		return r.float(op, row)
	case avArray, avMap:
		return r.list(op, row)
	case avEnum:
		at, ok := r.long()
		if !ok {
			return false
		}
		if uint64(at) >= uint64(len(op.symbols)) {
			return r.fail(ReasonInvalidAvro, "symbol %d of an enum of %d", at, len(op.symbols))
		}
		s := op.symbols[at]
		if s == nil {
			return r.fail(ReasonIncompatibleSchema, "symbol %d of the writer's enum is none of the step's schema", at)
		}
		op.col.setBytes(row, s)
		return r.take(len(s))
	}
	n := int64(op.size)
	if op.kind != avFixed {
		var ok bool
		if n, ok = r.long(); !ok {
			return false
		}
	}
	if n < 0 || n > int64(len(r.b)-r.i) {
		return r.short()
	}
	v := r.b[r.i : r.i+int(n)]
	r.i += int(n)
	return r.bytes(op, row, v)
}

// take counts what a value takes beside the payload.
func (r *avroReader) take(n int) bool {
	if r.room -= n; r.room < 0 {
		return r.fail(ReasonTooLarge, "the record takes more than %d bytes in memory", roomOf(len(r.b)))
	}
	return true
}

func (r *avroReader) record(op *avroOp, row int) bool {
	if op.col != nil {
		op.col.markValid(row)
	} else if r.depth++; r.depth > maxSkipDepth {
		return r.fail(ReasonTooDeep, "records nest deeper than %d", maxSkipDepth)
	}
	for _, sub := range op.subs {
		if !r.run(sub, row) {
			if sub.name != "" {
				r.path = append(r.path, sub.name)
			}
			return false
		}
	}
	for i := range op.rest {
		d := &op.rest[i]
		if d.op == nil {
			d.col.setNull(row)
			continue
		}
		b, at := r.b, r.i
		r.b, r.i = d.bytes, 0
		ok := r.run(d.op, row) && r.take(len(d.bytes))
		r.b, r.i = b, at
		if !ok {
			return false
		}
	}
	if op.col == nil {
		r.depth--
	}
	return true
}

// long reads a number of variable length with its sign in the lowest bit.
func (r *avroReader) long() (int64, bool) {
	if r.i < len(r.b) && r.b[r.i] < 0x80 {
		v := r.b[r.i]
		r.i++
		return int64(v>>1) ^ -int64(v&1), true
	}
	v, n := binary.Varint(r.b[r.i:])
	if n <= 0 {
		if n == 0 {
			return 0, r.short()
		}
		return 0, r.fail(ReasonInvalidAvro, "a number of more than 64 bits at byte %d", r.i)
	}
	r.i += n
	return v, true
}

// number writes an integer as what its column is.
func (r *avroReader) number(op *avroOp, row int, v int64) bool {
	c := op.col
	switch c.kind {
	case kInt32:
		c.set4(row, uint32(int32(v)))
	case kInt64:
		c.set8(row, uint64(v))
	case kFloat32:
		c.set4(row, math.Float32bits(float32(v)))
	case kFloat64:
		c.set8(row, math.Float64bits(float64(v)))
	case kDate:
		if v < minDate || v > maxDate {
			return r.fail(ReasonOutOfRange, "day %d since 1970: expected a date in the years 1 to 9999", v)
		}
		c.set4(row, uint32(int32(v)))
	case kTime:
		us, ok := microsOf(v, op.digits)
		if !ok || us < 0 || us >= secondsPerDay*microsPerSecond {
			return r.fail(ReasonOutOfRange, "%d is no time of a day", v)
		}
		c.set8(row, uint64(us))
	default:
		us, ok := microsOf(v, op.digits)
		if !ok || us < c.lo || us >= c.hi {
			return r.fail(ReasonOutOfRange, "%d (of 10^-%d s since 1970): expected a time in the years 1 to 9999", v, op.digits)
		}
		c.set8(row, uint64(us))
	}
	return true
}

// microsOf is a number with so many digits below the second in microseconds; what is
// finer is cut off.
func microsOf(v int64, digits int) (int64, bool) {
	switch digits {
	case 3:
		hi, lo := bits.Mul64(uint64(max(v, -v)), 1000)
		return v * 1000, hi == 0 && lo < 1<<63
	case 9:
		us := v / 1000
		if v%1000 < 0 {
			us--
		}
		return us, true
	}
	return v, true
}

func (r *avroReader) float(op *avroOp, row int) bool {
	n := 8
	if op.kind == avFloat {
		n = 4
	}
	if len(r.b)-r.i < n {
		return r.short()
	}
	b := r.b[r.i:]
	r.i += n
	switch {
	case n == 8:
		op.col.set8(row, binary.LittleEndian.Uint64(b))
	case op.col.kind == kFloat32:
		op.col.set4(row, binary.LittleEndian.Uint32(b))
	default:
		op.col.set8(row, math.Float64bits(float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))))
	}
	return true
}

// bytes writes bytes as what its column is.
func (r *avroReader) bytes(op *avroOp, row int, v []byte) bool {
	c := op.col
	switch c.kind {
	case kString:
		if !utf8.Valid(v) {
			return r.fail(ReasonInvalidUTF8, "byte %d of the text is no UTF-8", invalidUTF8(v))
		}
		c.setBytes(row, v)
	case kBinary:
		c.setBytes(row, v)
	case kUUID:
		id, ok := [16]byte{}, op.kind == avFixed
		if ok {
			copy(id[:], v)
		} else if id, ok = parseUUID(v); !ok {
			return r.fail(ReasonMistyped, "expected a UUID, got %s", excerpt(v))
		}
		c.set16(row, binary.LittleEndian.Uint64(id[:]), binary.LittleEndian.Uint64(id[8:]))
	case kDecimal:
		lo, hi, ok := bigEndian(v)
		if !ok || !fitsDigits(lo, hi, c.prec) {
			return r.fail(ReasonOutOfRange, "a number of %d bytes: expected at most %d digits", len(v), c.prec)
		}
		c.set16(row, lo, hi)
	}
	return true
}

// list reads the blocks of an array or a map.
func (r *avroReader) list(op *avroOp, row int) bool {
	c := op.col
	c.markValid(row)
	at := int(c.offs[row])
	for {
		n, ok := r.block()
		if !ok {
			return false
		}
		if n == 0 {
			c.offs[row+1] = int32(at)
			return true
		}
		for ; n > 0; n-- {
			if !r.take(op.cost) {
				return false
			}
			c.elem.ensure(at + 1)
			if op.key != nil && !r.key(op, at) {
				return false
			}
			if !r.run(op.elem, at) {
				return false
			}
			at++
		}
	}
}

// block reads how many items follow; of a negative count the size in bytes follows.
func (r *avroReader) block() (int64, bool) {
	n, ok := r.long()
	if ok && n < 0 {
		if n == math.MinInt64 {
			return 0, r.fail(ReasonInvalidAvro, "a block of %d items", n)
		}
		n = -n
		_, ok = r.long()
	}
	return n, ok
}

// key reads the key of a map's entry.
func (r *avroReader) key(op *avroOp, at int) bool {
	op.col.elem.markValid(at)
	n, ok := r.long()
	if !ok {
		return false
	}
	if n < 0 || n > int64(len(r.b)-r.i) {
		return r.short()
	}
	v := r.b[r.i : r.i+int(n)]
	r.i += int(n)
	if !utf8.Valid(v) {
		return r.fail(ReasonInvalidUTF8, "a key of a map is no UTF-8")
	}
	op.key.setBytes(at, v)
	return true
}

// skip reads a value that no column gets.
func (r *avroReader) skip(op *avroOp) bool {
	n := int64(0)
	switch op.kind {
	case avNull:
	case avBoolean:
		n = 1
	case avFloat:
		n = 4
	case avDouble:
		n = 8
	case avFixed:
		n = int64(op.size)
	case avInt, avLong, avEnum:
		_, ok := r.long()
		return ok
	case avBytes, avString:
		var ok bool
		if n, ok = r.long(); !ok {
			return false
		}
	default:
		return r.skipList(op)
	}
	if n < 0 || n > int64(len(r.b)-r.i) {
		return r.short()
	}
	r.i += int(n)
	return true
}

func (r *avroReader) skipList(op *avroOp) bool {
	text := avroOp{kind: avString}
	for {
		n, ok := r.block()
		if !ok || n == 0 {
			return ok
		}
		for ; n > 0; n-- {
			if !r.take(op.cost) || op.kind == avMap && !r.skip(&text) || !r.run(op.elem, 0) {
				return false
			}
		}
	}
}

// bigEndian reads a number in two's complement into 128 bits.
func bigEndian(v []byte) (lo, hi uint64, ok bool) {
	sign := byte(0)
	if len(v) > 0 && v[0] >= 0x80 {
		sign = 0xff
	}
	for len(v) > 16 {
		if v[0] != sign || v[1]&0x80 != sign&0x80 {
			return 0, 0, false
		}
		v = v[1:]
	}
	if sign != 0 {
		lo, hi = math.MaxUint64, math.MaxUint64
	}
	for _, b := range v {
		hi = hi<<8 | lo>>56
		lo = lo<<8 | uint64(b)
	}
	return lo, hi, true
}

// fitsDigits says whether a number of 128 bits has at most prec digits.
func fitsDigits(lo, hi uint64, prec int32) bool {
	return (hi != 1<<63 || lo != 0) && decimal128.New(int64(hi), lo).FitsInPrecision(prec)
}
