package codec

import (
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/leak"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

var pushed = JSONConfig{Schema: component.NamedTypes{
	{Name: "id", Type: "int64"}, {Name: "text", Type: "string"}, {Name: "ok", Type: "bool"}, {Name: "more", Type: "json"}, {Name: "tags", Type: "list<string>"},
}, Required: []string{"id"}}

// TestCSV has the rules of RFC 4180, section 2, and what goes beyond.
func TestCSV(t *testing.T) {
	c, err := NewCSV(pushed)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ name, in, want string }{
		{"1 lines end with CRLF", "id,text\r\n1,a\r\n2,b\r\n", `{"id":1,"text":"a"} {"id":2,"text":"b"}`},
		{"2 the last need not", "id,text\r\n1,a", `{"id":1,"text":"a"}`},
		{"LF alone", "id,text\n1,a\n", `{"id":1,"text":"a"}`},
		{"4 spaces are text", "id,text\n1, a b \n", `{"id":1,"text":" a b "}`},
		{"5 quotes", "id,text\n\"1\",\"a\"\n", `{"id":1,"text":"a"}`},
		{"6 commas, quotes and ends of lines in quotes", "id,text\n1,\"a,\r\nb\"\n", `{"id":1,"text":"a,\u000d\u000ab"}`},
		{"7 doubled quotes", "id,text\n1,\"a\"\"b\"\n", `{"id":1,"text":"a\"b"}`},
		{"only quotes", "id,text\n1,\"\"\"\"\n", `{"id":1,"text":"\""}`},
		{"empty is null", "id,text\n1,\n2,\"\"\n", `{"id":1} {"id":2,"text":""}`},
		{"empty lines", "id,text\n\n1,a\n\n", `{"id":1,"text":"a"}`},
		{"one column", "id\n1\n\n2\n", `{"id":1} {} {"id":2}`},
		{"byte order mark", "\ufeffid\n1\n", `{"id":1}`},
		{"quoted header", "\"id\",text\n1,a\n", `{"id":1,"text":"a"}`},
		{"no number", "id\n007\n1 \n+1\n", `{"id":"007"} {"id":"1 "} {"id":"+1"}`},
		{"json", "id,more,tags\n1,\"{\"\"a\"\":[1,2]}\",\"[\"\"x\"\"]\"\n", `{"id":1,"more":{"a":[1,2]},"tags":["x"]}`},
		{"no json", "id,more\n1,\"1,\"\"id\"\":2\"\n", "invalid_json"},
		{"fields", "id,text\n1\n1,2,3\n", "invalid_csv invalid_csv"},
		{"quote inside", "id,text\n1,a\"b\n2,c\n", `invalid_csv {"id":2,"text":"c"}`},
		{"CR alone", "id,text\n1,a\rb\n", "invalid_csv"},
		{"behind a quote", "id,text\n1,\"a\"b\n", "refused"},
		{"not closed", "id,text\n1,\"a\n", "refused"},
		{"nothing", "", "refused"}, {"no known column", "a,b\n1,2\n", "refused"}, {"twice", "id,id\n1,2\n", "refused"}, {"no name", "id,\n1,2\n", "refused"},
	} {
		records, bad := c.Records([]byte(x.in), 100)
		var got []string
		for _, r := range records {
			if r.Bad != nil {
				got = append(got, r.Bad.Reason)
			} else {
				got = append(got, string(r.JSON))
			}
		}
		if bad != nil {
			got = []string{"refused"}
		}
		if s := strings.Join(got, " "); s != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, s, x.want)
		}
	}
	if _, bad := c.Records([]byte("id\n1\n2\n3\n"), 2); bad == nil || bad.Reason != ReasonTooLarge {
		t.Error(bad)
	}
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"id,text\r\n1,\"a\"\"b\"\r\n", "id,more\n1,\"{}\"\n", "id\n\n", "\"", "id,ok,tags\n1,true,[]\n\"2\",,x"} {
		f.Add([]byte(s))
	}
	c, err := NewCSV(pushed)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		records, bad := c.Records(b, 1000)
		if bad != nil {
			return
		}
		for _, r := range records {
			if r.Bad != nil {
				continue
			}
			// What comes out is one JSON object, whatever is in the fields, unless bytes
			// are no UTF-8.
			if at, f := validate(r.JSON, maxDepth); f != fine && f != faultUTF8 {
				t.Fatalf("%q: byte %d of %s", b, at, r.JSON)
			}
		}
	})
}

