package expr

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

type bufferRef = memory.Buffer

// toArrow copies v into an array of n rows in memory of its own.
func toArrow(v *vec, t typ, n int, alloc memory.Allocator) (arrow.Array, error) {
	switch t.k {
	case kNested:
		return nestedArray(v, t, n, alloc)
	case kList:
		return listArray(v, t, n, alloc)
	}
	var bufs [3]*memory.Buffer
	defer func() {
		for _, b := range bufs {
			if b != nil {
				b.Release()
			}
		}
	}()
	buffer := func(size int) (*memory.Buffer, []byte) {
		b := memory.NewResizableBuffer(alloc)
		b.Resize(size)
		return b, b.Bytes()
	}
	nulls := 0
	if v.nulls {
		var dst []byte
		bufs[0], dst = buffer((n + 7) / 8)
		if v.konst {
			clear(dst)
			if v.constNull() {
				nulls = n
			} else {
				fillBits(dst, n)
			}
		} else {
			v.valid.store(dst, n)
			nulls = n - v.valid.count(n)
		}
	}
	count := 2
	switch w := t.width(); {
	case t.k == kBool:
		var dst []byte
		bufs[1], dst = buffer((n + 7) / 8)
		switch {
		case !v.konst:
			v.bits.store(dst, n)
		case v.bits.get(0):
			clear(dst)
			fillBits(dst, n)
		default:
			clear(dst)
		}
	case w > 0:
		var dst []byte
		bufs[1], dst = buffer(n * w)
		if v.konst {
			for i := range n {
				copy(dst[i*w:(i+1)*w], v.raw[:w])
			}
		} else {
			copy(dst, v.raw[:n*w])
		}
		if t.k == kInterval {
			for i := range unsafe.Slice((*interval)(unsafe.Pointer(unsafe.SliceData(dst))), n) {
				p := &unsafe.Slice((*interval)(unsafe.Pointer(unsafe.SliceData(dst))), n)[i]
				p.us *= 1000
			}
		}
	default:
		count = 3
		size := textSize(v, n)
		if size > math.MaxInt32 {
			return nil, fmt.Errorf("the texts of one batch have %d bytes, at most 2 GiB fit", size)
		}
		var off, data []byte
		bufs[1], off = buffer((n + 1) * 4)
		bufs[2], data = buffer(size)
		copyText(v, n, unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(off))), n+1), data)
	}
	return newArray(t, n, bufs[:count], nulls), nil
}

func newArray(t typ, n int, bufs []*memory.Buffer, nulls int) arrow.Array {
	dt := t.arrow()
	if ext, ok := dt.(arrow.ExtensionType); ok {
		d := array.NewData(ext.StorageType(), n, bufs, nil, nulls, 0)
		storage := array.MakeFromData(d)
		d.Release()
		a := array.NewExtensionArrayWithStorage(ext, storage)
		storage.Release()
		return a
	}
	d := array.NewData(dt, n, bufs, nil, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

func fillBits(dst []byte, n int) {
	for i := range n {
		dst[i>>3] |= 1 << (uint(i) & 7)
	}
}

func textSize(v *vec, n int) int {
	if v.konst {
		return n * int(v.off[1]-v.off[0])
	}
	return int(v.off[n] - v.off[0])
}

func copyText(v *vec, n int, off []int32, data []byte) {
	if v.konst {
		s := v.text(0)
		for i := range n {
			off[i] = int32(i * len(s))
			copy(data[i*len(s):], s)
		}
		off[n] = int32(n * len(s))
		return
	}
	base := v.off[0]
	for i := range n + 1 {
		off[i] = v.off[i] - base
	}
	copy(data, v.raw[base:v.off[n]])
}

// nestedArray passes a nested column on, nulls of v included.
func nestedArray(v *vec, t typ, n int, alloc memory.Allocator) (arrow.Array, error) {
	if v.arr == nil {
		return array.MakeArrayOfNull(alloc, t.dt, n), nil
	}
	v.arr.Retain()
	return v.arr, nil
}

// listArray copies lists, elements included.
func listArray(v *vec, t typ, n int, alloc memory.Allocator) (arrow.Array, error) {
	if v.konst {
		var all vec
		spread(v, &all, t, n)
		v = &all
	}
	child, err := toArrow(v.elem, t.elem(), v.elem.n, alloc)
	if err != nil {
		return nil, err
	}
	defer child.Release()
	off := memory.NewResizableBuffer(alloc)
	defer off.Release()
	off.Resize((n + 1) * 4)
	copy(unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(off.Bytes()))), n+1), v.off[:n+1])
	bufs, nulls := []*memory.Buffer{nil, off}, 0
	if v.nulls {
		valid := memory.NewResizableBuffer(alloc)
		defer valid.Release()
		valid.Resize((n + 7) / 8)
		v.valid.store(valid.Bytes(), n)
		bufs[0], nulls = valid, n-v.valid.count(n)
	}
	d := array.NewData(t.arrow(), n, bufs, []arrow.ArrayData{child.Data()}, nulls, 0)
	defer d.Release()
	return array.MakeFromData(d), nil
}
