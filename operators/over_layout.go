package operators

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// overLayout says how the aggregates of over are kept and read. Each row of the
// input becomes a row of accumulators, as if it were alone; those of a frame are
// merged.
//
// Aggregates whose accumulators stay small are summed along (see overFrame). The
// others, and those with distinct, look at every row of a frame for each result.
// With unbounded no row leaves a frame and all of them are summed along.
type overLayout struct {
	*overShape
	// aggs are those of the step, the ones that are summed along first.
	aggs *aggregateSet
	// columns are the indexes in aggs of the result's columns.
	columns []int
	// rows is of the aggregates of one row and, behind them, of its values under
	// distinct; sums, of the aggregates that are summed along, is how it begins.
	rows, sums *accLayout
	grown      []overGrown
	distinct   []overDistinct

	acc   []uint64 // of the frame at hand
	heaps []accHeap
}

// overGrown is an aggregate that looks at every row of a frame.
type overGrown struct {
	fn       aggregateFunc
	bytes    bytesAggregate // nil without bytes
	off      int
	heap     int
	distinct int  // index in distinct, -1 without
	counts   bool // the number of distinct values is the result
}

// overDistinct is an aggregate with distinct: where the rows have its value.
type overDistinct struct {
	agg, off, heap int
	order          *accOrder // nil where the order does not matter
}

func newOverLayout(s *overShape) *overLayout {
	l := &overLayout{overShape: s}
	set := *s.set
	set.aggs, set.funcs = nil, nil
	l.aggs, l.columns = &set, make([]int, len(s.set.aggs))
	summed := 0
	for _, grows := range [2]bool{false, true} {
		for i, f := range s.set.funcs {
			if grown := s.kind != overAll && (s.set.aggs[i].distinct || overGrows(f)); grown != grows {
				continue
			}
			l.columns[i] = len(set.aggs)
			set.aggs, set.funcs = append(set.aggs, s.set.aggs[i]), append(set.funcs, f)
		}
		if !grows {
			summed = len(set.funcs)
		}
	}
	funcs := append([]aggregateFunc{}, set.funcs...)
	for i, a := range set.aggs {
		if a.distinct {
			l.distinct = append(l.distinct, overDistinct{agg: i, order: overValueOrder(set.funcs[i], a)})
			funcs = append(funcs, overValueFunc{})
		}
	}
	l.rows, l.sums = newAccLayout(funcs), newAccLayout(set.funcs[:summed])
	for i := range l.distinct {
		d := &l.distinct[i]
		d.off = l.rows.offs[len(set.funcs)+i]
		d.heap = l.heapAt(d.off)
	}
	for i := summed; i < len(set.funcs); i++ {
		l.addGrown(i)
	}
	l.acc, l.heaps = make([]uint64, l.rows.stride), l.rows.newHeaps()
	return l
}

func (l *overLayout) addGrown(i int) {
	g := overGrown{fn: l.aggs.funcs[i], off: l.rows.offs[i], heap: -1, distinct: -1}
	if b, ok := g.fn.(bytesAggregate); ok {
		g.bytes, g.heap = b, l.heapAt(g.off)
	}
	for d := range l.distinct {
		if l.distinct[d].agg == i {
			g.distinct = d
			_, g.counts = g.fn.(countFunc)
		}
	}
	l.grown = append(l.grown, g)
}

// heapAt is the heap of the bytes whose word is off.
func (l *overLayout) heapAt(off int) int {
	for h, b := range l.rows.bytes {
		if b.off == off {
			return h
		}
	}
	return -1
}

// overGrows says whether the accumulators of f grow with the rows.
func overGrows(f aggregateFunc) bool {
	switch f.(type) {
	case firstFunc, bytesExtremeFunc:
		return false
	}
	_, bytes := f.(bytesAggregate)
	return bytes
}

// overValueOrder is the order of the values of a distinct aggregate: by the value,
// since an order by can name nothing else.
func overValueOrder(f aggregateFunc, a stepAggregate) *accOrder {
	if _, ok := f.(orderedAggregate); !ok {
		return nil
	}
	o := &accOrder{timeCol: -1, splitCol: -1, posCol: -1}
	for _, t := range a.order {
		o.terms = append(o.terms, sortTerm{desc: t.order.Desc, nullsFirst: t.order.NullsFirst})
		o.args = append(o.args, 0)
	}
	return o
}

// overValueFunc keeps the value that a row has under distinct: a word for the
// bytes, which are 0x00 for null, or 0x01 and the sortable value. A row that does
// not count has none.
type overValueFunc struct{}

func (overValueFunc) words() int                                  { return 1 }
func (overValueFunc) update(accColumn, []uint32, arrow.Array)     {}
func (overValueFunc) merge(_, _ []uint64)                         {}
func (overValueFunc) resultBytes(array.Builder, []uint64, []byte) {}

func (overValueFunc) mergeBytes(dst []uint64, heap *accHeap, value []byte) {
	if dst[0] == 0 {
		dst[0] = heap.add(value)
	}
}

func (overValueFunc) result(array.Builder, []uint64) *dataflow.Bad { return nil }
