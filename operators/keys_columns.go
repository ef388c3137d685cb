package operators

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// columns makes the keys of some rows of the bound batch, and their hashes, for the
// exchange. The caller owns both.
func (e *keyEncoder) columns(alloc memory.Allocator, rows []int32) (keys, hashes arrow.Array) {
	kb := array.NewBinaryBuilder(alloc, arrow.BinaryTypes.Binary)
	defer kb.Release()
	hb := array.NewUint64Builder(alloc)
	defer hb.Release()
	kb.Reserve(len(rows))
	hb.Reserve(len(rows))
	var key []byte
	for _, i := range rows {
		key = e.append(key[:0], int(i))
		kb.Append(key)
		hb.UnsafeAppend(keyHash(key))
	}
	return kb.NewArray(), hb.NewArray()
}
