package iceberg

import (
	"bytes"
	"context"
	"fmt"
	"sort"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/compute"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/semaphore"
)

const (
	// defaultMemory is the budget of a writer that was given none.
	defaultMemory = 64 << 20
	// maxRowGroup bounds the rows of one row group, as Arrow bytes.
	maxRowGroup = 64 << 20
	// batchOverhead is what a buffered batch takes beside its values, a column.
	batchOverhead = 256
)

// Writer puts rows into data files that the table does not name yet. One
// goroutine calls it; a goroutine of its own encodes and uploads.
//
// Rows wait as Arrow batches, by partition, until there are enough for a row
// group, the epoch ends, or the memory budget is used up; then the largest
// partitions are written. Write blocks while the budget is taken by rows on
// their way into files.
type Writer struct {
	env    *dataflow.Env
	cfg    Config
	mem    memory.Allocator
	lake   *lake
	layout *layout

	budget   int64
	rowGroup int64
	quota    *semaphore.Weighted
	enc      *encoder
	cur      *staging // the epoch's, nil while it has no rows
	bad      *dataflow.BadRows

	key, last []byte // scratch of assign
	closed    bool
}

// partition is one partition's rows of one epoch.
type partition struct {
	values  map[int]any
	dir     string
	batches []arrow.RecordBatch
	bytes   int64
	sel     []int64 // rows of the batch at hand
	// The encoder's.
	file *dataFile
	used int64
}

// NewWriter loads the table, making it if it is missing and may be made, and
// checks that the input fits.
func NewWriter(ctx context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (*Writer, error) {
	ccfg, err := catalogOf(in.PlanEnv, cfg.Catalog)
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	l, err := openLake(ctx, ccfg)
	if err != nil {
		return nil, err
	}
	w, err := newWriter(ctx, env, l, in, cfg)
	if err != nil {
		_ = l.release()
		return nil, err
	}
	return w, nil
}

func newWriter(ctx context.Context, env *dataflow.Env, l *lake, in component.SinkIn, cfg Config) (*Writer, error) {
	t, err := ensureTable(ctx, l, in, cfg)
	if err != nil {
		return nil, err
	}
	lay, err := newLayout(t, in.Input.Schema, cfg)
	if err != nil {
		return nil, err
	}
	w := &Writer{env: env, cfg: cfg, lake: l, layout: lay, mem: env.Alloc, budget: env.Memory, bad: dataflow.NewBadRows(env)}
	if w.mem == nil {
		w.mem = memory.DefaultAllocator
	}
	if w.budget <= 0 {
		w.budget = defaultMemory
	}
	w.rowGroup = min(maxRowGroup, w.budget/2)
	w.quota = semaphore.NewWeighted(w.budget)
	// Uploads outlive the call that made the writer.
	bg, cancel := context.WithCancel(context.WithoutCancel(ctx))
	patient, err := l.patient(bg)
	if err != nil {
		cancel()
		return nil, err
	}
	fs, err := writeFS(patient, t)
	if err != nil {
		cancel()
		return nil, err
	}
	w.enc = startEncoder(cancel, fs, w.mem, w.quota, lay, int64(cfg.FileSize))
	return w, nil
}

func writeFS(ctx context.Context, t *table.Table) (icebergio.WriteFileIO, error) {
	fs, err := t.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("open storage of %s: %w", t.Location(), err)
	}
	w, ok := fs.(icebergio.WriteFileIO)
	if !ok {
		return nil, dataflow.Permanentf("storage of %s cannot be written", t.Location())
	}
	return w, nil
}

// Write stages b.
func (w *Writer) Write(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := w.enc.failure(); err != nil {
		return nil, err
	}
	if b.NumRows() == 0 {
		return nil, nil
	}
	rec, err := w.project(b)
	if err != nil {
		return nil, err
	}
	defer func() { rec.Release() }()
	if good := w.refuse(b); good != nil {
		kept, err := w.take(ctx, rec, good)
		if err != nil {
			return nil, err
		}
		rec.Release()
		rec = kept
	}
	if rec.NumRows() > 0 {
		if err := w.assign(ctx, rec); err != nil {
			return nil, err
		}
	}
	return w.bad.Flush(), nil
}

// project takes the table's columns out of b, in the working types.
func (w *Writer) project(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, len(w.layout.source))
	fields := make([]arrow.Field, len(cols))
	for i, src := range w.layout.source {
		cols[i], fields[i] = b.Column(src), b.Schema().Field(src)
	}
	view := array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, b.NumRows())
	defer view.Release()
	return convertRecord(w.mem, view, w.layout.work)
}

// refuse reports rows with a null in a required column as bad, and returns the
// others; nil means all.
func (w *Writer) refuse(b arrow.RecordBatch) (good []int64) {
	var why map[int]string
	for i, c := range w.layout.columns {
		col := b.Column(w.layout.source[i])
		if !c.Required || col.NullN() == 0 {
			continue
		}
		if why == nil {
			why = map[int]string{}
		}
		for row := range col.Len() {
			if col.IsNull(row) && why[row] == "" {
				why[row] = c.Name
			}
		}
	}
	if why == nil {
		return nil
	}
	good = []int64{}
	for row := range int(b.NumRows()) {
		name, bad := why[row]
		if !bad {
			good = append(good, int64(row))
			continue
		}
		w.bad.AddRow(&dataflow.Bad{Reason: "null_in_required_column",
			Detail: fmt.Sprintf("column %q of table %s is required: expected a value, got null", name, targetName(w.cfg))}, b, row)
	}
	return good
}

