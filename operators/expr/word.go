package expr

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// view is b as a text without a copy: it changes when b does.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// lowered is s in lower case. A short word of ASCII needs no memory but buf, and what it
// becomes lives no longer than that.
func lowered(s string, buf []byte) string {
	plain := true
	for i := range len(s) {
		plain = plain && (s[i] < 'A' || s[i] > 'Z')
		if s[i] >= utf8.RuneSelf {
			return strings.ToLower(s)
		}
	}
	switch {
	case plain:
		return s
	case len(s) > cap(buf):
		return strings.ToLower(s)
	}
	buf = buf[:len(s)]
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return view(buf)
}

// smallWhole reads a whole number of 32 bits.
func smallWhole(s string) (n int64, ok bool) {
	digits := s
	if s != "" && (s[0] == '+' || s[0] == '-') {
		digits = s[1:]
	}
	for i := range len(digits) {
		if n = n*10 + int64(digits[i]-'0'); !digit(digits[i]) || n > 1<<31 {
			return 0, false
		}
	}
	if s != digits && s[0] == '-' {
		n = -n
	}
	return n, digits != "" && n < 1<<31
}
