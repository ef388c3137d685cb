package engine

import (
	"context"
	"fmt"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// exchange sends rows to the tasks of a keyed step by the key group of their
// hash column. With one task it passes batches on as they are.
type exchange struct {
	step  string
	route int // column with the hash
	tasks []*edgeStage
	alloc memory.Allocator
	owner [state.NumGroups]uint8
	rows  [][]int32
}

func newExchange(step string, schema *arrow.Schema, routeBy string, tasks []*edgeStage, alloc memory.Allocator) (*exchange, error) {
	x := &exchange{step: step, route: dataflow.Column(schema, routeBy), tasks: tasks, alloc: alloc, rows: make([][]int32, len(tasks))}
	if x.route < 0 {
		return nil, fmt.Errorf("step %s: its exchange has no column %q", step, routeBy)
	}
	if len(tasks) > 256 {
		return nil, fmt.Errorf("step %s: %d tasks; there are 256 key groups", step, len(tasks))
	}
	for g := range x.owner {
		x.owner[g] = uint8(state.TaskOf(g, len(tasks)))
	}
	return x, nil
}

func (x *exchange) process(ctx context.Context, b arrow.RecordBatch) error {
	if len(x.tasks) == 1 {
		return x.tasks[0].process(ctx, b)
	}
	hashes := b.Column(x.route).(*array.Uint64).Uint64Values()
	for t := range x.rows {
		x.rows[t] = x.rows[t][:0]
	}
	for i, h := range hashes {
		t := x.owner[h>>56]
		x.rows[t] = append(x.rows[t], int32(i))
	}
	for t, rows := range x.rows {
		if len(rows) == 0 {
			continue
		}
		if len(rows) == len(hashes) {
			return x.tasks[t].process(ctx, b)
		}
		part, err := dataflow.TakeBatch(x.alloc, b, rows)
		if err != nil {
			return fmt.Errorf("exchange into %s: %w", x.step, err)
		}
		err = x.tasks[t].process(ctx, part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) watermark(ctx context.Context, wm dataflow.Time) error {
	for _, t := range x.tasks {
		if err := t.watermark(ctx, wm); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) barrier(ctx context.Context, b barrier) error {
	for _, t := range x.tasks {
		if err := t.barrier(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) end(ctx context.Context) error {
	for _, t := range x.tasks {
		if err := t.end(ctx); err != nil {
			return err
		}
	}
	return nil
}
