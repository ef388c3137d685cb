package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/cespare/xxhash/v2"
)

// schemas are the schemas of a log's frames. Each stands in a file of its own
// beside the segments, synced before the first frame that names it, so that a
// frame need not repeat it. Safe for concurrent use.
type schemas struct {
	files interface {
		File(name string) ([]byte, error)
	}
	mu    sync.Mutex
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

func schemaName(id uint64) string { return fmt.Sprintf("%016x.schema", id) }

// keep makes a schema durable in l and returns its name.
func (s *schemas) keep(l *wal.Log, schema *arrow.Schema) (uint64, error) {
	id, message, err := schemaMessage(schema)
	if err != nil {
		return 0, fmt.Errorf("encode the schema of the stream: %w", err)
	}
	old, err := l.File(schemaName(id))
	if errors.Is(err, os.ErrNotExist) || err == nil && !bytes.Equal(old, message) {
		err = l.PutFile(schemaName(id), message)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[id] = message
	return id, err
}

// message returns the schema message with that name.
func (s *schemas) message(id uint64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.known[id]; m != nil {
		return m, nil
	}
	m, err := s.files.File(schemaName(id))
	if err != nil {
		return nil, fmt.Errorf("read the schema of records in the write-ahead log: %w", err)
	}
	if xxhash.Sum64(m) != id {
		return nil, fmt.Errorf("%w: %s holds another schema", wal.ErrCorrupt, schemaName(id))
	}
	s.known[id] = m
	return m, nil
}

// schema returns the schema with that name.
func (s *schemas) schema(id uint64) (*arrow.Schema, error) {
	m, err := s.message(id)
	if err != nil {
		return nil, err
	}
	r, err := ipc.NewReader(bytes.NewReader(append(bytes.Clone(m), endOfStream...)))
	if err != nil {
		return nil, fmt.Errorf("read the schema of records in the write-ahead log: %w", err)
	}
	defer r.Release()
	return r.Schema(), nil
}

// encodeRows appends the Arrow IPC message of b.
func encodeRows(out []byte, b arrow.RecordBatch) ([]byte, error) {
	p, err := ipc.GetRecordBatchPayload(b, ipc.WithAllocator(memory.DefaultAllocator))
	if err != nil {
		return nil, err
	}
	defer p.Release()
	buf := bytes.NewBuffer(out)
	_, err = p.WritePayload(buf)
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

// fits says whether rows of one schema can be brought into another: columns by
// name, those that are new are null, those that are gone are left out.
func fits(have, want *arrow.Schema) error {
	for _, f := range want.Fields() {
		at := have.FieldIndices(f.Name)
		switch {
		case len(at) == 0 && !f.Nullable:
			return fmt.Errorf("the write-ahead log holds rows without the column %q, which may not be null", f.Name)
		case len(at) > 0 && !arrow.TypeEqual(have.Field(at[0]).Type, f.Type):
			return fmt.Errorf("the write-ahead log holds rows whose column %q is %s, and the file says %s now", f.Name, have.Field(at[0]).Type, f.Type)
		}
	}
	return nil
}

// fit brings b into the schema that the stream has now.
func fit(b arrow.RecordBatch, want *arrow.Schema) (arrow.RecordBatch, error) {
	if b.Schema().Equal(want) {
		return b, nil
	}
	defer b.Release()
	if err := fits(b.Schema(), want); err != nil {
		return nil, err
	}
	cols := make([]arrow.Array, want.NumFields())
	for i, f := range want.Fields() {
		if at := b.Schema().FieldIndices(f.Name); len(at) > 0 {
			cols[i] = b.Column(at[0])
			continue
		}
		cols[i] = array.MakeArrayOfNull(memory.DefaultAllocator, f.Type, int(b.NumRows()))
		defer cols[i].Release()
	}
	return array.NewRecordBatch(want, cols, b.NumRows()), nil
}
