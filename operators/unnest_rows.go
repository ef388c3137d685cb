package operators

import (
	"context"
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// add adds a row to the batch that is being made, which is sent on when it is full: so
// a long list takes no more memory than a short one. number is that of the element.
func (u *unnest) add(ctx context.Context, b arrow.RecordBatch, sources []arrow.Array, parent, element, number int32, out dataflow.Emitter) error {
	u.parents = append(u.parents, parent)
	u.elements = append(u.elements, element)
	u.numbers = append(u.numbers, number)
	u.bytes += u.sizes.row(int(parent))
	if len(u.parents) < unnestRows && u.bytes < unnestBytes {
		return nil
	}
	return u.flush(ctx, b, sources, out)
}

// flush sends the rows that were added.
func (u *unnest) flush(ctx context.Context, b arrow.RecordBatch, sources []arrow.Array, out dataflow.Emitter) error {
	if len(u.parents) == 0 {
		return nil
	}
	made, err := u.batch(b, sources)
	if err != nil {
		return fmt.Errorf("make rows of elements: %w", err)
	}
	u.env.Fates.Created.Add(made.NumRows())
	u.parents, u.elements, u.numbers, u.bytes = u.parents[:0], u.elements[:0], u.numbers[:0], 0
	return out.Emit(ctx, statelessOut, made)
}

// batch puts the columns together: those before the list, the element's, those behind,
// the number, and the system's.
func (u *unnest) batch(b arrow.RecordBatch, sources []arrow.Array) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, 0, u.plan.out.NumFields())
	defer func() { releaseAll(cols) }()
	take := func(a arrow.Array, rows []int32) error {
		c, err := dataflow.TakeArray(u.env.Alloc, a, rows)
		if err == nil {
			cols = append(cols, c)
		}
		return err
	}
	for i, a := range b.Columns() {
		if i == u.plan.users && u.plan.ordinal {
			cols = append(cols, u.ordinals())
		}
		if i != u.plan.column {
			if err := take(a, u.parents); err != nil {
				return nil, err
			}
			continue
		}
		for _, s := range sources {
			if err := take(s, u.elements); err != nil {
				return nil, err
			}
		}
	}
	if u.plan.ordinal && int(b.NumCols()) == u.plan.users {
		cols = append(cols, u.ordinals())
	}
	numbers := array.NewInt32Builder(u.env.Alloc)
	defer numbers.Release()
	numbers.AppendValues(u.numbers, nil)
	cols = append(cols, numbers.NewArray())
	return array.NewRecordBatch(u.plan.out, cols, int64(len(u.parents))), nil
}

// ordinals are the numbers as users see them: null where there was no element.
func (u *unnest) ordinals() arrow.Array {
	made := array.NewInt64Builder(u.env.Alloc)
	defer made.Release()
	made.Reserve(len(u.numbers))
	for _, n := range u.numbers {
		if n == 0 {
			made.AppendNull()
			continue
		}
		made.Append(int64(n))
	}
	return made.NewArray()
}

// Close frees what the step holds.
func (u *unnest) Close() error {
	u.bad.Release()
	if u.values != nil {
		u.values.release()
	}
	return nil
}

// rowSizes estimates how large rows are that repeat those of a batch.
type rowSizes struct {
	fixed int64
	texts [][]int32 // offsets of the columns of texts and documents
}

// of makes the rows of b what row looks at; the column except is not repeated. It
// borrows b.
func (s *rowSizes) of(b arrow.RecordBatch, except int) {
	s.fixed, s.texts = 0, s.texts[:0]
	for i, a := range b.Columns() {
		if j, ok := a.(*extensions.JSONArray); ok {
			a = j.Storage()
		}
		switch a := a.(type) {
		case *array.String:
			if i != except {
				s.texts = append(s.texts, a.ValueOffsets())
			}
		case *array.Binary:
			if i != except {
				s.texts = append(s.texts, a.ValueOffsets())
			}
		default:
			if i == except {
				continue
			}
			if t, ok := a.DataType().(arrow.FixedWidthDataType); ok {
				s.fixed += int64(t.BitWidth()/8) + 1
				continue
			}
			s.fixed += int64(a.Data().SizeInBytes()) / int64(max(a.Len(), 1))
		}
	}
}

// row is the size of row i in bytes.
func (s *rowSizes) row(i int) int64 {
	n := s.fixed
	for _, offsets := range s.texts {
		if len(offsets) > i+1 {
			n += int64(offsets[i+1] - offsets[i])
		}
	}
	return n
}

var _ dataflow.Operator = (*unnest)(nil)
