package iceberg

import (
	"errors"
	"fmt"
	"io"

	"frazil/dataflow/failpoint"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	icebergo "github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"
)

// dataFile is a Parquet file being written. One goroutine at a time uses it.
type dataFile struct {
	layout *layout
	path   string
	values map[int]any
	out    icebergio.FileWriter
	size   *countingWriter
	pq     *pqarrow.FileWriter
}

// countingWriter counts what goes through it, and has no Close, so that the
// Parquet writer does not close the file under our feet.
type countingWriter struct {
	w      io.Writer
	n      int64
	failed bool // the store did
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	c.failed = c.failed || err != nil
	return n, err
}

// createFile opens a new file of a partition. Its name is unique for all time,
// so that no attempt can ever write over a file of another.
func createFile(fs icebergio.WriteFileIO, mem memory.Allocator, l *layout, dir string, values map[int]any, first []arrow.RecordBatch) (*dataFile, error) {
	if err := failpoint.Hit(failpoint.DataFile); err != nil {
		return nil, err
	}
	props, err := l.writerProps(first)
	if err != nil {
		return nil, err
	}
	f := &dataFile{layout: l, values: values, path: l.dataRoot + "/" + dir + uuid.NewString() + ".parquet"}
	if f.out, err = fs.Create(f.path); err != nil {
		return nil, unavailable(f.path, fmt.Errorf("create data file %s: %w", f.path, err))
	}
	f.size = &countingWriter{w: f.out}
	f.pq, err = pqarrow.NewFileWriter(l.file, f.size, props, pqarrow.NewArrowWriterProperties(pqarrow.WithAllocator(mem)))
	if err != nil {
		return nil, errors.Join(f.blame(fmt.Errorf("begin data file %s: %w", f.path, err)), f.out.Close())
	}
	return f, nil
}

// write adds batches as one row group. It borrows them.
func (f *dataFile) write(mem memory.Allocator, batches []arrow.RecordBatch) error {
	typed := make([]arrow.RecordBatch, 0, len(batches))
	defer func() {
		for _, b := range typed {
			b.Release()
		}
	}()
	for _, b := range batches {
		t, err := convertRecord(mem, b, f.layout.file)
		if err != nil {
			return err
		}
		typed = append(typed, t)
	}
	tbl := array.NewTableFromRecords(f.layout.file, typed)
	defer tbl.Release()
	if err := f.pq.WriteTable(tbl, tbl.NumRows()); err != nil {
		return f.blame(fmt.Errorf("write data file %s: %w", f.path, err))
	}
	return nil
}

// finish closes the file, durable then, and describes it.
func (f *dataFile) finish() (icebergo.DataFile, error) {
	if err := failpoint.Hit(failpoint.DataWritten); err != nil {
		return nil, errors.Join(err, f.pq.Close(), f.out.Close())
	}
	if err := f.pq.Close(); err != nil {
		return nil, errors.Join(f.blame(fmt.Errorf("finish data file %s: %w", f.path, err)), f.out.Close())
	}
	if err := f.out.Close(); err != nil {
		return nil, unavailable(f.path, fmt.Errorf("store data file %s: %w", f.path, err))
	}
	if err := failpoint.Hit(failpoint.DataStored); err != nil {
		return nil, err
	}
	meta, err := f.pq.FileMetadata()
	if err != nil {
		return nil, fmt.Errorf("read back footer of %s: %w", f.path, err)
	}
	df, err := table.DataFileFromMetadata(table.DataFileArgs{
		Schema: f.layout.schema, Spec: f.layout.spec, Format: icebergo.ParquetFile, Metadata: meta,
		FilePath: f.path, FileSize: f.size.n, Content: icebergo.EntryContentData,
		PartitionValues: f.values, Properties: f.layout.props, FormatVersion: f.layout.format,
	})
	if err != nil {
		return nil, fmt.Errorf("describe data file %s: %w", f.path, err)
	}
	return df, nil
}

// blame marks an error that the store has caused.
func (f *dataFile) blame(err error) error {
	if f.size.failed {
		return unavailable(f.path, err)
	}
	return err
}

// abandon closes a file that will not be used.
func (f *dataFile) abandon() {
	_ = f.pq.Close()
	_ = f.out.Close()
}
