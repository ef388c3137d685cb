package codec

import (
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// rowTable holds the columns of rows that are being gathered, for the formats whose
// payloads are read by a program of their schema.
type rowTable struct {
	schema   *arrow.Schema
	cols     []*column
	n        int // rows since the last flush
	cap      int // rows that fit
	small    int // batches in a row that filled little of that
	rowBytes int
	bytes    int
}

// newRowTable makes the columns of fields. required lists which are never null.
func newRowTable(fields []schemaField, alloc memory.Allocator) (*rowTable, error) {
	t := &rowTable{schema: arrowSchema(fields)}
	for _, f := range fields {
		c, err := newColumn(f.FieldSpec, dataflow.MinEventTime, dataflow.MaxEventTime+1, allocator(alloc))
		if err != nil {
			return nil, err
		}
		c.required = !f.nullable
		t.cols = append(t.cols, c)
		t.rowBytes += c.rowBytes()
	}
	return t, nil
}

// schemaField is a column that a schema gives.
type schemaField struct {
	dataflow.FieldSpec
	nullable bool
}

func arrowSchema(fields []schemaField) *arrow.Schema {
	var out []arrow.Field
	for _, f := range fields {
		out = append(out, arrow.Field{Name: f.Name, Type: f.Spec.Type, Nullable: f.nullable})
	}
	return arrow.NewSchema(out, nil)
}

// checkNames refuses names that a column cannot have.
func checkNames(fields []schemaField) error {
	seen := map[string]bool{}
	for _, f := range fields {
		switch {
		case f.Name == "":
			return fmt.Errorf("a column has no name")
		case dataflow.IsSystem(f.Name):
			return fmt.Errorf("column %q: names beginning with %q are reserved", f.Name, dataflow.SysPrefix)
		case seen[f.Name]:
			return fmt.Errorf("column %q is declared twice", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

// begin makes room for the next row and returns its number. It counts only after
// commit, and is written again otherwise.
func (t *rowTable) begin() int {
	if t.n == t.cap {
		t.cap = max(2*t.cap, 16)
		for _, c := range t.cols {
			c.ensure(t.cap)
		}
	}
	return t.n
}

// commit counts the row that begin made room for, of a payload of size bytes.
func (t *rowTable) commit(size int) {
	t.n++
	t.bytes += size + t.rowBytes
}

// Schema returns the columns.
func (t *rowTable) Schema() *arrow.Schema { return t.schema }

// Rows counts the rows since the last Flush.
func (t *rowTable) Rows() int { return t.n }

// Bytes estimates their memory.
func (t *rowTable) Bytes() int { return t.bytes }

// Flush returns the columns and starts anew; the caller owns them.
func (t *rowTable) Flush() []arrow.Array {
	out := make([]arrow.Array, 0, len(t.cols))
	for _, c := range t.cols {
		out = append(out, c.flush(t.n))
	}
	if t.n >= t.cap/8 {
		t.small = 0
	} else if t.small++; t.small == maxSmall {
		t.Release()
	}
	t.n, t.bytes = 0, 0
	return out
}

// Release gives up what is kept, and with it the rows since the last Flush.
func (t *rowTable) Release() {
	for _, c := range t.cols {
		c.release()
	}
	t.n, t.cap, t.bytes, t.small = 0, 0, 0, 0
}
