package operators

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"frazil/operators/expr"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// Aggregates with distinct take each value of a group once. Those of a step that
// are over the same expression share one set of values: beside each value stands
// a mask with a bit per aggregate that has counted it, as their filters differ.
//
//   - distinctBatch finds the different values of a batch, in front of the
//     exchange. They travel as a blob per group.
//   - distinctTable holds the values of a window (or a run of a group), behind
//     it.
//   - distinctSums makes accumulators of values, which then are those of the
//     aggregates without distinct.
//
// A value is written as 0x00 (null) or 0x01 and the sortable value. A blob is, for
// each expression in the order of distinctArgs: uvarint of how many values, then
// per value uvarint of the mask, the value. Both are a format
// (docs/state-format.md).

// distinctArg is an expression under distinct.
type distinctArg struct {
	arg  int // in exprs
	kind keyKind
	// aggs are the aggregates over it: bit i is of aggs[i].
	aggs []int
	// nulls are the bits of aggregates that take nulls.
	nulls uint64
	// counts: all are counts, so that their values do not matter.
	counts bool
}

// distinctMost is how many aggregates may share an expression.
const distinctMost = 64

// distinctMatters says whether the result depends on how often a value comes.
func distinctMatters(a *expr.Aggregate) bool {
	switch a.Func {
	case "min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "first", "last", "approx_count_distinct":
		return false
	}
	return a.Distinct
}

// addDistinct registers aggregate number agg as distinct over expression arg.
func (s *aggregateSet) addDistinct(agg, arg int) error {
	t := s.exprs[arg].Type()
	kind, err := sortKindOf(t)
	if err != nil {
		return fmt.Errorf("distinct values of %s: %w", s.exprs[arg], err)
	}
	i := slices.IndexFunc(s.distinct, func(d distinctArg) bool { return d.arg == arg })
	if i < 0 {
		i = len(s.distinct)
		s.distinct = append(s.distinct, distinctArg{arg: arg, kind: kind, counts: true})
	}
	d := &s.distinct[i]
	if len(d.aggs) == distinctMost {
		return fmt.Errorf("more than %d aggregates over distinct values of %s", distinctMost, s.exprs[arg])
	}
	if _, ok := s.funcs[agg].(nullAggregate); ok {
		d.nulls |= 1 << len(d.aggs)
	}
	if _, ok := s.funcs[agg].(countFunc); !ok {
		d.counts = false
	}
	d.aggs = append(d.aggs, agg)
	return nil
}

// distinctBatch holds the different values of a batch by group. Its memory is
// used again for the next batch.
type distinctBatch struct {
	set  *aggregateSet
	args []distinctBatchArg
	key  []byte
}

type distinctBatchArg struct {
	// table has group (4 bytes) and value as its keys, rows of the mask and the
	// next entry + 1 of the group.
	table *state.Table
	// heads are the last entry + 1 of each group, counts how many it has.
	heads, counts []uint32
	masks         []uint64 // per row of the batch
}

// newDistinctBatch returns nil if no aggregate of s is distinct.
func (s *aggregateSet) newDistinctBatch() *distinctBatch {
	if len(s.distinct) == 0 {
		return nil
	}
	b := &distinctBatch{set: s, args: make([]distinctBatchArg, len(s.distinct))}
	for i := range b.args {
		b.args[i].table = state.NewTable(2)
	}
	return b
}

// collect takes the values of the batch bound to f. Rows belong to groups 1 to n;
// those in group 0 do not count.
func (b *distinctBatch) collect(f *aggregateFeed, groups []uint32, n int) {
	for i := range b.args {
		d, a := &b.set.distinct[i], &b.args[i]
		a.table.Reset()
		a.heads, a.counts = slices.Grow(a.heads[:0], n+1)[:n+1], slices.Grow(a.counts[:0], n+1)[:n+1]
		clear(a.heads)
		clear(a.counts)
		a.mask(f, d, groups)
		var col sortColumn
		col.bind(f.args[d.arg])
		for row, m := range a.masks {
			if m != 0 {
				b.add(a, &col, row, groups[row], m)
			}
		}
	}
}

// mask finds, per row, the aggregates that count its value.
func (a *distinctBatchArg) mask(f *aggregateFeed, d *distinctArg, groups []uint32) {
	a.masks = slices.Grow(a.masks[:0], len(groups))[:len(groups)]
	all := uint64(0)
	for bit, agg := range d.aggs {
		if f.aggs[agg].filter < 0 {
			all |= 1 << bit
		}
	}
	for i, g := range groups {
		a.masks[i] = 0
		if g != 0 {
			a.masks[i] = all
		}
	}
	for bit, agg := range d.aggs {
		if at := f.aggs[agg].filter; at >= 0 {
			f.masked = slices.Grow(f.masked[:0], len(groups))[:len(groups)]
			for i, g := range maskFilter(f.masked, groups, f.args[at].(*array.Boolean)) {
				if g != 0 {
					a.masks[i] |= 1 << bit
				}
			}
		}
	}
	arg := f.args[d.arg]
	if arg.NullN() == 0 {
		return
	}
	for i := range a.masks {
		if arg.IsNull(i) {
			a.masks[i] &= d.nulls
		}
	}
}

func (b *distinctBatch) add(a *distinctBatchArg, col *sortColumn, row int, group uint32, mask uint64) {
	b.key = binary.LittleEndian.AppendUint32(b.key[:0], group)
	b.key = appendDistinct(b.key, col, row)
	e, fresh := a.table.Upsert(keyHash(b.key), b.key)
	r := a.table.Row(e)
	r[0] |= mask
	if fresh {
		r[1] = uint64(a.heads[group])
		a.heads[group] = uint32(e) + 1
		a.counts[group]++
	}
}

func appendDistinct(dst []byte, col *sortColumn, row int) []byte {
	if col.isNull(row) {
		return append(dst, keyNull)
	}
	return col.appendValue(append(dst, keyValue), row)
}

// append adds the blob of a group to dst.
func (b *distinctBatch) append(dst []byte, group uint32) []byte {
	for i := range b.args {
		a := &b.args[i]
		dst = binary.AppendUvarint(dst, uint64(a.counts[group]))
		for at := a.heads[group]; at != 0; {
			e := state.Entry(at - 1)
			r := a.table.Row(e)
			dst = binary.AppendUvarint(dst, r[0])
			dst = append(dst, a.table.Key(e)[4:]...)
			at = uint32(r[1])
		}
	}
	return dst
}

var errDistinctShort = errors.New("distinct values end early")

// readDistinct visits the values of a blob.
func (s *aggregateSet) readDistinct(blob []byte, visit func(arg int, value []byte, mask uint64)) error {
	for i := range s.distinct {
		d := sortDecoder{kind: s.distinct[i].kind}
		n, w := binary.Uvarint(blob)
		if w <= 0 {
			return errDistinctShort
		}
		blob = blob[w:]
		for ; n > 0; n-- {
			mask, w := binary.Uvarint(blob)
			if w <= 0 || len(blob) == w {
				return errDistinctShort
			}
			blob = blob[w:]
			size := 1
			if blob[0] == keyValue {
				v, _, err := d.next(blob[1:])
				if err != nil {
					return err
				}
				size += len(v)
			}
			visit(i, blob[:size], mask)
			blob = blob[size:]
		}
	}
	if len(blob) != 0 {
		return fmt.Errorf("%d bytes after the distinct values", len(blob))
	}
	return nil
}
