package postgres

import (
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// A row is spooled as a byte (put or del) and the row of a binary COPY: the number of
// fields as 2 bytes, and each with its length in 4 bytes, -1 for null.
const (
	put = 0
	del = 1
)

// rows makes rows of COPY of the rows of batches. One goroutine uses it.
type rows struct {
	fields []field
	shape  shape
	bad    *dataflow.BadRows
	buf    []byte
}

// each calls visit with the bytes of each row of b that the table can hold, and returns
// the others; visit may not keep the bytes.
func (r *rows) each(b arrow.RecordBatch, visit func(row []byte) error) (arrow.RecordBatch, error) {
	var ops []uint8
	if r.shape.deletes {
		ops = b.Column(dataflow.Column(b.Schema(), dataflow.SysOp)).(*array.Uint8).Uint8Values()
	}
	for i := range int(b.NumRows()) {
		op := dataflow.OpInsert
		if ops != nil {
			op = dataflow.Op(ops[i])
		}
		if op == dataflow.OpUpdateBefore {
			continue // Its OpUpdateAfter puts the same key.
		}
		if bad := r.row(b, i, op.Puts()); bad != nil {
			r.bad.AddRow(bad, b, i)
			continue
		}
		if err := visit(r.buf); err != nil {
			return nil, err
		}
	}
	return r.bad.Flush(), nil
}

// row writes row i to buf. Of one that takes another away only the key is written.
func (r *rows) row(b arrow.RecordBatch, i int, puts bool) *dataflow.Bad {
	r.buf = append(r.buf[:0], put)
	if !puts {
		r.buf[0] = del
	}
	r.buf = be.AppendUint16(r.buf, uint16(len(r.fields)))
	for j := range r.fields {
		f := &r.fields[j]
		a := b.Column(f.column)
		switch {
		case !puts && !f.key:
			r.buf = append(r.buf, 0xff, 0xff, 0xff, 0xff)
			continue
		case f.key && a.IsNull(i):
			return &dataflow.Bad{Reason: "null_key", Detail: fmt.Sprintf("column %q is of the key and null", f.name)}
		case f.notNull && a.IsNull(i):
			return &dataflow.Bad{Reason: "null_value", Detail: fmt.Sprintf("column %q of the table takes no null", f.name)}
		}
		var bad *dataflow.Bad
		if r.buf, bad = appendField(r.buf, a, i, f.encode); bad != nil {
			return &dataflow.Bad{Reason: bad.Reason, Detail: fmt.Sprintf("column %q: %s", f.name, bad.Detail)}
		}
	}
	return nil
}
