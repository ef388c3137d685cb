package codec

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// EventMetadata names the columns that hold the attributes of a CloudEvent. It stands
// inline in the metadata of a source.
type EventMetadata struct {
	// EventID: string, the attribute id of a CloudEvent, null for other records, as
	// with all columns that follow.
	EventID string `yaml:"ce_id"`
	// EventSource: string, source.
	EventSource string `yaml:"ce_source"`
	// EventType: string, type.
	EventType string `yaml:"ce_type"`
	// EventSubject: string, subject.
	EventSubject string `yaml:"ce_subject"`
	// EventTime: timestamptz, time.
	EventTime string `yaml:"ce_time"`
	// EventSchema: string, dataschema.
	EventSchema string `yaml:"ce_dataschema"`
	// EventContentType: string, datacontenttype.
	EventContentType string `yaml:"ce_datacontenttype"`
	// EventExtensions: json, an object with all other attributes.
	EventExtensions string `yaml:"ce_extensions"`
}

// EventColumn is a column of an attribute that is asked for.
type EventColumn struct {
	// Key is the one in the file, Name the column's. It may be null.
	Key, Name string
	Type      arrow.DataType
	// Append appends the attribute of e, null where e is nil or has none.
	Append func(b array.Builder, e *CloudEvent)
}

// Columns lists those that are asked for, in their order.
func (m EventMetadata) Columns() []EventColumn {
	var out []EventColumn
	add := func(key, name string, typ arrow.DataType, add func(b array.Builder, e *CloudEvent)) {
		if name != "" {
			out = append(out, EventColumn{key, name, typ, add})
		}
	}
	text := func(key, name string, of func(e *CloudEvent) string) {
		add(key, name, dataflow.TypeString, func(b array.Builder, e *CloudEvent) {
			if e != nil && of(e) != "" {
				b.(*array.StringBuilder).Append(of(e))
			} else {
				b.AppendNull()
			}
		})
	}
	text("ce_id", m.EventID, func(e *CloudEvent) string { return e.ID })
	text("ce_source", m.EventSource, func(e *CloudEvent) string { return e.Source })
	text("ce_type", m.EventType, func(e *CloudEvent) string { return e.Type })
	text("ce_subject", m.EventSubject, func(e *CloudEvent) string { return e.Subject })
	add("ce_time", m.EventTime, dataflow.TypeTimestampTZ, func(b array.Builder, e *CloudEvent) {
		if e != nil && e.HasTime {
			b.(*array.TimestampBuilder).Append(arrow.Timestamp(e.Time))
		} else {
			b.AppendNull()
		}
	})
	text("ce_dataschema", m.EventSchema, func(e *CloudEvent) string { return e.DataSchema })
	text("ce_datacontenttype", m.EventContentType, func(e *CloudEvent) string { return e.DataContentType })
	add("ce_extensions", m.EventExtensions, dataflow.TypeJSON, func(b array.Builder, e *CloudEvent) {
		in := b.(*array.ExtensionBuilder)
		if e != nil && len(e.Extensions) > 0 {
			in.StorageBuilder().(*array.StringBuilder).Append(string(e.ExtensionsJSON()))
		} else {
			in.AppendNull()
		}
	})
	return out
}
