package expr

import (
	"crypto/md5"
	"encoding/hex"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

func init() {
	s, i := kString, kInt32
	text := func(name string, k kernel, args ...kind) {
		register(function{name: name, args: args, ret: kString, kernel: k})
	}
	whole := func(name string, k kernel, args ...kind) {
		register(function{name: name, args: args, ret: kInt32, kernel: k})
	}
	text("||", concatTexts, s, s)
	register(function{name: "||", args: []kind{kBinary, kBinary}, ret: kBinary, kernel: concatTexts})
	plain := []kind{kJSON}
	for k := kBool; k <= kUUID; k++ {
		plain = append(plain, k)
	}
	for _, k := range plain {
		if k != kString {
			register(function{name: "||", args: []kind{s, k}, result: textResult, kernel: concatAny},
				function{name: "||", args: []kind{k, s}, result: textResult, kernel: concatAny})
		}
	}
	register(function{name: "concat", args: []kind{kAny}, variadic: true, ret: s, loose: true, kernel: concatKernel},
		function{name: "concat_ws", args: []kind{s, kAny}, variadic: true, ret: s, loose: true, kernel: concatWsKernel})
	text("upper", caseKernel('a', 'z', unicode.ToUpper), s)
	text("lower", caseKernel('A', 'Z', unicode.ToLower), s)
	text("initcap", initcapKernel, s)
	for _, name := range []string{"length", "char_length", "character_length"} {
		whole(name, countText(runes), s)
	}
	whole("octet_length", countText(func(s string) int { return len(s) }), s)
	whole("octet_length", countText(func(s string) int { return len(s) }), kBinary)
	whole("length", countText(func(s string) int { return len(s) }), kBinary)
	whole("bit_length", countText(func(s string) int { return 8 * len(s) }), s)
	whole("strpos", strposKernel, s, s)
	whole("ascii", countText(func(s string) int {
		r, _ := utf8.DecodeRuneInString(s)
		if s == "" {
			r = 0
		}
		return int(r)
	}), s)
	for _, name := range []string{"substr", "substring"} {
		register(function{name: name, args: []kind{s, i}, ret: s, kernel: substrFrom},
			function{name: name, args: []kind{s, i, i}, ret: s, fails: true, kernel: substrKernel})
	}
	text("left", edgeKernel(true), s, i)
	text("right", edgeKernel(false), s, i)
	for name, side := range map[string]int{"btrim": 3, "ltrim": 1, "rtrim": 2} {
		text(name, trimKernel(side), s)
		text(name, trimKernel(side), s, s)
	}
	text("replace", replaceKernel, s, s, s)
	text("reverse", mapText(reverse), s)
	text("md5", mapText(md5Hex), s)
	text("md5", mapText(md5Hex), kBinary)
	register(
		function{name: "substring", args: []kind{kBinary, i, i}, ret: kBinary, fails: true, kernel: substrBinary})
	text("translate", translateKernel, s, s, s)
	register(function{name: "repeat", args: []kind{s, i}, ret: s, fails: true, kernel: repeatKernel},
		function{name: "lpad", args: []kind{s, i}, ret: s, fails: true, kernel: padKernel(true)},
		function{name: "rpad", args: []kind{s, i}, ret: s, fails: true, kernel: padKernel(false)},
		function{name: "lpad", args: []kind{s, i, s}, ret: s, fails: true, kernel: padKernel(true)},
		function{name: "rpad", args: []kind{s, i, s}, ret: s, fails: true, kernel: padKernel(false)},
		function{name: "split_part", args: []kind{s, s, i}, ret: s, fails: true, kernel: splitPartKernel},
		function{name: "chr", args: []kind{i}, ret: s, fails: true, kernel: chrKernel},
		function{name: "starts_with", args: []kind{s, s}, ret: kBool, kernel: startsKernel},
		function{name: "^@", args: []kind{s, s}, ret: kBool, kernel: startsKernel})
}

func textResult([]*node) (typ, error) { return tString, nil }

// mapText writes one text from another.
func mapText(f func(dst []byte, s string) []byte) kernel {
	return func(c *call, out *vec, a []*vec) {
		m := a[0].mask()
		eachValue(c, out, func(dst []byte, i int) []byte { return f(dst, a[0].text(i&m)) })
	}
}

func countText(f func(string) int) kernel {
	return func(c *call, out *vec, a []*vec) {
		r := grow[int32](out, c.n)
		m := a[0].mask()
		for i := range r {
			r[i] = int32(f(a[0].text(i & m)))
		}
	}
}

// concatAny is || of a text and another value, which is written as its cast to
// text is.
func concatAny(c *call, out *vec, a []*vec) {
	x, y := textOf(c.node.args[0].typ, a[0]), textOf(c.node.args[1].typ, a[1])
	mx, my := a[0].mask(), a[1].mask()
	eachValue(c, out, func(dst []byte, i int) []byte { return y(x(dst, i&mx), i&my) })
}

// outputOf writes values as PostgreSQL sends them, which differs from the cast
// to text for booleans.
func outputOf(t typ, v *vec) func(dst []byte, i int) []byte {
	if t.k != kBool {
		return textOf(t, v)
	}
	return func(dst []byte, i int) []byte {
		if v.bits.get(i) {
			return append(dst, 't')
		}
		return append(dst, 'f')
	}
}

func concatKernel(c *call, out *vec, a []*vec) { joinKernel(c, out, a, 0) }

func concatWsKernel(c *call, out *vec, a []*vec) {
	out.andValid(a[0])
	joinKernel(c, out, a, 1)
}

// joinKernel joins the operands from the one at first on that are not null, with
// the one before between them.
func joinKernel(c *call, out *vec, a []*vec, first int) {
	write := make([]func([]byte, int) []byte, len(a))
	for k, v := range a {
		write[k] = outputOf(c.node.args[k].typ, v)
	}
	eachValue(c, out, func(dst []byte, i int) []byte {
		n := 0
		for k := first; k < len(a); k++ {
			if a[k].isNull(i) {
				continue
			}
			if n > 0 && first > 0 {
				dst = write[0](dst, i&a[0].mask())
			}
			dst = write[k](dst, i&a[k].mask())
			n++
		}
		return dst
	})
}

func initcapKernel(c *call, out *vec, a []*vec) {
	mapText(func(dst []byte, s string) []byte {
		inside := false
		for _, r := range s {
			if inside {
				r = unicode.ToLower(r)
			} else {
				r = unicode.ToUpper(r)
			}
			inside = unicode.IsLetter(r) || unicode.IsDigit(r)
			dst = utf8.AppendRune(dst, r)
		}
		return dst
	})(c, out, a)
}

func md5Hex(dst []byte, s string) []byte {
	h := md5.Sum(unsafe.Slice(unsafe.StringData(s), len(s)))
	return hex.AppendEncode(dst, h[:])
}

func reverse(dst []byte, s string) []byte {
	for len(s) > 0 {
		_, n := utf8.DecodeLastRuneInString(s)
		dst = append(dst, s[len(s)-n:]...)
		s = s[:len(s)-n]
	}
	return dst
}

func strposKernel(c *call, out *vec, a []*vec) {
	r := grow[int32](out, c.n)
	mx, my := a[0].mask(), a[1].mask()
	for i := range r {
		s := a[0].text(i & mx)
		at := strings.Index(s, a[1].text(i&my))
		if at < 0 {
			r[i] = 0
			continue
		}
		r[i] = int32(runes(s[:at])) + 1
	}
}

// slice returns characters from (counted from 1) up to but without to.
func slice(s string, from, to int64) string {
	from = max(from, 1)
	if to <= from {
		return ""
	}
	isASCII := true
	for i := 0; i < len(s) && int64(i) < to-1; i++ {
		if s[i] >= 0x80 {
			isASCII = false
			break
		}
	}
	if isASCII {
		n := int64(len(s))
		return s[min(from-1, n):min(to-1, n)]
	}
	start, n := len(s), int64(1)
	for i := range s {
		if n == from {
			start = i
		}
		if n == to {
			return s[start:i]
		}
		n++
	}
	return s[min(start, len(s)):]
}

func substrFrom(c *call, out *vec, a []*vec) {
	from := of[int32](a[1])
	mx, mf := a[0].mask(), a[1].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		return append(dst, slice(a[0].text(i&mx), int64(from[i&mf]), math.MaxInt32+1)...)
	})
}

