package operators

import (
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// overLeaves are the accumulators of the rows of a batch, each row as if it were
// alone. Their memory is used again for the next batch.
type overLeaves struct {
	*overLayout
	feed   *aggregateFeed
	accs   []uint64 // row i of the batch is row i+1 here
	bytes  []accHeap
	groups []uint32
	value  []byte
}

func newOverLeaves(env *dataflow.Env, l *overLayout) *overLeaves {
	return &overLeaves{overLayout: l, feed: l.aggs.newFeed(env), bytes: l.rows.newHeaps()}
}

// leaf returns the accumulators of row i.
func (o *overLeaves) leaf(i int) []uint64 {
	n := o.rows.stride
	return o.accs[(i+1)*n : (i+2)*n]
}

// make computes the accumulators of the rows of b.
func (o *overLeaves) make(b arrow.RecordBatch) error {
	if err := o.feed.bind(b); err != nil {
		return err
	}
	defer o.feed.unbind()
	n := int(b.NumRows())
	o.groups = slices.Grow(o.groups[:0], n)[:n]
	for i := range o.groups {
		o.groups[i] = uint32(i + 1)
	}
	size := (n + 1) * o.rows.stride
	o.accs = slices.Grow(o.accs[:0], size)[:size]
	clear(o.accs)
	for h := range o.bytes {
		o.bytes[h].reset()
	}
	o.feed.update(o.rows, o.accs, o.bytes, o.groups)
	for i := range o.distinct {
		o.makeDistinct(&o.distinct[i])
	}
	return nil
}

// makeDistinct computes those of an aggregate with distinct, which the feed leaves
// out, and its values.
func (o *overLeaves) makeDistinct(d *overDistinct) {
	f, agg := o.feed, o.aggs.aggs[d.agg]
	f.masked = slices.Grow(f.masked[:0], len(o.groups))[:len(o.groups)]
	groups, arg := o.groups, f.args[agg.arg]
	if agg.filter >= 0 {
		groups = maskFilter(f.masked, groups, f.args[agg.filter].(*array.Boolean))
	}
	if _, keeps := o.aggs.funcs[d.agg].(nullAggregate); !keeps {
		groups = maskNulls(f.masked, groups, arg)
	}
	acc := o.rows.column(d.agg, o.accs, o.bytes)
	if d.order != nil {
		d.order.bind([]arrow.Array{arg}, nil)
		acc.order = d.order
	}
	o.aggs.funcs[d.agg].update(acc, groups, arg)
	var col sortColumn
	col.bind(arg)
	for i, g := range groups {
		if g != 0 {
			o.value = appendDistinct(o.value[:0], &col, i)
			o.leaf(i)[d.off] = o.bytes[d.heap].add(o.value)
		}
	}
}
