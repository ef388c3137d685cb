package operators

import (
	"encoding/binary"
	"fmt"
	"math"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/zeebo/xxh3"
)

// The canonical key of a row is the concatenation of its key columns' values.
// The bytes are a format: they are part of the state of every keyed operator
// (docs/state-format.md), and their hash decides the key group of a row.
//
//	value     = 0x00 (null) | 0x01 bytes
//	bool      1 byte, 0 or 1
//	int32     4 bytes, big endian, sign bit flipped; date the same (days)
//	int64     8 bytes, big endian, sign bit flipped; time, timestamp and
//	          timestamptz the same (microseconds)
//	float32   4 bytes, float64 8 bytes: the IEEE bits, big endian, all bits
//	          flipped if the sign is set, otherwise the sign bit flipped; -0 is
//	          written as 0 and every NaN as the one quiet NaN
//	decimal   16 bytes, two's complement of the unscaled value, big endian,
//	          sign bit flipped; the scale is the column type's
//	uuid      16 bytes
//	string    uvarint of the length in bytes, then the bytes; binary the same
//
// Every value tells its own end, so that the bytes of a row are injective for a
// given list of types. Null is a value, equal to null. Fixed-width values and
// nulls compare as bytes in their natural order, nulls first.

// keyHashSeed is the fixed seed of keyHash. It is part of the state's format:
// another seed would put keys into other groups.
const keyHashSeed uint64 = 0x66726178696c6b31

// keyHash is the hash of a canonical key. Its top 8 bits are the key group.
func keyHash(key []byte) uint64 { return xxh3.HashSeed(key, keyHashSeed) }

type keyKind uint8

const (
	keyBool keyKind = iota
	keyInt32
	keyInt64
	keyFloat32
	keyFloat64
	keyDecimal
	keyUUID
	keyString
	keyBinary
)

const (
	keyNull  = 0
	keyValue = 1
)

// keyKindOf says how values of t are written, or why they cannot be a key.
func keyKindOf(f arrow.Field) (keyKind, error) {
	switch f.Type.ID() {
	case arrow.BOOL:
		return keyBool, nil
	case arrow.INT32, arrow.DATE32:
		return keyInt32, nil
	case arrow.INT64, arrow.TIME64, arrow.TIMESTAMP:
		return keyInt64, nil
	case arrow.FLOAT32:
		return keyFloat32, nil
	case arrow.FLOAT64:
		return keyFloat64, nil
	case arrow.DECIMAL128:
		return keyDecimal, nil
	case arrow.STRING:
		return keyString, nil
	case arrow.BINARY:
		return keyBinary, nil
	case arrow.EXTENSION:
		if arrow.TypeEqual(f.Type, dataflow.TypeUUID) {
			return keyUUID, nil
		}
		if arrow.TypeEqual(f.Type, dataflow.TypeJSON) {
			return 0, fmt.Errorf("column %q is json, which cannot be a key: equal documents may be written differently; take a field out of it first, as (%s->>'id')", f.Name, f.Name)
		}
	}
	return 0, fmt.Errorf("column %q of type %s cannot be a key: expected a bool, number, string, binary, date, time, timestamp or uuid", f.Name, dataflow.TypeName(f.Type))
}

// keyEncoder writes canonical keys of rows. One goroutine uses it.
type keyEncoder struct{ cols []keyColumn }

// keyColumn is one key column of the bound batch; only the field of its kind is
// set.
type keyColumn struct {
	kind   keyKind
	index  int
	nulls  []byte // validity bitmap, nil when the column has no nulls
	offset int    // of the column in its bitmap
	i32    []int32
	i64    []int64
	f32    []float32
	f64    []float64
	dec    []decimal128.Num
	bools  *array.Boolean
	fixed  *array.FixedSizeBinary
	str    *array.String
	bin    *array.Binary
}

// newKeyEncoder makes an encoder of the named columns, in their order. Its
// error says which column cannot be a key and why.
func newKeyEncoder(schema *arrow.Schema, columns []int) (*keyEncoder, error) {
	e := &keyEncoder{cols: make([]keyColumn, len(columns))}
	for i, c := range columns {
		kind, err := keyKindOf(schema.Field(c))
		if err != nil {
			return nil, err
		}
		e.cols[i] = keyColumn{kind: kind, index: c}
	}
	return e, nil
}

// bind makes b the batch whose rows append reads. It borrows b until the next
// bind; b has the schema the encoder was made for.
func (e *keyEncoder) bind(b arrow.RecordBatch) {
	for i := range e.cols {
		e.cols[i].bind(b.Column(e.cols[i].index))
	}
}

