package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cespare/xxhash/v2"
)

// schemas are the schemas of a log's frames. Each stands in a file of its own
// beside the segments, synced before the first frame that names it, so that a
// frame need not repeat it.
type schemas struct {
	dir   string
	known map[uint64][]byte
}

// schemaMessage is the Arrow IPC message of a schema and its name.
func schemaMessage(s *arrow.Schema) (id uint64, message []byte, err error) {
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(s))
	if err := w.Close(); err != nil {
		return 0, nil, err
	}
	message = bytes.TrimSuffix(buf.Bytes(), endOfStream)
	return xxhash.Sum64(message), message, nil
}

var endOfStream = []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}

func (s *schemas) path(id uint64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%016x.schema", id))
}

// keep makes a schema durable and returns its name.
func (s *schemas) keep(schema *arrow.Schema) (uint64, error) {
	id, message, err := schemaMessage(schema)
	if err != nil {
		return 0, fmt.Errorf("encode the schema of the stream: %w", err)
	}
	s.known[id] = message
	if old, err := os.ReadFile(s.path(id)); err == nil && bytes.Equal(old, message) {
		return id, nil
	}
	f, err := os.CreateTemp(s.dir, "schema-*")
	if err != nil {
		return 0, err
	}
	_, err = f.Write(message)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), s.path(id))
	}
	if err == nil {
		err = syncDir(s.dir)
	}
	return id, err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// message returns the schema message with that name.
func (s *schemas) message(id uint64) ([]byte, error) {
	if m := s.known[id]; m != nil {
		return m, nil
	}
	m, err := os.ReadFile(s.path(id))
	if err != nil {
		return nil, fmt.Errorf("read the schema of records in the write-ahead log: %w", err)
	}
	if xxhash.Sum64(m) != id {
		return nil, fmt.Errorf("%s is damaged", s.path(id))
	}
	s.known[id] = m
	return m, nil
}

// encodeRows is the Arrow IPC message of b.
func encodeRows(b arrow.RecordBatch) ([]byte, error) {
	p, err := ipc.GetRecordBatchPayload(b, ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return nil, err
	}
	defer p.Release()
	var buf bytes.Buffer
	_, err = p.WritePayload(&buf)
	return buf.Bytes(), err
}

// decodeRows reads what encodeRows wrote.
func (s *schemas) decodeRows(id uint64, rows []byte) (arrow.RecordBatch, error) {
	m, err := s.message(id)
	if err != nil {
		return nil, err
	}
	r, err := ipc.NewReader(io.MultiReader(bytes.NewReader(m), bytes.NewReader(rows)))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	b, err := r.Read()
	if err != nil {
		return nil, err
	}
	b.Retain()
	return b, nil
}

// fit brings b into the schema that the stream has now: columns by name, those
// that are new are null.
func fit(b arrow.RecordBatch, want *arrow.Schema) (arrow.RecordBatch, error) {
	if b.Schema().Equal(want) {
		return b, nil
	}
	defer b.Release()
	cols := make([]arrow.Array, want.NumFields())
	for i, f := range want.Fields() {
		at := b.Schema().FieldIndices(f.Name)
		switch {
		case len(at) == 0 && f.Nullable:
			cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(b.NumRows()))
			defer cols[i].Release()
		case len(at) == 0:
			return nil, fmt.Errorf("the write-ahead log holds rows without the column %q, which may not be null", f.Name)
		case !arrow.TypeEqual(b.Column(at[0]).DataType(), f.Type):
			return nil, fmt.Errorf("the write-ahead log holds rows whose column %q is %s, and the file says %s now", f.Name, b.Column(at[0]).DataType(), f.Type)
		default:
			cols[i] = b.Column(at[0])
		}
	}
	return array.NewRecordBatch(want, cols, b.NumRows()), nil
}
