package postgres

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// encode appends value i of a, which is not null, in the binary form of the column's
// type; or says why the column cannot hold it.
type encode func(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad)

var be = binary.BigEndian

func encodeBool(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	if a.(*array.Boolean).Value(i) {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

// integer is the value of an array of integers.
func integer(a arrow.Array, i int) int64 {
	if a, ok := a.(*array.Int32); ok {
		return int64(a.Value(i))
	}
	return a.(*array.Int64).Value(i)
}

func encodeInt4(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	return be.AppendUint32(dst, uint32(integer(a, i))), nil
}

func encodeInt8(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	return be.AppendUint64(dst, uint64(integer(a, i))), nil
}

func encodeFloat4(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	return be.AppendUint32(dst, math.Float32bits(a.(*array.Float32).Value(i))), nil
}

func encodeFloat8(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	if a, ok := a.(*array.Float32); ok {
		return be.AppendUint64(dst, math.Float64bits(float64(a.Value(i)))), nil
	}
	return be.AppendUint64(dst, math.Float64bits(a.(*array.Float64).Value(i))), nil
}

func encodeNumeric(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	if a, ok := a.(*array.Decimal128); ok {
		v := a.Value(i)
		neg := v.Sign() < 0
		if neg {
			v = v.Negate()
		}
		return appendNumeric(dst, neg, uint64(v.HighBits()), v.LowBits(), int(a.DataType().(*arrow.Decimal128Type).Scale)), nil
	}
	v := integer(a, i)
	if v < 0 {
		return appendNumeric(dst, true, 0, -uint64(v), 0), nil
	}
	return appendNumeric(dst, false, 0, uint64(v), 0), nil
}

var powers = [5]uint64{1, 10, 100, 1000, 10000}

// appendNumeric writes hi*2^64 + lo, divided by 10^scale: groups of four decimal
// digits, aligned to the decimal point.
func appendNumeric(dst []byte, neg bool, hi, lo uint64, scale int) []byte {
	var groups [12]uint16
	n, fraction := 0, (scale+3)/4
	if odd := scale % 4; odd > 0 {
		var d uint64
		hi, lo, d = divide(hi, lo, powers[odd])
		groups[n] = uint16(d * powers[4-odd])
		n++
	}
	for hi > 0 || lo > 0 || n < fraction {
		var d uint64
		hi, lo, d = divide(hi, lo, 10000)
		groups[n] = uint16(d)
		n++
	}
	for n > 0 && groups[n-1] == 0 {
		n--
	}
	sign := uint16(0)
	if neg && n > 0 {
		sign = 0x4000
	}
	dst = be.AppendUint16(dst, uint16(n))
	dst = be.AppendUint16(dst, uint16(int16(n-fraction-1)))
	dst = be.AppendUint16(dst, sign)
	dst = be.AppendUint16(dst, uint16(scale))
	for k := n - 1; k >= 0; k-- {
		dst = be.AppendUint16(dst, groups[k])
	}
	return dst
}

func divide(hi, lo, by uint64) (qhi, qlo, rest uint64) {
	qhi, rest = hi/by, hi%by
	qlo, rest = bits.Div64(rest, lo, by)
	return qhi, qlo, rest
}

// checkText says why PostgreSQL holds no such text.
func checkText(s string) *dataflow.Bad {
	if at := strings.IndexByte(s, 0); at >= 0 {
		return &dataflow.Bad{Reason: "nul_character", Detail: fmt.Sprintf("byte %d is U+0000, which text of PostgreSQL cannot hold", at)}
	}
	if !utf8.ValidString(s) {
		return &dataflow.Bad{Reason: "invalid_text", Detail: "the text is no UTF-8"}
	}
	return nil
}

func encodeText(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	s := a.(*array.String).Value(i)
	return append(dst, s...), checkText(s)
}

// encodeBounded is for text of at most n characters.
func encodeBounded(n int) encode {
	return func(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
		s := a.(*array.String).Value(i)
		if len(s) > n {
			if got := utf8.RuneCountInString(s); got > n {
				return dst, &dataflow.Bad{Reason: "too_long", Detail: fmt.Sprintf("the text has %d characters, and the column takes %d", got, n)}
			}
		}
		return append(dst, s...), checkText(s)
	}
}

func encodeLabel(labels []string) encode {
	known := map[string]bool{}
	for _, l := range labels {
		known[l] = true
	}
	return func(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
		s := a.(*array.String).Value(i)
		if !known[s] {
			return dst, &dataflow.Bad{Reason: "unknown_label", Detail: fmt.Sprintf("%q is none of the labels of the column's type: %s", s, strings.Join(labels, ", "))}
		}
		return append(dst, s...), nil
	}
}

func encodeBytes(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	return append(dst, a.(*array.Binary).Value(i)...), nil
}

func encodeUUID(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	u := a.(*extensions.UUIDArray).Value(i)
	return append(dst, u[:]...), nil
}

// Days and microseconds of PostgreSQL count from 2000-01-01.
const (
	daysTo2000   = 10957
	microsTo2000 = daysTo2000 * 86400e6
	// What date and timestamp hold, since 1970: from 4714 BC; dates to 5874897, and
	// timestamps to more than there are of ours.
	minDay, maxDay = -2440588, 2145042905
	minMicros      = minDay * 86400e6
)

func encodeDate(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	d := int64(a.(*array.Date32).Value(i))
	if d < minDay || d > maxDay {
		return dst, outOfRange
	}
	return be.AppendUint32(dst, uint32(int32(d-daysTo2000))), nil
}

var outOfRange = &dataflow.Bad{Reason: "out_of_range", Detail: "PostgreSQL has dates and times from 4714 BC on, and dates to 5874897"}

func encodeTime(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	return be.AppendUint64(dst, uint64(a.(*array.Time64).Value(i))), nil
}

func encodeTimestamp(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	us := int64(a.(*array.Timestamp).Value(i))
	if us < minMicros {
		return dst, outOfRange
	}
	return be.AppendUint64(dst, uint64(us-microsTo2000)), nil
}

// encodeJSON is for columns of type json. PostgreSQL itself refuses what is no
// document of its.
func encodeJSON(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	from := len(dst)
	if a, ok := a.(*extensions.JSONArray); ok {
		dst = append(dst, a.Storage().(*array.String).Value(i)...)
	} else {
		dst = dataflow.AppendJSON(dst, a, i)
	}
	if !utf8.Valid(dst[from:]) || bytes.IndexByte(dst[from:], 0) >= 0 {
		return dst, &dataflow.Bad{Reason: "invalid_text", Detail: "the document is no UTF-8"}
	}
	return dst, nil
}

// encodeJSONB is a version, and the document's text.
func encodeJSONB(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
	return encodeJSON(append(dst, 1), a, i)
}

// encodeArray is for lists whose elements have the type oid.
func encodeArray(oid uint32, element encode) encode {
	return func(dst []byte, a arrow.Array, i int) ([]byte, *dataflow.Bad) {
		list := a.(*array.List)
		lo, hi := list.ValueOffsets(i)
		dims := uint32(1)
		if lo == hi {
			dims = 0
		}
		at := len(dst)
		dst = be.AppendUint32(dst, dims)
		dst = be.AppendUint32(dst, 0)
		dst = be.AppendUint32(dst, oid)
		if dims == 0 {
			return dst, nil
		}
		dst = be.AppendUint32(dst, uint32(hi-lo))
		dst = be.AppendUint32(dst, 1)
		for j := int(lo); j < int(hi); j++ {
			var bad *dataflow.Bad
			if dst, bad = appendField(dst, list.ListValues(), j, element); bad != nil {
				return dst, bad
			}
			if list.ListValues().IsNull(j) {
				be.PutUint32(dst[at+4:], 1)
			}
		}
		return dst, nil
	}
}

// appendField writes a value with its length; -1 is null.
func appendField(dst []byte, a arrow.Array, i int, e encode) ([]byte, *dataflow.Bad) {
	if a.IsNull(i) {
		return append(dst, 0xff, 0xff, 0xff, 0xff), nil
	}
	at := len(dst)
	dst, bad := e(append(dst, 0, 0, 0, 0), a, i)
	be.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst, bad
}
