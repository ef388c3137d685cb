package operators

import (
	"fmt"
	"math/bits"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// aggregateOverflow is the reason of a result that its type cannot hold, the
// same as of an expression's.
const aggregateOverflow = "out_of_range"

// newSumFunc makes sum and avg. Result types are PostgreSQL's, with decimals
// where it has numeric:
//
//	sum(int32)         int64
//	sum(int64)         decimal(38,0)
//	sum(decimal(p,s))  decimal(38,s)
//	avg(int)           decimal(38,16), rounded half away from zero
//	avg(decimal(p,s))  decimal(38,max(s,16)), rounded half away from zero
//	sum(float32)       float32, sum(float64), avg(float) float64
func newSumFunc(name string, arg, result arrow.DataType) (aggregateFunc, error) {
	unsupported := fmt.Errorf("%s of %s giving %s is not supported", name, dataflow.TypeName(arg), dataflow.TypeName(result))
	avg := name == "avg"
	argScale := int32(0)
	switch t := arg.(type) {
	case *arrow.Float32Type, *arrow.Float64Type:
		if id := result.ID(); id == arrow.FLOAT64 || id == arrow.FLOAT32 && !avg {
			return floatSumFunc{avg: avg}, nil
		}
		return nil, unsupported
	case *arrow.Decimal128Type:
		argScale = t.Scale
	case *arrow.Int32Type, *arrow.Int64Type:
		if result.ID() == arrow.INT64 && !avg {
			return intSumFunc{}, nil
		}
	default:
		return nil, unsupported
	}
	r, ok := result.(*arrow.Decimal128Type)
	if !ok || r.Scale < argScale || int(r.Scale-argScale) >= len(pow10) || !avg && r.Scale != argScale {
		return nil, unsupported
	}
	q := quotient{avg: avg, mul: pow10[r.Scale-argScale], scale: int(r.Scale)}
	if arg.ID() == arrow.DECIMAL128 {
		return decimalSumFunc{q}, nil
	}
	return intSumFunc{q}, nil
}

// quotient turns a sum and a count into a decimal result.
type quotient struct {
	avg   bool
	mul   uint64 // brings the sum to the result's scale
	scale int    // of the result
}

func (q quotient) append(b *array.Decimal128Builder, sum wide, negative bool, count uint64) *dataflow.Bad {
	if q.avg {
		sum = sum.timesOver(q.mul, count)
	}
	d, ok := sum.decimal(negative)
	if !ok {
		b.AppendNull()
		return &dataflow.Bad{Reason: aggregateOverflow, Detail: "the result " + sum.text(negative, q.scale) + " has more than 38 digits"}
	}
	b.Append(d)
	return nil
}

// intSumFunc sums int32 or int64 exactly. Accumulator: the sum in two's
// complement (low, high word), the count of values.
type intSumFunc struct{ quotient }

func (intSumFunc) words() int { return 3 }

func (intSumFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	switch a := arg.(type) {
	case *array.Int32:
		sumInts(acc, groups, a.Int32Values())
	case *array.Int64:
		sumInts(acc, groups, a.Int64Values())
	}
}

func sumInts[T int32 | int64](acc accColumn, groups []uint32, values []T) {
	for i, g := range groups {
		v := int64(values[i])
		r := acc.rows[acc.at(g):]
		r = r[:3]
		var carry uint64
		r[0], carry = bits.Add64(r[0], uint64(v), 0)
		r[1] += uint64(v>>63) + carry
		r[2]++
	}
}

func (intSumFunc) merge(dst, src []uint64) {
	var carry uint64
	dst[0], carry = bits.Add64(dst[0], src[0], 0)
	dst[1] += src[1] + carry
	dst[2] += src[2]
}

func (f intSumFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	if acc[2] == 0 {
		b.AppendNull()
		return nil
	}
	sign := uint64(int64(acc[1]) >> 63)
	if b, ok := b.(*array.Int64Builder); ok {
		if acc[1] != uint64(int64(acc[0])>>63) {
			b.AppendNull()
			sum, negative := wideAbs(acc[0], acc[1], sign)
			return &dataflow.Bad{Reason: aggregateOverflow, Detail: "the sum " + sum.text(negative, 0) + " does not fit int64"}
		}
		b.Append(int64(acc[0]))
		return nil
	}
	sum, negative := wideAbs(acc[0], acc[1], sign)
	return f.append(b.(*array.Decimal128Builder), sum, negative, acc[2])
}

// intAvgFunc is avg_int, Flink's average of integers: of their own type, the
// places behind the point cut off. Accumulator: as of intSumFunc.
type intAvgFunc struct{ intSumFunc }

func (intAvgFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	if acc[2] == 0 {
		b.AppendNull()
		return nil
	}
	sum, negative := wideAbs(acc[0], acc[1], uint64(int64(acc[1])>>63))
	// The average fits its type, so that the high word is less than the count.
	q, _ := bits.Div64(sum[1], sum[0], acc[2])
	v := int64(q)
	if negative {
		v = -v
	}
	switch b := b.(type) {
	case *array.Int32Builder:
		b.Append(int32(v))
	case *array.Int64Builder:
		b.Append(v)
	}
	return nil
}

// decimalSumFunc sums decimals exactly: 192 bits hold any number of 38 digits
// 2^65 times over. Accumulator: the unscaled sum in two's complement (three
// words, lowest first), the count of values.
type decimalSumFunc struct{ quotient }

func (decimalSumFunc) words() int { return 4 }

func (decimalSumFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	values := arg.(*array.Decimal128).Values()
	for i, g := range groups {
		lo, hi := values[i].LowBits(), values[i].HighBits()
		r := acc.rows[acc.at(g):]
		r = r[:4]
		var carry uint64
		r[0], carry = bits.Add64(r[0], lo, 0)
		r[1], carry = bits.Add64(r[1], uint64(hi), carry)
		r[2] += uint64(hi>>63) + carry
		r[3]++
	}
}

func (decimalSumFunc) merge(dst, src []uint64) {
	var carry uint64
	dst[0], carry = bits.Add64(dst[0], src[0], 0)
	dst[1], carry = bits.Add64(dst[1], src[1], carry)
	dst[2] += src[2] + carry
	dst[3] += src[3]
}

func (f decimalSumFunc) result(b array.Builder, acc []uint64) *dataflow.Bad {
	if acc[3] == 0 {
		b.AppendNull()
		return nil
	}
	sum, negative := wideAbs(acc[0], acc[1], acc[2])
	return f.append(b.(*array.Decimal128Builder), sum, negative, acc[3])
}
