package codec

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// fault is what makes bytes no JSON document.
type fault uint8

const (
	fine fault = iota
	faultSyntax
	faultUTF8 // invalid bytes, or half of a surrogate pair
	faultDepth
)

// Eight bytes at once: a byte is the first hit when the high bit of its place is
// the lowest one set. Borrows reach only places behind a hit.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plainEnd returns the first place at or behind i whose byte is a quote, a
// backslash, a control character or not ASCII; len(b) if there is none.
func plainEnd(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		q := x ^ ones*'"'
		e := x ^ ones*'\\'
		if m := ((q - ones) | (e - ones) | (x - ones*0x20) | x) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 || c >= 0x80 {
			break
		}
		i++
	}
	return i
}

// textEnd is plainEnd for text beyond ASCII.
func textEnd(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		q := x ^ ones*'"'
		e := x ^ ones*'\\'
		if m := ((q-ones)&^q | (e-ones)&^e | (x-ones*0x20)&^x) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
		i += 8
	}
	for i < len(b) {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
		i++
	}
	return i
}

// runEnd returns the end of the text from i on that needs no unescaping, checked
// to be UTF-8.
func runEnd(b []byte, i int) (int, fault) {
	j := plainEnd(b, i)
	if j < len(b) && b[j] >= 0x80 {
		k := j
		j = textEnd(b, j)
		if !utf8.Valid(b[k:j]) {
			for k < j {
				r, n := utf8.DecodeRune(b[k:j])
				if r == utf8.RuneError && n <= 1 {
					break
				}
				k += n
			}
			return k, faultUTF8
		}
	}
	return j, fine
}

// unescape appends the string that begins at i, behind its quote, to dst. end is
// behind the closing quote, or where the fault is.
func unescape(dst, b []byte, i int) (out []byte, end int, f fault) {
	for {
		j, f := runEnd(b, i)
		if f != fine {
			return dst, j, f
		}
		dst = append(dst, b[i:j]...)
		if j >= len(b) {
			return dst, j, faultSyntax
		}
		switch b[j] {
		case '"':
			return dst, j + 1, fine
		case '\\':
			r, n, f := escape(b, j)
			if f != fine {
				return dst, j, f
			}
			dst = utf8.AppendRune(dst, r)
			i = j + n
		default:
			return dst, j, faultSyntax
		}
	}
}

// skipString checks the string that begins at i, behind its quote, and returns
// the place behind it.
func skipString(b []byte, i int) (end int, f fault) {
	for {
		j, f := runEnd(b, i)
		if f != fine {
			return j, f
		}
		if j >= len(b) {
			return j, faultSyntax
		}
		switch b[j] {
		case '"':
			return j + 1, fine
		case '\\':
			_, n, f := escape(b, j)
			if f != fine {
				return j, f
			}
			i = j + n
		default:
			return j, faultSyntax
		}
	}
}

// escape reads the escape sequence at i; n is its length.
func escape(b []byte, i int) (r rune, n int, f fault) {
	if i+1 >= len(b) {
		return 0, 0, faultSyntax
	}
	switch c := b[i+1]; c {
	case '"', '\\', '/':
		return rune(c), 2, fine
	case 'b':
		return '\b', 2, fine
	case 'f':
		return '\f', 2, fine
	case 'n':
		return '\n', 2, fine
	case 'r':
		return '\r', 2, fine
	case 't':
		return '\t', 2, fine
	case 'u':
	default:
		return 0, 0, faultSyntax
	}
	r = hex4(b, i+2)
	if r < 0 {
		return 0, 0, faultSyntax
	}
	if !utf16.IsSurrogate(r) {
		return r, 6, fine
	}
	if i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u' {
		if low := hex4(b, i+8); low >= 0 {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, 12, fine
			}
		}
	}
	return 0, 0, faultUTF8
}

// hex4 reads four hexadecimal digits, -1 if they are not there.
func hex4(b []byte, i int) rune {
	if i+4 > len(b) {
		return -1
	}
	var r rune
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return -1
		}
	}
	return r
}

