package http

import (
	"bytes"
	"strings"
	"testing"

	"frazil/dataflow/codec"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestCloudEvents(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Metadata = Metadata{EventMetadata: codec.EventMetadata{EventID: "ce", EventSource: "src", EventType: "type", EventSubject: "subject", EventTime: "time", EventSchema: "schema", EventContentType: "content", EventExtensions: "ext"}}
	})
	const attrs = `"specversion":"1.0","id":"A234","source":"/mycontext","type":"com.example.someevent"`
	r.post(typeEvent, `{`+attrs+`,"subject":"s","time":"2018-04-05T17:31:00Z","dataschema":"http://x","datacontenttype":"application/json","comexampleextension1":"value","comexampleothervalue":5,"unsetextension":null,"data":{"id":1}}`).expect(t, 200, "")
	r.post(typeEvent+"; charset=utf-8", `{`+attrs+`,"data_base64":"eyJpZCI6Mn0="}`).expect(t, 200, "")
	r.post(typeEvent, `{`+attrs+`,"datacontenttype":"text/plain","data":"{\"id\":3}"}`).expect(t, 200, "")
	a := r.post(typeEvents, `[{`+attrs+`,"data":{"id":4}},{"specversion":"1.0","source":"x","type":"y","data":{"id":5}},{`+attrs+`,"data":{"id":"x"}},{`+attrs+`}]`)
	a.expect(t, 207, "")
	if len(a.Rejected) != 3 || a.Rejected[0].Index != 1 || a.Rejected[0].Reason != "invalid_event" || a.Rejected[1].Reason != "mistyped" || a.Rejected[2].Reason != "missing_required" {
		t.Error(a.Body)
	}
	r.post(typeEvents, `[]`).expect(t, 200, "")
	r.post("application/json", `{"id":6}`, "ce-specversion", "1.0", "ce-id", "a%20b%22%E2%82%AC", "ce-source", `"/q\"uoted"`, "ce-type", "t", "ce-time", "2018-04-05T17:31:00+02:00", "ce-ext", "1").expect(t, 200, "")
	for _, bad := range []string{
		`{"specversion":"0.3","id":"1","source":"x","type":"y"}`, `{` + attrs + `,"data":1,"data_base64":"MQ=="}`, `{` + attrs + `,"time":"yesterday"}`,
		`{` + attrs + `,"Upper":1}`, `{` + attrs + `,"ext":{}}`, `{` + attrs + `,"id":"again"}`, `{` + attrs + `,"subject":""}`, `{` + attrs + `,"subject":1}`, `{` + attrs + `,"data_base64":"%"}`, `[]`, `1`,
	} {
		a := r.post(typeEvent, bad)
		if a.Status != 422 || len(a.Rejected) != 1 {
			t.Errorf("%s: %s", bad, a.Body)
		}
	}
	r.post("application/json", `{"id":6}`, "ce-specversion", "1.0", "ce-id", "1", "ce-source", "x").expect(t, 422, "rejected")
	r.post("application/json", `{"id":6}`, "ce-specversion", "1.0", "ce-id", "%zz", "ce-source", "x", "ce-type", "y").expect(t, 422, "rejected")
	const cols = `"ce":"A234","src":"/mycontext","type":"com.example.someevent"`
	r.expect(`{"id":1,`+cols+`,"subject":"s","time":"2018-04-05T17:31:00.000000Z","schema":"http://x","content":"application/json","ext":{"comexampleextension1":"value","comexampleothervalue":5}}`,
		`{"id":2,`+cols+`}`, `{"id":3,`+cols+`,"content":"text/plain"}`, `{"id":4,`+cols+`}`,
		`{"id":6,"ce":"a b\"€","src":"/q\"uoted","type":"t","time":"2018-04-05T15:31:00.000000Z","content":"application/json","ext":{"ext":"1"}}`)
}

// stream writes batches as an Arrow IPC stream.
func stream(t *testing.T, schema *arrow.Schema, rows string, opts ...ipc.Option) string {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(opts, ipc.WithSchema(schema))...)
	for range 2 {
		if err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestArrow(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "text", Type: arrow.BinaryTypes.LargeString, Nullable: true}, {Name: "id", Type: arrow.PrimitiveTypes.Int16, Nullable: true},
		{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "Europe/Berlin"}, Nullable: true}, {Name: "other", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true},
	}, nil)
	r := newRig(t, nil)
	a := r.post(typeArrow, stream(t, schema, `[{"id":1,"text":"a","ts":"2026-03-01 10:00:00.123456789Z","tags":["x",null]},{"text":"no id"},{"id":3}]`))
	a.expect(t, 207, "")
	if a.Accepted != 4 || len(a.Rejected) != 2 || a.Rejected[0].Index != 1 || a.Rejected[1].Index != 4 || a.Rejected[1].Reason != "missing_required" {
		t.Error(a.Body)
	}
	r.post(typeArrow, stream(t, schema, `[]`)).expect(t, 200, "")
	row := `{"id":1,"text":"a","ts":"2026-03-01T10:00:00.123456Z","tags":["x",null]}`
	r.expect(row, `{"id":3}`, row, `{"id":3}`)
	a = r.post(typeArrow, stream(t, schema, `[{"id":1}]`, ipc.WithZstd()))
	if a.expect(t, 400, "invalid_arrow"); !strings.Contains(a.Detail, "compress the body instead") {
		t.Error(a.Detail)
	}
	for _, f := range []arrow.Field{{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "id", Type: arrow.PrimitiveTypes.Float64}, {Name: "x", Type: arrow.PrimitiveTypes.Int64}} {
		r.post(typeArrow, stream(t, arrow.NewSchema([]arrow.Field{f}, nil), `[]`)).expect(t, 400, "invalid_arrow")
	}
	whole := stream(t, schema, `[{"id":1,"text":"abc"}]`)
	for n := 0; n < len(whole); n += 7 {
		if a := r.post(typeArrow, whole[:n]); a.Status/100 == 2 && a.Accepted > 0 && n < len(whole)-8 && a.Accepted != 1 {
			t.Errorf("%d bytes: %s", n, a.Body)
		}
	}
	keep := newRig(t, func(c *Config) { c.OnBad = onBadKeep })
	keep.post(typeArrow, stream(t, schema, `[{"text":"no id"},{"id":3}]`)).expect(t, 200, "")
	bad := "bad: missing_required: " + base64of(`{"text":"no id"}`)
	keep.expect(`{"id":3}`, `{"id":3}`, bad, bad)
	all := newRig(t, func(c *Config) { c.OnBad = onBadAll })
	all.post(typeArrow, stream(t, schema, `[{"text":"no id"},{"id":3}]`)).expect(t, 422, "rejected")
	all.post(typeArrow, stream(t, schema, `[{"id":3}]`)).expect(t, 200, "")
	all.expect(`{"id":3}`, `{"id":3}`)
}