func (w *Writer) take(ctx context.Context, rec arrow.RecordBatch, rows []int64) (arrow.RecordBatch, error) {
	buf := memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(rows))
	data := array.NewData(arrow.PrimitiveTypes.Int64, len(rows), []*memory.Buffer{nil, buf}, nil, 0, 0)
	idx := array.NewInt64Data(data)
	data.Release()
	defer idx.Release()
	ctx = compute.WithAllocator(ctx, w.mem)
	cols := make([]arrow.Array, rec.NumCols())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i := range cols {
		c, err := compute.TakeArrayOpts(ctx, rec.Column(i), idx, compute.TakeOptions{BoundsCheck: false})
		if err != nil {
			return nil, fmt.Errorf("gather rows of column %q: %w", rec.ColumnName(i), err)
		}
		cols[i] = c
	}
	return array.NewRecordBatch(rec.Schema(), cols, int64(len(rows))), nil
}

// assign buffers the rows by partition. It borrows rec.
func (w *Writer) assign(ctx context.Context, rec arrow.RecordBatch) error {
	if w.cur == nil {
		w.cur = newStaging()
	}
	w.cur.rows += rec.NumRows()
	if len(w.layout.parts.fields) == 0 {
		rec.Retain()
		return w.buffer(ctx, w.partitionOf(nil, rec, 0), rec)
	}
	touched := w.split(rec)
	if len(touched) == 1 {
		touched[0].sel = touched[0].sel[:0]
		rec.Retain()
		return w.buffer(ctx, touched[0], rec)
	}
	var failed error
	for _, p := range touched {
		if failed == nil {
			var part arrow.RecordBatch
			if part, failed = w.take(ctx, rec, p.sel); failed == nil {
				failed = w.buffer(ctx, p, part)
			}
		}
		if p.sel = p.sel[:0]; cap(p.sel) > 4096 || len(touched) > 256 {
			p.sel = nil
		}
	}
	return failed
}

// split notes in each partition which rows are its own.
func (w *Writer) split(rec arrow.RecordBatch) (touched []*partition) {
	keys := w.layout.parts.bind(rec)
	var p *partition
	for row := range int(rec.NumRows()) {
		w.key = w.key[:0]
		for _, k := range keys {
			w.key = k(w.key, row)
		}
		if p == nil || !bytes.Equal(w.key, w.last) {
			p = w.partitionOf(w.key, rec, row)
			w.last = append(w.last[:0], w.key...)
		}
		if len(p.sel) == 0 {
			touched = append(touched, p)
		}
		p.sel = append(p.sel, int64(row))
	}
	return touched
}

func (w *Writer) partitionOf(key []byte, rec arrow.RecordBatch, row int) *partition {
	if p := w.cur.parts[string(key)]; p != nil {
		return p
	}
	values := w.layout.parts.values(rec, row)
	p := &partition{values: values, dir: w.layout.parts.dir(values)}
	w.cur.parts[string(key)] = p
	return p
}

// buffer adds rec, which it takes over, to p's rows.
func (w *Writer) buffer(ctx context.Context, p *partition, rec arrow.RecordBatch) error {
	n := dataflow.BatchBytes(rec) + batchOverhead*rec.NumCols()
	n = min(n, w.budget)
	if !w.quota.TryAcquire(n) {
		w.spill(n)
		if err := w.quota.Acquire(ctx, n); err != nil {
			rec.Release()
			return err
		}
	}
	p.batches = append(p.batches, rec)
	p.bytes += n
	if p.bytes >= w.rowGroup {
		w.enc.put(job{staging: w.cur, flushes: []flush{w.cut(p)}})
	}
	return nil
}

// spill sends the largest partitions to the encoder, until a quarter of the
// budget, and at least n, is on its way.
func (w *Writer) spill(n int64) {
	var full []*partition
	for _, p := range w.cur.parts {
		if p.bytes > 0 {
			full = append(full, p)
		}
	}
	sort.Slice(full, func(i, j int) bool { return full[i].bytes > full[j].bytes })
	want := max(n, w.budget/4)
	for _, p := range full {
		if want <= 0 {
			return
		}
		want -= p.bytes
		w.enc.put(job{staging: w.cur, flushes: []flush{w.cut(p)}})
	}
}

// cut takes the buffered rows out of p.
func (w *Writer) cut(p *partition) flush {
	f := flush{part: p, batches: p.batches, bytes: p.bytes}
	p.batches, p.bytes = nil, 0
	return f
}

// Prepare cuts the epoch. Its files are finished beside the next epoch's Write.
func (w *Writer) Prepare(_ context.Context, e dataflow.Epoch) (dataflow.Pending, error) {
	if err := w.enc.failure(); err != nil {
		return nil, err
	}
	st := w.cur
	if st == nil {
		return nil, nil
	}
	w.cur = nil
	j := job{staging: st, last: true}
	for _, p := range st.parts {
		j.flushes = append(j.flushes, w.cut(p))
	}
	w.enc.put(j)
	return dataflow.PartFunc(func(ctx context.Context) (dataflow.Part, error) {
		select {
		case <-st.done:
		case <-ctx.Done():
			return dataflow.Part{}, ctx.Err()
		}
		if st.err != nil {
			return dataflow.Part{}, fmt.Errorf("stage %s of %s: %w", e, targetName(w.cfg), st.err)
		}
		return encodePart(w.layout, st.files)
	}), nil
}

// Close finishes the epochs that were cut and forgets the rows that were not:
// their files are removed, since nothing can have named them.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if st := w.cur; st != nil {
		w.cur = nil
		j := job{staging: st, drop: true}
		for _, p := range st.parts {
			j.flushes = append(j.flushes, w.cut(p))
		}
		w.enc.put(j)
	}
	w.enc.stop()
	w.bad.Release()
	return w.lake.release()
}

var _ dataflow.Writer = (*Writer)(nil)
