package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/codec"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/twmb/franz-go/pkg/kgo"
)

// headersType is that of the column of all headers.
var headersType = arrow.ListOf(arrow.StructOf(
	arrow.Field{Name: "key", Type: dataflow.TypeString},
	arrow.Field{Name: "value", Type: dataflow.TypeBinary, Nullable: true},
))

// column is a metadata column that is asked for.
type column struct {
	path, name string // below metadata, of the column
	typ        arrow.DataType
	nullable   bool
	append     func(b array.Builder, r *kgo.Record, e *codec.CloudEvent)
}

// columns lists the metadata columns in the order in which they stand in rows.
func (m Metadata) columns() []column {
	var out []column
	add := func(path, name string, typ arrow.DataType, nullable bool, add func(b array.Builder, r *kgo.Record, e *codec.CloudEvent)) {
		if name != "" {
			out = append(out, column{path, name, typ, nullable, add})
		}
	}
	add("key", m.Key, dataflow.TypeBinary, true, func(b array.Builder, r *kgo.Record, _ *codec.CloudEvent) {
		appendBinary(b.(*array.BinaryBuilder), r.Key)
	})
	add("headers", m.Headers, headersType, true, func(b array.Builder, r *kgo.Record, _ *codec.CloudEvent) {
		appendHeaders(b.(*array.ListBuilder), r.Headers)
	})
	for _, h := range slices.Sorted(maps.Keys(m.Header)) {
		add("header."+h, m.Header[h], dataflow.TypeString, true, func(b array.Builder, r *kgo.Record, _ *codec.CloudEvent) {
			if v, ok := header(r, h); ok && v != nil {
				b.(*array.StringBuilder).BinaryBuilder.Append(v)
			} else {
				b.AppendNull()
			}
		})
	}
	add("timestamp", m.Timestamp, dataflow.TypeTimestampTZ, true, func(b array.Builder, r *kgo.Record, _ *codec.CloudEvent) {
		if r.Attrs.TimestampType() < 0 {
			b.AppendNull()
		} else {
			b.(*array.TimestampBuilder).Append(arrow.Timestamp(r.Timestamp.UnixMicro()))
		}
	})
	add("topic", m.Topic, dataflow.TypeString, false, func(b array.Builder, r *kgo.Record, _ *codec.CloudEvent) { b.(*array.StringBuilder).Append(r.Topic) })
	add("partition", m.Partition, dataflow.TypeInt32, false, func(b array.Builder, r *kgo.Record, _ *codec.CloudEvent) { b.(*array.Int32Builder).Append(r.Partition) })
	add("offset", m.Offset, dataflow.TypeInt64, false, func(b array.Builder, r *kgo.Record, _ *codec.CloudEvent) { b.(*array.Int64Builder).Append(r.Offset) })
	for _, c := range m.EventMetadata.Columns() {
		add(c.Key, c.Name, c.Type, true, func(b array.Builder, _ *kgo.Record, e *codec.CloudEvent) { c.Append(b, e) })
	}
	return out
}

func appendBinary(b *array.BinaryBuilder, v []byte) {
	if v == nil {
		b.AppendNull()
	} else {
		b.Append(v)
	}
}

func appendHeaders(b *array.ListBuilder, headers []kgo.RecordHeader) {
	b.Append(true)
	st := b.ValueBuilder().(*array.StructBuilder)
	keys, values := st.FieldBuilder(0).(*array.StringBuilder), st.FieldBuilder(1).(*array.BinaryBuilder)
	for _, h := range headers {
		st.Append(true)
		keys.Append(h.Key)
		appendBinary(values, h.Value)
	}
}

// header is the last value of a header.
func header(r *kgo.Record, name string) (v []byte, ok bool) {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return h.Value, true
		}
	}
	return nil, false
}

// badHeader says which of the headers that are columns of text is none.
func (m Metadata) badHeader(r *kgo.Record) *dataflow.Bad {
	for name := range m.Header {
		if v, ok := header(r, name); ok && !utf8.Valid(v) {
			return &dataflow.Bad{Reason: codec.ReasonInvalidUTF8, Detail: fmt.Sprintf("header %q is no UTF-8: %q; metadata.headers gives headers as bytes", name, v)}
		}
	}
	return nil
}

// maxEventDepth bounds how deep arrays and objects nest in an event.
const maxEventDepth = 64

// event reads a record as a CloudEvent of either mode of the Kafka binding.
func event(r *kgo.Record) (*codec.CloudEvent, *dataflow.Bad) {
	contentType := ""
	for _, h := range r.Headers {
		if strings.EqualFold(h.Key, "content-type") {
			contentType = string(h.Value)
		}
	}
	var e codec.CloudEvent
	var bad *dataflow.Bad
	if strings.HasPrefix(strings.ToLower(contentType), "application/cloudevents") {
		e, bad = codec.ParseCloudEvent(r.Value, maxEventDepth)
		return &e, bad
	}
	e, bad = codec.CloudEventFromKafka(contentType, func(visit func(name, value string) *dataflow.Bad) *dataflow.Bad {
		for _, h := range r.Headers {
			if bad := visit(h.Key, string(h.Value)); bad != nil {
				return bad
			}
		}
		return nil
	}, r.Value)
	return &e, bad
}
