package operators

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// countFunc counts rows: count(*), and count(x) since nulls are left out by its
// caller. Accumulator: the count.
type countFunc struct{}

func (countFunc) words() int { return 1 }

func (countFunc) update(acc accColumn, groups []uint32, _ arrow.Array) {
	for _, g := range groups {
		acc.rows[acc.at(g)]++
	}
}

func (countFunc) merge(dst, src []uint64) { dst[0] += src[0] }

func (countFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	b.(*array.Int64Builder).Append(int64(acc[0]))
	return nil
}
