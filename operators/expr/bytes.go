package expr

import (
	"bytes"
	"math"
)

func init() {
	b, i := kBinary, kInt32
	register(
		function{name: "bit_length", args: []kind{b}, ret: i, kernel: countText(func(s string) int { return 8 * len(s) })},
		function{name: "strpos", args: []kind{b, b}, ret: i, kernel: bytesPosition},
		function{name: "substring", args: []kind{b, i}, ret: b, kernel: substrBinaryFrom},
		function{name: "substr", args: []kind{b, i}, ret: b, kernel: substrBinaryFrom},
		function{name: "substr", args: []kind{b, i, i}, ret: b, fails: true, kernel: substrBinary})
	for name, side := range map[string]int{"btrim": 3, "ltrim": 1, "rtrim": 2} {
		register(function{name: name, args: []kind{b, b}, ret: b, kernel: trimBytes(side)})
	}
	for _, k := range []kind{kString, b} {
		part := slice
		count := runes
		if k == b {
			part = func(s string, from, to int64) string {
				n := int64(len(s))
				from, to = min(max(from, 1)-1, n), min(max(to, 1)-1, n)
				return s[from:max(from, to)]
			}
			count = func(s string) int { return len(s) }
		}
		register(function{name: "overlay", args: []kind{k, k, i}, ret: k, fails: true, kernel: overlayKernel(part, count)},
			function{name: "overlay", args: []kind{k, k, i, i}, ret: k, fails: true, kernel: overlayKernel(part, count)})
	}
	describe("binary", "bit_length", "The number of bits.", example{`bit_length('\x123456'::bytea)`, "24"})
	describe("binary", "octet_length", "The number of bytes.", example{`octet_length('\x123456'::bytea)`, "3"})
	describe("binary", "strpos", "The place of the other byte string, from 1; 0 if it is not there. Also written position(part in bytes).", example{`position('\x56'::bytea in '\x123456'::bytea)`, "3"})
	describe("binary", "substr", "As substring.", example{`substr('\x123456'::bytea, 2)`, `\x3456`})
	describe("binary", "btrim", "The bytes without those of the second byte string at both ends. Also written trim(bytes from from).", example{`btrim('\x1234567890'::bytea, '\x9012'::bytea)`, `\x345678`})
	describe("binary", "ltrim", "As btrim, at the start alone.", example{`ltrim('\x1234567890'::bytea, '\x9012'::bytea)`, `\x34567890`})
	describe("binary", "rtrim", "As btrim, at the end alone.", example{`rtrim('\x1234567890'::bytea, '\x9012'::bytea)`, `\x12345678`})
	describe("string", "overlay", "The text with characters from a place on replaced by another text: as many as that has, or so many. Also written overlay(text placing other from 2 for 3).",
		example{"overlay('Txxxxas' placing 'hom' from 2 for 4)", "Thomas"}, example{"overlay('abcdef' placing 'XY' from 3)", "abXYef"})
	describe("binary", "overlay", "The same with bytes.", example{`overlay('\x1234567890'::bytea placing '\x0203'::bytea from 2 for 3)`, `\x12020390`})
}

func bytesPosition(c *call, out *vec, a []*vec) {
	r := grow[int32](out, c.n)
	for i := range r {
		r[i] = int32(bytes.Index(a[0].bytes(i&a[0].mask()), a[1].bytes(i&a[1].mask()))) + 1
	}
}

func substrBinaryFrom(c *call, out *vec, a []*vec) {
	from := of[int32](a[1])
	eachValue(c, out, func(dst []byte, i int) []byte {
		b := a[0].bytes(i & a[0].mask())
		return append(dst, b[min(max(int(from[i&a[1].mask()]), 1)-1, len(b)):]...)
	})
}

func trimBytes(side int) kernel {
	return func(c *call, out *vec, a []*vec) {
		eachValue(c, out, func(dst []byte, i int) []byte {
			b, set := a[0].bytes(i&a[0].mask()), a[1].bytes(i&a[1].mask())
			for side&1 != 0 && len(b) > 0 && bytes.IndexByte(set, b[0]) >= 0 {
				b = b[1:]
			}
			for side&2 != 0 && len(b) > 0 && bytes.IndexByte(set, b[len(b)-1]) >= 0 {
				b = b[:len(b)-1]
			}
			return append(dst, b...)
		})
	}
}

// overlayKernel replaces what part counts as characters; count is how many a
// text has.
func overlayKernel(part func(s string, from, to int64) string, count func(s string) int) kernel {
	return func(c *call, out *vec, a []*vec) {
		from := of[int32](a[2])
		eachValue(c, out, func(dst []byte, i int) []byte {
			s, by := a[0].text(i&a[0].mask()), a[1].text(i&a[1].mask())
			at, n := int64(from[i&a[2].mask()]), int64(0)
			if len(a) > 3 {
				n = int64(of[int32](a[3])[i&a[3].mask()])
			} else {
				n = int64(count(by))
			}
			switch {
			case at <= 0:
				c.fail(i, badArgument, "the place to replace at is %d, at least 1 is needed", at)
				return dst
			case at+n != int64(int32(at+n)):
				overflow(c, i, "int32")
				return dst
			}
			dst = append(append(dst, part(s, 1, at)...), by...)
			return append(dst, part(s, at+n, math.MaxInt32+1)...)
		})
	}
}
