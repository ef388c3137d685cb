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
		o.compact()
	}
	return nil
}

// compact takes the groups out of the table that were dropped. Nothing is dirty.
func (o *groupKeyed) compact() {
	heaps, older := o.layout.newHeaps(), map[state.Entry][]groupPart{}
	o.table.Compact(func(e state.Entry) bool {
		return o.table.Row(e)[0]&groupDropped == 0
	}, func(from, to state.Entry) {
		acc := o.acc(to)
		for h, b := range o.layout.bytes {
			if w := acc[b.off]; w != 0 {
				heaps[h].values = append(heaps[h].values, o.heaps[h].get(w))
				acc[b.off] = uint64(len(heaps[h].values))
			}
		}
		if parts := o.older[from]; len(parts) > 0 {
			older[to] = parts
		}
	})
	o.heaps, o.older, o.dropped = heaps, older, 0
}
