package operators

import (
	"encoding/binary"
	"math"
	"slices"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// orderTerm is one term of an order by: arg is its index in the exprs of the
// step.
type orderTerm struct {
	arg   int
	order expr.Order
}

// accOrder says where the rows of the bound batch stand in the order of an
// aggregate: by its order by, then by event time, source, split and position,
// which stay the same however rows are batched and whatever numbers the splits
// have in this process. Rows that a step created have no origin and are told
// apart by their values.
//
// An order key is bytes that compare as the rows do, each part telling its own
// end; it is a format (docs/state-format.md): the terms of order by (see
// sortValue), the event time (8 bytes), source and split as texts, the position
// (8 bytes), the numbers of elements (4 bytes each), as far as the input has them.
type accOrder struct {
	terms  []sortTerm
	args   []int
	splits *dataflow.SplitTable
	// Indexes of system columns, -1 where there is none.
	timeCol, splitCol, posCol int
	elementCols               []int

	times, pos []int64
	split      []int32
	elements   [][]int32 // see dataflow.SysElement
	// names holds the encoded source and split by split number.
	names map[int32][]byte
	best  []int64 // see extremes
}

func newAccOrder(s *aggregateSet, order []orderTerm, splits *dataflow.SplitTable) *accOrder {
	o := &accOrder{
		splits: splits, names: map[int32][]byte{},
		timeCol: dataflow.Column(s.schema, dataflow.SysTime), splitCol: dataflow.Column(s.schema, dataflow.SysSplit), posCol: dataflow.Column(s.schema, dataflow.SysPos),
		elementCols: dataflow.ElementColumns(s.schema),
	}
	for _, t := range order {
		o.terms = append(o.terms, sortTerm{desc: t.order.Desc, nullsFirst: t.order.NullsFirst})
		o.args = append(o.args, t.arg)
	}
	return o
}

// bind makes args and the system columns of b what append reads.
func (o *accOrder) bind(args []arrow.Array, b arrow.RecordBatch) {
	for i, a := range o.args {
		o.terms[i].col.bind(args[a])
	}
	o.times, o.split, o.pos = nil, nil, nil
	if o.timeCol >= 0 {
		o.times = b.Column(o.timeCol).(*array.Int64).Int64Values()
	}
	if o.splitCol >= 0 && o.posCol >= 0 {
		o.split = b.Column(o.splitCol).(*array.Int32).Int32Values()
		o.pos = b.Column(o.posCol).(*array.Int64).Int64Values()
	}
	o.elements = o.elements[:0]
	for _, c := range o.elementCols {
		o.elements = append(o.elements, b.Column(c).(*array.Int32).Int32Values())
	}
}

// append adds the order key of a row to dst.
func (o *accOrder) append(dst []byte, row int) []byte {
	for i := range o.terms {
		dst = o.terms[i].append(dst, row)
	}
	if o.times != nil {
		dst = binary.BigEndian.AppendUint64(dst, uint64(o.times[row])^1<<63)
	}
	if o.split != nil {
		dst = o.appendOrigin(dst, row)
	}
	return dst
}

// appendOrigin adds source, split, position and elements of a row to dst.
func (o *accOrder) appendOrigin(dst []byte, row int) []byte {
	dst = append(dst, o.name(o.split[row])...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.pos[row])^1<<63)
	for _, e := range o.elements {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e[row])^1<<31)
	}
	return dst
}

func (o *accOrder) name(split int32) []byte {
	n, ok := o.names[split]
	if !ok {
		source, s := "", dataflow.Split("")
		if o.splits != nil {
			source, s = o.splits.Name(split)
		}
		n = appendSortText(appendSortText(nil, []byte(source)), []byte(s))
		o.names[split] = n
	}
	return n
}

// extremes returns, by group, the least or greatest event time of the bound rows,
// where rows go by that first: most need not be looked at further. It is nil where
// an order by comes first. The result is valid until the next call.
func (o *accOrder) extremes(groups []uint32, greatest bool) []int64 {
	if len(o.terms) > 0 || o.times == nil {
		return nil
	}
	for _, g := range groups {
		if n := int(g) + 1; n > len(o.best) {
			o.best = slices.Grow(o.best, n-len(o.best))[:n]
		}
	}
	start := int64(math.MaxInt64)
	if greatest {
		start = math.MinInt64
	}
	for _, g := range groups {
		o.best[g] = start
	}
	for i, g := range groups {
		if t := o.times[i]; greatest && t > o.best[g] || !greatest && t < o.best[g] {
			o.best[g] = t
		}
	}
	return o.best
}

// prefix is the first 8 bytes of the order key of a row, where rows go by their
// event time first.
func (o *accOrder) prefix(row int) uint64 {
	if o.times == nil {
		return 0
	}
	return uint64(o.times[row]) ^ 1<<63
}
