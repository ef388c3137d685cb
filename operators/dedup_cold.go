package operators

import (
	"encoding/binary"
	"fmt"

	"frazil/state"
)

// Keys that find no room in memory go to the store: the whole table of a key
// group becomes a run (state.Runs), and its part of the log goes, since the run
// holds the same rows. A later row of the group asks the runs first; their filters
// answer for nearly every new key without reading anything.

// dedupRunPrefix is the first byte of the runs' keys; their rows are those of the
// log.
const dedupRunPrefix = 'c'

const (
	dedupSlotBytes = 24
	// dedupLeastHot is how many slots each key group may have whatever the budget.
	dedupLeastHot = dedupMinSlots
)

// dedupSpill moves tables to the store when they outgrow the budget.
type dedupSpill struct {
	runs *state.Runs
	// budget in bytes for tables, filters and indexes; 0: none.
	budget int64
	// slots of all tables.
	slots int64
	// moved counts rows that were moved to the store.
	moved int64
	buf   []byte
}

// hot is what the tables may take: what filters leave, but a quarter in any case.
func (s *dedupSpill) hot(groups state.Groups) int64 {
	least := int64(groups.Hi-groups.Lo) * dedupLeastHot * dedupSlotBytes
	return max(s.budget-s.runs.Bytes(), s.budget/4, least)
}

// isCold says whether a row within the bound of at is in the store.
func (o *dedup) isCold(group int, hi, lo, at uint64) (bool, error) {
	from, to := at-o.bounds.within, at+o.bounds.within
	if from > at {
		from = 0
	}
	if to < at {
		to = ^uint64(0)
	}
	row, err := o.spill.runs.Find(group, hi, lo, from, to)
	return row != nil, err
}

// grown tells that a table has n more slots, and makes room if that is too much.
func (o *dedup) grown(n int) error {
	o.spill.slots += int64(n)
	if o.spill.budget == 0 {
		return nil
	}
	for o.spill.slots*dedupSlotBytes > o.spill.hot(o.env.Groups) {
		largest := o.env.Groups.Lo
		for g := range o.tables {
			if len(o.tables[g].slots) > len(o.tables[largest].slots) {
				largest = g
			}
		}
		if err := o.evict(largest); err != nil {
			return err
		}
	}
	return nil
}

// evict moves the table of a group to the store.
func (o *dedup) evict(group int) error {
	t := &o.tables[group]
	buf := o.spill.buf[:0]
	for i := range t.slots {
		if s := &t.slots[i]; s.time != 0 && s.time >= o.bounds.keep {
			buf = binary.BigEndian.AppendUint64(buf, s.hi)
			buf = binary.BigEndian.AppendUint64(buf, s.lo)
			buf = binary.BigEndian.AppendUint64(buf, s.time)
		}
	}
	o.spill.buf = buf
	if err := o.spill.runs.Add(group, buf); err != nil {
		return fmt.Errorf("move keys to the store: %w", err)
	}
	if err := o.log.Drop(group); err != nil {
		return fmt.Errorf("move keys to the store: %w", err)
	}
	o.spill.moved += int64(len(buf) / dedupRowWidth)
	o.spill.slots -= int64(len(t.slots))
	*t = dedupTable{}
	return nil
}