// skipSpace returns the first place at or behind i that is no white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// hasLit says whether lit stands at i.
func hasLit(b []byte, i int, lit string) bool {
	return len(b)-i >= len(lit) && string(b[i:i+len(lit)]) == lit
}

// validate checks a whole document. at is where the fault is.
func validate(b []byte, max int) (at int, f fault) {
	i := skipSpace(b, 0)
	i, f = skipValue(b, i, 0, max)
	if f != fine {
		return i, f
	}
	if i = skipSpace(b, i); i < len(b) {
		return i, faultSyntax
	}
	return i, fine
}

// skipValue checks the value that begins at i, inside depth containers, and
// returns the place behind it, or of its fault. It does not recurse.
func skipValue(b []byte, i, depth, max int) (end int, f fault) {
	var objects [maxDepth/64 + 1]uint64 // a bit per open container: it is an object
	base := depth
	for {
		// A value begins at i.
		if i >= len(b) {
			return i, faultSyntax
		}
		switch c := b[i]; c {
		case '{', '[':
			if depth >= max {
				return i, faultDepth
			}
			level := depth - base
			depth++
			objects[level>>6] &^= 1 << (level & 63)
			i = skipSpace(b, i+1)
			if c == '[' {
				if i < len(b) && b[i] == ']' {
					i, depth = i+1, depth-1
					break
				}
				continue
			}
			objects[level>>6] |= 1 << (level & 63)
			if i < len(b) && b[i] == '}' {
				i, depth = i+1, depth-1
				break
			}
			if i, f = skipKey(b, i); f != fine {
				return i, f
			}
			continue
		default:
			if i, f = skipScalar(b, i); f != fine {
				return i, f
			}
		}
		// A value has ended at i: close what ends with it.
		for {
			if depth == base {
				return i, fine
			}
			i = skipSpace(b, i)
			if i >= len(b) {
				return i, faultSyntax
			}
			level := depth - base - 1
			object := objects[level>>6]>>(level&63)&1 == 1
			if object && b[i] == '}' || !object && b[i] == ']' {
				i, depth = i+1, depth-1
				continue
			}
			if b[i] != ',' {
				return i, faultSyntax
			}
			i = skipSpace(b, i+1)
			if object {
				if i, f = skipKey(b, i); f != fine {
					return i, f
				}
			}
			break
		}
	}
}

// skipKey checks a key and its colon and returns the place of the value.
func skipKey(b []byte, i int) (int, fault) {
	if i >= len(b) || b[i] != '"' {
		return i, faultSyntax
	}
	i, f := skipString(b, i+1)
	if f != fine {
		return i, f
	}
	if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
		return i, faultSyntax
	}
	return skipSpace(b, i+1), fine
}

func skipScalar(b []byte, i int) (int, fault) {
	switch b[i] {
	case '"':
		return skipString(b, i+1)
	case 't':
		if hasLit(b, i, "true") {
			return i + 4, fine
		}
	case 'f':
		if hasLit(b, i, "false") {
			return i + 5, fine
		}
	case 'n':
		if hasLit(b, i, "null") {
			return i + 4, fine
		}
	default:
		if _, end := scanNumber(b, i); end > 0 {
			return end, fine
		}
	}
	if b[i] >= 0x80 {
		if j := textEnd(b, i); i < j {
			if r, n := utf8.DecodeRune(b[i:j]); r == utf8.RuneError && n <= 1 {
				return i, faultUTF8
			}
		}
	}
	return i, faultSyntax
}

// appendCompact appends a valid document to dst without the white space between
// its tokens.
func appendCompact(dst, b []byte) []byte {
	for i := 0; i < len(b); {
		start := i
		for i < len(b) && b[i] > ' ' && b[i] != '"' {
			i++
		}
		if i < len(b) && b[i] == '"' {
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			i++
		}
		dst = append(dst, b[start:i]...)
		i = skipSpace(b, i)
	}
	return dst
}
