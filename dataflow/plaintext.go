package dataflow

import (
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// AppendPlain writes a value that is not null as text: what is text or bytes as it is,
// the rest as in JSON without quotes.
func AppendPlain(dst []byte, a arrow.Array, i int) []byte {
	switch a := a.(type) {
	case *array.String:
		return append(dst, a.Value(i)...)
	case *array.Binary:
		return append(dst, a.Value(i)...)
	case *extensions.JSONArray:
		return append(dst, a.Storage().(*array.String).Value(i)...)
	}
	from := len(dst)
	dst = AppendJSON(dst, a, i)
	if n := len(dst); dst[from] == '"' {
		return append(dst[:from], dst[from+1:n-1]...) // Of these types no text has an escape in it.
	}
	return dst
}

// JSONObjects writes rows of one schema as JSON objects of their user's columns, as
// RowJSON does, without work that is the same for each row.
type JSONObjects struct {
	// heads stand before the values: {"a": and ,"b":
	heads [][]byte
}

// NewJSONObjects is for rows of s.
func NewJSONObjects(s *arrow.Schema) *JSONObjects {
	o := &JSONObjects{}
	for i, f := range UserFields(s) {
		head := []byte{','}
		if i == 0 {
			head[0] = '{'
		}
		name, _ := json.Marshal(f.Name) // A string.
		o.heads = append(o.heads, append(append(head, name...), ':'))
	}
	return o
}

// Append writes row i of b.
func (o *JSONObjects) Append(dst []byte, b arrow.RecordBatch, i int) []byte {
	for c, head := range o.heads {
		dst = append(dst, head...)
		dst = AppendJSON(dst, b.Column(c), i)
	}
	if len(o.heads) == 0 {
		dst = append(dst, '{')
	}
	return append(dst, '}')
}
