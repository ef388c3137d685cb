package operators

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
)

// lateRows are rows on their way to the port "late": what they lack of its
// columns.
type lateRows struct {
	bounded              bool // the windows have bounds to show
	rows                 []int32
	starts, ends, lateBy []int64
}

func (l *lateRows) reset() {
	l.rows, l.starts, l.ends, l.lateBy = l.rows[:0], l.starts[:0], l.ends[:0], l.lateBy[:0]
}

// add adds a row that is late for the window from start to end, by lateBy.
func (l *lateRows) add(row int, start, end, lateBy int64) {
	l.rows = append(l.rows, int32(row))
	l.starts, l.ends, l.lateBy = append(l.starts, start), append(l.ends, end), append(l.lateBy, lateBy)
}

// columns makes the four columns between the user's and the system columns, out
// of the stamps of the rows.
func (l *lateRows) columns(env *dataflow.Env, late *arrow.Schema, users int, stamps *array.Int64) []arrow.Array {
	b := array.NewRecordBuilder(env.Alloc, arrow.NewSchema(late.Fields()[users:users+4], nil))
	defer b.Release()
	for i := range l.rows {
		if l.bounded {
			b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(l.starts[i]))
			b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(l.ends[i]))
		} else {
			b.Field(0).AppendNull()
			b.Field(1).AppendNull()
		}
		if s := stamps.Value(i); s == int64(dataflow.MinTime) {
			b.Field(2).AppendNull()
		} else {
			b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(s))
		}
		b.Field(3).(*array.Int64Builder).Append(l.lateBy[i])
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	for _, c := range batch.Columns() {
		c.Retain()
	}
	return slices.Clone(batch.Columns())
}

// orderedLate sends rows to "late" of which only this half can say that they
// are. They came through the exchange whole: the user's columns in the column
// orderedRow, each as a message of an Arrow IPC stream (see rowWriter).
type orderedLate struct {
	*orderedShape
	lateRows
	env   *dataflow.Env
	whole *array.Binary
	users *arrow.Schema
	head  []byte // of a stream of rows
}

func newOrderedLate(env *dataflow.Env, s *orderedShape) *orderedLate {
	return &orderedLate{orderedShape: s, lateRows: lateRows{bounded: true}, env: env, users: arrow.NewSchema(dataflow.UserFields(s.input), nil)}
}

func (l *orderedLate) bind(b arrow.RecordBatch) {
	l.reset()
	if l.cols.row >= 0 {
		l.whole = b.Column(l.cols.row).(*array.Binary)
	}
}

// add adds row i of the bound batch.
func (l *orderedLate) add(i int, start, end, lateBy int64) error {
	if l.whole == nil || l.whole.IsNull(i) {
		return fmt.Errorf("a row is late by %d us, which the half in front of the exchange did not foresee", lateBy)
	}
	l.lateRows.add(i, start, end, lateBy)
	return nil
}

// flush sends the late rows of b, the bound batch.
func (l *orderedLate) flush(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	if len(l.rows) == 0 {
		return nil
	}
	users, err := l.decode()
	if err != nil {
		return fmt.Errorf("read late rows: %w", err)
	}
	defer users.Release()
	var sys []arrow.Array
	defer func() {
		for _, c := range sys {
			c.Release()
		}
	}()
	for _, f := range dataflow.SysFields(l.input) {
		c, err := dataflow.TakeArray(l.env.Alloc, b.Column(dataflow.Column(b.Schema(), f.Name)), l.rows)
		if err != nil {
			return fmt.Errorf("take late rows: %w", err)
		}
		sys = append(sys, c)
	}
	n := int(users.NumCols())
	added := l.columns(l.env, l.windowShape.late, n, sys[1].(*array.Int64))
	defer func() {
		for _, c := range added {
			c.Release()
		}
	}()
	cols := slices.Concat(users.Columns(), added, sys)
	return out.Emit(ctx, windowLate, array.NewRecordBatch(l.windowShape.late, cols, int64(len(l.rows))))
}

// decode reads the user's columns of the late rows.
func (l *orderedLate) decode() (arrow.RecordBatch, error) {
	if l.head == nil {
		var err error
		if l.head, err = rowStreamHead(l.env, l.users); err != nil {
			return nil, err
		}
	}
	parts := []io.Reader{bytes.NewReader(l.head)}
	for _, i := range l.rows {
		parts = append(parts, bytes.NewReader(l.whole.Value(int(i))))
	}
	r, err := ipc.NewReader(io.MultiReader(parts...), ipc.WithAllocator(l.env.Alloc))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	var batches []arrow.RecordBatch
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	rows := 0
	for r.Next() {
		b := r.RecordBatch()
		batches = append(batches, array.NewRecordBatch(l.users, b.Columns(), b.NumRows()))
		rows += int(b.NumRows())
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	if rows != len(l.rows) {
		return nil, fmt.Errorf("%d rows, want %d", rows, len(l.rows))
	}
	return joinBatches(l.env, batches)
}

// rowWriter writes rows as messages of an Arrow IPC stream, without what stands
// at the beginning of one.
type rowWriter struct {
	schema *arrow.Schema
	buf    bytes.Buffer
	w      *ipc.Writer
}

// rowStreamHead is the beginning of a stream whose messages are those of a
// rowWriter: its schema and a batch without rows.
func rowStreamHead(env *dataflow.Env, schema *arrow.Schema) ([]byte, error) {
	w := rowWriter{schema: schema}
	if err := w.start(env); err != nil {
		return nil, err
	}
	return w.buf.Bytes(), nil
}

func (w *rowWriter) start(env *dataflow.Env) error {
	b := array.NewRecordBuilder(env.Alloc, w.schema)
	defer b.Release()
	none := b.NewRecordBatch()
	defer none.Release()
	w.w = ipc.NewWriter(&w.buf, ipc.WithSchema(w.schema), ipc.WithAllocator(env.Alloc))
	return w.w.Write(none)
}

// row returns the message of row i of b, whose first columns are those of the
// schema. It is valid until the next call.
func (w *rowWriter) row(env *dataflow.Env, b arrow.RecordBatch, i int64) ([]byte, error) {
	if w.w == nil {
		if err := w.start(env); err != nil {
			return nil, err
		}
	}
	w.buf.Reset()
	users := array.NewRecordBatch(w.schema, b.Columns()[:w.schema.NumFields()], b.NumRows())
	defer users.Release()
	row := users.NewSlice(i, i+1)
	defer row.Release()
	if err := w.w.Write(row); err != nil {
		return nil, err
	}
	return w.buf.Bytes(), nil
}
