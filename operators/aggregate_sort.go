package operators

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// Sortable values are bytes that compare as the values do and tell their own
// end. The bytes are a format (docs/state-format.md):
//
//	bool      1 byte, 0 or 1
//	int32     4 bytes, big endian, sign bit flipped; date the same
//	int64     8 bytes, big endian, sign bit flipped; time and timestamps the same
//	float32   4 bytes, float64 8 bytes, as in keys: -0 is 0, NaN above all
//	decimal   16 bytes, as in keys
//	uuid      16 bytes
//	string    the bytes, 0x00 written as 0x00 0xff, then 0x00 0x01; binary and
//	          json the same
//
// They hold no nulls; a term of an order by has a byte in front for those.

// sortKindOf says how values of t are written; keyString stands for json.
func sortKindOf(t arrow.DataType) (keyKind, error) {
	if arrow.TypeEqual(t, dataflow.TypeJSON) {
		return keyString, nil
	}
	return keyKindOf(arrow.Field{Type: t})
}

// sortColumn reads the values of one array.
type sortColumn struct{ keyColumn }

// bind makes a the array that append and isNull read. It borrows a.
func (c *sortColumn) bind(a arrow.Array) {
	kind, err := sortKindOf(a.DataType())
	if err != nil {
		panic(fmt.Sprintf("%v: not the planned type", err))
	}
	c.kind = kind
	c.keyColumn.bind(a)
}

func (c *sortColumn) isNull(row int) bool {
	return c.nulls != nil && !bitutil.BitIsSet(c.nulls, c.offset+row)
}

// appendValue adds the value of a row that is not null to dst.
func (c *sortColumn) appendValue(dst []byte, row int) []byte {
	switch c.kind {
	case keyString:
		return appendSortText(dst, []byte(c.str.Value(row)))
	case keyBinary:
		return appendSortText(dst, c.bin.Value(row))
	case keyBool:
		if c.bools.Value(row) {
			return append(dst, 1)
		}
		return append(dst, 0)
	case keyInt32:
		return binary.BigEndian.AppendUint32(dst, uint32(c.i32[row])^1<<31)
	case keyInt64:
		return binary.BigEndian.AppendUint64(dst, uint64(c.i64[row])^1<<63)
	case keyFloat32:
		return binary.BigEndian.AppendUint32(dst, keyFloat32Bits(c.f32[row]))
	case keyFloat64:
		return binary.BigEndian.AppendUint64(dst, keyFloat64Bits(c.f64[row]))
	case keyDecimal:
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.dec[row].HighBits())^1<<63)
		return binary.BigEndian.AppendUint64(dst, c.dec[row].LowBits())
	}
	return append(dst, c.fixed.Value(row)...)
}

func appendSortText(dst, v []byte) []byte {
	for {
		i := bytes.IndexByte(v, 0)
		if i < 0 {
			break
		}
		dst = append(append(dst, v[:i+1]...), 0xff)
		v = v[i+1:]
	}
	return append(append(dst, v...), 0, 1)
}

var errSortShort = errors.New("sortable value ends early")

// sortDecoder puts sortable values back into columns.
type sortDecoder struct {
	kind keyKind
	buf  []byte
}

// next splits v behind its first value.
func (d *sortDecoder) next(v []byte) (value, rest []byte, err error) {
	n := keyWidths[d.kind]
	if d.kind == keyString || d.kind == keyBinary {
		for n = 0; ; n += 2 {
			i := bytes.IndexByte(v[min(n, len(v)):], 0)
			if i < 0 || n+i+1 >= len(v) {
				return nil, nil, errSortShort
			}
			n += i
			if v[n+1] == 1 {
				n += 2
				break
			}
		}
	}
	if len(v) < n {
		return nil, nil, errSortShort
	}
	return v[:n], v[n:], nil
}

// append adds one value to b.
func (d *sortDecoder) append(v []byte, b array.Builder) error {
	if d.kind == keyString || d.kind == keyBinary {
		text := d.text(v)
		switch b := b.(type) {
		case *array.StringBuilder:
			b.BinaryBuilder.Append(text)
		case *array.BinaryBuilder:
			b.Append(text)
		case *array.ExtensionBuilder:
			b.StorageBuilder().(*array.StringBuilder).BinaryBuilder.Append(text)
		default:
			return fmt.Errorf("no decoder of sortable texts for %T", b)
		}
		return nil
	}
	_, err := appendKeyValue(d.kind, v, b)
	return err
}

// text takes the escapes out; the result is valid until the next call.
func (d *sortDecoder) text(v []byte) []byte {
	v = v[:len(v)-2]
	i := bytes.IndexByte(v, 0)
	if i < 0 {
		return v
	}
	d.buf = d.buf[:0]
	for ; i >= 0; i = bytes.IndexByte(v, 0) {
		d.buf = append(d.buf, v[:i+1]...)
		v = v[i+2:]
	}
	d.buf = append(d.buf, v...)
	return d.buf
}

// sortTerm is one term of an order by: a byte for null or not, then the value,
// all its bits flipped in descending order.
type sortTerm struct {
	col              sortColumn
	desc, nullsFirst bool
}

// append adds the term's bytes for a row to dst.
func (t *sortTerm) append(dst []byte, row int) []byte {
	if t.col.isNull(row) {
		if t.nullsFirst {
			return append(dst, 0)
		}
		return append(dst, 2)
	}
	dst = append(dst, 1)
	n := len(dst)
	dst = t.col.appendValue(dst, row)
	if t.desc {
		for i := range dst[n:] {
			dst[n+i] ^= 0xff
		}
	}
	return dst
}
