package operators

import (
	"math/big"
	"math/bits"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// wide is a magnitude of 256 bits, least significant word first.
type wide [4]uint64

// pow10 holds the powers of ten that fit a word.
var pow10 = func() (p [20]uint64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

// tenTo38 is the first number with more than 38 digits.
var tenTo38 = decimal128.GetScaleMultiplier(38)

// wideAbs splits a signed number of 192 bits in two's complement.
func wideAbs(w0, w1, w2 uint64) (abs wide, negative bool) {
	if w2>>63 == 0 {
		return wide{w0, w1, w2}, false
	}
	var borrow uint64
	w0, borrow = bits.Sub64(0, w0, 0)
	w1, borrow = bits.Sub64(0, w1, borrow)
	w2, _ = bits.Sub64(0, w2, borrow)
	return wide{w0, w1, w2}, true
}

// timesOver returns a * mul / div, rounded half away from zero. a has at most
// 192 bits, div is not 0.
func (a wide) timesOver(mul, div uint64) wide {
	var p wide
	var carry uint64
	for i := range 3 {
		hi, lo := bits.Mul64(a[i], mul)
		var c uint64
		p[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c
	}
	p[3] = carry
	var q wide
	var rem uint64
	for i := 3; i >= 0; i-- {
		q[i], rem = bits.Div64(rem, p[i], div)
	}
	if rem >= div-rem {
		c := uint64(1)
		for i := range q {
			q[i], c = bits.Add64(q[i], 0, c)
		}
	}
	return q
}

// decimal returns the number with its sign, if it has at most 38 digits.
func (a wide) decimal(negative bool) (decimal128.Num, bool) {
	if a[2]|a[3] != 0 || a[1]>>63 != 0 {
		return decimal128.Num{}, false
	}
	n := decimal128.New(int64(a[1]), a[0])
	if n.GreaterEqual(tenTo38) {
		return decimal128.Num{}, false
	}
	if negative {
		n = n.Negate()
	}
	return n, true
}

// text writes the number with scale decimal places, for people.
func (a wide) text(negative bool, scale int) string {
	n := new(big.Int)
	for i := 3; i >= 0; i-- {
		n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(a[i]))
	}
	s := n.String()
	if scale > 0 {
		s = strings.Repeat("0", max(0, scale+1-len(s))) + s
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if negative {
		s = "-" + s
	}
	return s
}
