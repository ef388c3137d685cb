package dataflow

import (
	"encoding/hex"
	"math/bits"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

// appendText writes s as a string of JSON, without memory of its own.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0 // what of s is written
	for i := 0; i < len(s); {
		n, escape := 1, s[i] < 0x20 || s[i] == '"' || s[i] == '\\'
		if s[i] >= utf8.RuneSelf {
			var r rune
			r, n = utf8.DecodeRuneInString(s[i:])
			escape = r == utf8.RuneError && n == 1 || r == '\u2028' || r == '\u2029'
		}
		if escape {
			dst = appendEscape(append(dst, s[done:i]...), s[i:i+n])
			done = i + n
		}
		i += n
	}
	return append(append(dst, s[done:]...), '"')
}

// appendEscape writes one character with a backslash; a byte that is no character becomes
// U+FFFD, and line ends that JavaScript knows besides are written by their numbers.
func appendEscape(dst []byte, c string) []byte {
	const digits = "0123456789abcdef"
	switch b := c[0]; {
	case len(c) > 1:
		return append(append(dst, `\u202`...), digits[c[2]&15])
	case b >= utf8.RuneSelf:
		return append(dst, `\ufffd`...)
	case b == '"' || b == '\\':
		return append(dst, '\\', b)
	case b == '\b':
		return append(dst, `\b`...)
	case b == '\f':
		return append(dst, `\f`...)
	case b == '\n':
		return append(dst, `\n`...)
	case b == '\r':
		return append(dst, `\r`...)
	case b == '\t':
		return append(dst, `\t`...)
	default:
		return append(dst, '\\', 'u', '0', '0', digits[b>>4], digits[b&15])
	}
}

// appendDecimal writes d with scale digits behind the point.
func appendDecimal(dst []byte, d decimal128.Num, scale int32) []byte {
	hi, lo := uint64(d.HighBits()), d.LowBits()
	if d.Sign() < 0 {
		var borrow uint64
		lo, borrow = bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
		dst = append(dst, '-')
	}
	var buf [80]byte
	at := len(buf)
	for n := int32(0); hi|lo != 0 || n <= scale; n++ {
		if n == scale && n > 0 {
			at--
			buf[at] = '.'
		}
		var rest uint64
		hi, rest = hi/10, hi%10
		lo, rest = bits.Div64(rest, lo, 10)
		at--
		buf[at] = byte('0' + rest)
	}
	return append(dst, buf[at:]...)
}

// appendUUID writes u in its five groups.
func appendUUID(dst []byte, u [16]byte) []byte {
	for from := 0; from < len(u); {
		to := from + 2
		switch from {
		case 0:
			to = 4
		case 10:
			to = 16
		}
		if from > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, u[from:to])
		from = to
	}
	return dst
}
