package codec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"
)

// ReasonInvalidEvent: no event by CloudEvents 1.0.
const ReasonInvalidEvent = "invalid_event"

// CloudEvent is an event by CloudEvents 1.0. Attributes that it does not have are
// "".
type CloudEvent struct {
	ID, Source, Type, Subject   string
	DataSchema, DataContentType string
	// Time is in microseconds; HasTime says whether there is one.
	Time    dataflow.Time
	HasTime bool
	// Extensions are the other attributes, by name; values are JSON.
	Extensions []Extension
	// Data is what the decode block reads: a JSON value as it stands, the text of a
	// string if the content is no JSON, or decoded bytes. An event without data has
	// an object without fields.
	Data []byte
}

// Extension is an attribute that the specification does not name.
type Extension struct {
	Name  string
	Value []byte
}

// emptyObject is the data of an event that has none.
var emptyObject = []byte("{}")

func badEvent(format string, args ...any) *dataflow.Bad {
	return &dataflow.Bad{Reason: ReasonInvalidEvent, Detail: fmt.Sprintf(format, args...)}
}

// ParseCloudEvent reads an event in the JSON format. depth bounds how deep arrays
// and objects nest. It aliases b.
func ParseCloudEvent(b []byte, depth int) (CloudEvent, *dataflow.Bad) {
	var e CloudEvent
	var data, encoded []byte
	var isSet attributes
	bad := members(b, min(depth+1, maxDepth), func(key string, value []byte) *dataflow.Bad {
		null := string(value) == "null"
		switch {
		case key == "data":
			if data != nil {
				return badEvent("data stands there twice")
			}
			data = value
			return nil
		case key == "data_base64":
			if encoded != nil {
				return badEvent("data_base64 stands there twice")
			}
			encoded = value
			return nil
		case null:
			return nil // as if it were not there
		case known[key]:
			if value[0] != '"' {
				return badEvent("attribute %q: expected a string, got %s", key, excerpt(value))
			}
			return isSet.set(&e, key, unquote(value))
		}
		return isSet.extend(&e, key, value)
	})
	if bad == nil {
		bad = isSet.check(&e)
	}
	if bad != nil {
		return e, bad
	}
	return e, e.setData(data, encoded)
}

// setData takes data from a structured event.
func (e *CloudEvent) setData(data, encoded []byte) *dataflow.Bad {
	switch {
	case encoded != nil && string(encoded) != "null":
		if data != nil && string(data) != "null" {
			return badEvent("expected data or data_base64, got both")
		}
		if encoded[0] != '"' {
			return badEvent("data_base64: expected a string, got %s", excerpt(encoded))
		}
		raw, err := base64.StdEncoding.DecodeString(unquote(encoded))
		if err != nil {
			return badEvent("data_base64: %v", err)
		}
		e.Data = raw
	case data == nil || string(data) == "null":
		e.Data = emptyObject
	case data[0] == '"' && !isJSONContent(e.DataContentType):
		e.Data = []byte(unquote(data))
	default:
		e.Data = data
	}
	return nil
}

// CloudEventFromHeaders reads an event in the binary mode of the HTTP binding:
// attributes are the headers that begin with ce-, each asked for by visit with its
// name in lower case; body is the data. It aliases body.
func CloudEventFromHeaders(contentType string, headers func(visit func(name, value string) *dataflow.Bad) *dataflow.Bad, body []byte) (CloudEvent, *dataflow.Bad) {
	return fromHeaders("ce-", headerText, contentType, headers, body)
}

// CloudEventFromKafka is CloudEventFromHeaders for the Kafka binding: attributes are the
// headers that begin with ce_, their values text as it is.
func CloudEventFromKafka(contentType string, headers func(visit func(name, value string) *dataflow.Bad) *dataflow.Bad, body []byte) (CloudEvent, *dataflow.Bad) {
	return fromHeaders("ce_", plainText, contentType, headers, body)
}

func fromHeaders(prefix string, textOf func(string) (string, error), contentType string, headers func(visit func(name, value string) *dataflow.Bad) *dataflow.Bad, body []byte) (CloudEvent, *dataflow.Bad) {
	var e CloudEvent
	var isSet attributes
	bad := headers(func(name, value string) *dataflow.Bad {
		name, ok := strings.CutPrefix(name, prefix)
		if !ok {
			return nil
		}
		text, err := textOf(value)
		if err != nil {
			return badEvent("header %s%s: %v", prefix, name, err)
		}
		switch {
		case name == "datacontenttype":
			return badEvent("header %sdatacontenttype: the type of the data is the header Content-Type", prefix)
		case known[name]:
			return isSet.set(&e, name, text)
		}
		return isSet.extend(&e, name, appendString(nil, []byte(text)))
	})
	if bad == nil {
		bad = isSet.check(&e)
	}
	e.DataContentType, e.Data = contentType, body
	if len(body) == 0 {
		e.Data = emptyObject
	}
	return e, bad
}

