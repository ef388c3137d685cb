package dataflow

import "github.com/apache/arrow-go/v18/arrow"

// BatchBytes estimates the memory that b keeps alive: whole buffers, also where
// b is a slice. Buffers shared by several columns or batches count each time, so
// that a bound on it errs to the safe side.
func BatchBytes(b arrow.RecordBatch) int64 {
	var n int64
	for _, c := range b.Columns() {
		n += dataBytes(c.Data())
	}
	return n
}

func dataBytes(d arrow.ArrayData) int64 {
	var n int64
	for _, b := range d.Buffers() {
		if b != nil {
			n += int64(b.Cap())
		}
	}
	for _, c := range d.Children() {
		n += dataBytes(c)
	}
	return n
}
