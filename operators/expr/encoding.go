package expr

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"
)

func init() {
	b, s := kBinary, kString
	for name, f := range map[string]func(dst, x []byte) []byte{
		"sha224": func(dst, x []byte) []byte { h := sha256.Sum224(x); return append(dst, h[:]...) },
		"sha256": func(dst, x []byte) []byte { h := sha256.Sum256(x); return append(dst, h[:]...) },
		"sha384": func(dst, x []byte) []byte { h := sha512.Sum384(x); return append(dst, h[:]...) },
		"sha512": func(dst, x []byte) []byte { h := sha512.Sum512(x); return append(dst, h[:]...) },
	} {
		register(function{name: name, args: []kind{b}, ret: b, kernel: func(c *call, out *vec, a []*vec) {
			m := a[0].mask()
			eachValue(c, out, func(dst []byte, i int) []byte { return f(dst, a[0].bytes(i&m)) })
		}})
	}
	register(
		function{name: "encode", args: []kind{b, s}, ret: s, fails: true, kernel: coded(appendEncoded)},
		function{name: "decode", args: []kind{s, s}, ret: b, fails: true, kernel: coded(appendDecoded)},
		function{name: "convert_from", args: []kind{b, s}, ret: s, fails: true, kernel: coded(fromCharset)},
		function{name: "convert_to", args: []kind{s, s}, ret: b, fails: true, kernel: coded(toCharset)},
		function{name: "convert", args: []kind{b, s, s}, ret: b, fails: true, kernel: convertCharset})
	describe("hash", "sha224", "The SHA-224 hash of a byte string.", example{"encode(sha224('abc'), 'hex')", "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7"})
	describe("hash", "sha256", "The SHA-256 hash of a byte string.", example{"encode(sha256('abc'), 'hex')", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"})
	describe("hash", "sha384", "The SHA-384 hash of a byte string.", example{"left(encode(sha384('abc'), 'hex'), 16)", "cb00753f45a35e8b"})
	describe("hash", "sha512", "The SHA-512 hash of a byte string.", example{"left(encode(sha512('abc'), 'hex'), 16)", "ddaf35a193617aba"})
	describe("binary", "encode", "A byte string as text: hex, base64 (lines of 76 characters) or escape.",
		example{`encode('\x616263'::bytea, 'base64')`, "YWJj"}, example{`encode('\x00ff41'::bytea, 'escape')`, `\000\377A`})
	describe("binary", "decode", "The byte string of a text in hex, base64 or escape.", example{"decode('616263', 'hex')", `\x616263`})
	describe("binary", "convert_from", "The text of a byte string in an encoding, UTF8 or LATIN1.", example{`convert_from('\xc3bc'::bytea, 'UTF8')`, "ü"})
	describe("binary", "convert_to", "The byte string of a text in an encoding, UTF8 or LATIN1.", example{"convert_to('ü', 'UTF8')", `\xc3bc`})
	describe("binary", "convert", "A byte string of one encoding in another one.", example{`convert('\xfc'::bytea, 'LATIN1', 'UTF8')`, `\xc3bc`})
}

// coded calls f with the bytes of the first operand and the name in the second.
func coded(f func(dst, x []byte, name string) ([]byte, *dataflow.Bad)) kernel {
	return func(c *call, out *vec, a []*vec) {
		mx, mn := a[0].mask(), a[1].mask()
		eachValue(c, out, func(dst []byte, i int) []byte {
			start := len(dst)
			dst, bad := f(dst, a[0].bytes(i&mx), a[1].text(i&mn))
			if bad != nil {
				c.failBad(i, bad)
				return dst[:start]
			}
			return dst
		})
	}
}

func noCode(name string) *dataflow.Bad {
	return badf(badArgument, "unknown encoding "+quotedText(name)+": known are hex, base64 and escape")
}

func quotedText(s string) string { return "'" + firstRunes(s, 80) + "'" }

func appendEncoded(dst, x []byte, name string) ([]byte, *dataflow.Bad) {
	switch {
	case strings.EqualFold(name, "hex"):
		return hex.AppendEncode(dst, x), nil
	case strings.EqualFold(name, "base64"):
		for len(x) > 57 { // 76 characters
			dst = append(base64.StdEncoding.AppendEncode(dst, x[:57]), '\n')
			x = x[57:]
		}
		return base64.StdEncoding.AppendEncode(dst, x), nil
	case strings.EqualFold(name, "escape"):
		for _, b := range x {
			switch {
			case b == 0 || b >= utf8.RuneSelf:
				dst = append(dst, '\\', '0'+b>>6, '0'+b>>3&7, '0'+b&7)
			case b == '\\':
				dst = append(dst, '\\', '\\')
			default:
				dst = append(dst, b)
			}
		}
		return dst, nil
	}
	return dst, noCode(name)
}

func appendDecoded(dst, x []byte, name string) ([]byte, *dataflow.Bad) {
	switch {
	case strings.EqualFold(name, "hex"):
		return appendHex(dst, x)
	case strings.EqualFold(name, "base64"):
		return appendBase64(dst, x)
	case strings.EqualFold(name, "escape"):
		if bytes.HasPrefix(x, []byte(`\x`)) {
			return dst, notA("binary", string(x))
		}
		return appendBinary(dst, view(x))
	}
	return dst, noCode(name)
}

func blankByte(b byte) bool { return b == ' ' || b == '\t' || b == '\n' || b == '\r' }

func appendHex(dst, x []byte) ([]byte, *dataflow.Bad) {
	high := -1
	for _, b := range x {
		if high < 0 && blankByte(b) {
			continue
		}
		d := strings.IndexByte("0123456789abcdef", b|0x20)
		if d < 0 || b < '0' {
			return dst, badf(badArgument, "invalid hexadecimal digit in "+quotedText(string(x)))
		}
		if high < 0 {
			high = d
			continue
		}
		dst = append(dst, byte(high<<4|d))
		high = -1
	}
	if high >= 0 {
		return dst, badf(badArgument, "odd number of hexadecimal digits in "+quotedText(string(x)))
	}
	return dst, nil
}

// appendBase64 takes white space anywhere, and wants whole groups of four.
func appendBase64(dst, x []byte) ([]byte, *dataflow.Bad) {
	const symbols = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	group, n, end := uint32(0), 0, 0
	for _, b := range x {
		if blankByte(b) {
			continue
		}
		v := strings.IndexByte(symbols, b)
		if b == '=' {
			if end == 0 {
				if n < 2 {
					return dst, badf(badArgument, "unexpected = in base64")
				}
				end = n
			}
			v = 0
		}
		if v < 0 {
			return dst, badf(badArgument, "invalid symbol in base64: "+quotedText(string(x)))
		}
		group = group<<6 | uint32(v)
		if n++; n < 4 {
			continue
		}
		part := [3]byte{byte(group >> 16), byte(group >> 8), byte(group)}
		keep := 3
		if end > 0 {
			keep = end - 1
		}
		dst = append(dst, part[:keep]...)
		group, n = 0, 0
	}
	if n != 0 {
		return dst, badf(badArgument, "the base64 text ends too early")
	}
	return dst, nil
}

// charset says whether a name is that of LATIN1, or of UTF8.
func charset(name string) (latin bool, bad *dataflow.Bad) {
	for _, known := range [...]string{"UTF8", "UTF-8", "unicode", "LATIN1", "LATIN-1", "ISO88591", "ISO_8859_1", "ISO-8859-1"} {
		if strings.EqualFold(name, known) {
			return known[0] != 'U' && known[0] != 'u', nil
		}
	}
	return false, badf(badArgument, "unknown encoding "+quotedText(name)+": known are UTF8 and LATIN1")
}

func fromCharset(dst, x []byte, name string) ([]byte, *dataflow.Bad) {
	latin, bad := charset(name)
	switch {
	case bad != nil:
		return dst, bad
	case bytes.IndexByte(x, 0) >= 0, !latin && !utf8.Valid(x):
		return dst, badf(badArgument, "the bytes are no text in "+name)
	case !latin:
		return append(dst, x...), nil
	}
	for _, b := range x {
		dst = utf8.AppendRune(dst, rune(b))
	}
	return dst, nil
}

func toCharset(dst, x []byte, name string) ([]byte, *dataflow.Bad) {
	latin, bad := charset(name)
	if bad != nil || !latin {
		return append(dst, x...), bad
	}
	for len(x) > 0 {
		r, n := utf8.DecodeRune(x)
		if r > 0xff {
			return dst, badf(badArgument, "LATIN1 has no "+string(r))
		}
		dst = append(dst, byte(r))
		x = x[n:]
	}
	return dst, nil
}

func convertCharset(c *call, out *vec, a []*vec) {
	var mid []byte
	eachValue(c, out, func(dst []byte, i int) []byte {
		var bad *dataflow.Bad
		mid, bad = fromCharset(mid[:0], a[0].bytes(i&a[0].mask()), a[1].text(i&a[1].mask()))
		start := len(dst)
		if bad == nil {
			dst, bad = toCharset(dst, mid, a[2].text(i&a[2].mask()))
		}
		if bad != nil {
			c.failBad(i, bad)
			return dst[:start]
		}
		return dst
	})
}
