package codec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

type kind uint8

const (
	kBool kind = iota
	kInt32
	kInt64
	kFloat32
	kFloat64
	kDecimal
	kString
	kBinary
	kDate
	kTime
	kTimestamp
	kUUID
	kJSON
	kList
	kStruct
)

var kinds = map[arrow.Type]kind{
	arrow.BOOL: kBool, arrow.INT32: kInt32, arrow.INT64: kInt64, arrow.FLOAT32: kFloat32,
	arrow.FLOAT64: kFloat64, arrow.DECIMAL128: kDecimal, arrow.STRING: kString, arrow.BINARY: kBinary,
	arrow.DATE32: kDate, arrow.TIME64: kTime, arrow.TIMESTAMP: kTimestamp, arrow.LIST: kList, arrow.STRUCT: kStruct,
}

// column holds the values of one column, or of one level below it, while a
// batch is built. Every setter writes row `row` and may write it again: that is
// how a repeated key and a record given up half way cost nothing. A row counts
// only once the rows after it are written or the batch is cut.
type column struct {
	name string
	typ  arrow.DataType
	text string // the type as the file spells it
	kind kind

	zoned    bool // timestamptz
	unit     int  // timestamp: digits of the payload's unit (s 0, ms 3, us 6, ns 9), or textTime
	lo, hi   int64
	prec     int32
	scale    int32
	required bool

	seen uint64 // generation of the object that set it last
	at   int    // place in the object's order, -1: none

	elem *column // list
	obj  *object // struct

	alloc memory.Allocator
	cap   int    // rows that fit
	valid []byte // nil: no nulls so far
	offs  []int32
	data  []byte   // string, binary, json
	w8    []uint64 // 8 and 16 byte values
	w4    []uint32
	bits  []byte

	validBuf, valBuf, dataBuf *memory.Buffer
}

// textTime is the unit of a time that is a text.
const textTime = -1

var unitDigits = map[string]int{"": textTime, "s": 0, "ms": 3, "us": 6, "ns": 9}

// newColumn makes the column of one field, and what lies below it.
func newColumn(f dataflow.FieldSpec, lo, hi dataflow.Time, alloc memory.Allocator) (*column, error) {
	c := &column{name: f.Name, typ: f.Spec.Type, alloc: alloc, at: -1, lo: int64(lo), hi: int64(hi), unit: textTime}
	c.text = dataflow.TypeName(c.typ)
	switch {
	case arrow.TypeEqual(c.typ, dataflow.TypeUUID):
		c.kind = kUUID
		return c, nil
	case arrow.TypeEqual(c.typ, dataflow.TypeJSON):
		c.kind = kJSON
		return c, nil
	}
	k, ok := kinds[c.typ.ID()]
	if !ok {
		return nil, fmt.Errorf("column %q: type %s cannot be decoded from JSON", f.Name, c.text)
	}
	c.kind = k
	switch t := c.typ.(type) {
	case *arrow.TimestampType:
		c.zoned = t.TimeZone != ""
		c.unit = unitDigits[f.Spec.Unit]
		if f.Spec.Unit != "" {
			c.text += "(" + f.Spec.Unit + ")"
		}
	case *arrow.Decimal128Type:
		c.prec, c.scale = t.Precision, t.Scale
	case *arrow.ListType:
		el, err := newColumn(f.Spec.Fields[0], lo, hi, alloc)
		if err != nil {
			return nil, err
		}
		c.elem = el
		c.text = "list<" + el.text + ">"
	case *arrow.StructType:
		var cols []*column
		var parts []string
		for _, sub := range f.Spec.Fields {
			s, err := newColumn(sub, lo, hi, alloc)
			if err != nil {
				return nil, err
			}
			cols = append(cols, s)
			parts = append(parts, s.name+": "+s.text)
		}
		c.obj = newObject(cols)
		c.text = "struct{" + strings.Join(parts, ", ") + "}"
	}
	return c, nil
}

// rowBytes is the fixed part of a row, roughly.
func (c *column) rowBytes() int {
	switch c.kind {
	case kBool:
		return 1
	case kDecimal, kUUID:
		return 16
	case kInt32, kFloat32, kDate, kString, kBinary, kJSON:
		return 4
	case kStruct:
		n := 0
		for _, s := range c.obj.cols {
			n += s.rowBytes()
		}
		return n
	}
	return 8
}

