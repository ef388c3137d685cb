package expr

import "unsafe"

// view is b as a text without a copy: it changes when b does.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// lowered is a word in lower case, that is its letters of ASCII. It is written to buf if need
// be, and lives no longer than that; what has no room there is no word, and comes back as it is.
func lowered(s string, buf []byte) string {
	plain := len(s) > cap(buf)
	for i := 0; i < len(s) && !plain && (s[i] < 'A' || s[i] > 'Z'); i++ {
		plain = i == len(s)-1
	}
	if plain {
		return s
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
