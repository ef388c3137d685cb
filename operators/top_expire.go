package operators

import (
	"context"
	"slices"

	"frazil/dataflow"
	"frazil/state"
)

// expire drops the groups that the watermark has passed by twice the time for
// which they are kept: everything that still comes is in time, so it is of none of
// these. Their rows are deleted from the table, since the table could not be told
// later how many of a group's ranks are still there. What the table holds at a
// barrier then follows from the rows and the watermark before it alone, whatever
// barriers there were before; hence groups expire at whole steps of the watermark.
// A group that the table never had goes without a word.
//
// A group with one row is put over by its next one: a dedup leaves it in the
// table.
func (o *topKeyed) expire(ctx context.Context, out dataflow.Emitter) error {
	if o.wm == dataflow.MinTime {
		return nil
	}
	width := expiryStep(o.keep)
	step := floorDiv(int64(o.wm), width)
	if step <= o.swept {
		return nil
	}
	o.swept = step
	gone := step*width - 2*o.keep
	for e, parts := range o.older {
		o.setOlder(e, slices.DeleteFunc(parts, func(p topPart) bool {
			if p.last <= gone {
				o.lists.clear(&p.list)
			}
			return p.last <= gone
		}))
	}
	err := o.due.visit(step, func(e state.Entry) error {
		p := readTopPart(o.table.Row(e))
		if p.last > gone {
			o.due.add(e, p.last)
			return nil
		}
		return o.forget(ctx, e, p, out)
	})
	if err != nil {
		return err
	}
	if err := o.expireCold(ctx, step, out); err != nil {
		return err
	}
	o.compact()
	return nil
}

// forget drops a group whose latest part has expired.
func (o *topKeyed) forget(ctx context.Context, e state.Entry, p topPart, out dataflow.Emitter) error {
	row := o.table.Row(e)
	shown := o.lists.of(p.list)
	if row[0] != groupShown {
		shown = o.former(e)
	}
	is := o.lists.of(p.list)
	if !o.last {
		is = nil
	}
	if row[0] != groupShown || !o.last {
		if err := o.changes.compare(ctx, &o.lists, shown, is, out); err != nil {
			return err
		}
	}
	if row[0]&groupShown != 0 {
		if err := o.log.put(state.GroupOf(o.table.Hash(e)), o.table.Key(e), nil); err != nil {
			return err
		}
	}
	o.drop(e)
	return nil
}

// compact gives memory back: the table's entries of groups that were dropped, the
// bytes of rows that are in no list.
func (o *topKeyed) compact() {
	o.compactTable()
	o.compactRows()
}

// topSlackGroups keeps small tables from being made anew again and again.
const topSlackGroups = 64

// compactTable makes the table anew without the groups that were dropped. It does
// so between barriers as well: while old input is read fast, nearly all groups come
// and go between two.
func (o *topKeyed) compactTable() {
	if o.dropped >= topSlackGroups && 2*o.dropped >= o.table.Len() {
		o.remakeTable()
	}
}

func (o *topKeyed) remakeTable() {
	old, older := o.table, o.older
	o.table, o.older, o.dropped, o.dirty = state.NewTable(topWords), map[state.Entry][]topPart{}, 0, o.dirty[:0]
	for i := range old.Len() {
		e := old.At(i)
		row := old.Row(e)
		if row[0]&groupDropped != 0 {
			continue
		}
		n, _ := o.table.Upsert(old.Hash(e), old.Key(e))
		copy(o.table.Row(n), row)
		if row[0] != groupShown {
			o.dirty = append(o.dirty, n)
		}
		if parts := older[e]; len(parts) > 0 {
			o.older[n] = parts
		}
	}
	o.due.refill(o)
}

// compactRows gives the bytes of rows back that are neither in a list nor among
// those that the table has.
func (o *topKeyed) compactRows() {
	if !o.lists.sparse(o.formerBytes) {
		return
	}
	o.lists.compact(func(move func([]topItem)) {
		for i := range o.table.Len() {
			if row := o.table.Row(o.table.At(i)); row[0]&groupDropped == 0 {
				move(o.lists.of(readTopPart(row).list))
			}
		}
		for _, parts := range o.older {
			for _, p := range parts {
				move(o.lists.of(p.list))
			}
		}
		move(o.formerItems)
	})
}
