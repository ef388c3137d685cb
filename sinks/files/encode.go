package files

import (
	"bytes"
	"encoding/json"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// encoder writes rows of one schema as JSON lines: the user's columns, in
// order.
type encoder struct {
	// heads hold what stands before each value: {"a": and ,"b":
	heads [][]byte
	// documents: a column may hold JSON text with line ends in it.
	documents bool
}

func newEncoder(schema *arrow.Schema) *encoder {
	e := &encoder{}
	for i, f := range dataflow.UserFields(schema) {
		head := []byte{'{'}
		if i > 0 {
			head[0] = ','
		}
		name, _ := json.Marshal(f.Name)
		e.heads = append(e.heads, append(append(head, name...), ':'))
		e.documents = e.documents || holdsDocuments(f.Type)
	}
	return e
}

func holdsDocuments(t arrow.DataType) bool {
	if arrow.TypeEqual(t, dataflow.TypeJSON) {
		return true
	}
	if n, ok := t.(arrow.NestedType); ok {
		for _, f := range n.Fields() {
			if holdsDocuments(f.Type) {
				return true
			}
		}
	}
	return false
}

// row appends row i of b and a line end.
func (e *encoder) row(dst []byte, b arrow.RecordBatch, i int) []byte {
	from := len(dst)
	for c, head := range e.heads {
		dst = append(dst, head...)
		dst = dataflow.AppendJSON(dst, b.Column(c), i)
	}
	if len(e.heads) == 0 {
		dst = append(dst, '{')
	}
	if e.documents {
		oneLine(dst[from:])
	}
	return append(dst, '}', '\n')
}

// oneLine replaces line ends by spaces. In valid JSON they stand between tokens
// only.
func oneLine(b []byte) {
	for {
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			return
		}
		b[i] = ' '
		b = b[i+1:]
	}
}
