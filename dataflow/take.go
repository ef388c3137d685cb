package dataflow

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TakeBatch returns the given rows of b, in that order, as a new batch that the
// caller owns. It borrows b. rows must be within b.
func TakeBatch(alloc memory.Allocator, b arrow.RecordBatch, rows []int32) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, b.NumCols())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, c := range b.Columns() {
		t, err := TakeArray(alloc, c, rows)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", b.ColumnName(i), err)
		}
		cols[i] = t
	}
	return array.NewRecordBatch(b.Schema(), cols, int64(len(rows))), nil
}

// TakeArray returns the given values of a as a new array that the caller owns.
func TakeArray(alloc memory.Allocator, a arrow.Array, rows []int32) (arrow.Array, error) {
	d, err := takeData(alloc, a.Data(), rows)
	if err != nil {
		return nil, err
	}
	defer d.Release()
	return array.MakeFromData(d), nil
}

func takeData(alloc memory.Allocator, d arrow.ArrayData, rows []int32) (arrow.ArrayData, error) {
	if alloc == nil {
		alloc = memory.DefaultAllocator
	}
	valid, nulls := takeValidity(alloc, d, rows)
	defer func() {
		if valid != nil {
			valid.Release()
		}
	}()
	bufs := []*memory.Buffer{valid}
	var kids []arrow.ArrayData
	defer func() {
		for _, b := range bufs[1:] {
			b.Release()
		}
		for _, k := range kids {
			k.Release()
		}
	}()
	var err error
	switch t := storageType(d.DataType()).(type) {
	case *arrow.BooleanType:
		bufs = append(bufs, takeBits(alloc, d, rows))
	case *arrow.StringType, *arrow.BinaryType:
		off, data := takeBytes(alloc, d, rows)
		bufs = append(bufs, off, data)
	case *arrow.ListType:
		var off *memory.Buffer
		off, kids, err = takeList(alloc, d, rows)
		if err == nil {
			bufs = append(bufs, off)
		}
	case *arrow.StructType:
		shifted := shift(rows, d.Offset())
		for _, c := range d.Children() {
			var k arrow.ArrayData
			if k, err = takeData(alloc, c, shifted); err != nil {
				break
			}
			kids = append(kids, k)
		}
	case arrow.FixedWidthDataType:
		bufs = append(bufs, takeFixed(alloc, d, t.Bytes(), rows))
	default:
		err = fmt.Errorf("take rows of type %s: not supported", d.DataType())
	}
	if err != nil {
		return nil, err
	}
	return array.NewData(d.DataType(), len(rows), bufs, kids, nulls, 0), nil
}

func storageType(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return e.StorageType()
	}
	return t
}

func shift(rows []int32, by int) []int32 {
	if by == 0 {
		return rows
	}
	out := make([]int32, len(rows))
	for i, r := range rows {
		out[i] = r + int32(by)
	}
	return out
}

func newBuffer(alloc memory.Allocator, n int) *memory.Buffer {
	b := memory.NewResizableBuffer(alloc)
	b.Resize(n)
	return b
}

func takeValidity(alloc memory.Allocator, d arrow.ArrayData, rows []int32) (*memory.Buffer, int) {
	if d.NullN() == 0 || len(d.Buffers()) == 0 || d.Buffers()[0] == nil {
		return nil, 0
	}
	src, off := d.Buffers()[0].Bytes(), d.Offset()
	b := newBuffer(alloc, int(bitutil.BytesForBits(int64(len(rows)))))
	dst := b.Bytes()
	clear(dst)
	nulls := 0
	for i, r := range rows {
		if bitutil.BitIsSet(src, off+int(r)) {
			dst[i>>3] |= 1 << (i & 7)
		} else {
			nulls++
		}
	}
	if nulls == 0 {
		b.Release()
		return nil, 0
	}
	return b, nulls
}

func takeBits(alloc memory.Allocator, d arrow.ArrayData, rows []int32) *memory.Buffer {
	src, off := d.Buffers()[1].Bytes(), d.Offset()
	b := newBuffer(alloc, int(bitutil.BytesForBits(int64(len(rows)))))
	dst := b.Bytes()
	clear(dst)
	for i, r := range rows {
		if bitutil.BitIsSet(src, off+int(r)) {
			dst[i>>3] |= 1 << (i & 7)
		}
	}
	return b
}

func takeFixed(alloc memory.Allocator, d arrow.ArrayData, width int, rows []int32) *memory.Buffer {
	b := newBuffer(alloc, len(rows)*width)
	if len(rows) == 0 {
		return b
	}
	src, dst := d.Buffers()[1].Bytes()[d.Offset()*width:], b.Bytes()
	switch width {
	case 4:
		takeValues(asSlice[uint32](dst), asSlice[uint32](src), rows)
	case 8:
		takeValues(asSlice[uint64](dst), asSlice[uint64](src), rows)
	case 16:
		takeValues(asSlice[[2]uint64](dst), asSlice[[2]uint64](src), rows)
	default:
		for i, r := range rows {
			copy(dst[i*width:(i+1)*width], src[int(r)*width:])
		}
	}
	return b
}

func takeValues[T any](dst, src []T, rows []int32) {
	for i, r := range rows {
		dst[i] = src[r]
	}
}

// asSlice views bytes as values of a fixed width; Arrow buffers are aligned.
func asSlice[T any](b []byte) []T {
	var z T
	n := len(b) / int(unsafe.Sizeof(z))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

func takeBytes(alloc memory.Allocator, d arrow.ArrayData, rows []int32) (off, data *memory.Buffer) {
	src := asSlice[int32](d.Buffers()[1].Bytes())[d.Offset():]
	off = newBuffer(alloc, (len(rows)+1)*4)
	ends := asSlice[int32](off.Bytes())
	n := int32(0)
	for i, r := range rows {
		ends[i] = n
		n += src[r+1] - src[r]
	}
	ends[len(rows)] = n
	data = newBuffer(alloc, int(n))
	if n == 0 {
		return off, data
	}
	from, to := d.Buffers()[2].Bytes(), data.Bytes()
	// Runs of neighbouring rows are copied at once.
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j] == rows[j-1]+1 {
			j++
		}
		copy(to[ends[i]:ends[j]], from[src[rows[i]]:src[rows[j-1]+1]])
		i = j
	}
	return off, data
}

func takeList(alloc memory.Allocator, d arrow.ArrayData, rows []int32) (*memory.Buffer, []arrow.ArrayData, error) {
	src := asSlice[int32](d.Buffers()[1].Bytes())[d.Offset():]
	off := newBuffer(alloc, (len(rows)+1)*4)
	ends := off.Bytes()
	n := 0
	for _, r := range rows {
		n += int(src[r+1] - src[r])
	}
	inner := make([]int32, 0, n)
	for i, r := range rows {
		binary.LittleEndian.PutUint32(ends[i*4:], uint32(len(inner)))
		for k := src[r]; k < src[r+1]; k++ {
			inner = append(inner, k)
		}
	}
	binary.LittleEndian.PutUint32(ends[len(rows)*4:], uint32(len(inner)))
	kid, err := takeData(alloc, d.Children()[0], inner)
	if err != nil {
		off.Release()
		return nil, nil, err
	}
	return off, []arrow.ArrayData{kid}, nil
}
