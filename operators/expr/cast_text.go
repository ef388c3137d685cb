package expr

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"
)

func init() {
	// Text of every type, and every type from its text.
	for k := kBool; k <= kList; k++ {
		if k == kString {
			continue
		}
		registerCast(k, kString, explicitCast, false, castToText)
	}
	registerCast(kString, kString, implicitCast, false, castVarchar)
	registerCast(kString, kBool, explicitCast, true, func(c *call, out *vec, a []*vec) {
		b := growBits(out, c.n)
		b.fill(0)
		eachText(c, a[0], func(i int, s string) *dataflow.Bad {
			x, bad := parseBool(s)
			if x {
				b.set(i)
			}
			return bad
		})
	})
	registerCast(kString, kInt16, explicitCast, true, textTo(func(_ typ, s string) (int32, *dataflow.Bad) {
		x, bad := parseInt(s, 16)
		return int32(x), bad
	}))
	registerCast(kString, kInt32, explicitCast, true, textTo(func(_ typ, s string) (int32, *dataflow.Bad) {
		x, bad := parseInt(s, 32)
		return int32(x), bad
	}))
	registerCast(kString, kInt64, explicitCast, true, textTo(func(_ typ, s string) (int64, *dataflow.Bad) { return parseInt(s, 64) }))
	registerCast(kString, kFloat32, explicitCast, true, textTo(func(_ typ, s string) (float32, *dataflow.Bad) {
		x, bad := parseFloat(s, 32)
		return float32(x), bad
	}))
	registerCast(kString, kFloat64, explicitCast, true, textTo(func(_ typ, s string) (float64, *dataflow.Bad) { return parseFloat(s, 64) }))
	registerCast(kString, kDecimal, explicitCast, true, textTo(func(t typ, s string) (dec, *dataflow.Bad) { return parseDecimalAs(s, t) }))
	registerCast(kString, kDate, explicitCast, true, textTo(func(_ typ, s string) (int32, *dataflow.Bad) { return parseDate(s) }))
	registerCast(kString, kTime, explicitCast, true, textTo(func(t typ, s string) (int64, *dataflow.Bad) {
		us, bad := parseTime(s)
		return t.roundTime(us), bad
	}))
	registerCast(kString, kTimestamp, explicitCast, true, textTo(func(t typ, s string) (int64, *dataflow.Bad) {
		us, bad := parseTimestamp(s, false)
		return t.roundTime(us), bad
	}))
	registerCast(kString, kTimestampTZ, explicitCast, true, textTo(func(t typ, s string) (int64, *dataflow.Bad) {
		us, bad := parseTimestamp(s, true)
		return t.roundTime(us), bad
	}))
	registerCast(kString, kInterval, explicitCast, true, textTo(func(t typ, s string) (interval, *dataflow.Bad) { return parseIntervalAs(s, t) }))
	registerCast(kString, kUUID, explicitCast, true, textTo(func(_ typ, s string) (uuid16, *dataflow.Bad) { return parseUUID(s) }))
	registerCast(kString, kBinary, explicitCast, true, castTextBinary)
}

// eachText calls f for every value that counts and fails the rows for which it
// finds something bad.
func eachText(c *call, a *vec, f func(i int, s string) *dataflow.Bad) {
	m := a.mask()
	for i := range c.n {
		if !c.counts(i) {
			continue
		}
		if bad := f(i, a.text(i&m)); bad != nil {
			c.failBad(i, bad)
		}
	}
}

// textTo makes the cast from text to a fixed-width type.
func textTo[R fixed](parse func(t typ, s string) (R, *dataflow.Bad)) kernel {
	return func(c *call, out *vec, a []*vec) {
		r := grow[R](out, c.n)
		clear(r)
		t := c.node.typ
		eachText(c, a[0], func(i int, s string) *dataflow.Bad {
			x, bad := parse(t, s)
			r[i] = x
			return bad
		})
	}
}

// eachValue writes a text for every value that counts.
func eachValue(c *call, out *vec, f func(dst []byte, i int) []byte) {
	off, data := growText(out, c.n)
	for i := range c.n {
		if c.counts(i) {
			data = f(data, i)
		}
		off[i+1] = int32(len(data))
	}
	setText(out, off, data)
}

func castToText(c *call, out *vec, a []*vec) {
	write := textOf(c.node.args[0].typ, a[0])
	t := c.node.typ
	m := a[0].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		start := len(dst)
		dst = write(dst, i&m)
		if t.p > 0 || t.char() {
			dst = dst[:start+len(t.cut(view(dst[start:])))]
		}
		return dst
	})
}

