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
	digits, exp, neg, ok := splitDecimal(s)
	if !ok {
		if isSpecialFloat(s) {
			return dec{}, typ{}, badf(badRange, strconv.Quote(s)+" is no value of decimal")
		}
		return dec{}, typ{}, notA("decimal", s)
	}
	digits = strings.TrimLeft(digits, "0")
	scale := -exp
	if scale < 0 {
		if digits != "" {
			digits += strings.Repeat("0", min(-scale, 400))
		}
		scale = 0
	}
	if len(digits) > 38 || scale > 38 {
		return dec{}, typ{}, badf(badRange, s+" needs more than 38 digits, which is all that a decimal holds")
	}
	d := decOfDigits(digits)
	if neg {
		d = d.neg()
	}
	return d, decimalType(int32(max(len(digits), scale, 1)), int32(scale)), nil
}

// parseDecimalAs reads s at scale s, rounding half away from zero.
func parseDecimalAs(s string, t typ) (dec, *dataflow.Bad) {
	digits, exp, neg, ok := splitDecimal(s)
	if !ok {
		if isSpecialFloat(s) {
			return dec{}, badf(badRange, strconv.Quote(s)+" is no value of decimal")
		}
		return dec{}, notA("decimal", s)
	}
	digits = strings.TrimLeft(digits, "0")
	tooBig := func() *dataflow.Bad { return badf(badRange, strconv.Quote(s)+" does not fit "+t.String()) }
	// The value is 0.digits * 10^point.
	point := len(digits) + exp
	keep := point + int(t.s)
	if digits == "" || keep < 0 {
		return dec{}, nil
	}
	if keep > 38 {
		return dec{}, tooBig()
	}
	up := false
	if keep < len(digits) {
		up = digits[keep] >= '5'
		digits = digits[:keep]
	} else {
		digits += strings.Repeat("0", keep-len(digits))
	}
	d := decOfDigits(digits)
	if up {
		d, _ = d.add(decOf(1))
	}
	if !d.fits(t.p) {
		return dec{}, tooBig()
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

// splitDecimal takes a decimal text apart: its digits and the power of ten of
// the last one.
func splitDecimal(s string) (digits string, exp int, neg, ok bool) {
	s = trimSpace(s)
	if s != "" && (s[0] == '+' || s[0] == '-') {
		neg = s[0] == '-'
		s = s[1:]
	}
	if e := strings.IndexAny(s, "eE"); e >= 0 {
		x, err := strconv.Atoi(s[e+1:])
		if err != nil || x > 1<<20 || x < -1<<20 {
			return "", 0, false, false
		}
		exp, s = x, s[:e]
	}
	whole, frac, _ := strings.Cut(s, ".")
	if whole == "" && frac == "" {
		return "", 0, false, false
	}
	for _, part := range []string{whole, frac} {
		for i := range len(part) {
			if !digit(part[i]) {
				return "", 0, false, false
			}
		}
	}
	return whole + frac, exp - len(frac), neg, true
}

// trimSpace cuts the white space that PostgreSQL's input functions skip.
func trimSpace(s string) string { return strings.Trim(s, " \t\n\v\f\r") }

// decOfDigits reads at most 38 digits.
func decOfDigits(s string) dec {
	var d dec
	for len(s) > 0 {
		n := min(len(s), 18)
		x, _ := strconv.ParseInt(s[:n], 10, 64)
		d, _ = d.mul(pow10[n])
		d, _ = d.add(decOf(x))
		s = s[n:]
	}
	return d
}

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
	d, bad := parseDecimalAs(string(text), decimalType(38, s))
	return d, bad == nil
}

func (d dec) float32(s int32) float32 {
	var buf [64]byte
	f, _ := strconv.ParseFloat(string(appendDec(buf[:0], d, s)), 32)
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
	if x == 0 && strings.ContainsAny(strings.SplitN(strings.ToLower(t), "e", 2)[0], "123456789") {
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
	exp, _ := strconv.Atoi(string(dst[start+e+1:]))
	if exp >= -4 && exp < most {
		return strconv.AppendFloat(dst[:start], x, 'f', -1, bits)
	}
	return dst
}

func parseBool(s string) (bool, *dataflow.Bad) {
	t := strings.ToLower(trimSpace(s))
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
