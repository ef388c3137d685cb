package http

import (
	"maps"
	nethttp "net/http"
	"net/textproto"
	"slices"
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// column is a metadata column that is asked for.
type column struct {
	path, name string // below metadata, of the column
	typ        arrow.DataType
	nullable   bool
	add        func(b array.Builder, r *request, i int)
}

var headersType = arrow.ListOf(arrow.StructOf(
	arrow.Field{Name: "key", Type: dataflow.TypeString},
	arrow.Field{Name: "value", Type: dataflow.TypeBinary, Nullable: true},
))

// columns lists the metadata columns in the order in which they stand in rows.
func (m Metadata) columns() []column {
	var out []column
	text := func(path, name string, nullable bool, of func(r *request, i int) string) {
		if name == "" {
			return
		}
		out = append(out, column{path, name, dataflow.TypeString, nullable, func(b array.Builder, r *request, i int) {
			if v := of(r, i); v != "" || !nullable {
				b.(*array.StringBuilder).Append(strings.ToValidUTF8(v, "\ufffd"))
			} else {
				b.AppendNull()
			}
		}})
	}
	other := func(path, name string, typ arrow.DataType, nullable bool, add func(b array.Builder, r *request, i int)) {
		if name != "" {
			out = append(out, column{path, name, typ, nullable, add})
		}
	}
	text("remote", m.Remote, false, func(r *request, _ int) string { return r.http.RemoteAddr })
	text("principal", m.Principal, true, func(r *request, _ int) string { return r.principal })
	text("path", m.Path, false, func(r *request, _ int) string { return r.http.URL.Path })
	text("query", m.Query, true, func(r *request, _ int) string { return r.http.URL.RawQuery })
	text("content_type", m.ContentType, true, func(r *request, _ int) string { return r.http.Header.Get("Content-Type") })
	other("received_at", m.ReceivedAt, dataflow.TypeTimestampTZ, false, func(b array.Builder, r *request, _ int) {
		b.(*array.TimestampBuilder).Append(arrow.Timestamp(r.received.UnixMicro()))
	})
	other("index", m.Index, dataflow.TypeInt64, false, func(b array.Builder, _ *request, i int) { b.(*array.Int64Builder).Append(int64(i)) })
	other("headers", m.Headers, headersType, false, func(b array.Builder, r *request, _ int) { appendHeaders(b.(*array.ListBuilder), r.http.Header, r.ep) })
	for _, h := range slices.Sorted(maps.Keys(m.Header)) {
		name := m.Header[h]
		out = append(out, column{"header." + h, name, dataflow.TypeString, true, func(b array.Builder, r *request, _ int) {
			if v := r.http.Header.Values(h); len(v) > 0 {
				b.(*array.StringBuilder).Append(strings.ToValidUTF8(v[0], "\ufffd"))
			} else {
				b.AppendNull()
			}
		}})
	}
	for _, c := range m.EventMetadata.Columns() {
		other(c.Key, c.Name, c.Type, true, func(b array.Builder, r *request, i int) { c.Append(b, r.event(i)) })
	}
	return out
}

func (m Metadata) fields() []arrow.Field {
	var out []arrow.Field
	for _, c := range m.columns() {
		out = append(out, arrow.Field{Name: c.name, Type: c.typ, Nullable: c.nullable})
	}
	return out
}

// isSecretHeader says whether a header always holds a secret.
func isSecretHeader(name string) bool {
	switch textproto.CanonicalMIMEHeaderKey(name) {
	case "Authorization", "Cookie", "Proxy-Authorization":
		return true
	}
	return false
}

func appendHeaders(b *array.ListBuilder, h nethttp.Header, ep *endpoint) {
	b.Append(true)
	st := b.ValueBuilder().(*array.StructBuilder)
	keys, values := st.FieldBuilder(0).(*array.StringBuilder), st.FieldBuilder(1).(*array.BinaryBuilder)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if isSecretHeader(name) || ep.signs(name) {
			continue
		}
		for _, v := range h[name] {
			st.Append(true)
			keys.Append(strings.ToLower(name))
			values.Append([]byte(v))
		}
	}
}
