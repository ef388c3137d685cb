package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// ReasonInvalidArrow: no Arrow IPC stream, or not one with the columns wanted.
const ReasonInvalidArrow = "invalid_arrow"

// Arrow reads Arrow IPC streams into the columns of a JSON decode block: by name,
// and by type where nothing is lost (int32 becomes int64, a time in nanoseconds one
// in microseconds). The bounds of the block hold for the values as well. It is
// immutable and safe to share.
//
// Nothing in a stream is trusted: values are copied one by one into columns that
// are made here.
type Arrow struct {
	cfg    JSONConfig
	schema *arrow.Schema
	lo, hi dataflow.Time
}

// NewArrow makes a reader for the schema of c.
func NewArrow(c JSONConfig) (*Arrow, error) {
	c = c.withDefaults()
	schema, err := c.ArrowSchema()
	if err != nil {
		return nil, err
	}
	lo, hi, err := c.times()
	if err != nil {
		return nil, err
	}
	if c.Whole != "" {
		return nil, fmt.Errorf("column %q keeps the whole JSON document, and there is none in Arrow", c.Whole)
	}
	return &Arrow{cfg: c, schema: schema, lo: lo, hi: hi}, nil
}

// ArrowRecord is a row that is bad, by its place in the stream; Row is the JSON of
// its other values.
type ArrowRecord struct {
	Index int
	Bad   dataflow.Bad
	Row   []byte
}

// Rows reads a whole stream of at most max rows that take at most size bytes: the
// rows that are good, which the caller releases, and the others. A stream that is
// damaged, or has not the columns wanted, is refused as a whole.
func (a *Arrow) Rows(b []byte, max int, size int64) (rows arrow.RecordBatch, bad []ArrowRecord, err *dataflow.Bad) {
	if err := checkStream(b); err != nil {
		return nil, nil, invalidArrow("%v", err)
	}
	r := &arrowReader{a: a, max: max, left: size, alloc: &boundedAllocator{left: size + int64(len(b))}}
	defer r.release() // Of what is refused, columns may be filled.
	defer func() {
		if p := recover(); p != nil {
			rows, bad, err = nil, nil, invalidArrow("the stream is damaged: %v", p)
		}
	}()
	if err := r.read(b); err != nil {
		var already *dataflow.Bad
		if errors.As(err, &already) {
			return nil, nil, already
		}
		return nil, nil, invalidArrow("%v", err)
	}
	if len(r.bad) == 0 {
		return r.batch(), nil, nil
	}
	return r.without()
}

func invalidArrow(format string, args ...any) *dataflow.Bad {
	return &dataflow.Bad{Reason: ReasonInvalidArrow, Detail: fmt.Sprintf(format, args...)}
}

// arrowReader reads one stream.
type arrowReader struct {
	a     *Arrow
	max   int
	left  int64 // bytes that rows may still take
	alloc *boundedAllocator
	cols  []*column
	n     int
	bad   []ArrowRecord
	skip  []ArrowRecord // rows left out, the second time
	src   []byte
}

