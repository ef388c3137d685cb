package mqtt

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// origin is what the columns behind the decoded ones are made of, for one record.
type origin struct {
	m *message
	// levels are those that the topic's pattern names, p is that pattern.
	levels []string
	p      *pattern
}

// appender appends a value of one column.
type appender func(b array.Builder, o origin)

// appenders are those of cols, in their order.
func appenders(cols []column, patterns []pattern) []appender {
	at := map[*pattern]map[string]int{}
	for i := range patterns {
		m := map[string]int{}
		for j, name := range patterns[i].names() {
			m[name] = j
		}
		at[&patterns[i]] = m
	}
	out := make([]appender, len(cols))
	for i, c := range cols {
		if c.kind != "" {
			out[i] = metaAppenders[c.kind]
			continue
		}
		name := c.field.Name
		out[i] = func(b array.Builder, o origin) {
			if j, ok := at[o.p][name]; ok && o.p != nil {
				b.(*array.StringBuilder).Append(o.levels[j])
			} else {
				b.AppendNull()
			}
		}
	}
	return out
}

var metaAppenders = map[string]appender{
	"topic":       func(b array.Builder, o origin) { b.(*array.StringBuilder).Append(o.m.topic) },
	"qos":         func(b array.Builder, o origin) { b.(*array.Int32Builder).Append(int32(o.m.qos)) },
	"retained":    func(b array.Builder, o origin) { b.(*array.BooleanBuilder).Append(o.m.retained) },
	"redelivered": func(b array.Builder, o origin) { b.(*array.BooleanBuilder).Append(o.m.dup) },
	"message_id": func(b array.Builder, o origin) {
		if o.m.qos == 0 {
			b.AppendNull()
		} else {
			b.(*array.Int32Builder).Append(int32(o.m.id))
		}
	},
	"received_at": func(b array.Builder, o origin) {
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(dataflow.TimeOf(o.m.received)))
	},
	"user_properties": appendUser,
	"content_type":    textOf(func(p *properties) string { return p.contentType }),
	"response_topic":  textOf(func(p *properties) string { return p.responseTopic }),
	"expiry": func(b array.Builder, o origin) {
		if o.m.props == nil || o.m.props.expiry == nil {
			b.AppendNull()
		} else {
			b.(*array.Int64Builder).Append(int64(*o.m.props.expiry))
		}
	},
	"correlation_data": func(b array.Builder, o origin) {
		if o.m.props == nil || o.m.props.correlation == nil {
			b.AppendNull()
		} else {
			b.(*array.BinaryBuilder).Append(o.m.props.correlation)
		}
	},
}

func textOf(get func(*properties) string) appender {
	return func(b array.Builder, o origin) {
		if o.m.props == nil || get(o.m.props) == "" {
			b.AppendNull()
		} else {
			b.(*array.StringBuilder).Append(get(o.m.props))
		}
	}
}

func appendUser(b array.Builder, o origin) {
	if o.m.props == nil {
		b.AppendNull()
		return
	}
	list := b.(*array.ListBuilder)
	list.Append(true)
	st := list.ValueBuilder().(*array.StructBuilder)
	keys, values := st.FieldBuilder(0).(*array.StringBuilder), st.FieldBuilder(1).(*array.StringBuilder)
	for _, u := range o.m.props.user {
		st.Append(true)
		keys.Append(u[0])
		values.Append(u[1])
	}
}
