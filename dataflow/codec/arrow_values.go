package codec

import (
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
	"unsafe"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// setter writes value i of an array, which is not null, into row.
type setter func(row, i int) *dataflow.Bad

func outOfRange(format string, args ...any) *dataflow.Bad {
	return &dataflow.Bad{Reason: ReasonOutOfRange, Detail: fmt.Sprintf(format, args...)}
}

// setter copies values of src into c.
func (r *arrowReader) setter(c *column, src arrow.Array, path string) (setter, error) {
	var out setter
	switch src := src.(type) {
	case *array.Null:
		return func(row, _ int) *dataflow.Bad { return null(c, row) }, nil
	case *array.Dictionary:
		return r.dictionary(c, src, path)
	}
	switch c.kind {
	case kBool:
		if src, ok := src.(*array.Boolean); ok {
			out = func(row, i int) *dataflow.Bad { c.setBool(row, src.Value(i)); return nil }
		}
	case kInt32, kInt64:
		out = integers(c, src)
	case kFloat32, kFloat64:
		out = floats(c, src)
	case kDecimal:
		out = decimals(c, src)
	case kString, kJSON, kBinary:
		out = r.bytes(c, src)
	case kDate:
		out = dates(c, src)
	case kTime:
		out = clocks(c, src)
	case kTimestamp:
		out = timestamps(c, src)
	case kUUID:
		out = uuids(c, src)
	case kList:
		return r.lists(c, src, path)
	case kStruct:
		return r.structs(c, src, path)
	}
	if out == nil {
		return nil, mismatch(c, src, path)
	}
	return out, nil
}

// null writes a null, where one may be.
func null(c *column, row int) *dataflow.Bad {
	c.setNull(row)
	if c.required {
		return &dataflow.Bad{Reason: ReasonMissingRequired, Detail: "expected " + c.text + ", got null"}
	}
	return nil
}

func mismatch(c *column, src arrow.Array, path string) error {
	return fmt.Errorf("column %q: expected %s, got %s", path, c.text, src.DataType())
}

func (r *arrowReader) dictionary(c *column, src *array.Dictionary, path string) (setter, error) {
	values := src.Dictionary()
	set, err := r.setter(c, values, path)
	if err != nil {
		return nil, err
	}
	return func(row, i int) *dataflow.Bad {
		j := src.GetValueIndex(i)
		if j < 0 || j >= values.Len() {
			panic(fmt.Sprintf("index %d of a dictionary of %d values", j, values.Len()))
		}
		if values.IsNull(j) {
			return null(c, row)
		}
		return set(row, j)
	}, nil
}

// whole returns how to read an integer of src.
func whole(src arrow.Array) func(i int) (v int64, ok bool) {
	switch src := src.(type) {
	case *array.Int8:
		return func(i int) (int64, bool) { return int64(src.Value(i)), true }
	case *array.Int16:
		return func(i int) (int64, bool) { return int64(src.Value(i)), true }
	case *array.Int32:
		return func(i int) (int64, bool) { return int64(src.Value(i)), true }
	case *array.Int64:
		return func(i int) (int64, bool) { return src.Value(i), true }
	case *array.Uint8:
		return func(i int) (int64, bool) { return int64(src.Value(i)), true }
	case *array.Uint16:
		return func(i int) (int64, bool) { return int64(src.Value(i)), true }
	case *array.Uint32:
		return func(i int) (int64, bool) { return int64(src.Value(i)), true }
	case *array.Uint64:
		return func(i int) (int64, bool) { v := src.Value(i); return int64(v), v <= math.MaxInt64 }
	}
	return nil
}

func integers(c *column, src arrow.Array) setter {
	read := whole(src)
	switch {
	case read == nil:
		return nil
	case c.kind == kInt64:
		if src, ok := src.(*array.Int64); ok {
			return func(row, i int) *dataflow.Bad { c.set8(row, uint64(src.Value(i))); return nil }
		}
		return func(row, i int) *dataflow.Bad {
			v, ok := read(i)
			if !ok {
				return outOfRange("expected int64, got %d", uint64(v))
			}
			c.set8(row, uint64(v))
			return nil
		}
	}
	return func(row, i int) *dataflow.Bad {
		v, ok := read(i)
		if !ok || v < math.MinInt32 || v > math.MaxInt32 {
			return outOfRange("expected int32, got %s", src.ValueStr(i))
		}
		c.set4(row, uint32(v))
		return nil
	}
}

func floats(c *column, src arrow.Array) setter {
	switch src := src.(type) {
	case *array.Float64:
		if c.kind == kFloat64 {
			return func(row, i int) *dataflow.Bad { c.set8(row, math.Float64bits(src.Value(i))); return nil }
		}
	case *array.Float32:
		if c.kind == kFloat64 {
			return func(row, i int) *dataflow.Bad { c.set8(row, math.Float64bits(float64(src.Value(i)))); return nil }
		}
		return func(row, i int) *dataflow.Bad { c.set4(row, math.Float32bits(src.Value(i))); return nil }
	}
	return nil
}

func decimals(c *column, src arrow.Array) setter {
	set := func(row int, v decimal128.Num) *dataflow.Bad {
		if !v.FitsInPrecision(c.prec) {
			return outOfRange("expected %s, got %s", c.text, v.ToString(c.scale))
		}
		c.set16(row, v.LowBits(), uint64(v.HighBits()))
		return nil
	}
	if src, ok := src.(*array.Decimal128); ok {
		scale := src.DataType().(*arrow.Decimal128Type).Scale
		switch {
		case scale == c.scale:
			return func(row, i int) *dataflow.Bad { return set(row, src.Value(i)) }
		case scale < c.scale:
			return func(row, i int) *dataflow.Bad {
				v, err := src.Value(i).Rescale(scale, c.scale)
				if err != nil {
					return outOfRange("expected %s, got %s", c.text, src.Value(i).ToString(scale))
				}
				return set(row, v)
			}
		}
	}
	return nil
}

// bytes copies text, binary values and JSON documents.
func (r *arrowReader) bytes(c *column, src arrow.Array) setter {
	if x, ok := src.(*extensions.JSONArray); ok && c.kind == kJSON {
		src = x.Storage()
	}
	var text func(i int) []byte
	switch src := src.(type) {
	case *array.String:
		text = func(i int) []byte { return textBytes(src.Value(i)) }
	case *array.LargeString:
		text = func(i int) []byte { return textBytes(src.Value(i)) }
	case *array.StringView:
		text = func(i int) []byte { return textBytes(src.Value(i)) }
	}
	if c.kind == kBinary {
		switch src := src.(type) {
		case *array.Binary:
			text = src.Value
		case *array.LargeBinary:
			text = src.Value
		case *array.BinaryView:
			text = src.Value
		case *array.FixedSizeBinary:
			text = src.Value
		default:
			return nil
		}
	}
	if text == nil {
		return nil
	}
	depth := r.a.cfg.Depth
	return func(row, i int) *dataflow.Bad {
		b := text(i)
		r.spend(int64(len(b)))
		switch {
		case c.kind == kString && !utf8.Valid(b):
			return &dataflow.Bad{Reason: ReasonInvalidUTF8, Detail: "expected UTF-8 text, got " + excerpt(b)}
		case c.kind == kJSON:
			if at, f := validate(b, depth); f != fine {
				return fault2bad(b, at, f, depth)
			}
			c.setRoom(row, appendCompact(c.room(row, len(b)), b))
			return nil
		}
		c.setBytes(row, b)
		return nil
	}
}

// textBytes is the text of s; nobody writes to it.
func textBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func dates(c *column, src arrow.Array) setter {
	set := func(row int, days int64) *dataflow.Bad {
		if days < minDate || days > maxDate {
			return outOfRange("expected a date of the years 1 to 9999, got day %d", days)
		}
		c.set4(row, uint32(days))
		return nil
	}
	switch src := src.(type) {
	case *array.Date32:
		return func(row, i int) *dataflow.Bad { return set(row, int64(src.Value(i))) }
	case *array.Date64:
		return func(row, i int) *dataflow.Bad { return set(row, floorDiv(int64(src.Value(i)), secondsPerDay*1000)) }
	}
	return nil
}

func clocks(c *column, src arrow.Array) setter {
	set := func(row int, micros int64) *dataflow.Bad {
		if micros < 0 || micros >= secondsPerDay*microsPerSecond {
			return outOfRange("expected a time of day, got %d microseconds", micros)
		}
		c.set8(row, uint64(micros))
		return nil
	}
	switch src := src.(type) {
	case *array.Time32:
		unit := int64(1000)
		if src.DataType().(*arrow.Time32Type).Unit == arrow.Second {
			unit = microsPerSecond
		}
		return func(row, i int) *dataflow.Bad { return set(row, int64(src.Value(i))*unit) }
	case *array.Time64:
		div := int64(1)
		if src.DataType().(*arrow.Time64Type).Unit == arrow.Nanosecond {
			div = 1000
		}
		return func(row, i int) *dataflow.Bad { return set(row, floorDiv(int64(src.Value(i)), div)) }
	}
	return nil
}

func floorDiv(v, by int64) int64 {
	q := v / by
	if v%by < 0 {
		q--
	}
	return q
}

func timestamps(c *column, src arrow.Array) setter {
	at, ok := src.(*array.Timestamp)
	if !ok {
		return nil
	}
	t := at.DataType().(*arrow.TimestampType)
	if (t.TimeZone != "") != c.zoned {
		return nil
	}
	mul, div := int64(1), int64(1)
	switch t.Unit {
	case arrow.Second:
		mul = microsPerSecond
	case arrow.Millisecond:
		mul = 1000
	case arrow.Nanosecond:
		div = 1000
	}
	return func(row, i int) *dataflow.Bad {
		v := int64(at.Value(i))
		micros := floorDiv(v, div) * mul
		if v > math.MaxInt64/mul || v < math.MinInt64/mul || micros < c.lo || micros >= c.hi {
			return outOfRange("the time %d%s is outside of what is allowed", v, t.Unit)
		}
		c.set8(row, uint64(micros))
		return nil
	}
}

func uuids(c *column, src arrow.Array) setter {
	if x, ok := src.(*extensions.UUIDArray); ok {
		src = x.Storage()
	}
	b, ok := src.(*array.FixedSizeBinary)
	if !ok || b.DataType().(*arrow.FixedSizeBinaryType).ByteWidth != 16 {
		return nil
	}
	return func(row, i int) *dataflow.Bad {
		id := b.Value(i)
		c.set16(row, binary.LittleEndian.Uint64(id), binary.LittleEndian.Uint64(id[8:]))
		return nil
	}
}

// lists copies lists.
func (r *arrowReader) lists(c *column, src arrow.Array, path string) (setter, error) {
	list, ok := src.(array.ListLike)
	if !ok {
		return nil, mismatch(c, src, path)
	}
	switch src.(type) {
	case *array.List, *array.LargeList, *array.FixedSizeList:
	default:
		return nil, mismatch(c, src, path)
	}
	values, elem := list.ListValues(), c.elem
	set, err := r.setter(elem, values, path+"[]")
	if err != nil {
		return nil, err
	}
	return func(row, i int) *dataflow.Bad {
		lo, hi := list.ValueOffsets(i)
		if lo < 0 || hi < lo || hi > int64(values.Len()) {
			panic(fmt.Sprintf("a list from %d to %d of %d values", lo, hi, values.Len()))
		}
		r.spend((hi - lo) * int64(elem.rowBytes()+1))
		c.markValid(row)
		at := int(c.offs[row])
		elem.ensure(at + int(hi-lo))
		c.offs[row+1] = c.offs[row] + int32(hi-lo)
		for j := int(lo); j < int(hi); j++ {
			if values.IsNull(j) {
				elem.setNull(at)
			} else if bad := set(at, j); bad != nil {
				return bad
			}
			at++
		}
		return nil
	}, nil
}

// structs copies structs, their fields by name.
func (r *arrowReader) structs(c *column, src arrow.Array, path string) (setter, error) {
	st, ok := src.(*array.Struct)
	if !ok {
		return nil, mismatch(c, src, path)
	}
	t := st.DataType().(*arrow.StructType)
	sets, from := make([]setter, len(c.obj.cols)), make([]arrow.Array, len(c.obj.cols))
	for k, f := range c.obj.cols {
		i, ok := t.FieldIdx(f.name)
		if !ok {
			continue
		}
		from[k] = st.Field(i)
		var err error
		if sets[k], err = r.setter(f, from[k], path+"."+f.name); err != nil {
			return nil, err
		}
	}
	return func(row, i int) *dataflow.Bad {
		c.markValid(row)
		for k, f := range c.obj.cols {
			if from[k] == nil || from[k].IsNull(i) {
				f.setNull(row)
			} else if bad := sets[k](row, i); bad != nil {
				return bad
			}
		}
		return nil
	}, nil
}
