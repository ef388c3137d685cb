package dataflow

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// SysOp: uint8, an Op: what the row does to the table that a changelog stands
// for. It is the last system column of a changelog's schema and of no other.
const SysOp = "_op"

// Op is one kind of change. A reader that folds a changelog by its key puts the
// row of OpInsert and OpUpdateAfter, and takes the row of OpUpdateBefore and
// OpDelete away; each holds all columns. An OpUpdateBefore stands somewhere
// before its OpUpdateAfter and repeats the row that was put before.
type Op uint8

// The kinds of change.
const (
	OpInsert Op = 1 + iota
	OpUpdateBefore
	OpUpdateAfter
	OpDelete
)

var opNames = []string{"", "insert", "update_before", "update_after", "delete"}

// String is the name that users see.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return "op " + string(rune('0'+o%10))
}

// Puts says whether the change puts its row, rather than taking it away.
func (o Op) Puts() bool { return o == OpInsert || o == OpUpdateAfter }

// OpField is the field of SysOp.
func OpField() arrow.Field { return arrow.Field{Name: SysOp, Type: arrow.PrimitiveTypes.Uint8} }

// OpColumn is the column that shows the change to users, in sinks that write
// changes as rows: the name of the Op.
const OpColumn = "op"

// ShownChanges is the stream of rows that shows a changelog's changes: OpColumn,
// then the user's columns, then the system columns but SysOp.
func ShownChanges(s Stream) Stream {
	fields := append([]arrow.Field{{Name: OpColumn, Type: TypeString}}, s.Schema.Fields()...)
	fields = slices.DeleteFunc(fields, func(f arrow.Field) bool { return f.Name == SysOp })
	return Stream{Schema: arrow.NewSchema(fields, nil)}
}

// ShowChanges makes a writer of the stream shown out of one of rows.
func ShowChanges(w Writer, shown Stream, alloc memory.Allocator) Writer {
	return &changeWriter{Writer: w, schema: shown.Schema, alloc: alloc}
}

type changeWriter struct {
	Writer
	schema *arrow.Schema
	alloc  memory.Allocator
}

// Write implements Writer.
func (w *changeWriter) Write(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	c := Column(b.Schema(), SysOp)
	names := array.NewStringBuilder(w.alloc)
	defer names.Release()
	for _, o := range b.Column(c).(*array.Uint8).Uint8Values() {
		names.Append(Op(o).String())
	}
	op := names.NewArray()
	defer op.Release()
	cols := append([]arrow.Array{op}, b.Columns()[:c]...)
	shown := array.NewRecordBatch(w.schema, append(cols, b.Columns()[c+1:]...), b.NumRows())
	defer shown.Release()
	return w.Writer.Write(ctx, shown)
}
