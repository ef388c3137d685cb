package codec

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// number is a JSON number read once: mant * 10^exp, unless more digits than
// mant holds were cut off.
type number struct {
	mant uint64
	exp  int
	neg  bool
	cut  bool
}

// maxExp is where exponents stop to be counted: far outside every type.
const maxExp = 1 << 40

// maxMant is the number of digits that always fit a uint64.
const maxMant = 19

// scanNumber reads the number at i. end is 0 if there is none.
func scanNumber(b []byte, i int) (n number, end int) {
	if i < len(b) && b[i] == '-' {
		n.neg = true
		i++
	}
	if i >= len(b) || b[i] < '0' || b[i] > '9' {
		return n, 0
	}
	digits := 0
	if b[i] == '0' {
		i++
		if i < len(b) && b[i] >= '0' && b[i] <= '9' {
			return n, 0
		}
	} else {
		for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
			digits = n.digit(b[i], digits, 0)
		}
	}
	if i < len(b) && b[i] == '.' {
		i++
		if i >= len(b) || b[i] < '0' || b[i] > '9' {
			return n, 0
		}
		for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
			digits = n.digit(b[i], digits, 1)
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		e, j := scanExponent(b, i+1)
		if j == 0 {
			return n, 0
		}
		n.exp += e
		i = j
	}
	return n, i
}

// digit takes one more digit, of which frac says whether it is a fraction's, and
// returns how many are in mant.
func (n *number) digit(c byte, digits, frac int) int {
	if digits < maxMant {
		n.mant = n.mant*10 + uint64(c-'0')
		n.exp -= frac
		if n.mant != 0 {
			digits++
		}
		return digits
	}
	n.exp += 1 - frac
	n.cut = n.cut || c != '0'
	return digits
}

func scanExponent(b []byte, i int) (e, end int) {
	neg := false
	if i < len(b) && (b[i] == '+' || b[i] == '-') {
		neg = b[i] == '-'
		i++
	}
	if i >= len(b) || b[i] < '0' || b[i] > '9' {
		return 0, 0
	}
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		if e < maxExp {
			e = e*10 + int(b[i]-'0')
		}
	}
	if neg {
		e = -e
	}
	return e, i
}

// fastInt reads an integer of at most 18 digits that is nothing but digits. end
// is 0 for everything else.
func fastInt(b []byte, i int) (v int64, end int) {
	neg := b[i] == '-'
	if neg {
		i++
	}
	start := i
	var u uint64
	for {
		if len(b)-i < 8 {
			for ; i < len(b) && b[i]-'0' <= 9 && i-start < 19; i++ {
				u = u*10 + uint64(b[i]-'0')
			}
			break
		}
		t := binary.LittleEndian.Uint64(b[i:]) ^ ones*'0'
		m := ((t + ones*0x76) | t) & highs
		if m == 0 {
			u = u*1e8 + eightDigits(t)
			i += 8
			if i-start > 16 {
				return 0, 0
			}
			continue
		}
		if n := bits.TrailingZeros64(m) >> 3; n > 0 {
			u = u*pow10[n] + eightDigits(t<<(64-8*n))
			i += n
		}
		break
	}
	digits := i - start
	if digits == 0 || digits > 18 || digits > 1 && b[start] == '0' {
		return 0, 0
	}
	if i < len(b) && (b[i] == '.' || b[i]|0x20 == 'e') {
		return 0, 0
	}
	if neg {
		return -int64(u), i
	}
	return int64(u), i
}

// eightDigits adds up eight digits, one a byte, the first in the lowest.
func eightDigits(t uint64) uint64 {
	const mask = 0x000000FF000000FF
	t = t*10 + t>>8
	return ((t&mask)*0x000F424000000064 + (t>>16&mask)*0x0000271000000001) >> 32
}

var pow10 = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

