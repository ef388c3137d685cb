package spool

import (
	"context"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// Rows makes the rows of batches what is spooled. One goroutine uses it.
type Rows interface {
	// Each calls visit with the bytes of each row of b that the target can take, and
	// returns the others; visit may not keep the bytes.
	Each(b arrow.RecordBatch, visit func(row []byte) error) (arrow.RecordBatch, error)
	Release()
}

// rowsWriter spools rows until their commit.
type rowsWriter struct {
	rows  Rows
	spool *Writer
}

// NewRowsWriter makes a writer that spools what rows makes; it releases rows, also where
// it fails.
func NewRowsWriter(env *dataflow.Env, rows Rows) (dataflow.Writer, error) {
	s, err := NewWriter(env)
	if err != nil {
		rows.Release()
		return nil, err
	}
	return &rowsWriter{rows, s}, nil
}

// Write implements dataflow.Writer.
func (w *rowsWriter) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	return w.rows.Each(b, w.spool.Append)
}

// Prepare implements dataflow.Writer.
func (w *rowsWriter) Prepare(_ context.Context, e dataflow.Epoch) (dataflow.Pending, error) {
	return w.spool.Cut(e)
}

// Close implements dataflow.Writer.
func (w *rowsWriter) Close() error {
	w.rows.Release()
	return w.spool.Close()
}

var _ dataflow.Writer = (*rowsWriter)(nil)
