package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// A row as bytes, for steps that keep whole rows apart from each other. The bytes
// are a format (docs/state-format.md): per column
//
//	value     = 0x00 (null) | 0x01 bytes
//	fixed     the bytes of Arrow's array, little endian (a bool 1 byte)
//	string    uvarint of the length, bytes; binary and json the same
//	list      uvarint of the length, values
//	struct    the values of its fields

// rowEncoder writes rows of the bound batch.
type rowEncoder struct{ cols []rowColumn }

// rowColumn is one array; what its type needs is set.
type rowColumn struct {
	valid  []byte // nil without nulls
	offset int
	width  int
	fixed  []byte
	ends   []int32
	data   []byte
	slow   arrow.Array // everything else
}

// bind makes the first n columns of b those that append reads. It borrows b.
func (e *rowEncoder) bind(b arrow.RecordBatch, n int) {
	e.cols = e.cols[:0]
	for _, a := range b.Columns()[:n] {
		e.cols = append(e.cols, newRowColumn(a))
	}
}

func newRowColumn(a arrow.Array) rowColumn {
	if x, ok := a.(array.ExtensionArray); ok {
		a = x.Storage()
	}
	d := a.Data()
	c := rowColumn{offset: d.Offset()}
	if a.NullN() > 0 {
		c.valid = a.NullBitmapBytes()
	}
	switch t := a.DataType().(type) {
	case *arrow.BooleanType:
		c.slow = a
	case *arrow.StringType, *arrow.BinaryType:
		c.ends = arrow.Int32Traits.CastFromBytes(d.Buffers()[1].Bytes())[d.Offset():]
		if data := d.Buffers()[2]; data != nil {
			c.data = data.Bytes()
		}
	case arrow.FixedWidthDataType:
		c.width = t.Bytes()
		if d.Len() > 0 {
			c.fixed = d.Buffers()[1].Bytes()[d.Offset()*c.width:]
		}
	default:
		c.slow = a
	}
	return c
}

// append adds a row to dst.
func (e *rowEncoder) append(dst []byte, row int) []byte {
	for i := range e.cols {
		dst = e.cols[i].append(dst, row)
	}
	return dst
}

func (c *rowColumn) append(dst []byte, row int) []byte {
	if c.valid != nil && !bitutil.BitIsSet(c.valid, c.offset+row) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	switch {
	case c.width == 8:
		return append(dst, c.fixed[8*row:8*row+8]...)
	case c.width > 0:
		return append(dst, c.fixed[c.width*row:c.width*(row+1)]...)
	case c.ends != nil:
		v := c.data[c.ends[row]:c.ends[row+1]]
		return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	}
	return c.appendSlow(dst, row)
}

func (c *rowColumn) appendSlow(dst []byte, row int) []byte {
	switch a := c.slow.(type) {
	case *array.Boolean:
		if a.Value(row) {
			return append(dst, 1)
		}
		return append(dst, 0)
	case *array.List:
		lo, hi := a.ValueOffsets(row)
		dst = binary.AppendUvarint(dst, uint64(hi-lo))
		v := newRowColumn(a.ListValues())
		for i := lo; i < hi; i++ {
			dst = v.append(dst, int(i))
		}
		return dst
	case *array.Struct:
		for f := range a.NumField() {
			v := newRowColumn(a.Field(f))
			dst = v.append(dst, row)
		}
		return dst
	}
	panic(fmt.Sprintf("rows with a column of %s cannot be kept", c.slow.DataType()))
}

var errRowShort = errors.New("row ends early")

// decodeRow appends a row to builders of its columns.
func decodeRow(row []byte, cols []array.Builder) error {
	for _, b := range cols {
		var err error
		if row, err = decodeValue(row, b); err != nil {
			return err
		}
	}
	if len(row) > 0 {
		return fmt.Errorf("%d bytes behind a row", len(row))
	}
	return nil
}

// decodeValue appends one value and returns what follows it.
func decodeValue(v []byte, b array.Builder) ([]byte, error) {
	if len(v) == 0 {
		return nil, errRowShort
	}
	tag := v[0]
	v = v[1:]
	if tag == 0 {
		b.AppendNull()
		return v, nil
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		s, rest, err := cutSized(v)
		b.BinaryBuilder.Append(s)
		return rest, err
	case *array.BinaryBuilder:
		s, rest, err := cutSized(v)
		b.Append(s)
		return rest, err
	case *array.ListBuilder:
		n, w := binary.Uvarint(v)
		if w <= 0 {
			return nil, errRowShort
		}
		v = v[w:]
		b.Append(true)
		for range n {
			var err error
			if v, err = decodeValue(v, b.ValueBuilder()); err != nil {
				return nil, err
			}
		}
		return v, nil
	case *array.StructBuilder:
		b.Append(true)
		for f := range b.NumField() {
			var err error
			if v, err = decodeValue(v, b.FieldBuilder(f)); err != nil {
				return nil, err
			}
		}
		return v, nil
	case *array.ExtensionBuilder:
		return decodeValue(append([]byte{tag}, v...), b.Builder)
	case *extensions.UUIDBuilder:
		if len(v) < 16 {
			return nil, errRowShort
		}
		b.AppendBytes([16]byte(v))
		return v[16:], nil
	case *array.BooleanBuilder:
		if len(v) < 1 {
			return nil, errRowShort
		}
		b.Append(v[0] != 0)
		return v[1:], nil
	}
	return decodeFixed(v, b)
}

func decodeFixed(v []byte, b array.Builder) ([]byte, error) {
	t, ok := b.Type().(arrow.FixedWidthDataType)
	if !ok {
		return nil, fmt.Errorf("rows with a column of %s cannot be kept", b.Type())
	}
	n := t.Bytes()
	if len(v) < n {
		return nil, errRowShort
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		b.Append(int64(binary.LittleEndian.Uint64(v)))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(binary.LittleEndian.Uint64(v)))
	case *array.Time64Builder:
		b.Append(arrow.Time64(binary.LittleEndian.Uint64(v)))
	case *array.Int32Builder:
		b.Append(int32(binary.LittleEndian.Uint32(v)))
	case *array.Date32Builder:
		b.Append(arrow.Date32(binary.LittleEndian.Uint32(v)))
	case *array.Float64Builder:
		b.Append(arrow.Float64Traits.CastFromBytes(aligned(v[:8]))[0])
	case *array.Float32Builder:
		b.Append(arrow.Float32Traits.CastFromBytes(aligned(v[:4]))[0])
	case *array.Decimal128Builder:
		b.Append(arrow.Decimal128Traits.CastFromBytes(aligned(v[:16]))[0])
	case *array.FixedSizeBinaryBuilder:
		b.Append(v[:n])
	case *array.MonthDayNanoIntervalBuilder:
		b.Append(arrow.MonthDayNanoIntervalTraits.CastFromBytes(aligned(v[:16]))[0])
	default:
		return nil, fmt.Errorf("rows with a column of %s cannot be kept", b.Type())
	}
	return v[n:], nil
}

// aligned copies at most 16 bytes to where they can be read as a number.
func aligned(v []byte) []byte {
	var a [2]uint64
	return arrow.Uint64Traits.CastToBytes(a[:])[:copy(arrow.Uint64Traits.CastToBytes(a[:]), v)]
}

// cutSized splits v behind bytes with a uvarint of their length before them.
func cutSized(v []byte) (value, rest []byte, err error) {
	n, w := binary.Uvarint(v)
	if w <= 0 || n > uint64(len(v)-w) {
		return nil, nil, errRowShort
	}
	return v[w : w+int(n)], v[w+int(n):], nil
}
