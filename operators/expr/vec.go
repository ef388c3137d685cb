package expr

import (
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
)

// vec is one column of values as kernels see it: the rows of a batch, or one
// constant that stands for all of them. Values under a null are anything, but
// they are there.
type vec struct {
	n     int
	konst bool // one value for all rows
	nulls bool // valid counts
	valid bitset
	// The values: bits of booleans, off and raw of texts (value i is
	// raw[off[i]:off[i+1]]), raw alone of fixed-width types, off and elem of lists
	// (value i is elem's values off[i] to off[i+1]), arr of other nested ones.
	bits bitset
	off  []int32
	raw  []byte
	elem *vec
	arr  arrow.Array
	// own is the memory of raw where it is scratch; ownOff that of off.
	own    []uint64
	ownOff []int32
	// ownElem is the memory of elem.
	ownElem *vec
}

// mask turns a row into an index of the values: a constant's is always 0.
func (v *vec) mask() int {
	if v.konst {
		return 0
	}
	return -1
}

func (v *vec) isNull(i int) bool { return v.nulls && !v.valid.get(i&v.mask()) }

// constNull says whether v is null for all rows because it is a constant.
func (v *vec) constNull() bool { return v.konst && v.nulls && !v.valid.get(0) }

type fixed interface {
	int32 | int64 | float32 | float64 | dec | uuid16 | interval | int8
}

type uuid16 [16]byte

// interval keeps its three parts apart, as PostgreSQL does.
type interval struct {
	months, days int32
	us           int64
}

// of returns the values of a fixed-width vec.
func of[T fixed](v *vec) []T {
	var t T
	size := int(unsafe.Sizeof(t))
	if len(v.raw) < size {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(v.raw))), len(v.raw)/size)
}

// make gives v room for n values of T in its scratch memory and returns them.
func grow[T fixed](v *vec, n int) []T {
	var t T
	size := int(unsafe.Sizeof(t)) * n
	if w := (size + 7) / 8; cap(v.own) < w {
		v.own = make([]uint64, w+w/8+8)
	}
	v.own = v.own[:cap(v.own)]
	v.raw = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v.own))), len(v.own)*8)[:size]
	return of[T](v)
}

// growBits gives v room for n booleans.
func growBits(v *vec, n int) bitset {
	v.bits = v.bits.sized(n)
	return v.bits
}

// growText gives v room for n texts: it returns the offsets and the empty
// bytes to append to. The caller hands both back with setText.
func growText(v *vec, n int) ([]int32, []byte) {
	if cap(v.ownOff) < n+1 {
		v.ownOff = make([]int32, n+1+n/8)
	}
	v.ownOff = v.ownOff[:n+1]
	v.ownOff[0] = 0
	scratch := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v.own))), cap(v.own)*8)
	return v.ownOff, scratch[:0]
}

func setText(v *vec, off []int32, data []byte) {
	v.off, v.raw = off, data
	if cap(data) > cap(v.own)*8 { // append moved it: keep the larger memory
		w := cap(data) / 8
		v.own = make([]uint64, w)
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v.own))), w*8)
		if len(data) > len(raw) {
			return
		}
		copy(raw, data)
		v.raw = raw[:len(data)]
	}
}

// text returns value i of a text or binary vec. It is valid as long as v is.
func (v *vec) text(i int) string {
	b := v.raw[v.off[i]:v.off[i+1]]
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (v *vec) bytes(i int) []byte { return v.raw[v.off[i]:v.off[i+1]] }

// needValid makes valid writable for n rows, all valid if there were no nulls.
func (v *vec) needValid(n int) bitset {
	if !v.nulls {
		v.valid = v.valid.sized(n)
		v.valid.fill(^uint64(0))
		v.nulls = true
	}
	return v.valid
}

// andValid makes v's rows null where a's are.
func (v *vec) andValid(a *vec) {
	if !a.nulls {
		return
	}
	valid := v.needValid(v.n)
	if a.konst {
		if !a.valid.get(0) {
			valid.fill(0)
		}
		return
	}
	for i := range valid {
		valid[i] &= a.valid[i]
	}
}

// borrow points v at the memory of a, of type t, without copying values.
func (v *vec) borrow(a arrow.Array, t typ) {
	d := a.Data()
	v.borrowData(d, t, d.Offset(), d.Len())
	if t.k == kNested {
		v.arr = a
	}
}

// borrowData is borrow for n values of d from offset on.
func (v *vec) borrowData(d arrow.ArrayData, t typ, offset, n int) {
	v.n, v.konst, v.nulls = n, false, false
	bufs := d.Buffers()
	if d.NullN() != 0 && len(bufs) > 0 && bufs[0] != nil {
		v.valid = v.valid.load(bufs[0].Bytes(), offset, n)
		v.nulls = true
	}
	if t.k == kNested {
		return
	}
	var data []byte
	if len(bufs) > 1 && bufs[1] != nil {
		data = bufs[1].Bytes()
	}
	switch t.k {
	case kBool:
		v.bits = v.bits.load(data, offset, n)
	case kString, kBinary, kJSON:
		v.borrowText(data, bufs, offset, n)
	case kList:
		v.borrowList(d, data, t, offset, n)
	default:
		if t.k == kInt16 && d.DataType().ID() == arrow.INT16 {
			v.fromInt16(data[offset*2 : (offset+n)*2])
			return
		}
		w := t.width()
		v.raw = data[offset*w : (offset+n)*w]
		if t.k == kInterval {
			v.fromNano()
		}
	}
}

// borrowList points v at the elements of the n lists.
func (v *vec) borrowList(d arrow.ArrayData, data []byte, t typ, offset, n int) {
	if v.ownElem == nil {
		v.ownElem = &vec{}
	}
	v.elem = v.ownElem
	if cap(v.ownOff) < n+1 {
		v.ownOff = make([]int32, n+1+n/8)
	}
	v.off = v.ownOff[:n+1]
	clear(v.off)
	from, to := int32(0), int32(0)
	if n > 0 && len(data) > 0 {
		src := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/4)[offset : offset+n+1]
		from, to = src[0], src[n]
		for i, x := range src {
			v.off[i] = x - from
		}
	}
	child := d.Children()[0]
	v.elem.borrowData(child, t.elem(), child.Offset()+int(from), int(to-from))
}

func (v *vec) fromInt16(data []byte) {
	src := unsafe.Slice((*int16)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/2)
	dst := grow[int32](v, len(src))
	for i, x := range src {
		dst[i] = int32(x)
	}
}

var noOffsets = make([]int32, 1)

func (v *vec) borrowText(data []byte, bufs []*bufferRef, offset, n int) {
	if n == 0 || len(data) == 0 {
		v.off = noOffsets
		if n > 0 {
			v.off = make([]int32, n+1)
		}
		v.raw = nil
		return
	}
	v.off = unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/4)[offset : offset+n+1]
	v.raw = nil
	if len(bufs) > 2 && bufs[2] != nil {
		v.raw = bufs[2].Bytes()
	}
}

// fromNano turns Arrow's nanoseconds of intervals into microseconds.
func (v *vec) fromNano() {
	src := of[interval](v)
	dst := grow[interval](v, len(src))
	for i, x := range src {
		x.us /= 1000
		dst[i] = x
	}
}

// width is the size in bytes of a fixed-width value; 0 for the others.
func (t typ) width() int {
	switch t.k {
	case kInt16, kInt32, kFloat32, kDate:
		return 4
	case kInt64, kFloat64, kTime, kTimestamp, kTimestampTZ:
		return 8
	case kDecimal, kInterval, kUUID:
		return 16
	}
	return 0
}