// ensure makes room for rows rows.
func (c *column) ensure(rows int) {
	if rows <= c.cap {
		return
	}
	n := max(2*c.cap, 16, rows)
	switch c.kind {
	case kBool:
		c.grow(&c.valBuf, int(bitutil.BytesForBits(int64(n))))
		c.bits = c.valBuf.Bytes()
	case kInt32, kFloat32, kDate:
		c.grow(&c.valBuf, 4*n)
		c.w4 = arrow.Uint32Traits.CastFromBytes(c.valBuf.Bytes())
	case kInt64, kFloat64, kTime, kTimestamp:
		c.grow(&c.valBuf, 8*n)
		c.w8 = arrow.Uint64Traits.CastFromBytes(c.valBuf.Bytes())
	case kDecimal, kUUID:
		c.grow(&c.valBuf, 16*n)
		c.w8 = arrow.Uint64Traits.CastFromBytes(c.valBuf.Bytes())
	case kString, kBinary, kJSON, kList:
		c.grow(&c.valBuf, 4*(n+1))
		c.offs = arrow.Int32Traits.CastFromBytes(c.valBuf.Bytes())
		if c.cap == 0 {
			c.offs[0] = 0
		}
	case kStruct:
		for _, s := range c.obj.cols {
			s.ensure(n)
		}
	}
	c.cap = n
	if c.valid != nil {
		c.growValid()
	}
}

func (c *column) grow(buf **memory.Buffer, size int) {
	if *buf == nil {
		// Whoever never releases a decoder leaves its memory to the collector.
		*buf = memory.NewResizableBuffer(memory.DefaultAllocator)
	}
	(*buf).ResizeNoShrink(size)
}

// growValid extends the validity bits to cap, new rows being valid.
func (c *column) growValid() {
	old := len(c.valid)
	c.grow(&c.validBuf, int(bitutil.BytesForBits(int64(c.cap))))
	c.valid = c.validBuf.Bytes()
	for i := old; i < len(c.valid); i++ {
		c.valid[i] = 0xff
	}
}

// markValid undoes a null that the row had before.
func (c *column) markValid(row int) {
	if c.valid != nil {
		c.valid[row>>3] |= 1 << (row & 7)
	}
}

// setNull makes row null, with zeros below.
func (c *column) setNull(row int) {
	if c.valid == nil {
		c.growValid()
	}
	c.valid[row>>3] &^= 1 << (row & 7)
	switch c.kind {
	case kBool:
		bitutil.ClearBit(c.bits, row)
	case kInt32, kFloat32, kDate:
		c.w4[row] = 0
	case kInt64, kFloat64, kTime, kTimestamp:
		c.w8[row] = 0
	case kDecimal, kUUID:
		c.w8[2*row], c.w8[2*row+1] = 0, 0
	case kString, kBinary, kJSON, kList:
		c.offs[row+1] = c.offs[row]
	case kStruct:
		for _, s := range c.obj.cols {
			s.setNull(row)
		}
	}
}

func (c *column) setBool(row int, v bool) {
	c.markValid(row)
	bitutil.SetBitTo(c.bits, row, v)
}

func (c *column) set4(row int, v uint32) {
	c.markValid(row)
	c.w4[row] = v
}

func (c *column) set8(row int, v uint64) {
	c.markValid(row)
	c.w8[row] = v
}

func (c *column) set16(row int, first, second uint64) {
	c.markValid(row)
	c.w8[2*row], c.w8[2*row+1] = first, second
}

// setBytes copies v.
func (c *column) setBytes(row int, v []byte) {
	c.markValid(row)
	start := int(c.offs[row])
	end := start + len(v)
	if end > len(c.data) {
		c.growData(end)
	}
	copy(c.data[start:end], v)
	c.offs[row+1] = int32(end)
}

// room returns the free heap behind row, empty, with room for n bytes: append to
// it and give it to setRoom.
func (c *column) room(row, n int) []byte {
	start := int(c.offs[row])
	if start+n > len(c.data) {
		c.growData(start + n)
	}
	return c.data[start:start:len(c.data)]
}

// setRoom makes v, which room returned and which did not outgrow it, row's value.
func (c *column) setRoom(row int, v []byte) {
	c.markValid(row)
	c.offs[row+1] = c.offs[row] + int32(len(v))
}

func (c *column) growData(need int) {
	if need > math.MaxInt32 {
		panic("codec: a batch grew beyond 2 GiB in one column: flush earlier")
	}
	n := max(2*len(c.data), need, 64)
	c.grow(&c.dataBuf, min(n, math.MaxInt32))
	c.data = c.dataBuf.Bytes()
}

