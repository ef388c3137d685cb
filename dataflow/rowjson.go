package dataflow

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// AppendJSON writes value i of a as JSON: timestamps as RFC 3339 with
// microseconds ("Z" only for timestamptz), decimals and uuids as strings,
// binary as hex, NaN and infinities as strings.
func AppendJSON(dst []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	switch a := a.(type) {
	case *array.Boolean:
		return strconv.AppendBool(dst, a.Value(i))
	case *array.Int32:
		return strconv.AppendInt(dst, int64(a.Value(i)), 10)
	case *array.Int64:
		return strconv.AppendInt(dst, a.Value(i), 10)
	case *array.Uint64:
		return strconv.AppendUint(dst, a.Value(i), 10)
	case *array.Float32:
		return appendFloat(dst, float64(a.Value(i)), 32)
	case *array.Float64:
		return appendFloat(dst, a.Value(i), 64)
	case *array.String:
		return appendText(dst, a.Value(i))
	case *array.Binary:
		return append(hex.AppendEncode(append(dst, '"'), a.Value(i)), '"')
	case *array.Decimal128:
		return append(appendDecimal(append(dst, '"'), a.Value(i), a.DataType().(*arrow.Decimal128Type).Scale), '"')
	case *array.Date32:
		return appendTime(dst, time.Unix(int64(a.Value(i))*86400, 0), "2006-01-02")
	case *array.Time64:
		return appendTime(dst, time.UnixMicro(int64(a.Value(i))), "15:04:05.000000")
	case *array.Timestamp:
		layout := "2006-01-02T15:04:05.000000"
		if a.DataType().(*arrow.TimestampType).TimeZone != "" {
			layout = "2006-01-02T15:04:05.000000Z"
		}
		return appendTime(dst, time.UnixMicro(int64(a.Value(i))), layout)
	case *extensions.UUIDArray:
		return append(appendUUID(append(dst, '"'), a.Value(i)), '"')
	case *extensions.JSONArray:
		return appendLine(dst, a.Storage().(*array.String).Value(i))
	case *array.List:
		lo, hi := a.ValueOffsets(i)
		dst = append(dst, '[')
		for j := lo; j < hi; j++ {
			if j > lo {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, a.ListValues(), int(j))
		}
		return append(dst, ']')
	case *array.Struct:
		dst = append(dst, '{')
		for f := range a.NumField() {
			if f > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(dst, a.DataType().(*arrow.StructType).Field(f).Name)
			dst = append(dst, ':')
			dst = AppendJSON(dst, a.Field(f), i)
		}
		return append(dst, '}')
	}
	return appendText(dst, a.ValueStr(i))
}

func appendTime(dst []byte, t time.Time, layout string) []byte {
	return append(t.UTC().AppendFormat(append(dst, '"'), layout), '"')
}

// appendLine appends a JSON document without line ends, which may stand between
// its tokens only.
func appendLine(dst []byte, doc string) []byte {
	from := len(dst)
	dst = append(dst, doc...)
	for i := from; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}

func appendFloat(dst []byte, f float64, bits int) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return appendText(dst, strconv.FormatFloat(f, 'g', -1, bits))
	}
	return strconv.AppendFloat(dst, f, 'g', -1, bits)
}
