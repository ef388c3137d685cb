package iceberg

import (
	"fmt"
	"strings"
	"sync"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/cespare/xxhash/v2"
)

// layout is how rows of one input become files of one state of the table. It
// does not change; a changed table needs a new one.
type layout struct {
	table    string // the table's UUID
	dataRoot string
	format   int
	schema   *icebergo.Schema
	spec     icebergo.PartitionSpec
	props    icebergo.Properties

	columns []icebergo.NestedField // of the files
	source  []int                  // the input's column of each
	file    *arrow.Schema          // types of the files, with field ids
	work    *arrow.Schema          // the same without extension types
	parts   partitioner

	compression string
	judge       sync.Once
	parquet     *parquet.WriterProperties
}

// newLayout matches the input with the table as it is.
func newLayout(t *table.Table, input *arrow.Schema, cfg Config) (*layout, error) {
	meta := t.Metadata()
	l := &layout{
		table: meta.TableUUID().String(), format: meta.Version(), schema: meta.CurrentSchema(),
		spec: meta.PartitionSpec(), props: meta.Properties(), compression: cfg.Compression,
	}
	l.dataRoot = strings.TrimRight(l.props.Get(table.WriteDataPathKey, strings.TrimRight(meta.Location(), "/")+"/data"), "/")
	fields := dataflow.UserFields(input)
	var err error
	if l.columns, err = matchColumns(targetName(cfg), fields, l.schema); err != nil {
		return nil, err
	}
	for _, c := range l.columns {
		l.source = append(l.source, dataflow.Column(input, c.Name))
	}
	if l.file, err = fileSchema(l.columns); err != nil {
		return nil, fmt.Errorf("columns of table %s: %w", targetName(cfg), err)
	}
	l.work = workSchema(l.file)
	if l.parts, err = newPartitioner(l.spec, l.schema, l.columns); err != nil {
		return nil, fmt.Errorf("table %s: %w", targetName(cfg), err)
	}
	return l, nil
}

var codecs = map[string]compress.Compression{
	"zstd": compress.Codecs.Zstd, "snappy": compress.Codecs.Snappy, "gzip": compress.Codecs.Gzip, "none": compress.Codecs.Uncompressed,
}

// writerProps chooses the encodings, once, by the first rows there are: delta
// for integers and times, a dictionary only for text that repeats, none for
// floating point, where it costs time and saves nothing.
func (l *layout) writerProps(first []arrow.RecordBatch) (*parquet.WriterProperties, error) {
	var err error
	l.judge.Do(func() { l.parquet, err = l.chooseEncodings(first) })
	if err != nil {
		return nil, err
	}
	return l.parquet, nil
}

func (l *layout) chooseEncodings(first []arrow.RecordBatch) (*parquet.WriterProperties, error) {
	opts := []parquet.WriterProperty{
		parquet.WithCompression(codecs[l.compression]), parquet.WithDictionaryDefault(false), parquet.WithStats(true),
		parquet.WithStoreDecimalAsInteger(true), parquet.WithCreatedBy("frazil"), parquet.WithMaxRowGroupLength(1 << 40),
		parquet.WithDataPageSize(1 << 18),
	}
	if l.compression == "zstd" {
		opts = append(opts, parquet.WithCompressionLevel(1))
	}
	sc, err := pqarrow.ToParquet(l.file, parquet.NewWriterProperties(opts...), pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, fmt.Errorf("parquet schema: %w", err)
	}
	for i := range sc.NumColumns() {
		c := sc.Column(i)
		switch c.PhysicalType() {
		case parquet.Types.Int32, parquet.Types.Int64:
			opts = append(opts, parquet.WithEncodingFor(c.Path(), parquet.Encodings.DeltaBinaryPacked))
		case parquet.Types.ByteArray:
			top := l.file.FieldIndices(c.Path())
			if len(top) == 0 || repeats(first, top[0]) {
				opts = append(opts, parquet.WithDictionaryFor(c.Path(), true))
			}
		}
	}
	return parquet.NewWriterProperties(opts...), nil
}

// repeats says whether the texts of a column repeat enough for a dictionary: at
// most half of the first rows differ.
func repeats(batches []arrow.RecordBatch, col int) bool {
	const sample = 4096
	seen := make(map[uint64]struct{}, sample)
	n := 0
	for _, b := range batches {
		for i := 0; i < int(b.NumRows()) && n < sample; i++ {
			switch a := b.Column(col).(type) {
			case *array.String:
				seen[xxhash.Sum64String(a.Value(i))] = struct{}{}
			case *array.Binary:
				seen[xxhash.Sum64(a.Value(i))] = struct{}{}
			default:
				return true
			}
			n++
		}
	}
	return len(seen)*2 <= n
}
