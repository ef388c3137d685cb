package operators

import (
	"fmt"
	"math"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// floatSumFunc sums float32 or float64 in double precision with compensation
// (Neumaier): the rounding error of each addition is kept beside the sum, so
// that the order of rows and merges shows only far behind the last digit.
// Infinities and NaN would spoil the compensation and are summed apart.
// Accumulator: the bits of the sum, of its compensation, of the sum of values
// that are not finite; the count of values.
type floatSumFunc struct{ avg bool }

func (floatSumFunc) words() int { return 4 }

func (floatSumFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	switch a := arg.(type) {
	case *array.Float32:
		sumFloats(acc, groups, a.Float32Values())
	case *array.Float64:
		sumFloats(acc, groups, a.Float64Values())
	}
}

func sumFloats[T float32 | float64](acc accColumn, groups []uint32, values []T) {
	for i, g := range groups {
		r := acc.rows[acc.at(g):]
		r = r[:4]
		r[3]++
		v := float64(values[i])
		if v-v != 0 {
			r[2] = math.Float64bits(math.Float64frombits(r[2]) + v)
			continue
		}
		addFloat(r, v)
	}
}

// addFloat adds a finite number to a sum and its compensation.
func addFloat(r []uint64, v float64) {
	s := math.Float64frombits(r[0])
	t := s + v
	// The exact error of s + v, whichever is larger (Knuth's two-sum).
	bv := t - s
	err := (s - (t - bv)) + (v - bv)
	r[0] = math.Float64bits(t)
	r[1] = math.Float64bits(math.Float64frombits(r[1]) + err)
}

func (floatSumFunc) merge(dst, src []uint64) {
	addFloat(dst, math.Float64frombits(src[0]))
	dst[1] = math.Float64bits(math.Float64frombits(dst[1]) + math.Float64frombits(src[1]))
	dst[2] = math.Float64bits(math.Float64frombits(dst[2]) + math.Float64frombits(src[2]))
	dst[3] += src[3]
}

func (f floatSumFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	if acc[3] == 0 {
		b.AppendNull()
		return nil
	}
	sum := math.Float64frombits(acc[2])
	exact := sum != 0 // infinite or NaN because a value was
	if !exact {
		sum = math.Float64frombits(acc[0]) + math.Float64frombits(acc[1])
	}
	overflow := !exact && sum-sum != 0
	if f.avg {
		sum /= float64(acc[3])
	}
	switch b := b.(type) {
	case *array.Float32Builder:
		v := float32(sum)
		if overflow = overflow || !exact && math.IsInf(float64(v), 0); !overflow {
			b.Append(v)
		}
	case *array.Float64Builder:
		if !overflow {
			b.Append(sum)
		}
	}
	if overflow {
		b.AppendNull()
		return &dataflow.Bad{Reason: aggregateOverflow, Detail: fmt.Sprintf("the sum of %d values does not fit %s", acc[3], dataflow.TypeName(b.Type()))}
	}
	return nil
}
