package pipelines

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// CheckValue says why a value in a file can never be one of type t, or "".
func CheckValue(t arrow.DataType, n *component.Node) string {
	if n.Kind == component.Null {
		return ""
	}
	want := ""
	switch k := kindOf(t); k {
	case ofBool:
		if n.Kind != component.Bool {
			want = "true or false"
		}
	case ofNumber, ofFloat:
		if n.Kind != component.Number && !(k == ofFloat && specialFloat(n.Text)) && !(k == ofNumber && n.Kind == component.Text && isRat(n.Text)) {
			want = "a number"
		}
	case ofText, ofBytes, ofUUID:
		if n.Kind == component.Number || n.Kind == component.Bool {
			return "write " + strconv.Quote(n.Text) + " in quotes"
		}
		if k == ofText || n.Kind == component.Text {
			break // A block or a list is compared as JSON.
		}
		want = "text"
	case ofTime:
		if _, ok := timeOf(t, n.Text); n.Kind != component.Text || !ok {
			want = "a time, as " + timeSample(t)
		}
	case ofList:
		if n.Kind != component.List {
			want = "a list"
			break
		}
		for _, item := range n.Items {
			if msg := CheckValue(t.(*arrow.ListType).Elem(), item); msg != "" {
				return msg
			}
		}
	case ofStruct:
		if n.Kind != component.Map {
			want = "a block of fields"
			break
		}
		for _, e := range n.Entries {
			f, ok := t.(*arrow.StructType).FieldByName(e.Key)
			if !ok {
				return "it has no field " + strconv.Quote(e.Key)
			}
			if msg := CheckValue(f.Type, e.Value); msg != "" {
				return msg
			}
		}
	}
	if want == "" {
		return ""
	}
	got := n.Kind.String()
	if n.Text != "" {
		got = strconv.Quote(n.Text)
	}
	return "expected " + want + ", got " + got
}

// MatchValue says whether an observed value, as dataflow.AppendJSON writes it,
// is the one in the file: numbers by value, floats within 1e-12, times by the
// instant.
func MatchValue(t arrow.DataType, n *component.Node, got json.RawMessage) bool {
	null := string(got) == "null"
	if n == nil || n.Kind == component.Null || null {
		return null && (n == nil || n.Kind == component.Null)
	}
	text := string(got)
	var unquoted string
	if json.Unmarshal(got, &unquoted) == nil {
		text = unquoted
	}
	switch kindOf(t) {
	case ofBool:
		return strings.EqualFold(n.Text, text)
	case ofNumber:
		x, ok1 := new(big.Rat).SetString(clean(n.Text))
		y, ok2 := new(big.Rat).SetString(text)
		return ok1 && ok2 && x.Cmp(y) == 0
	case ofFloat:
		return sameFloat(n.Text, text)
	case ofBytes:
		b, err := bytesOf(n.Text)
		return err == nil && hex.EncodeToString(b) == text
	case ofUUID:
		return strings.EqualFold(n.Text, text)
	case ofTime:
		x, ok1 := timeOf(t, n.Text)
		y, ok2 := timeOf(t, text)
		return ok1 && ok2 && x.Equal(y)
	case ofJSON:
		return sameJSON(n, got)
	case ofList:
		var items []json.RawMessage
		if json.Unmarshal(got, &items) != nil || len(items) != len(n.Items) {
			return false
		}
		for i, item := range n.Items {
			if !MatchValue(t.(*arrow.ListType).Elem(), item, items[i]) {
				return false
			}
		}
		return true
	case ofStruct:
		var fields map[string]json.RawMessage
		if json.Unmarshal(got, &fields) != nil {
			return false
		}
		for _, f := range t.(*arrow.StructType).Fields() {
			if !MatchValue(f.Type, n.Get(f.Name), fields[f.Name]) {
				return false
			}
		}
		return true
	}
	if n.Kind == component.Map || n.Kind == component.List {
		return sameJSON(n, []byte(text)) // Text that holds a document, as bad's row.
	}
	return n.Text == text
}

