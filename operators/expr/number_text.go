package expr

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"frazil/dataflow"
)

func badf(reason, detail string) *dataflow.Bad { return &dataflow.Bad{Reason: reason, Detail: detail} }

func notA(what, s string) *dataflow.Bad {
	return badf(badCast, "invalid input for "+what+": "+strconv.Quote(s))
}

// parseDecimal reads a numeric literal at its own precision and scale.
func parseDecimal(s string) (dec, typ, *dataflow.Bad) {
	t, bad := splitDecimal(s)
	if bad != nil {
		return dec{}, typ{}, bad
	}
	scale := -t.exp
	n := t.len()
	if scale < 0 {
		if n > 0 {
			n += min(-scale, 400)
		}
		scale = 0
	}
	if n > 38 || scale > 38 {
		return dec{}, typ{}, badf(badRange, s+" needs more than 38 digits, which is all that a decimal holds")
	}
	return t.dec(n), decimalType(int32(max(n, scale, 1)), int32(scale)), nil
}

// parseDecimalAs reads s at scale s, rounding half away from zero.
func parseDecimalAs(s string, as typ) (dec, *dataflow.Bad) {
	t, bad := splitDecimal(s)
	if bad != nil {
		return dec{}, bad
	}
	// The value is 0.digits * 10^point.
	point := t.len() + t.exp
	keep := point + int(as.s)
	if t.len() == 0 || keep < 0 {
		return dec{}, nil
	}
	if keep > 38 {
		return dec{}, badf(badRange, strconv.Quote(s)+" does not fit "+as.String())
	}
	neg := t.neg
	t.neg = false
	d := t.dec(keep)
	if t.digit(keep) >= 5 {
		d, _ = d.add(decOf(1))
	}
	if !d.fits(as.p) {
		return dec{}, badf(badRange, strconv.Quote(s)+" does not fit "+as.String())
	}
	if neg {
		d = d.neg()
	}
	return d, nil
}

func isSpecialFloat(s string) bool {
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "nan", "inf", "infinity":
		return true
	}
	return false
}

// decimalText is a number in decimal digits: those of whole and then those of frac, and the
// power of ten of the last one.
type decimalText struct {
	whole, frac string
	exp         int
	neg         bool
}

// len counts the digits.
func (t *decimalText) len() int { return len(t.whole) + len(t.frac) }

// digit is digit i from the left, 0 behind the last one.
func (t *decimalText) digit(i int) uint64 {
	switch {
	case i < len(t.whole):
		return uint64(t.whole[i] - '0')
	case i < t.len():
		return uint64(t.frac[i-len(t.whole)] - '0')
	}
	return 0
}

// dec is the number of the first n digits, at most 38.
func (t *decimalText) dec(n int) dec {
	var d dec
	for i := 0; i < n; {
		x := uint64(0)
		from := i
		for ; i < n && i < from+18; i++ {
			x = x*10 + t.digit(i)
		}
		d, _ = d.mul(pow10[i-from])
		d, _ = d.add(decOf(int64(x)))
	}
	if t.neg {
		return d.neg()
	}
	return d
}

// splitDecimal takes a decimal text apart; zeros in front are left out.
func splitDecimal(s string) (decimalText, *dataflow.Bad) {
	var t decimalText
	rest := trimSpace(s)
	if rest != "" && (rest[0] == '+' || rest[0] == '-') {
		t.neg = rest[0] == '-'
		rest = rest[1:]
	}
	ok := true
	if e := strings.IndexAny(rest, "eE"); e >= 0 {
		x, err := strconv.Atoi(rest[e+1:])
		ok = err == nil && x <= 1<<20 && x >= -1<<20
		t.exp, rest = x, rest[:e]
	}
	t.whole, t.frac, _ = strings.Cut(rest, ".")
	ok = ok && t.len() > 0
	for i := range t.whole {
		ok = ok && digit(t.whole[i])
	}
	for i := range t.frac {
		ok = ok && digit(t.frac[i])
	}
	switch {
	case ok:
	case isSpecialFloat(s):
		return t, badf(badRange, strconv.Quote(s)+" is no value of decimal")
	default:
		return t, notA("decimal", s)
	}
	t.exp -= len(t.frac)
	if t.whole = strings.TrimLeft(t.whole, "0"); t.whole == "" {
		t.frac = strings.TrimLeft(t.frac, "0")
	}
	return t, nil
}

