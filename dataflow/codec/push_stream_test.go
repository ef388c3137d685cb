package codec

import (
	"bytes"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// streamOf writes what a decoder holds as an Arrow IPC stream.
func streamOf(t testing.TB, d dataflow.Decoder) []byte {
	n := d.Rows()
	cols := d.Flush()
	b := array.NewRecordBatch(d.Schema(), cols, int64(n))
	defer b.Release()
	for _, c := range cols {
		c.Release()
	}
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(d.Schema()))
	if err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