var floatPow10 = [23]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// float returns the nearest float64. ok is false when it is beyond the range.
// text is the number's own.
func (n number) float(text []byte) (f float64, ok bool) {
	// Both factors are exact, so that the one rounding is the right one.
	if !n.cut && n.mant <= 1<<53 && n.exp >= -22 && n.exp <= 22 {
		f = float64(n.mant)
		if n.exp < 0 {
			f /= floatPow10[-n.exp]
		} else {
			f *= floatPow10[n.exp]
		}
		if n.neg {
			f = -f
		}
		return f, true
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 64)
	return f, err == nil
}

// float32 is float for 32 bits: rounding twice would not be exact.
func (n number) float32(text []byte) (f float32, ok bool) {
	if !n.cut && n.mant <= 1<<24 && n.exp >= -10 && n.exp <= 10 {
		f = float32(n.mant)
		if n.exp < 0 {
			f /= float32(floatPow10[-n.exp])
		} else {
			f *= float32(floatPow10[n.exp])
		}
		if n.neg {
			f = -f
		}
		return f, true
	}
	d, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(text), len(text)), 32)
	return float32(d), err == nil
}

// scaled returns the number times 10^scale, cut towards zero; rest says that
// something was cut off. ok is false when it does not fit.
func (n number) scaled(text []byte, scale int) (v int64, rest, ok bool) {
	if n.mant == 0 {
		return 0, false, true
	}
	u, e := n.mant, n.exp+scale
	switch {
	case n.cut || e > 19:
		return n.scaledSlow(text, scale)
	case e >= 0:
		hi, lo := bits.Mul64(u, pow10[e])
		if hi != 0 {
			return 0, false, false
		}
		u = lo
	case e >= -19:
		rest = u%pow10[-e] != 0
		u /= pow10[-e]
	default:
		u, rest = 0, true
	}
	if n.neg {
		return -int64(u), rest, u <= 1<<63
	}
	return int64(u), rest, u <= math.MaxInt64
}

func (n number) scaledSlow(text []byte, scale int) (v int64, rest, ok bool) {
	b, rest, ok := bigScaled(text, scale)
	if !ok || !b.IsInt64() {
		return 0, rest, false
	}
	return b.Int64(), rest, true
}

// decimal returns the number at the scale; rest says that it has more decimal
// places than that.
func (n number) decimal(text []byte, prec, scale int32) (d decimal128.Num, rest, ok bool) {
	if v, rest, ok := n.scaled(text, int(scale)); ok {
		d = decimal128.FromI64(v)
		return d, rest, d.FitsInPrecision(prec)
	}
	b, rest, ok := bigScaled(text, int(scale))
	if !ok || b.BitLen() > 127 {
		return d, rest, false
	}
	d = decimal128.FromBigInt(b)
	return d, rest, d.FitsInPrecision(prec)
}

// maxScaled is the number of digits up to which bigScaled goes.
const maxScaled = 60

// bigScaled is scaled for numbers of any length. ok is false for more than
// maxScaled digits.
func bigScaled(text []byte, scale int) (v *big.Int, rest, ok bool) {
	var digits []byte
	neg, frac, exp := false, 0, scale
	for i, c := range text {
		if c|0x20 == 'e' {
			e, _ := scanExponent(text, i+1)
			exp += e
			break
		}
		switch c {
		case '-':
			neg = true
		case '.':
			frac = 1
		default:
			digits = append(digits, c)
			exp -= frac
		}
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exp++
	}
	lead := 0
	for lead < len(digits) && digits[lead] == '0' {
		lead++
	}
	digits = digits[lead:]
	if len(digits) == 0 {
		return new(big.Int), false, true
	}
	if len(digits)+exp > maxScaled {
		return nil, false, false
	}
	for ; exp > 0; exp-- {
		digits = append(digits, '0')
	}
	if exp < 0 {
		// The last digit is no 0, so something is cut off.
		rest = true
		digits = digits[:max(0, len(digits)+exp)]
	}
	v, ok = new(big.Int).SetString("0"+string(digits), 10)
	if neg && ok {
		v.Neg(v)
	}
	return v, rest, ok
}