// textOf returns what writes the values of v as PostgreSQL's casts to text do.
func textOf(t typ, v *vec) func(dst []byte, i int) []byte {
	switch t.k {
	case kBool:
		return func(dst []byte, i int) []byte {
			if v.bits.get(i) {
				return append(dst, "true"...)
			}
			return append(dst, "false"...)
		}
	case kInt16, kInt32, kInt64, kDecimal, kFloat32, kFloat64:
		return numberText(t, v)
	case kDate:
		x := of[int32](v)
		return func(dst []byte, i int) []byte { return appendDate(dst, int64(x[i])) }
	case kTime:
		x := of[int64](v)
		return func(dst []byte, i int) []byte { return appendTime(dst, x[i]) }
	case kTimestamp:
		x := of[int64](v)
		return func(dst []byte, i int) []byte { return appendTimestamp(dst, x[i], "") }
	case kTimestampTZ:
		x := of[int64](v)
		return func(dst []byte, i int) []byte { return appendTimestamp(dst, x[i], "+00") }
	case kInterval:
		x := of[interval](v)
		return func(dst []byte, i int) []byte { return appendInterval(dst, x[i]) }
	case kUUID:
		x := of[uuid16](v)
		return func(dst []byte, i int) []byte { return appendUUID(dst, x[i]) }
	case kJSON:
		j := &jsonWriter{}
		return func(dst []byte, i int) []byte { return j.canonical(dst, v.bytes(i)) }
	case kList:
		write := textOf(t.elem(), v.elem)
		return func(dst []byte, i int) []byte { return appendList(dst, v, i, write) }
	case kBinary:
		return func(dst []byte, i int) []byte { return hex.AppendEncode(append(dst, `\x`...), v.bytes(i)) }
	}
	return func(dst []byte, i int) []byte { return append(dst, v.bytes(i)...) }
}

func appendUUID(dst []byte, u uuid16) []byte {
	for i, n := range []int{4, 2, 2, 2, 6} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, u[:n])
		copy(u[:], u[n:])
	}
	return dst
}

// parseUUID reads 32 digits, a hyphen allowed behind every fourth, in braces or
// not.
func parseUUID(s string) (uuid16, *dataflow.Bad) {
	var u uuid16
	t := s
	if strings.HasPrefix(t, "{") && strings.HasSuffix(t, "}") {
		t = t[1 : len(t)-1]
	}
	for i := range u {
		if i > 0 && i%2 == 0 && strings.HasPrefix(t, "-") {
			t = t[1:]
		}
		if len(t) < 2 {
			return u, notA("uuid", s)
		}
		if _, err := hex.Decode(u[i:i+1], []byte(t[:2])); err != nil {
			return u, notA("uuid", s)
		}
		t = t[2:]
	}
	if t != "" {
		return u, notA("uuid", s)
	}
	return u, nil
}

// firstRunes cuts s behind n characters.
func firstRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// castVarchar cuts texts to the length of their type.
func castVarchar(c *call, out *vec, a []*vec) {
	m := a[0].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		return append(dst, c.node.typ.cut(a[0].text(i&m))...)
	})
}

// castTextBinary reads PostgreSQL's two forms of bytea: \xHEX and escapes.
func castTextBinary(c *call, out *vec, a []*vec) {
	m := a[0].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		s := a[0].text(i & m)
		r, bad := appendBinary(dst, s)
		if bad != nil {
			c.failBad(i, bad)
		}
		return r
	})
}

func appendBinary(dst []byte, s string) ([]byte, *dataflow.Bad) {
	start := len(dst)
	if h, ok := strings.CutPrefix(s, `\x`); ok {
		for i := 0; i < len(h); {
			if strings.IndexByte(" \t\n\r", h[i]) >= 0 {
				i++
				continue
			}
			if i+2 > len(h) {
				return dst[:start], badf(badArgument, "odd number of hexadecimal digits in bytea")
			}
			var err error
			if dst, err = hex.AppendDecode(dst, []byte(h[i:i+2])); err != nil {
				return dst[:start], badf(badArgument, "invalid hexadecimal digit in bytea")
			}
			i += 2
		}
		return dst, nil
	}
	octal := func(c byte) bool { return c >= '0' && c <= '7' }
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] != '\\':
			dst = append(dst, s[i])
		case i+1 < len(s) && s[i+1] == '\\':
			dst = append(dst, '\\')
			i++
		case i+3 < len(s) && s[i+1] <= '3' && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]):
			dst = append(dst, (s[i+1]-'0')<<6|(s[i+2]-'0')<<3|(s[i+3]-'0'))
			i += 3
		default:
			return dst[:start], notA("binary", s)
		}
	}
	return dst, nil
}

// runes counts characters.
func runes(s string) int { return utf8.RuneCountInString(s) }
