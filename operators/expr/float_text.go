package expr

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"strconv"
)

// appendShortest writes the fewest digits, with an exponent, that are nearer to x than
// to any other value. Where Go stops at a text halfway to the next value, which reads
// back as the even one of both, it adds a digit, as PostgreSQL does.
func appendShortest(dst []byte, x float64, bits int) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, x, 'e', -1, bits)
	if exact := float64(uint64(1) << 53); bits == 64 && math.Abs(x) < exact || bits == 32 && math.Abs(x) < 1<<24 {
		return dst // halfway is a fraction there, with more digits than x itself
	}
	for n := 0; halfway(dst[start:], x, bits); n++ {
		if n == 0 {
			for _, c := range dst[start : start+bytes.IndexByte(dst[start:], 'e')] {
				if digit(c) {
					n++
				}
			}
		}
		dst = strconv.AppendFloat(dst[:start], x, 'e', n, bits)
	}
	return dst
}

// halfway says whether text is as far from x as from a neighbour of x.
func halfway(text []byte, x float64, bits int) bool {
	if bits == 32 { // a double holds what lies halfway
		d, _ := strconv.ParseFloat(string(text), 64)
		next := float64(math.Nextafter32(float32(x), float32(math.Inf(cmp.Compare(d, x)))))
		return d != x && d-x == (next-x)/2
	}
	d, _, err := big.ParseFloat(string(text), 10, 1200, big.ToNearestEven)
	if err != nil {
		return false
	}
	exact := new(big.Float).SetPrec(1200).SetFloat64(x)
	c := d.Cmp(exact)
	if c == 0 {
		return false
	}
	next := new(big.Float).SetPrec(1200).SetFloat64(math.Nextafter(x, math.Inf(c)))
	return d.Sub(d, exact).Cmp(next.Quo(next.Sub(next, exact), big.NewFloat(2))) == 0
}
