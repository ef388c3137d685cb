package expr

import (
	"encoding/binary"
	"unicode/utf8"
)

// caseKernel changes the case of letters: of ASCII from lo to hi, eight bytes at a time
// over the texts of all rows, of other texts rune by rune.
func caseKernel(lo, hi byte, f func(rune) rune) kernel {
	return func(c *call, out *vec, a []*vec) {
		if !a[0].konst && flipAll(c, out, a[0], lo, hi) {
			return
		}
		m := a[0].mask()
		eachValue(c, out, func(dst []byte, i int) []byte {
			s := a[0].text(i & m)
			start := len(dst)
			dst = append(dst, s...)
			if flipCase(dst[start:], lo, hi) {
				return dst
			}
			dst = dst[:start]
			for _, r := range s {
				dst = utf8.AppendRune(dst, f(r))
			}
			return dst
		})
	}
}

// flipAll writes the texts of v, which lie one behind the other, in the other case; ok is
// false if some are not ASCII.
func flipAll(c *call, out, v *vec, lo, hi byte) (ok bool) {
	from := v.off[0]
	off, data := growText(out, c.n)
	data = append(data, v.raw[from:v.off[c.n]]...)
	ok = flipCase(data, lo, hi)
	for i, o := range v.off[1 : c.n+1] {
		off[i+1] = o - from
	}
	setText(out, off, data)
	return ok
}

// flipCase changes the case of the letters from lo to hi in place; ascii is false if
// there are other bytes than those of ASCII.
func flipCase(b []byte, lo, hi byte) (ascii bool) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	above, least := ones*uint64(0x7f-hi), ones*uint64(0x80-lo)
	var all uint64
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		all |= x
		low := x &^ high
		// The high bit of each byte: at least lo, and not above hi.
		letter := (low + least) &^ (low + above) &^ x & high
		binary.LittleEndian.PutUint64(b, x^letter>>2)
		b = b[8:]
	}
	for i, x := range b {
		all |= uint64(x)
		if x-lo <= hi-lo {
			b[i] = x ^ 0x20
		}
	}
	return all&high == 0
}