func substrKernel(c *call, out *vec, a []*vec) {
	from, length := of[int32](a[1]), of[int32](a[2])
	mx, mf, ml := a[0].mask(), a[1].mask(), a[2].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		f, l := int64(from[i&mf]), int64(length[i&ml])
		if l < 0 {
			c.fail(i, badArgument, "negative substring length %d", l)
			return dst
		}
		return append(dst, slice(a[0].text(i&mx), f, f+l)...)
	})
}

func substrBinary(c *call, out *vec, a []*vec) {
	from, length := of[int32](a[1]), of[int32](a[2])
	mx, mf, ml := a[0].mask(), a[1].mask(), a[2].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		f, l, b := int64(from[i&mf]), int64(length[i&ml]), a[0].bytes(i&mx)
		if l < 0 {
			c.fail(i, badArgument, "negative substring length %d", l)
			return dst
		}
		n := int64(len(b))
		lo, hi := min(max(f, 1)-1, n), min(max(f+l, 1)-1, n)
		return append(dst, b[lo:max(lo, hi)]...)
	})
}

// edgeKernel takes n characters from the left or the right; a negative n leaves
// out that many at the other side.
func edgeKernel(left bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		n := of[int32](a[1])
		mx, mn := a[0].mask(), a[1].mask()
		eachValue(c, out, func(dst []byte, i int) []byte {
			s, k := a[0].text(i&mx), int64(n[i&mn])
			total := int64(0)
			if k < 0 || !left {
				total = int64(runes(s))
			}
			if k == math.MinInt32 && !left {
				return append(dst, s...) // PostgreSQL's -n overflows, and so all stays
			}
			if k < 0 {
				k = max(0, total+k)
			}
			if left {
				return append(dst, slice(s, 1, k+1)...)
			}
			return append(dst, slice(s, total-k+1, total+1)...)
		})
	}
}

