package expr

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"frazil/dataflow"
)

func init() {
	s := kString
	register(
		function{name: "unistr", args: []kind{s}, ret: s, fails: true, kernel: unistrKernel},
		function{name: "normalize", args: []kind{s, s}, ret: s, fails: true, kernel: normalizeKernel},
		function{name: "is_normalized", args: []kind{s, s}, ret: kBool, fails: true, kernel: isNormalizedKernel})
	describe("string", "unistr", `The text with the escapes \XXXX, \+XXXXXX, \uXXXX and \UXXXXXXXX replaced by their characters.`, example{`unistr('d\0061t\+000061')`, "data"})
	describe("string", "normalize", "The text in a Unicode normal form: NFC, NFD, NFKC or NFKD. Also written normalize(text) for NFC.", example{`length(normalize('a' || chr(776)))`, "1"}, example{"length(normalize('ä', NFD))", "2"})
	describe("string", "is_normalized", "Whether the text is in a Unicode normal form. Also written text is [not] [NFC | NFD | NFKC | NFKD] normalized.", example{"'ä' is NFD normalized", "false"})
}

func normalForm(name string) (norm.Form, *dataflow.Bad) {
	var buf [8]byte
	switch lowered(name, buf[:]) {
	case "nfc":
		return norm.NFC, nil
	case "nfd":
		return norm.NFD, nil
	case "nfkc":
		return norm.NFKC, nil
	case "nfkd":
		return norm.NFKD, nil
	}
	return 0, badf(badArgument, "unknown normal form "+quotedText(name)+": known are NFC, NFD, NFKC and NFKD")
}

func normalizeKernel(c *call, out *vec, a []*vec) {
	var it norm.Iter // which has its memory, unlike what appends
	coded(func(dst, x []byte, name string) ([]byte, *dataflow.Bad) {
		f, bad := normalForm(name)
		if bad != nil {
			return dst, bad
		}
		if f.QuickSpan(x) == len(x) {
			return append(dst, x...), nil
		}
		for start(&it, f, x); !it.Done(); {
			dst = append(dst, it.Next()...)
		}
		return dst, nil
	})(c, out, a)
}

func isNormalizedKernel(c *call, out *vec, a []*vec) {
	b := growBits(out, c.n)
	b.fill(0)
	var it norm.Iter
	for i := range c.n {
		if !c.counts(i) {
			continue
		}
		f, bad := normalForm(a[1].text(i & a[1].mask()))
		if bad != nil {
			c.failBad(i, bad)
			continue
		}
		if normal(&it, f, a[0].bytes(i&a[0].mask())) {
			b.set(i)
		}
	}
}

// start begins anew: Init alone keeps what was left when it stopped before the end.
func start(it *norm.Iter, f norm.Form, x []byte) {
	*it = norm.Iter{}
	it.Init(f, x)
}

// normal says whether x is in the form f.
func normal(it *norm.Iter, f norm.Form, x []byte) bool {
	if f.QuickSpan(x) == len(x) {
		return true
	}
	for start(it, f, x); !it.Done(); {
		part := it.Next()
		if !bytes.HasPrefix(x, part) {
			return false
		}
		x = x[len(part):]
	}
	return len(x) == 0
}

func unistrKernel(c *call, out *vec, a []*vec) {
	m := a[0].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		start := len(dst)
		dst, ok := appendUnistr(dst, a[0].text(i&m))
		if !ok {
			c.fail(i, badArgument, `invalid Unicode escape: expected \XXXX, \+XXXXXX, \uXXXX, \UXXXXXXXX or \\`)
			return dst[:start]
		}
		return dst
	})
}

func appendUnistr(dst []byte, s string) ([]byte, bool) {
	high := rune(0) // the first half of a pair
	for i := 0; i < len(s); {
		if s[i] != '\\' || strings.HasPrefix(s[i:], `\\`) {
			if high != 0 {
				return dst, false
			}
			dst = append(dst, s[i])
			if i++; s[i-1] == '\\' {
				i++
			}
			continue
		}
		digits, skip := 4, 1
		if i+1 < len(s) {
			switch s[i+1] {
			case '+':
				digits, skip = 6, 2
			case 'u':
				skip = 2
			case 'U':
				digits, skip = 8, 2
			}
		}
		if i += skip; i+digits > len(s) {
			return dst, false
		}
		x, err := strconv.ParseUint(s[i:i+digits], 16, 32)
		if err != nil || x == 0 || x > utf8.MaxRune {
			return dst, false
		}
		i += digits
		r := rune(x)
		switch {
		case high != 0:
			if r = utf16.DecodeRune(high, r); r == utf8.RuneError {
				return dst, false
			}
			high = 0
		case utf16.IsSurrogate(r):
			if high = r; r >= 0xdc00 {
				return dst, false
			}
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
	return dst, high == 0
}
