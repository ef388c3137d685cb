package operators

import (
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// aggregateFeed feeds batches into accumulators: bind a batch (or arrays that
// were computed before), look at failures, update, unbind. One goroutine uses
// it.
type aggregateFeed struct {
	*aggregateSet
	evals  []*expr.Evaluator
	args   []arrow.Array // of the bound batch, by exprs
	failed [][]expr.RowError
	orders []*accOrder // by aggs, nil where the order does not matter
	masked []uint32
}

// newFeed makes a feed in a task.
func (s *aggregateSet) newFeed(env *dataflow.Env) *aggregateFeed {
	f := &aggregateFeed{aggregateSet: s, args: make([]arrow.Array, len(s.exprs)), orders: make([]*accOrder, len(s.aggs))}
	for _, e := range s.exprs {
		f.evals = append(f.evals, e.NewEvaluator(env.Alloc))
	}
	for i, a := range s.aggs {
		if _, ok := s.funcs[i].(orderedAggregate); ok {
			f.orders[i] = newAccOrder(s, a.order, env.Splits)
		}
	}
	return f
}

// bind evaluates all arguments and filters on b, which it borrows until unbind.
// Rows that have no value for one are reported by failures.
func (f *aggregateFeed) bind(b arrow.RecordBatch) error {
	f.unbind()
	for i, ev := range f.evals {
		a, errs, err := ev.Eval(b)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", f.exprs[i], err)
		}
		f.args[i] = a
		if len(errs) > 0 && f.failed == nil {
			f.failed = make([][]expr.RowError, len(f.evals))
		}
		if f.failed != nil {
			f.failed[i] = errs
		}
	}
	f.bindOrders(b)
	return nil
}

// bindArgs is bind for values of exprs that another feed computed, with the
// system columns of their rows in b. It retains args and borrows b until unbind.
func (f *aggregateFeed) bindArgs(args []arrow.Array, b arrow.RecordBatch) {
	f.unbind()
	for i, a := range args {
		a.Retain()
		f.args[i] = a
	}
	f.bindOrders(b)
}

func (f *aggregateFeed) bindOrders(b arrow.RecordBatch) {
	for _, o := range f.orders {
		if o != nil {
			o.bind(f.args, b)
		}
	}
}

// unbind lets go of the bound batch.
func (f *aggregateFeed) unbind() {
	for i, a := range f.args {
		if a != nil {
			a.Release()
			f.args[i] = nil
		}
	}
	f.failed = nil
}

// failures visits what could not be computed although it counts: an argument
// does only where the filter is true. A row may come several times; its first
// is the one to show. Rows do not come in order.
func (f *aggregateFeed) failures(visit func(row int, bad dataflow.Bad)) {
	if f.failed == nil {
		return
	}
	for _, agg := range f.aggs {
		show := func(at int, filter *array.Boolean) {
			for _, e := range f.failed[at] {
				if filter == nil || filter.IsValid(e.Row) && filter.Value(e.Row) {
					visit(e.Row, dataflow.Bad{Reason: e.Bad.Reason, Detail: "aggregate " + agg.name + ": " + e.Bad.Detail})
				}
			}
		}
		var filter *array.Boolean
		if agg.filter >= 0 {
			filter = f.args[agg.filter].(*array.Boolean)
			show(agg.filter, nil)
		}
		if agg.arg >= 0 {
			show(agg.arg, filter)
		}
		for _, o := range agg.order {
			show(o.arg, filter)
		}
	}
}

// update adds the rows of the bound batch to the accumulators of their groups,
// which layout finds in rows and heaps. Rows in group 0 do not count (its
// accumulators are rubbish). Aggregates with distinct are left out: see
// distinctBatch.
func (f *aggregateFeed) update(layout *accLayout, rows []uint64, heaps []accHeap, groups []uint32) {
	f.masked = slices.Grow(f.masked[:0], len(groups))[:len(groups)]
	for i, agg := range f.aggs {
		if agg.distinct {
			continue
		}
		g := groups
		var arg arrow.Array
		if agg.filter >= 0 {
			g = maskFilter(f.masked, g, f.args[agg.filter].(*array.Boolean))
		}
		if agg.arg >= 0 {
			arg = f.args[agg.arg]
			if _, keeps := f.funcs[i].(nullAggregate); !keeps {
				g = maskNulls(f.masked, g, arg)
			}
		}
		acc := layout.column(i, rows, heaps)
		acc.order = f.orders[i]
		f.funcs[i].update(acc, g, arg)
	}
}

// maskNulls returns groups with the nulls of a in group 0, in dst if there are
// any. dst may be groups.
func maskNulls(dst, groups []uint32, a arrow.Array) []uint32 {
	if a.NullN() == 0 {
		return groups
	}
	valid, off := a.NullBitmapBytes(), a.Data().Offset()
	if len(valid) == 0 { // an array of type null
		clear(dst)
		return dst
	}
	for i, g := range groups {
		if !bitutil.BitIsSet(valid, off+i) {
			g = 0
		}
		dst[i] = g
	}
	return dst
}

// maskFilter returns groups, in dst, with the rows in group 0 where filter is
// not true.
func maskFilter(dst, groups []uint32, filter *array.Boolean) []uint32 {
	if len(groups) == 0 { // and the filter has no buffers
		return dst
	}
	bits, off := filter.Data().Buffers()[1].Bytes(), filter.Data().Offset()
	for i, g := range groups {
		if !bitutil.BitIsSet(bits, off+i) {
			g = 0
		}
		dst[i] = g
	}
	return maskNulls(dst, dst, filter)
}