func trimKernel(side int) kernel {
	return func(c *call, out *vec, a []*vec) {
		mx := a[0].mask()
		eachValue(c, out, func(dst []byte, i int) []byte {
			set := " "
			if len(a) > 1 {
				set = a[1].text(i & a[1].mask())
			}
			s := a[0].text(i & mx)
			if side&1 != 0 {
				s = strings.TrimLeft(s, set)
			}
			if side&2 != 0 {
				s = strings.TrimRight(s, set)
			}
			return append(dst, s...)
		})
	}
}

func replaceKernel(c *call, out *vec, a []*vec) {
	mx, mf, mt := a[0].mask(), a[1].mask(), a[2].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		s, from, to := a[0].text(i&mx), a[1].text(i&mf), a[2].text(i&mt)
		if from == "" {
			return append(dst, s...)
		}
		for {
			at := strings.Index(s, from)
			if at < 0 {
				return append(dst, s...)
			}
			dst = append(append(dst, s[:at]...), to...)
			s = s[at+len(from):]
		}
	})
}

func appendRunes(dst []rune, s string) []rune {
	for _, r := range s {
		dst = append(dst, r)
	}
	return dst
}

func translateKernel(c *call, out *vec, a []*vec) {
	mx, mf, mt := a[0].mask(), a[1].mask(), a[2].mask()
	var from, to []rune
	eachValue(c, out, func(dst []byte, i int) []byte {
		from, to = appendRunes(from[:0], a[1].text(i&mf)), appendRunes(to[:0], a[2].text(i&mt))
		for _, r := range a[0].text(i & mx) {
			at := -1
			for k, f := range from {
				if f == r {
					at = k
					break
				}
			}
			switch {
			case at < 0:
				dst = utf8.AppendRune(dst, r)
			case at < len(to):
				dst = utf8.AppendRune(dst, to[at])
			}
		}
		return dst
	})
}

