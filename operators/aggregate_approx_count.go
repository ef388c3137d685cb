package operators

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// approxCountFunc is approx_count_distinct: HyperLogLog with 2^14 registers and
// Ertl's estimator. Its standard error is 0.81%; the result depends on the set
// of values alone. Accumulator: a word for the bytes beside it. The bytes are
// 0x00 and entries of 4 bytes, little endian (register << 6 | rank, in any order,
// a register may stand several times; the greatest rank counts), or 0x01 and
// the rank of each register, a byte each.
type approxCountFunc struct{ kind keyKind }

const (
	approxBits      = 14
	approxRegisters = 1 << approxBits
	approxList      = 0
	approxDense     = 1
	// approxListBytes is the length at which a list is put in order and, if that
	// does not halve it, made dense.
	approxListBytes = 1 + approxRegisters/2
)

func (approxCountFunc) words() int { return 1 }

func (f approxCountFunc) update(acc accColumn, groups []uint32, arg arrow.Array) {
	var col sortColumn
	col.bind(arg)
	var value []byte
	for i, g := range groups {
		if g == 0 {
			continue
		}
		value = col.appendValue(value[:0], i)
		h := keyHash(value)
		// The bits behind the register's, with a one behind them to stop at.
		rank := uint32(bits.LeadingZeros64(h<<approxBits|1<<(approxBits-1))) + 1
		f.add(acc.heap.at(&acc.rows[acc.at(g)]), uint32(h>>(64-approxBits)), rank)
	}
}

func (f approxCountFunc) add(v *[]byte, register, rank uint32) {
	if len(*v) == 0 {
		*v = append(*v, approxList)
	}
	if (*v)[0] == approxDense {
		if r := &(*v)[1+register]; byte(rank) > *r {
			*r = byte(rank)
		}
		return
	}
	*v = binary.LittleEndian.AppendUint32(*v, register<<6|rank)
	if len(*v) >= approxListBytes {
		f.settle(v)
	}
}

// settle drops entries that do not count, and leaves the list if many stay.
func (f approxCountFunc) settle(v *[]byte) {
	list := make([]uint32, 0, len(*v)/4)
	for e := (*v)[1:]; len(e) >= 4; e = e[4:] {
		list = append(list, binary.LittleEndian.Uint32(e))
	}
	slices.Sort(list)
	kept := list[:0]
	for i, e := range list {
		if i+1 == len(list) || list[i+1]>>6 != e>>6 {
			kept = append(kept, e)
		}
	}
	if 4*len(kept) > approxListBytes/2 {
		dense := make([]byte, 1+approxRegisters)
		dense[0] = approxDense
		for _, e := range kept {
			dense[1+e>>6] = byte(e & 63)
		}
		*v = append((*v)[:0], dense...)
		return
	}
	*v = (*v)[:1]
	for _, e := range kept {
		*v = binary.LittleEndian.AppendUint32(*v, e)
	}
}

// merge does nothing: mergeBytes does it.
func (approxCountFunc) merge(dst, src []uint64) {}

func (f approxCountFunc) mergeBytes(dst []uint64, heap *accHeap, value []byte) {
	v := heap.at(&dst[0])
	if len(value) == 0 {
		return
	}
	if value[0] == approxDense {
		for register, rank := range value[1:] {
			if rank > 0 {
				f.add(v, uint32(register), uint32(rank))
			}
		}
		return
	}
	for e := value[1:]; len(e) >= 4; e = e[4:] {
		x := binary.LittleEndian.Uint32(e)
		f.add(v, x>>6, x&63)
	}
}

// result is of a group without values.
func (approxCountFunc) result(b array.Builder, _ []uint64) *dataflow.Bad {
	b.(*array.Int64Builder).Append(0)
	return nil
}

func (f approxCountFunc) resultBytes(b array.Builder, _ []uint64, v []byte) {
	ranks := make([]byte, approxRegisters)
	if v[0] == approxDense {
		copy(ranks, v[1:])
	} else {
		for e := v[1:]; len(e) >= 4; e = e[4:] {
			x := binary.LittleEndian.Uint32(e)
			ranks[x>>6] = max(ranks[x>>6], byte(x&63))
		}
	}
	var counts [64 - approxBits + 2]int
	for _, r := range ranks {
		counts[r]++
	}
	b.(*array.Int64Builder).Append(int64(math.Round(approxEstimate(counts[:]))))
}

// approxEstimate is Ertl's improved estimator ("New cardinality estimation
// algorithms for HyperLogLog sketches", 2017) of counts, the number of registers
// by rank.
func approxEstimate(counts []int) float64 {
	const m = float64(approxRegisters)
	last := len(counts) - 1
	z := m * approxTau((m-float64(counts[last]))/m)
	for k := last - 1; k >= 1; k-- {
		z = (z + float64(counts[k])) / 2
	}
	z += m * approxSigma(float64(counts[0])/m)
	return m * m / (2 * math.Ln2 * z)
}

func approxSigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		before := z
		z += x * y
		y += y
		if z == before {
			return z
		}
	}
}

func approxTau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		before := z
		y /= 2
		z -= (1 - x) * (1 - x) * y
		if z == before {
			return z / 3
		}
	}
}