func plainText(v string) (string, error) {
	if !utf8.ValidString(v) {
		return "", fmt.Errorf("expected UTF-8 text, got %q", v)
	}
	return v, nil
}

// headerText undoes quotes and percent signs of a header, as the HTTP binding asks.
func headerText(v string) (string, error) {
	if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
		var out strings.Builder
		in := v[1 : len(v)-1]
		for i := 0; i < len(in); i++ {
			if in[i] == '\\' && i+1 < len(in) {
				i++
			}
			out.WriteByte(in[i])
		}
		v = out.String()
	}
	text, err := url.PathUnescape(v)
	if err != nil {
		return "", fmt.Errorf("expected percent-encoded text, got %q", v)
	}
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("expected UTF-8 text, got %q", text)
	}
	return text, nil
}

// isJSONContent says whether data of that type is JSON.
func isJSONContent(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	_, sub, _ := strings.Cut(t, "/")
	return t == "" || sub == "json" || strings.HasSuffix(sub, "+json")
}

// known are the attributes that the specification names.
var known = map[string]bool{"specversion": true, "id": true, "source": true, "type": true, "subject": true, "time": true, "dataschema": true, "datacontenttype": true}

// attributes checks those of one event. It remembers which were there.
type attributes struct {
	seen    []string
	version string
}

func (a *attributes) add(name string) *dataflow.Bad {
	if slices.Contains(a.seen, name) {
		return badEvent("attribute %q stands there twice", name)
	}
	if len(a.seen) >= maxAttributes {
		return badEvent("expected at most %d attributes", maxAttributes)
	}
	a.seen = append(a.seen, name)
	return nil
}

// maxAttributes bounds the attributes of an event.
const maxAttributes = 256

func (a *attributes) set(e *CloudEvent, name, v string) *dataflow.Bad {
	if bad := a.add(name); bad != nil {
		return bad
	}
	if v == "" {
		return badEvent("attribute %q: expected text, got an empty one", name)
	}
	switch name {
	case "specversion":
		a.version = v
	case "id":
		e.ID = v
	case "source":
		e.Source = v
	case "type":
		e.Type = v
	case "subject":
		e.Subject = v
	case "dataschema":
		e.DataSchema = v
	case "datacontenttype":
		e.DataContentType = v
	case "time":
		at, ok := parseTimestamp([]byte(v), true)
		if !ok {
			return badEvent("attribute \"time\": expected RFC 3339 as 2026-01-31T12:00:00Z, got %s", excerpt([]byte(v)))
		}
		e.Time, e.HasTime = dataflow.Time(at), true
	}
	return nil
}

func (a *attributes) extend(e *CloudEvent, name string, value []byte) *dataflow.Bad {
	if bad := a.add(name); bad != nil {
		return bad
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return badEvent("attribute %q: names are of the letters a to z and of digits", name)
		}
	}
	if name == "" || value[0] == '{' || value[0] == '[' {
		return badEvent("attribute %q: expected a string, a number or true or false, got %s", name, excerpt(value))
	}
	e.Extensions = append(e.Extensions, Extension{Name: name, Value: bytes.Clone(value)})
	return nil
}

func (a *attributes) check(e *CloudEvent) *dataflow.Bad {
	switch {
	case a.version == "":
		return badEvent("attribute \"specversion\" is missing")
	case a.version != "1.0":
		return badEvent("attribute \"specversion\": expected 1.0, got %s", excerpt([]byte(a.version)))
	case e.ID == "":
		return badEvent("attribute \"id\" is missing")
	case e.Source == "":
		return badEvent("attribute \"source\" is missing")
	case e.Type == "":
		return badEvent("attribute \"type\" is missing")
	}
	slices.SortFunc(e.Extensions, func(x, y Extension) int { return strings.Compare(x.Name, y.Name) })
	return nil
}

// ExtensionsJSON is the extensions as one JSON object; nil without any.
func (e *CloudEvent) ExtensionsJSON() []byte {
	if len(e.Extensions) == 0 {
		return nil
	}
	out := []byte{'{'}
	for i, x := range e.Extensions {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, []byte(x.Name)), ':')
		out = append(out, x.Value...)
	}
	return append(out, '}')
}
