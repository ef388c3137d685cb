package expr

import (
	"unicode/utf16"
	"unicode/utf8"
)

// The functions below go over the text of a valid JSON document, from index i on.

func jsonSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// jsonString returns the index behind the string that begins at i, and whether
// something in it is escaped.
func jsonString(b []byte, i int) (end int, escaped bool) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i + 1, escaped
		case '\\':
			escaped = true
			i++
		}
	}
	return len(b), escaped
}

// jsonSkip returns the index behind the value that begins at i.
func jsonSkip(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i, _ = jsonString(b, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ' ', '\n', '\t', '\r', ',', ':':
			i++
			continue
		default:
			for i < len(b) && !jsonEnds(b[i]) {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return i
}

// jsonEnds says whether c ends a number or a word.
func jsonEnds(c byte) bool {
	switch c {
	case ',', '}', ']', ':', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

// jsonMember finds the last member of a name in the object that begins at i.
func jsonMember(b []byte, i int, name string, scratch *[]byte) (value []byte, ok bool) {
	for i = jsonSpace(b, i+1); i < len(b) && b[i] == '"'; {
		end, escaped := jsonString(b, i)
		key := b[i+1 : end-1]
		if escaped {
			*scratch, _ = jsonUnescape((*scratch)[:0], key)
			key = *scratch
		}
		from := jsonSpace(b, jsonSpace(b, end)+1)
		i = jsonSkip(b, from)
		if string(key) == name {
			value, ok = b[from:i], true
		}
		i = jsonNext(b, i)
	}
	return value, ok
}

// jsonNext passes the comma behind a value.
func jsonNext(b []byte, i int) int {
	i = jsonSpace(b, i)
	if i < len(b) && b[i] == ',' {
		i++
	}
	return jsonSpace(b, i)
}

// jsonElement finds element n of the array that begins at i, from the end where n is
// negative.
func jsonElement(b []byte, i int, n int64) (value []byte, ok bool) {
	if n < 0 {
		if n += jsonCount(b, i); n < 0 {
			return nil, false
		}
	}
	for i = jsonSpace(b, i+1); i < len(b) && b[i] != ']'; i = jsonNext(b, i) {
		from := i
		i = jsonSkip(b, i)
		if n == 0 {
			return b[from:i], true
		}
		n--
	}
	return nil, false
}

// jsonCount counts the elements of the array that begins at i.
func jsonCount(b []byte, i int) (n int64) {
	for i = jsonSpace(b, i+1); i < len(b) && b[i] != ']'; n++ {
		i = jsonNext(b, jsonSkip(b, i))
	}
	return n
}

// jsonUnescape appends the characters of what stands between the quotes of a string.
// fault is what of them cannot be in a PostgreSQL text.
func jsonUnescape(dst, s []byte) (out []byte, fault jsonFault) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' || i+1 >= len(s) {
			dst = append(dst, c)
			continue
		}
		i++
		switch s[i] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(s, i+1)
			i += 4
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+2 < len(s) && s[i+1] == '\\' && s[i+2] == 'u' {
					pair = utf16.DecodeRune(r, hex4(s, i+3))
				}
				if r = pair; r == utf8.RuneError {
					fault = jsonHalf
				} else {
					i += 6
				}
			}
			if r == 0 {
				fault = jsonZero
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, s[i])
		}
	}
	return dst, fault
}

type jsonFault uint8

const (
	jsonZero jsonFault = iota + 1 // U+0000
	jsonHalf                      // half of a surrogate pair
)

func hex4(s []byte, i int) rune {
	var r rune
	for k := range 4 {
		if i+k >= len(s) {
			return utf8.RuneError
		}
		c := s[i+k]
		switch {
		case c <= '9':
			r = r<<4 | rune(c-'0')
		default:
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	return r
}