func (c *keyColumn) bind(a arrow.Array) {
	if x, ok := a.(array.ExtensionArray); ok {
		a = x.Storage()
	}
	c.nulls, c.offset = nil, a.Data().Offset()
	if a.NullN() > 0 {
		c.nulls = a.NullBitmapBytes()
	}
	switch a := a.(type) {
	case *array.Boolean:
		c.bools = a
	case *array.Int32:
		c.i32 = a.Int32Values()
	case *array.Date32:
		c.i32 = arrow.Int32Traits.CastFromBytes(arrow.Date32Traits.CastToBytes(a.Date32Values()))
	case *array.Int64:
		c.i64 = a.Int64Values()
	case *array.Time64:
		c.i64 = arrow.Int64Traits.CastFromBytes(arrow.Time64Traits.CastToBytes(a.Time64Values()))
	case *array.Timestamp:
		c.i64 = arrow.Int64Traits.CastFromBytes(arrow.TimestampTraits.CastToBytes(a.TimestampValues()))
	case *array.Float32:
		c.f32 = a.Float32Values()
	case *array.Float64:
		c.f64 = a.Float64Values()
	case *array.Decimal128:
		c.dec = a.Values()
	case *array.FixedSizeBinary:
		c.fixed = a
	case *array.String:
		c.str = a
	case *array.Binary:
		c.bin = a
	default:
		panic(fmt.Sprintf("key column %d has type %s, not the planned one", c.index, a.DataType()))
	}
}

// int64s returns the values of a key that is one int64-like column without
// nulls in the bound batch, so that a caller can group by them directly.
func (e *keyEncoder) int64s() ([]int64, bool) {
	if len(e.cols) != 1 || e.cols[0].kind != keyInt64 || e.cols[0].nulls != nil {
		return nil, false
	}
	return e.cols[0].i64, true
}

// append adds the key of a row of the bound batch to dst.
func (e *keyEncoder) append(dst []byte, row int) []byte {
	for i := range e.cols {
		dst = e.cols[i].append(dst, row)
	}
	return dst
}

func (c *keyColumn) append(dst []byte, row int) []byte {
	if c.nulls != nil && !bitutil.BitIsSet(c.nulls, c.offset+row) {
		return append(dst, keyNull)
	}
	switch c.kind {
	case keyString:
		return appendKeyString(dst, c.str.Value(row))
	case keyInt64:
		return appendKeyInt64(dst, c.i64[row])
	case keyInt32:
		dst = append(dst, keyValue)
		return binary.BigEndian.AppendUint32(dst, uint32(c.i32[row])^1<<31)
	case keyBool:
		if c.bools.Value(row) {
			return append(dst, keyValue, 1)
		}
		return append(dst, keyValue, 0)
	case keyFloat32:
		dst = append(dst, keyValue)
		return binary.BigEndian.AppendUint32(dst, keyFloat32Bits(c.f32[row]))
	case keyFloat64:
		dst = append(dst, keyValue)
		return binary.BigEndian.AppendUint64(dst, keyFloat64Bits(c.f64[row]))
	case keyDecimal:
		dst = append(dst, keyValue)
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.dec[row].HighBits())^1<<63)
		return binary.BigEndian.AppendUint64(dst, c.dec[row].LowBits())
	case keyUUID:
		dst = append(dst, keyValue)
		return append(dst, c.fixed.Value(row)...)
	default:
		v := c.bin.Value(row)
		dst = append(dst, keyValue)
		dst = binary.AppendUvarint(dst, uint64(len(v)))
		return append(dst, v...)
	}
}

func appendKeyInt64(dst []byte, v int64) []byte {
	dst = append(dst, keyValue)
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
}

func appendKeyString(dst []byte, v string) []byte {
	if len(v) < 0x80 {
		dst = append(dst, keyValue, byte(len(v)))
		return append(dst, v...)
	}
	dst = append(dst, keyValue)
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// keyFloat64Bits maps equal floats to equal bits, in the order of the numbers,
// NaN above all.
func keyFloat64Bits(f float64) uint64 {
	switch {
	case f == 0:
		return 1 << 63
	case f != f:
		return 0x7ff8000000000000 | 1<<63
	}
	b := math.Float64bits(f)
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

// keyFloat64From is the inverse of keyFloat64Bits.
func keyFloat64From(b uint64) float64 {
	if b>>63 != 0 {
		return math.Float64frombits(b &^ (1 << 63))
	}
	return math.Float64frombits(^b)
}

func keyFloat32Bits(f float32) uint32 {
	switch {
	case f == 0:
		return 1 << 31
	case f != f:
		return 0x7fc00000 | 1<<31
	}
	b := math.Float32bits(f)
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

func keyFloat32From(b uint32) float32 {
	if b>>31 != 0 {
		return math.Float32frombits(b &^ (1 << 31))
	}
	return math.Float32frombits(^b)
}