func (r *arrowReader) read(b []byte) error {
	r.src = b
	in, err := ipc.NewReader(bytes.NewReader(b), ipc.WithAllocator(r.alloc), ipc.WithMetadataSizeLimit(int64(len(b))), ipc.WithBodySizeLimit(int64(len(b))))
	if err != nil {
		return fmt.Errorf("expected an Arrow IPC stream: %w", err)
	}
	defer in.Release()
	for _, f := range r.a.cfg.Schema {
		spec, err := dataflow.ParseType(f.Type)
		if err != nil {
			return err
		}
		c, err := newColumn(dataflow.FieldSpec{Name: f.Name, Spec: spec}, r.a.lo, r.a.hi, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		c.required = slices.Contains(r.a.cfg.Required, f.Name)
		r.cols = append(r.cols, c)
	}
	if err := r.match(in.Schema()); err != nil {
		return err
	}
	seen := 0
	for in.Next() {
		batch := in.RecordBatch()
		if batch.NumRows() > int64(r.max-seen) {
			return tooManyRecords(r.max)
		}
		if err := r.add(batch, seen); err != nil {
			return err
		}
		seen += int(batch.NumRows())
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// match looks for columns that are there under another type, or not at all.
func (r *arrowReader) match(s *arrow.Schema) error {
	found := 0
	for _, c := range r.cols {
		at := s.FieldIndices(c.name)
		switch {
		case len(at) > 1:
			return fmt.Errorf("column %q stands there twice", c.name)
		case len(at) == 1:
			found++
		case c.required:
			return fmt.Errorf("column %q: expected %s, got no such column", c.name, c.text)
		}
	}
	if found == 0 {
		return fmt.Errorf("expected some of the columns %s", columnNames(r.cols))
	}
	if r.a.cfg.Extra != ExtraBad {
		return nil
	}
	for _, f := range s.Fields() {
		if !slices.ContainsFunc(r.cols, func(c *column) bool { return c.name == f.Name }) {
			return &dataflow.Bad{Reason: ReasonExtraField, Detail: fmt.Sprintf("column %q is outside the schema", f.Name)}
		}
	}
	return nil
}

func columnNames(cols []*column) string {
	out := ""
	for i, c := range cols {
		if i > 0 {
			out += ", "
		}
		out += c.name
	}
	return out
}

// add copies the rows of a batch; first is the index of its first one in the
// stream.
func (r *arrowReader) add(batch arrow.RecordBatch, first int) error {
	n := int(batch.NumRows())
	keep := make([]int, 0, n) // rows of the batch
	for i := range n {
		if len(r.skip) > 0 && r.skip[0].Index == first+i {
			r.skip = r.skip[1:]
			continue
		}
		keep = append(keep, i)
	}
	faults := map[int]*dataflow.Bad{}
	for _, c := range r.cols {
		r.spend(int64(len(keep)) * int64(c.rowBytes()))
		c.ensure(r.n + len(keep))
		at := batch.Schema().FieldIndices(c.name)
		if len(at) == 0 {
			for row := range keep {
				c.setNull(r.n + row)
			}
			continue
		}
		src := batch.Column(at[0])
		set, err := r.setter(c, src, c.name)
		if err != nil {
			return err
		}
		for row, i := range keep {
			var bad *dataflow.Bad
			if src.IsNull(i) {
				bad = null(c, r.n+row)
			} else {
				bad = set(r.n+row, i)
			}
			if bad == nil {
				continue
			}
			c.setNull(r.n + row)
			if faults[i] == nil {
				bad.Detail = fmt.Sprintf("column %q: %s", c.name, bad.Detail)
				faults[i] = bad
			}
		}
	}
	for i := range n {
		if bad := faults[i]; bad != nil {
			// Its index among the rows so far, until the JSON is made.
			r.bad = append(r.bad, ArrowRecord{Index: first + i, Bad: *bad})
		}
	}
	r.n += len(keep)
	return nil
}

func (r *arrowReader) batch() arrow.RecordBatch {
	cols := make([]arrow.Array, len(r.cols))
	for i, c := range r.cols {
		cols[i] = c.flush(r.n)
		defer cols[i].Release()
		c.release()
	}
	return array.NewRecordBatch(r.a.schema, cols, int64(r.n))
}

// release gives up what was not taken by batch.
func (r *arrowReader) release() {
	for _, c := range r.cols {
		c.release()
	}
}

// without reads the stream once more and leaves the bad rows out.
func (r *arrowReader) without() (arrow.RecordBatch, []ArrowRecord, *dataflow.Bad) {
	all := r.batch()
	defer all.Release()
	for i := range r.bad {
		x := &r.bad[i]
		x.Row = append(x.Row, '{')
		for j, c := range r.cols {
			if all.Column(j).IsNull(x.Index) {
				continue
			}
			if len(x.Row) > 1 {
				x.Row = append(x.Row, ',')
			}
			x.Row = append(appendString(x.Row, []byte(c.name)), ':')
			x.Row = dataflow.AppendJSON(x.Row, all.Column(j), x.Index)
		}
		x.Row = append(x.Row, '}')
	}
	again := &arrowReader{a: r.a, max: r.max, left: int64(1) << 62, alloc: &boundedAllocator{left: 1 << 62}, skip: r.bad}
	defer again.release()
	if err := again.read(r.src); err != nil {
		return nil, nil, invalidArrow("%v", err)
	}
	return again.batch(), r.bad, nil
}

// spend counts bytes that rows take.
func (r *arrowReader) spend(n int64) {
	if r.left -= n; r.left < 0 {
		panic("its rows take more memory than a request may")
	}
}

// boundedAllocator gives up where a stream asks for more than it can hold.
type boundedAllocator struct {
	memory.GoAllocator
	left int64
}

func (a *boundedAllocator) Allocate(size int) []byte {
	a.take(size)
	return a.GoAllocator.Allocate(size)
}

func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.take(size - len(b))
	return a.GoAllocator.Reallocate(size, b)
}

func (a *boundedAllocator) Free(b []byte) { a.left += int64(len(b)) }

func (a *boundedAllocator) take(n int) {
	if a.left -= int64(n); a.left < 0 {
		panic("it asks for more memory than a request may")
	}
}