// flush copies the first rows rows into an array of its own and starts anew in
// the same memory. The copy is exactly as large as its values: batches may wait
// for long, and what grows by doubling may be half empty.
func (c *column) flush(rows int) arrow.Array {
	d := c.take(rows)
	defer d.Release()
	return array.MakeFromData(d)
}

func (c *column) take(rows int) arrow.ArrayData {
	c.ensure(max(rows, 1))
	nulls := 0
	var valid *memory.Buffer
	if c.valid != nil {
		if nulls = rows - bitutil.CountSetBits(c.valid, 0, rows); nulls > 0 {
			valid = c.copyOf(c.validBuf, int(bitutil.BytesForBits(int64(rows))))
		}
		c.valid = nil
	}
	bufs, kids := c.parts(rows, valid)
	d := array.NewData(c.typ, rows, bufs, kids, nulls, 0)
	for _, b := range bufs {
		if b != nil {
			b.Release()
		}
	}
	for _, k := range kids {
		k.Release()
	}
	return d
}

// parts returns buffers and children of the first rows rows.
func (c *column) parts(rows int, valid *memory.Buffer) (bufs []*memory.Buffer, kids []arrow.ArrayData) {
	switch c.kind {
	case kBool:
		return []*memory.Buffer{valid, c.copyOf(c.valBuf, int(bitutil.BytesForBits(int64(rows))))}, nil
	case kInt32, kFloat32, kDate:
		return []*memory.Buffer{valid, c.copyOf(c.valBuf, 4*rows)}, nil
	case kInt64, kFloat64, kTime, kTimestamp:
		return []*memory.Buffer{valid, c.copyOf(c.valBuf, 8*rows)}, nil
	case kDecimal, kUUID:
		return []*memory.Buffer{valid, c.copyOf(c.valBuf, 16*rows)}, nil
	case kList:
		kid := c.elem.take(int(c.offs[rows]))
		return []*memory.Buffer{valid, c.copyOf(c.valBuf, 4*(rows+1))}, []arrow.ArrayData{kid}
	case kStruct:
		for _, s := range c.obj.cols {
			kids = append(kids, s.take(rows))
		}
		return []*memory.Buffer{valid}, kids
	}
	used := int(c.offs[rows])
	bufs = []*memory.Buffer{valid, c.copyOf(c.valBuf, 4*(rows+1)), c.copyOf(c.dataBuf, used)}
	if len(c.data) > keptHeap && used < len(c.data)/8 {
		drop(&c.dataBuf)
		c.data = nil
	}
	return bufs, nil
}

// keptHeap is the size of a heap that is kept even if it is mostly empty.
const keptHeap = 1 << 20

// copyOf returns the first size bytes of b, which may be nil if there are none.
func (c *column) copyOf(b *memory.Buffer, size int) *memory.Buffer {
	out := memory.NewResizableBuffer(c.alloc)
	out.Resize(size)
	if size > 0 {
		copy(out.Bytes(), b.Bytes()[:size])
	}
	return out
}

func drop(buf **memory.Buffer) {
	if *buf != nil {
		(*buf).Release()
		*buf = nil
	}
}

// release frees everything; what was not flushed is lost.
func (c *column) release() {
	drop(&c.validBuf)
	drop(&c.valBuf)
	drop(&c.dataBuf)
	if c.elem != nil {
		c.elem.release()
	}
	if c.obj != nil {
		for _, s := range c.obj.cols {
			s.release()
		}
	}
	c.cap, c.valid, c.offs, c.data, c.w8, c.w4, c.bits = 0, nil, nil, nil, nil, nil, nil
}

// object is the fields of a document or of a struct, with the order in which
// the objects before had them.
type object struct {
	cols   []*column
	names  keyTable
	extras extraFields
	order  []entry
	// misses counts the objects in a row that order did not fit; patience is how
	// many may, before it is learned anew.
	misses, patience int
}

// entry is one expected key with everything between the value before it and its
// own value, byte for byte.
type entry struct {
	lit   string
	first bool    // stands right behind the opening brace
	col   *column // nil: a field outside the schema
	extra *extraField
}

func newObject(cols []*column) *object {
	return &object{cols: slices.Clone(cols), names: newKeyTable(cols), patience: minPatience}
}