// maxText bounds what one row's text may become.
const maxText = 16 << 20

func tooLarge(c *call, i int, size int64) {
	c.fail(i, badRange, "the text would have %d bytes, at most %d are allowed", size, maxText)
}

func repeatKernel(c *call, out *vec, a []*vec) {
	n := of[int32](a[1])
	mx, mn := a[0].mask(), a[1].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		s, k := a[0].text(i&mx), int64(n[i&mn])
		if size := k * int64(len(s)); size > maxText {
			tooLarge(c, i, size)
			return dst
		}
		if s == "" {
			return dst
		}
		for range k {
			dst = append(dst, s...)
		}
		return dst
	})
}

func padKernel(left bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		n := of[int32](a[1])
		mx, mn := a[0].mask(), a[1].mask()
		eachValue(c, out, func(dst []byte, i int) []byte {
			s, k := a[0].text(i&mx), int64(n[i&mn])
			fill := " "
			if len(a) > 2 {
				fill = a[2].text(i & a[2].mask())
			}
			missing := k - int64(runes(s))
			if size := missing * int64(len(fill)); size > maxText {
				tooLarge(c, i, size)
				return dst
			}
			if missing <= 0 {
				return append(dst, slice(s, 1, k+1)...)
			}
			if !left {
				dst = append(dst, s...)
			}
			for fill != "" && missing > 0 {
				part := slice(fill, 1, missing+1)
				dst = append(dst, part...)
				missing -= int64(runes(part))
			}
			if left {
				dst = append(dst, s...)
			}
			return dst
		})
	}
}

func splitPartKernel(c *call, out *vec, a []*vec) {
	n := of[int32](a[2])
	mx, ms, mn := a[0].mask(), a[1].mask(), a[2].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		s, sep, k := a[0].text(i&mx), a[1].text(i&ms), int(n[i&mn])
		switch {
		case k == 0:
			c.fail(i, badArgument, "field position must not be zero")
			return dst
		case sep == "":
			if k == 1 || k == -1 {
				dst = append(dst, s...)
			}
			return dst
		case k < 0:
			k += strings.Count(s, sep) + 2
			if k < 1 {
				return dst
			}
		}
		if len(sep) == 1 {
			return append(dst, partBetween(s, sep[0], k)...)
		}
		for ; k > 1; k-- {
			at := strings.Index(s, sep)
			if at < 0 {
				return dst
			}
			s = s[at+len(sep):]
		}
		if at := strings.Index(s, sep); at >= 0 {
			s = s[:at]
		}
		return append(dst, s...)
	})
}

// partBetween is part k, from 1, of s between bytes that are sep. Parts are short: a
// loop over them all is faster than a search for each.
func partBetween(s string, sep byte, k int) string {
	from := 0
	for i := range len(s) {
		if s[i] != sep {
			continue
		}
		if k == 1 {
			return s[from:i]
		}
		k, from = k-1, i+1
	}
	if k > 1 {
		return ""
	}
	return s[from:]
}

func chrKernel(c *call, out *vec, a []*vec) {
	x := of[int32](a[0])
	m := a[0].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		r := x[i&m]
		if r < 0 {
			c.fail(i, badArgument, "%d is no character", r)
			return dst
		}
		if r == 0 || !utf8.ValidRune(r) {
			c.fail(i, badRange, "%d is no character", r)
			return dst
		}
		return utf8.AppendRune(dst, r)
	})
}

func startsKernel(c *call, out *vec, a []*vec) {
	mx, my := a[0].mask(), a[1].mask()
	eachWord(growBits(out, c.n), c.n, func(i int) bool { return strings.HasPrefix(a[0].text(i&mx), a[1].text(i&my)) })
}
