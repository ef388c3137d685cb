package operators

import (
	"context"
	"fmt"

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

// statelessSchema returns b with the given schema, whose columns are b's but for
// what is said about them; the caller owns the reference.
func statelessSchema(b arrow.RecordBatch, s *arrow.Schema) arrow.RecordBatch {
	if b.Schema() == s || b.Schema().Equal(s) {
		b.Retain()
		return b
	}
	return array.NewRecordBatch(s, b.Columns(), b.NumRows())
}
