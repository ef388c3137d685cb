package operators

import (
	"unsafe"

	"frazil/dataflow"
)

// What a step holds beside its KV, and an epoch gives back, are the rows as they
// were at the last barrier of groups that have changed since. The changed groups
// themselves do not count, in group only beyond a part: they stay in memory, and while old input is read fast,
// many are forgotten before the next barrier and never written. To count them as
// well took q18 of Nexmark three times the epochs and 1.7 times the processor time.
// What is beyond the memory for them counts: a barrier moves groups to the KV.

// unwrittenFree is the part of the memory for groups that changed ones may take
// before they count. Where new groups fill all of it between two barriers, they
// would be written at once, beside those that leave.
const unwrittenFree = 4

// topItemBytes is the size of a topItem.
const topItemBytes = int64(unsafe.Sizeof(topItem{}))

// UnwrittenBytes implements dataflow.Unwritten.
func (o *groupKeyed) UnwrittenBytes() int64 {
	if o.changed == 0 {
		return 0
	}
	n := int64(len(o.before)) + o.excess()
	if o.cold.limit > 0 {
		changed := int64(float64(o.used()) * float64(o.changed) / float64(o.table.Len()))
		n += max(0, changed-o.cold.hot()/unwrittenFree)
	}
	return n
}

// UnwrittenBytes implements dataflow.Unwritten.
func (o *topKeyed) UnwrittenBytes() int64 {
	if len(o.dirty) == 0 {
		return 0
	}
	return o.formerBytes + int64(len(o.formerItems))*topItemBytes + o.excess()
}

var (
	_ dataflow.Unwritten = (*groupKeyed)(nil)
	_ dataflow.Unwritten = (*topKeyed)(nil)
)