type valueKind int

const (
	ofText valueKind = iota
	ofBool
	ofNumber // exact
	ofFloat
	ofBytes
	ofUUID
	ofTime
	ofJSON
	ofList
	ofStruct
)

func kindOf(t arrow.DataType) valueKind {
	switch t := t.(type) {
	case *extensions.UUIDType:
		return ofUUID
	case *extensions.JSONType:
		return ofJSON
	case *arrow.ListType:
		return ofList
	case *arrow.StructType:
		return ofStruct
	default:
		switch id := t.ID(); {
		case id == arrow.BOOL:
			return ofBool
		case arrow.IsInteger(id), arrow.IsDecimal(id):
			return ofNumber
		case arrow.IsFloating(id):
			return ofFloat
		case id == arrow.BINARY:
			return ofBytes
		case id == arrow.TIMESTAMP, id == arrow.DATE32, id == arrow.TIME64:
			return ofTime
		}
		return ofText
	}
}

// timeOf reads a time of type t.
func timeOf(t arrow.DataType, text string) (time.Time, bool) {
	layouts := []string{time.RFC3339Nano}
	switch t := t.(type) {
	case *arrow.Date32Type:
		layouts = []string{time.DateOnly}
	case *arrow.Time64Type:
		layouts = []string{"15:04:05.999999", "15:04"}
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			layouts = []string{"2006-01-02T15:04:05.999999", "2006-01-02 15:04:05.999999", time.RFC3339Nano}
		}
	}
	for _, l := range layouts {
		if at, err := time.Parse(l, text); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

func timeSample(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.Date32Type:
		return "2026-03-01"
	case *arrow.Time64Type:
		return "10:05:00"
	case *arrow.TimestampType:
		if t.TimeZone == "" {
			return "2026-03-01T10:05:00"
		}
	}
	return "2026-03-01T10:05:00Z"
}

func clean(number string) string { return strings.ReplaceAll(number, "_", "") }

func isRat(text string) bool {
	_, ok := new(big.Rat).SetString(clean(text))
	return ok
}

func specialFloat(text string) bool {
	f, err := strconv.ParseFloat(strings.TrimPrefix(text, "."), 64)
	return err == nil && (math.IsNaN(f) || math.IsInf(f, 0))
}

func sameFloat(want, got string) bool {
	x, err1 := strconv.ParseFloat(strings.Replace(clean(want), ".inf", "inf", 1), 64)
	y, err2 := strconv.ParseFloat(got, 64)
	if err1 != nil || err2 != nil {
		return strings.EqualFold(strings.Trim(want, "."), got)
	}
	return x == y || math.IsNaN(x) && math.IsNaN(y) || math.Abs(x-y) <= 1e-12*math.Max(math.Abs(x), math.Abs(y))
}

// sameJSON compares a value in the file with a document: numbers by value, keys
// in any order.
func sameJSON(n *component.Node, doc []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return false
	}
	return sameTree(n, v)
}

func sameTree(n *component.Node, v any) bool {
	switch v := v.(type) {
	case nil:
		return n.Kind == component.Null
	case bool:
		return n.Kind == component.Bool && strings.EqualFold(n.Text, strconv.FormatBool(v))
	case json.Number:
		return n.Kind == component.Number && sameFloat(n.Text, v.String())
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil && n.Kind == component.Text {
			want, err := time.Parse(time.RFC3339Nano, n.Text)
			return err == nil && want.Equal(at)
		}
		return n.Kind == component.Text && n.Text == v
	case []any:
		if n.Kind != component.List || len(n.Items) != len(v) {
			return false
		}
		for i := range v {
			if !sameTree(n.Items[i], v[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if n.Kind != component.Map || len(n.Entries) != len(v) {
			return false
		}
		for k, x := range v {
			if m := n.Get(k); m == nil || !sameTree(m, x) {
				return false
			}
		}
		return true
	}
	return false
}
