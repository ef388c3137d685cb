package expr

import (
	"bytes"
	"cmp"
	"math"
	"math/bits"
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
func halfway(text []byte, x float64, size int) bool {
	if size == 32 { // a double holds what lies halfway
		d, _ := strconv.ParseFloat(view(text), 64)
		next := float64(math.Nextafter32(float32(x), float32(math.Inf(cmp.Compare(d, x)))))
		return d != x && d-x == (next-x)/2
	}
	// The text is d * 10^e, or o * 2^v with an odd o; x is m * 2^q.
	d, e := decimalDigits(text)
	if d == 0 || e < 0 || e > 23 { // 5^24 is more than what lies halfway can be a multiple of
		return false
	}
	hi, o := bits.Mul64(d, fives[e])
	v := e + bits.TrailingZeros64(o)
	if o >>= bits.TrailingZeros64(o); hi != 0 {
		return false
	}
	m, q := math.Float64bits(math.Abs(x))&(1<<52-1)|1<<52, int(math.Float64bits(x)>>52&0x7ff)-1075
	switch {
	case v == q-1 && o == 2*m+1:
		return true
	case m == 1<<52: // below it the values are twice as near
		return v == q-2 && o == 4*m-1
	}
	return v == q-1 && o == 2*m-1
}

// decimalDigits takes a number with an exponent apart: d * 10^e, d without zeros at its end.
func decimalDigits(text []byte) (d uint64, e int) {
	point := -1
	at := bytes.IndexByte(text, 'e')
	for i, c := range text[:at] {
		switch {
		case c == '.':
			point = i
		case digit(c):
			d = d*10 + uint64(c-'0')
		}
	}
	e, _ = strconv.Atoi(view(text[at+1:]))
	if point >= 0 {
		e -= at - point - 1
	}
	for d != 0 && d%10 == 0 {
		d /= 10
		e++
	}
	return d, e
}

// fives holds 5^0 to 5^23.
var fives = func() (t [24]uint64) {
	t[0] = 1
	for i := 1; i < len(t); i++ {
		t[i] = t[i-1] * 5
	}
	return
}()
