package operators

import (
	"fmt"
	"slices"

	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// distinctSums makes accumulators of distinct values, by group: those of the
// aggregates without distinct stay zero in its rows. Add values, settle, read
// rows, reset. One goroutine uses it.
type distinctSums struct {
	set    *aggregateSet
	layout *accLayout
	// table has rows of an accumulator and the number of the group among those
	// that wait, 0: it is not.
	table *state.Table
	heaps []accHeap
	zero  []uint64
	// waiting are the groups of the values in args, by their number - 1.
	waiting []state.Entry
	args    []distinctSumsArg
	scratch []uint64
	inner   []accHeap
	masked  []uint32
}

// distinctSumsArg holds the values of one expression that wait.
type distinctSumsArg struct {
	values  array.Builder
	decoder sortDecoder
	groups  []uint32
	masks   []uint64
	orders  []*accOrder // by bit; nil where the order does not matter
}

// distinctChunk is how many values are summed at once.
const distinctChunk = 4096

// newDistinctSums returns nil if no aggregate of s is distinct. Its memory is the
// Go heap's.
func (s *aggregateSet) newDistinctSums(layout *accLayout) *distinctSums {
	if len(s.distinct) == 0 {
		return nil
	}
	u := &distinctSums{
		set: s, layout: layout, table: state.NewTable(layout.stride + 1), heaps: layout.newHeaps(),
		zero: make([]uint64, layout.stride), inner: layout.newHeaps(),
	}
	for _, d := range s.distinct {
		a := distinctSumsArg{decoder: sortDecoder{kind: d.kind}, orders: make([]*accOrder, len(d.aggs))}
		a.values = array.NewBuilder(memory.DefaultAllocator, s.exprs[d.arg].Type())
		for bit, agg := range d.aggs {
			if _, ok := s.funcs[agg].(orderedAggregate); ok {
				// By the value, since an order by can name nothing else.
				o := &accOrder{timeCol: -1, splitCol: -1, posCol: -1}
				for _, t := range s.aggs[agg].order {
					o.terms = append(o.terms, sortTerm{desc: t.order.Desc, nullsFirst: t.order.NullsFirst})
					o.args = append(o.args, 0)
				}
				a.orders[bit] = o
			}
		}
		u.args = append(u.args, a)
	}
	return u
}

// add adds a value to the accumulators of the aggregates in mask.
func (u *distinctSums) add(hash uint64, key []byte, arg int, value []byte, mask uint64) error {
	e, _ := u.table.Upsert(hash, key)
	r := u.table.Row(e)
	d, a := &u.set.distinct[arg], &u.args[arg]
	if d.counts {
		for bit, agg := range d.aggs {
			r[u.layout.offs[agg]] += mask >> bit & 1
		}
		return nil
	}
	n := &r[u.layout.stride]
	if *n == 0 {
		u.waiting = append(u.waiting, e)
		*n = uint64(len(u.waiting))
	}
	a.groups = append(a.groups, uint32(*n))
	a.masks = append(a.masks, mask)
	if value[0] == keyNull {
		a.values.AppendNull()
	} else if err := a.decoder.append(value[1:], a.values); err != nil {
		return fmt.Errorf("read a distinct value: %w", err)
	}
	if len(a.groups) == distinctChunk {
		return u.settle()
	}
	return nil
}

// settle brings the values that wait into their rows.
func (u *distinctSums) settle() error {
	if len(u.waiting) == 0 {
		return nil
	}
	size := (len(u.waiting) + 1) * u.layout.stride
	u.scratch = slices.Grow(u.scratch[:0], size)[:size]
	clear(u.scratch)
	for h := range u.inner {
		u.inner[h].reset()
	}
	for i := range u.args {
		if a := &u.args[i]; len(a.groups) > 0 {
			u.update(&u.set.distinct[i], a)
			a.groups, a.masks = a.groups[:0], a.masks[:0]
		}
	}
	for i, e := range u.waiting {
		r := u.table.Row(e)
		r[u.layout.stride] = 0
		n := (i + 1) * u.layout.stride
		u.layout.mergeRow(r[:u.layout.stride], u.heaps, u.scratch[n:n+u.layout.stride], u.inner)
	}
	u.waiting = u.waiting[:0]
	return nil
}

func (u *distinctSums) update(d *distinctArg, a *distinctSumsArg) {
	values := a.values.NewArray()
	defer values.Release()
	u.masked = slices.Grow(u.masked[:0], len(a.groups))[:len(a.groups)]
	for bit, agg := range d.aggs {
		for i, g := range a.groups {
			if a.masks[i]>>bit&1 == 0 {
				g = 0
			}
			u.masked[i] = g
		}
		acc := u.layout.column(agg, u.scratch, u.inner)
		if o := a.orders[bit]; o != nil {
			o.bind([]arrow.Array{values}, nil)
			acc.order = o
		}
		u.set.funcs[agg].update(acc, u.masked, values)
	}
}

// row returns the accumulators of a group; zeros if it has no values. It is valid
// until the next add.
func (u *distinctSums) row(hash uint64, key []byte) []uint64 {
	e, ok := u.table.Find(hash, key)
	if !ok {
		return u.zero
	}
	return u.table.Row(e)[:u.layout.stride]
}

// reset drops all accumulators and keeps the memory.
func (u *distinctSums) reset() {
	u.table.Reset()
	for h := range u.heaps {
		u.heaps[h].reset()
	}
}

// release frees the values.
func (u *distinctSums) release() {
	for i := range u.args {
		u.args[i].values.Release()
	}
}
