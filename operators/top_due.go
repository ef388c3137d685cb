package operators

import "frazil/state"

// topDue knows when the groups of a topKeyed are to be looked at: each stands in
// the bucket of the step of the watermark at which the last row that it had then
// expires. A group whose rows go on is found there and moves on. So each group is
// visited about once in the time for which it is kept, not at every step.
type topDue struct {
	keep, width int64
	buckets     map[int64][]state.Entry
	free        [][]state.Entry
}

func newTopDue(keep int64) topDue {
	return topDue{keep: keep, width: expiryStep(keep), buckets: map[int64][]state.Entry{}}
}

// at is the first step at which a group has expired whose last row is at last:
// step*width - 2*keep >= last.
func (d *topDue) at(last int64) int64 { return floorDiv(last+2*d.keep-1, d.width) + 1 }

// add puts a group that stands in no bucket into its own.
func (d *topDue) add(e state.Entry, last int64) {
	step := d.at(last)
	b, ok := d.buckets[step]
	if !ok {
		if n := len(d.free); n > 0 {
			b, d.free = d.free[n-1], d.free[:n-1]
		}
	}
	d.buckets[step] = append(b, e)
}

// visit hands out the groups of all buckets up to step, taking them out. see may
// add them again behind step.
func (d *topDue) visit(step int64, see func(e state.Entry) error) error {
	for n, b := range d.buckets {
		if n > step {
			continue
		}
		delete(d.buckets, n)
		for _, e := range b {
			if err := see(e); err != nil {
				return err
			}
		}
		d.free = append(d.free, b[:0])
	}
	return nil
}

// refill puts all groups of o into their buckets anew.
func (d *topDue) refill(o *topKeyed) {
	for n, b := range d.buckets {
		d.free = append(d.free, b[:0])
		delete(d.buckets, n)
	}
	for i := range o.table.Len() {
		e := o.table.At(i)
		if row := o.table.Row(e); row[0]&groupDropped == 0 {
			d.add(e, readTopPart(row).last)
		}
	}
}
