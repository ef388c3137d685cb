package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Ports of filter and project.
const (
	statelessOut = 0
	statelessBad = 1
)

// statelessPorts are the rows that go on and the bad ones.
func statelessPorts(out dataflow.Stream) []dataflow.Port {
	return []dataflow.Port{{Name: dataflow.PortOut, Stream: out}, dataflow.BadPort()}
}

// statelessBadRows sends the rows of b that errs name to the port "bad". errs
// holds every row once.
func statelessBadRows(ctx context.Context, env *dataflow.Env, bad *dataflow.BadRows, b arrow.RecordBatch, errs []expr.RowError, out dataflow.Emitter) error {
	if len(errs) == 0 {
		return nil
	}
	for i := range errs {
		bad.AddRow(&errs[i].Bad, b, errs[i].Row)
	}
	env.Fates.Bad.Add(int64(len(errs)))
	return out.Emit(ctx, statelessBad, bad.Flush())
}

// oneErrorEach puts errors in the order of rows, of each row the first that was found.
func oneErrorEach(errs []expr.RowError) []expr.RowError {
	slices.SortStableFunc(errs, func(x, y expr.RowError) int { return x.Row - y.Row })
	return slices.CompactFunc(errs, func(x, y expr.RowError) bool { return x.Row == y.Row })
}

// rowsOut sends on what a step makes of whole batches: all rows but those that failed,
// which are in errs, each once and in order.
type rowsOut struct {
	env  *dataflow.Env
	bad  *dataflow.BadRows
	errs []expr.RowError
	rows []int32
}

func newRowsOut(env *dataflow.Env) rowsOut { return rowsOut{env: env, bad: dataflow.NewBadRows(env)} }

// send takes over made, which was made of b.
func (r *rowsOut) send(ctx context.Context, b, made arrow.RecordBatch, out dataflow.Emitter) error {
	if len(r.errs) > 0 {
		r.rows = statelessRest(r.rows[:0], made.NumRows(), r.errs)
		rest, err := dataflow.TakeBatch(r.env.Alloc, made, r.rows)
		made.Release()
		if err != nil {
			return err
		}
		made = rest
		if err := statelessBadRows(ctx, r.env, r.bad, b, r.errs, out); err != nil {
			made.Release()
			return err
		}
	}
	r.env.Fates.Passed.Add(made.NumRows())
	return out.Emit(ctx, statelessOut, made)
}

// statelessRest appends to rows those of n that errs, in order, do not name.
func statelessRest(rows []int32, n int64, errs []expr.RowError) []int32 {
	for i := range int32(n) {
		if len(errs) > 0 && errs[0].Row == int(i) {
			errs = errs[1:]
			continue
		}
		rows = append(rows, i)
	}
	return rows
}

// statelessTake returns the given rows of b as a batch that the caller owns: b
// itself if those are all.
func statelessTake(env *dataflow.Env, b arrow.RecordBatch, rows []int32) (arrow.RecordBatch, error) {
	if len(rows) == int(b.NumRows()) {
		b.Retain()
		return b, nil
	}
	t, err := dataflow.TakeBatch(env.Alloc, b, rows)
	if err != nil {
		return nil, fmt.Errorf("take %d rows: %w", len(rows), err)
	}
	return t, nil
}

// statelessTakeAs is statelessTake of a changelog whose rows do what ops says; ops is
// nil where that is as it was.
func statelessTakeAs(env *dataflow.Env, b arrow.RecordBatch, rows []int32, ops arrow.Array) (arrow.RecordBatch, error) {
	kept, err := statelessTake(env, b, rows)
	if err != nil || ops == nil {
		return kept, err
	}
	defer kept.Release()
	cols := slices.Clone(kept.Columns())
	cols[dataflow.Column(kept.Schema(), dataflow.SysOp)] = ops
	return array.NewRecordBatch(kept.Schema(), cols, kept.NumRows()), nil
}

// statelessDeletes adds to the rows that pass, of a changelog whose rows may be
// forgotten, those that put a row which does not, and returns what each does: those
// are deletes. The caller owns ops.
func statelessDeletes(env *dataflow.Env, b arrow.RecordBatch, pass []int32, errs []expr.RowError) (rows []int32, ops arrow.Array) {
	made := array.NewUint8Builder(env.Alloc)
	defer made.Release()
	for i, op := range b.Column(dataflow.Column(b.Schema(), dataflow.SysOp)).(*array.Uint8).Uint8Values() {
		switch {
		case len(pass) > 0 && pass[0] == int32(i):
			pass = pass[1:]
		case len(errs) > 0 && errs[0].Row == i:
			errs = errs[1:]
			continue
		case dataflow.Op(op).Puts():
			op = uint8(dataflow.OpDelete)
		default:
			continue
		}
		rows = append(rows, int32(i))
		made.Append(op)
	}
	return rows, made.NewArray()
}

// statelessSchema returns b with the given schema, whose columns are b's but for
// what is said about them; the caller owns the reference.
func statelessSchema(b arrow.RecordBatch, s *arrow.Schema) arrow.RecordBatch {
	if b.Schema() == s || b.Schema().Equal(s) {
		b.Retain()
		return b
	}
	return array.NewRecordBatch(s, b.Columns(), b.NumRows())
}