// trimSpace cuts the white space that PostgreSQL's input functions skip.
func trimSpace(s string) string { return strings.Trim(s, " \t\n\v\f\r") }

// floatDec converts a float at scale s by the digits that it holds for sure.
func floatDec[T float](x T, s int32) (dec, bool) {
	if x-x != 0 {
		return dec{}, false
	}
	digits := 15
	if _, ok := any(x).(float32); ok {
		digits = 6
	}
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], float64(x), 'e', digits-1, 64)
	d, bad := parseDecimalAs(view(text), decimalType(38, s))
	return d, bad == nil
}

func (d dec) float32(s int32) float32 {
	var buf [64]byte
	f, _ := strconv.ParseFloat(view(appendDec(buf[:0], d, s)), 32)
	return float32(f)
}

func parseInt(s string, bits int) (int64, *dataflow.Bad) {
	t := trimSpace(s)
	x, err := strconv.ParseInt(t, 10, bits)
	if err == nil {
		return x, nil
	}
	name := "int" + strconv.Itoa(bits)
	if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrRange {
		return 0, badf(badRange, strconv.Quote(s)+" is out of range of "+name)
	}
	return 0, notA(name, s)
}

func parseFloat(s string, bits int) (float64, *dataflow.Bad) {
	t := trimSpace(s)
	name := "float64"
	if bits == 32 {
		name = "float32"
	}
	if strings.ContainsAny(t, "xXpP_") {
		return 0, notA(name, s)
	}
	x, err := strconv.ParseFloat(t, bits)
	if err != nil {
		if e, ok := err.(*strconv.NumError); ok && e.Err == strconv.ErrRange {
			return 0, badf(badRange, strconv.Quote(s)+" is out of range of "+name)
		}
		return 0, notA(name, s)
	}
	if e := strings.IndexAny(t, "eE"); e >= 0 {
		t = t[:e]
	}
	if x == 0 && strings.ContainsAny(t, "123456789") {
		return 0, badf(badRange, strconv.Quote(s)+" is out of range of "+name)
	}
	return x, nil
}

// appendFloat writes the shortest text that reads back the same, in
// PostgreSQL's form.
func appendFloat(dst []byte, x float64, bits int) []byte {
	switch {
	case x != x:
		return append(dst, "NaN"...)
	case math.IsInf(x, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(x, -1):
		return append(dst, "-Infinity"...)
	case x == 0:
		if math.Signbit(x) {
			return append(dst, "-0"...)
		}
		return append(dst, '0')
	}
	most := 15
	if bits == 32 {
		most = 6
	}
	start := len(dst)
	dst = appendShortest(dst, x, bits)
	e := bytes.LastIndexByte(dst[start:], 'e')
	exp, _ := strconv.Atoi(view(dst[start+e+1:]))
	if exp >= -4 && exp < most {
		return strconv.AppendFloat(dst[:start], x, 'f', -1, bits)
	}
	return dst
}

func parseBool(s string) (bool, *dataflow.Bad) {
	var buf [8]byte
	t := lowered(trimSpace(s), buf[:])
	for _, w := range []struct {
		word  string
		least int
		value bool
	}{{"true", 1, true}, {"false", 1, false}, {"yes", 1, true}, {"no", 1, false}, {"on", 2, true}, {"off", 2, false}, {"1", 1, true}, {"0", 1, false}} {
		if len(t) >= w.least && strings.HasPrefix(w.word, t) {
			return w.value, nil
		}
	}
	return false, notA("bool", s)
}

func numberText(t typ, v *vec) func(dst []byte, i int) []byte {
	switch t.k {
	case kInt16, kInt32:
		x := of[int32](v)
		return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(x[i]), 10) }
	case kInt64:
		x := of[int64](v)
		return func(dst []byte, i int) []byte { return strconv.AppendInt(dst, x[i], 10) }
	case kFloat32:
		x := of[float32](v)
		return func(dst []byte, i int) []byte { return appendFloat(dst, float64(x[i]), 32) }
	case kFloat64:
		x := of[float64](v)
		return func(dst []byte, i int) []byte { return appendFloat(dst, x[i], 64) }
	}
	x := of[dec](v)
	return func(dst []byte, i int) []byte { return appendDec(dst, x[i], t.s) }
}
