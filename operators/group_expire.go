package operators

import (
	"slices"

	"frazil/dataflow"
	"frazil/state"
)

// expiryStep is how often keys that are kept for a time are looked through: a
// quarter of that time, so that none stays much longer than it must.
func expiryStep(keep int64) int64 { return max(keep/4, 1) }

// sweep drops what the watermark has passed by twice expire_after. Everything
// that still comes is in time, so it is later than the watermark less
// expire_after and belongs to none of these.
func (o *groupKeyed) sweep() error {
	if o.wm == dataflow.MinTime {
		return nil
	}
	step := floorDiv(int64(o.wm), expiryStep(o.expire))
	if err := o.sweepCold(step*expiryStep(o.expire) - 2*o.expire); err != nil || step <= o.swept {
		return err
	}
	o.swept = step
	gone := int64(o.wm.Sub(2 * durationOf(o.expire)))
	for e, parts := range o.older {
		o.setOlder(e, slices.DeleteFunc(parts, func(p groupPart) bool {
			if p.last <= gone {
				o.values.end(e, p.number)
			}
			return p.last <= gone
		}))
	}
	for i := range o.table.Len() {
		e := o.table.At(i)
		if o.table.Row(e)[0]&groupDropped != 0 {
			continue
		}
		if _, last, _ := o.times(o.acc(e)); last > gone {
			continue
		}
		if err := o.forget(o.table.Hash(e), o.table.Key(e)); err != nil {
			return err
		}
		o.values.end(e, o.number(e))
		o.drop(e)
	}
	o.values.purge()
	if 2*o.dropped > o.table.Len() {
		return o.compact()
	}
	return nil
}

// compact makes the table anew without the groups that were dropped. Nothing is
// dirty.
func (o *groupKeyed) compact() error {
	old, heaps, older := o.table, o.heaps, o.older
	o.table, o.heaps, o.older = state.NewTable(o.words()), o.layout.newHeaps(), map[state.Entry][]groupPart{}
	o.dropped = 0
	for i := range old.Len() {
		e := old.At(i)
		if old.Row(e)[0]&groupDropped != 0 {
			continue
		}
		n, _ := o.table.Upsert(old.Hash(e), old.Key(e))
		row := o.table.Row(n)
		row[0] = old.Row(e)[0]
		o.buf = o.layout.encode(o.buf[:0], old.Row(e)[1:1+o.layout.stride], heaps)
		if err := o.layout.merge(row[1:1+o.layout.stride], o.heaps, o.buf); err != nil {
			return err
		}
		o.setNumber(n, old.Row(e)[1+o.layout.stride])
		if parts := older[e]; len(parts) > 0 {
			o.older[n] = parts
		}
	}
	o.table.ClearDirty()
	return nil
}
