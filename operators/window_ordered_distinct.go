package operators

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// orderedDistinct holds the distinct values of open windows, for aggregates with
// distinct: per window its values, each with a mask of the aggregates that have
// counted it (see distinct.go). Values that an aggregate has not counted yet are
// added to the accumulators of the window.
//
// A window is stored with all of its values whenever it has changed.
type orderedDistinct struct {
	store *orderedStore
	set   *aggregateSet
	sums  *distinctSums
	batch []distinctBatchArg
	// windows are by the index of the window; keys of the maps are the number of
	// the expression (1 byte) and the value.
	windows []map[string]uint64
	values  int // in all of them
	key, id []byte
}

// newOrderedDistinct returns nil if no aggregate of set is distinct.
func newOrderedDistinct(set *aggregateSet, store *orderedStore) *orderedDistinct {
	if len(set.distinct) == 0 {
		return nil
	}
	return &orderedDistinct{
		store: store, set: set, sums: set.newDistinctSums(store.layout),
		batch: make([]distinctBatchArg, len(set.distinct)),
	}
}

// add takes the values of the rows bound to f. Each layer has a window per row,
// 0 for none; rows without a window have none in the first.
func (o *orderedDistinct) add(f *aggregateFeed, layers [][]uint32, from, to int) error {
	for arg := range o.batch {
		d, a := &o.set.distinct[arg], &o.batch[arg]
		a.mask(f, d, layers[0][from:to])
		var col sortColumn
		col.bind(f.args[d.arg])
		for row, mask := range a.masks {
			if mask == 0 {
				continue
			}
			o.key = appendDistinct(append(o.key[:0], byte(arg)), &col, row)
			for _, ids := range layers {
				if id := ids[from+row]; id != 0 {
					if err := o.put(id, mask); err != nil {
						return err
					}
				}
			}
		}
	}
	return o.settle()
}

// put adds the value in o.key to a window, for the aggregates in mask.
func (o *orderedDistinct) put(id uint32, mask uint64) error {
	if n := int(id) + 1; n > len(o.windows) {
		o.windows = slices.Grow(o.windows, n-len(o.windows))[:n]
	}
	if o.windows[id] == nil {
		o.windows[id] = map[string]uint64{}
	}
	have, ok := o.windows[id][string(o.key)]
	if mask &^= have; mask == 0 {
		return nil
	}
	if !ok {
		o.values++
	}
	o.windows[id][string(o.key)] = have | mask
	o.id = binary.LittleEndian.AppendUint32(o.id[:0], id)
	return o.sums.add(keyHash(o.id), o.id, int(o.key[0]), o.key[1:], mask)
}

// settle adds what put has collected to the accumulators.
func (o *orderedDistinct) settle() error {
	if err := o.sums.settle(); err != nil {
		return err
	}
	s, t := o.store, o.sums.table
	for i := range t.Len() {
		e := t.At(i)
		id := binary.LittleEndian.Uint32(t.Key(e))
		s.layout.mergeRow(s.row(s.accs, id), s.heaps, t.Row(e)[:s.layout.stride], o.sums.heaps)
	}
	o.sums.reset()
	return nil
}

// join adds the values of src to dst. Before it the accumulators of src are
// merged without those of distinct values, which strip has cleared.
func (o *orderedDistinct) join(dst, src uint32) error {
	if int(src) >= len(o.windows) {
		return nil
	}
	for key, mask := range o.windows[src] {
		o.key = append(o.key[:0], key...)
		if err := o.put(dst, mask); err != nil {
			return err
		}
	}
	return o.settle()
}

// strip makes the accumulators of distinct values those of no row.
func (o *orderedDistinct) strip(row []uint64) {
	for i, a := range o.set.aggs {
		if !a.distinct {
			continue
		}
		off := o.store.layout.offs[i]
		for h, b := range o.store.layout.bytes {
			if b.off == off && row[off] != 0 {
				o.store.garbage[h]++
			}
		}
		clear(row[off : off+o.set.funcs[i].words()])
	}
}

// forget drops the values of a window.
func (o *orderedDistinct) forget(id uint32) {
	if int(id) < len(o.windows) {
		o.values -= len(o.windows[id])
		o.windows[id] = nil
	}
}

// encode appends the values of a window as a blob (see readDistinct).
func (o *orderedDistinct) encode(dst []byte, id uint32) []byte {
	var keys []string
	if int(id) < len(o.windows) {
		for key := range o.windows[id] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for arg := range o.set.distinct {
		n := 0
		for n < len(keys) && int(keys[n][0]) == arg {
			n++
		}
		dst = binary.AppendUvarint(dst, uint64(n))
		for _, key := range keys[:n] {
			dst = binary.AppendUvarint(dst, o.windows[id][key])
			dst = append(dst, key[1:]...)
		}
		keys = keys[n:]
	}
	return dst
}

// decode takes in the values of a window. Its accumulators have them already.
func (o *orderedDistinct) decode(id uint32, blob []byte) error {
	if n := int(id) + 1; n > len(o.windows) {
		o.windows = slices.Grow(o.windows, n-len(o.windows))[:n]
	}
	o.windows[id] = map[string]uint64{}
	err := o.set.readDistinct(blob, func(arg int, value []byte, mask uint64) {
		o.windows[id][string(append([]byte{byte(arg)}, value...))] = mask
	})
	o.values += len(o.windows[id])
	if err != nil {
		return fmt.Errorf("read distinct values: %w", err)
	}
	return nil
}
