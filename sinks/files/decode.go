package files

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// appendRow appends a line that the encoder wrote to the columns of b. A column
// that the line does not have is null. It is for looking at tables, not for
// the hot path.
func appendRow(b *array.RecordBuilder, line []byte) error {
	var row map[string]json.RawMessage
	if err := json.Unmarshal(line, &row); err != nil {
		return err
	}
	for i, f := range b.Schema().Fields() {
		if err := appendValue(b.Field(i), f.Type, row[f.Name]); err != nil {
			return fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return nil
}

// appendValue is the inverse of dataflow.AppendJSON.
func appendValue(b array.Builder, t arrow.DataType, raw json.RawMessage) error {
	if len(raw) == 0 || string(raw) == "null" {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.ListBuilder:
		return appendList(b, t.(*arrow.ListType), raw)
	case *array.StructBuilder:
		return appendStruct(b, t.(*arrow.StructType), raw)
	case *extensions.UUIDBuilder:
		return appendText(raw, b.AppendValueFromString)
	case *array.ExtensionBuilder:
		b.Builder.(*array.StringBuilder).Append(string(raw))
		return nil
	case *array.StringBuilder:
		return appendText(raw, func(s string) error { b.Append(s); return nil })
	case *array.BinaryBuilder:
		return appendText(raw, func(s string) error {
			v, err := hex.DecodeString(s)
			b.Append(v)
			return err
		})
	case *array.BooleanBuilder:
		b.Append(string(raw) == "true")
		return nil
	case *array.Decimal128Builder:
		return appendText(raw, func(s string) error {
			d := t.(*arrow.Decimal128Type)
			v, err := decimal128.FromString(s, d.Precision, d.Scale)
			b.Append(v)
			return err
		})
	case *array.Date32Builder:
		return appendTime(raw, "2006-01-02", func(v time.Time) { b.Append(arrow.Date32(v.Unix() / 86400)) })
	case *array.Time64Builder:
		return appendTime(raw, "15:04:05.000000", func(v time.Time) {
			b.Append(arrow.Time64(((v.Hour()*60+v.Minute())*60+v.Second())*1_000_000 + v.Nanosecond()/1000))
		})
	case *array.TimestampBuilder:
		layout := "2006-01-02T15:04:05.000000"
		if t.(*arrow.TimestampType).TimeZone != "" {
			layout += "Z"
		}
		return appendTime(raw, layout, func(v time.Time) { b.Append(arrow.Timestamp(v.UnixMicro())) })
	}
	return appendNumber(b, string(raw))
}

func appendNumber(b array.Builder, raw string) error {
	if len(raw) > 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1] // NaN and the infinities
	}
	switch b := b.(type) {
	case *array.Int32Builder:
		v, err := strconv.ParseInt(raw, 10, 32)
		b.Append(int32(v))
		return err
	case *array.Int64Builder:
		v, err := strconv.ParseInt(raw, 10, 64)
		b.Append(v)
		return err
	case *array.Float32Builder:
		v, err := strconv.ParseFloat(raw, 32)
		b.Append(float32(v))
		return err
	case *array.Float64Builder:
		v, err := strconv.ParseFloat(raw, 64)
		b.Append(v)
		return err
	}
	return b.AppendValueFromString(raw)
}

func appendText(raw json.RawMessage, add func(string) error) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	return add(s)
}

func appendTime(raw json.RawMessage, layout string, add func(time.Time)) error {
	return appendText(raw, func(s string) error {
		v, err := time.Parse(layout, s)
		add(v)
		return err
	})
}

func appendList(b *array.ListBuilder, t *arrow.ListType, raw json.RawMessage) error {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	b.Append(true)
	for _, item := range items {
		if err := appendValue(b.ValueBuilder(), t.Elem(), item); err != nil {
			return err
		}
	}
	return nil
}

func appendStruct(b *array.StructBuilder, t *arrow.StructType, raw json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	b.Append(true)
	for i, f := range t.Fields() {
		if err := appendValue(b.FieldBuilder(i), f.Type, fields[f.Name]); err != nil {
			return err
		}
	}
	return nil
}
