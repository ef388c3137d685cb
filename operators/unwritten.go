package operators

import (
	"unsafe"

	"frazil/dataflow"
)

// What a step holds beside its KV, and an epoch gives back, are the rows as they
// were at the last barrier of groups that have changed since. The changed groups
// themselves do not count: they stay in memory, and while old input is read fast,
// many are forgotten before the next barrier and never written. To count them as
// well took q18 of Nexmark three times the epochs and 1.7 times the processor time.
// What is beyond the memory for them counts: a barrier moves groups to the KV.

// topItemBytes is the size of a topItem.
const topItemBytes = int64(unsafe.Sizeof(topItem{}))

// UnwrittenBytes implements dataflow.Unwritten.
func (o *groupKeyed) UnwrittenBytes() int64 {
	if !o.changed {
		return 0
	}
	return int64(len(o.before)) + o.excess()
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