// FuzzElements: elements are documents by themselves, and joined again they are the
// same array.
func FuzzElements(f *testing.F) {
	for _, s := range []string{`[1,{"a":[2]},"x,]"]`, `[]`, ` {"a":1} `, `[[[]]]`, `[1,]`, `[1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		elements, bad := Elements(b, 64, 1000)
		_, whole := validate(b, 65)
		if bad != nil {
			if whole == fine && bad.Reason != ReasonTooLarge && bad.Reason != ReasonTooDeep {
				t.Fatalf("%q: %v", b, bad)
			}
			return
		}
		if i := skipSpace(b, 0); b[i] != '[' {
			return // one document, which the decoder looks at
		}
		if whole != fine {
			t.Fatalf("%q is no JSON, and was taken", b)
		}
		for _, e := range elements {
			if _, f := validate(e, 64); f != fine {
				t.Fatalf("%q of %q", e, b)
			}
		}
	})
}

func FuzzCloudEvent(f *testing.F) {
	for _, s := range []string{
		`{"specversion":"1.0","id":"A234-1234-1234","source":"https://github.com/cloudevents","type":"com.github.pull_request.opened","subject":"123","time":"2018-04-05T17:31:00Z","comexampleextension1":"value","comexampleothervalue":5,"datacontenttype":"text/xml","data":"<much wow=\"xml\"/>"}`,
		`{"specversion":"1.0","id":"C","source":"/x","type":"t","data_base64":"AAEC"}`, `{"specversion":"1.0","id":"\ud83d","source":"","type":null}`, `{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, bad := ParseCloudEvent(b, 64)
		if bad != nil {
			return
		}
		if e.ID == "" || e.Source == "" || e.Type == "" || e.Data == nil {
			t.Fatalf("%q: %+v", b, e)
		}
		if x := e.ExtensionsJSON(); x != nil {
			if _, f := validate(x, 4); f != fine {
				t.Fatalf("%q: %s", b, x)
			}
		}
	})
}

func FuzzArrow(f *testing.F) {
	a, err := NewArrow(pushed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(arrowOf(f, `{"id":1,"text":"a","tags":["x",null]}`, `{"id":2,"ok":true,"more":{"a":1}}`))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, bad, err := a.Rows(b, 1000, 1<<20)
		if err != nil {
			return
		}
		defer rows.Release()
		for c := range int(rows.NumCols()) {
			for i := range int(rows.NumRows()) {
				_ = dataflow.AppendJSON(nil, rows.Column(c), i)
			}
		}
		_ = bad
	})
}

// arrowOf is an Arrow IPC stream of documents of the schema pushed.
func arrowOf(t testing.TB, docs ...string) []byte {
	d, err := NewJSON(pushed, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer d.(*JSON).Release()
	for _, doc := range docs {
		if bad := d.Append([]byte(doc)); bad != nil {
			t.Fatal(bad)
		}
	}
	return streamOf(t, d)
}

func TestArrowRoundTrip(t *testing.T) {
	a, err := NewArrow(pushed)
	if err != nil {
		t.Fatal(err)
	}
	rows, bad, refused := a.Rows(arrowOf(t, `{"id":1,"text":"größe","ok":false,"tags":["x",null]}`, `{"id":2,"more":{"a":[1]}}`), 10, 1<<20)
	if refused != nil || len(bad) > 0 {
		t.Fatal(refused, bad)
	}
	defer rows.Release()
	got := ""
	for i := range int(rows.NumRows()) {
		for c := range int(rows.NumCols()) {
			got += fmt.Sprintf("%s ", dataflow.AppendJSON(nil, rows.Column(c), i))
		}
	}
	if want := `1 "größe" false null ["x",null] 2 null null {"a":[1]} null `; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A stream that is refused half-way, here as its second column takes too much, leaves
// nothing of its first one.
func TestAStreamThatIsRefusedLeavesNothing(t *testing.T) {
	a, err := NewArrow(pushed)
	if err != nil {
		t.Fatal(err)
	}
	b := arrowOf(t, `{"id":1,"text":"a"}`, `{"id":2,"text":"b"}`)
	watch := leak.Begin()
	_, _, refused := a.Rows(b, 10, 20)
	if err := watch.End(); err != nil {
		t.Error(err)
	}
	if refused == nil || refused.Detail != "the stream is damaged: its rows take more memory than a request may" {
		t.Error(refused)
	}
}
