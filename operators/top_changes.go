package operators

import (
	"bytes"
	"context"
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// topChanges makes changes of the rows that changed.
type topChanges struct {
	*topShape
	env *dataflow.Env
	b   *array.RecordBuilder
	ops []uint8
	// rows and bytes per column of the batch before: as much is reserved at once.
	rows  int
	bytes []int
}

func newTopChanges(env *dataflow.Env, s *topShape) *topChanges {
	return &topChanges{topShape: s, env: env, b: array.NewRecordBuilder(env.Alloc, s.out)}
}

func (c *topChanges) release() { c.b.Release() }

// compare gives the changes that make one list of another, rank by rank.
func (c *topChanges) compare(ctx context.Context, l *topLists, was, is []topItem, out dataflow.Emitter) error {
	for i := range max(len(was), len(is)) {
		var before, after []byte
		if i < len(was) {
			before = l.rowOf(&was[i])
		}
		if i < len(is) {
			after = l.rowOf(&is[i])
		}
		switch {
		case i >= len(was):
			c.add(i, after, dataflow.OpInsert)
		case i >= len(is):
			c.add(i, before, dataflow.OpDelete)
		case was[i].at != is[i].at && !bytes.Equal(before, after):
			c.add(i, before, dataflow.OpUpdateBefore)
			c.add(i, after, dataflow.OpUpdateAfter)
		}
	}
	if len(c.ops) < windowResultRows {
		return nil
	}
	return c.flush(ctx, out)
}

func (c *topChanges) add(rank int, row []byte, op dataflow.Op) {
	if len(c.ops) == 0 {
		c.reserve()
	}
	cols := c.b.Fields()
	if err := decodeRow(row, cols[:c.users]); err != nil {
		panic(fmt.Sprintf("a row that this process encoded: %v", err))
	}
	if c.rank != "" {
		cols[c.users].(*array.Int64Builder).Append(int64(rank) + 1)
	}
	c.ops = append(c.ops, uint8(op))
}

// bytesBuilder is a builder of texts or bytes.
type bytesBuilder interface {
	DataLen() int
	ReserveData(n int)
}

// reserve makes room for a batch like the one before.
func (c *topChanges) reserve() {
	c.b.Reserve(c.rows)
	for i, n := range c.bytes {
		if b, ok := c.b.Field(i).(bytesBuilder); ok {
			b.ReserveData(n)
		}
	}
}

// measure notes the size of the batch that is to be sent.
func (c *topChanges) measure() {
	c.rows, c.bytes = len(c.ops), c.bytes[:0]
	for _, f := range c.b.Fields() {
		n := 0
		if b, ok := f.(bytesBuilder); ok {
			n = b.DataLen() + b.DataLen()/8
		}
		c.bytes = append(c.bytes, n)
	}
}

// flush sends the rows so far.
func (c *topChanges) flush(ctx context.Context, out dataflow.Emitter) error {
	if len(c.ops) == 0 {
		return nil
	}
	c.measure()
	cols := c.b.Fields()
	cols[len(cols)-1].(*array.Uint8Builder).AppendValues(c.ops, nil)
	c.env.Fates.Created.Add(int64(len(c.ops)))
	c.ops = c.ops[:0]
	return out.Emit(ctx, groupOut, c.b.NewRecordBatch())
}
