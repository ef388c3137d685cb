package codec

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/valyala/fastjson"
)

// number writes a value whose payload is a number.
func (r *refRow) number(v *fastjson.Value, c *column, row int) *dataflow.Bad {
	var text string
	switch {
	case v.Type() == fastjson.TypeNumber:
		text = string(v.MarshalTo(nil))
	case c.kind == kDecimal && v.Type() == fastjson.TypeString:
		text = string(v.GetStringBytes())
		if !numberRule.MatchString(text) {
			return r.mistyped(v, c)
		}
	default:
		return r.mistyped(v, c)
	}
	switch c.kind {
	case kFloat64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return r.bad(ReasonOutOfRange, v, c.text)
		}
		c.set8(row, math.Float64bits(f))
		return nil
	case kFloat32:
		f, err := strconv.ParseFloat(text, 32)
		if err != nil {
			return r.bad(ReasonOutOfRange, v, c.text)
		}
		c.set4(row, math.Float32bits(float32(f)))
		return nil
	case kDecimal:
		return r.decimal(v, text, c, row)
	}
	n, fits, exact := floorScaled(text, 0)
	if !exact {
		return r.mistyped(v, c)
	}
	bits := 64
	if c.kind == kInt32 {
		bits = 32
	}
	lim := new(big.Int).Lsh(big.NewInt(1), uint(bits-1))
	if !fits || n.Cmp(lim) >= 0 || n.Cmp(new(big.Int).Neg(lim)) < 0 {
		return r.bad(ReasonOutOfRange, v, c.text)
	}
	if c.kind == kInt32 {
		c.set4(row, uint32(int32(n.Int64())))
	} else {
		c.set8(row, uint64(n.Int64()))
	}
	return nil
}

var numberRule = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (r *refRow) decimal(v *fastjson.Value, text string, c *column, row int) *dataflow.Bad {
	n, fits, exact := floorScaled(text, int(c.scale))
	if !exact {
		return r.bad(ReasonOutOfRange, v, fmt.Sprintf("%s with at most %d decimal places", c.text, c.scale))
	}
	lim := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.prec)), nil)
	if !fits || n.CmpAbs(lim) >= 0 {
		return r.bad(ReasonOutOfRange, v, c.text)
	}
	d := decimal128.FromBigInt(n)
	c.set16(row, d.LowBits(), uint64(d.HighBits()))
	return nil
}

// floorScaled returns the number times 10^scale, cut down to an integer. exact
// says that nothing was cut off; fits is false for more digits than any type
// has, whose value is then not given.
func floorScaled(text string, scale int) (n *big.Int, fits, exact bool) {
	mant, exp := text, 0
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mant = text[:i]
		e, err := strconv.Atoi(text[i+1:])
		if err != nil {
			// Beyond int: only its sign matters.
			e = maxExp
			if text[i+1] == '-' {
				e = -maxExp
			}
		}
		exp = e
	}
	neg := strings.HasPrefix(mant, "-")
	whole, frac, _ := strings.Cut(strings.TrimPrefix(mant, "-"), ".")
	digits := strings.TrimLeft(whole+frac, "0")
	if digits == "" {
		return new(big.Int), true, true
	}
	// The number is 0.digits * 10^lead.
	lead := len(digits) - len(frac) + exp + scale
	if lead > maxScaled {
		return nil, false, true
	}
	if lead < -maxScaled {
		if neg {
			return big.NewInt(-1), true, false
		}
		return new(big.Int), true, false
	}
	if neg {
		digits = "-" + digits
	}
	rat, _ := new(big.Rat).SetString(digits + "e" + strconv.Itoa(lead-len(strings.TrimPrefix(digits, "-"))))
	return new(big.Int).Div(rat.Num(), rat.Denom()), true, rat.IsInt()
}

// textual writes a value whose payload is a text that is not kept as it is, or a
// number that is a time.
func (r *refRow) textual(v *fastjson.Value, c *column, row int) *dataflow.Bad {
	if c.kind == kTimestamp && c.unit != textTime {
		return r.unitTime(v, c, row)
	}
	if v.Type() != fastjson.TypeString {
		return r.mistyped(v, c)
	}
	text := string(v.GetStringBytes())
	switch c.kind {
	case kUUID:
		raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err != nil || len(raw) != 16 || !uuidRule.MatchString(text) {
			return r.mistyped(v, c)
		}
		c.set16(row, binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:]))
	case kBinary:
		out, ok := appendBase64(nil, []byte(text))
		if !ok {
			return r.mistyped(v, c)
		}
		c.setBytes(row, out)
	case kDate:
		t, err := time.Parse(time.DateOnly, text)
		if err != nil || len(text) != 10 {
			return r.bad(ReasonInvalidTime, v, expected(c))
		}
		if t.Year() < 1 {
			return r.bad(ReasonOutOfRange, v, "a date of the years 1 to 9999")
		}
		c.set4(row, uint32(int32(t.Unix()/secondsPerDay)))
	case kTime:
		t, err := time.Parse("15:04:05.999999999", cutFraction(text))
		if err != nil || !clockRule.MatchString(text) {
			return r.bad(ReasonInvalidTime, v, expected(c))
		}
		c.set8(row, uint64(t.Sub(t.Truncate(24*time.Hour)).Microseconds()))
	default:
		return r.textTime(v, text, c, row)
	}
	return nil
}

const clockText = `[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?`

var (
	uuidRule  = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	clockRule = regexp.MustCompile(`^` + clockText + `$`)
	localRule = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]` + clockText + `$`)
	zonedRule = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]` + clockText + `([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)
	fraction  = regexp.MustCompile(`(\.[0-9]{6})[0-9]+`)
)

// cutFraction leaves six digits of a fraction.
func cutFraction(text string) string { return fraction.ReplaceAllString(text, "$1") }

func (r *refRow) textTime(v *fastjson.Value, text string, c *column, row int) *dataflow.Bad {
	rule, layout := localRule, "2006-01-02T15:04:05"
	if c.zoned {
		rule, layout = zonedRule, time.RFC3339
	}
	if !rule.MatchString(text) {
		return r.bad(ReasonInvalidTime, v, expected(c))
	}
	norm := strings.ToUpper(text[:10] + "T" + text[11:])
	t, err := time.Parse(layout, cutFraction(norm))
	if err != nil {
		return r.bad(ReasonInvalidTime, v, expected(c))
	}
	return r.micros(v, c, row, big.NewInt(t.UnixMicro()))
}

// unitTime writes a number that is a time.
func (r *refRow) unitTime(v *fastjson.Value, c *column, row int) *dataflow.Bad {
	if v.Type() != fastjson.TypeNumber {
		return r.mistyped(v, c)
	}
	n, fits, _ := floorScaled(string(v.MarshalTo(nil)), 6-c.unit)
	if !fits {
		n = new(big.Int).Lsh(big.NewInt(1), 100)
	}
	return r.micros(v, c, row, n)
}

func (r *refRow) micros(v *fastjson.Value, c *column, row int, n *big.Int) *dataflow.Bad {
	if n.Cmp(big.NewInt(c.lo)) < 0 || n.Cmp(big.NewInt(c.hi)) >= 0 {
		got := ""
		if n.IsInt64() && n.Int64() >= int64(dataflow.MinEventTime) && n.Int64() <= int64(dataflow.MaxEventTime) {
			got = ", not " + dataflow.Time(n.Int64()).String()
		}
		want := fmt.Sprintf("%s from %s to before %s%s", c.text, dataflow.Time(c.lo), dataflow.Time(c.hi), got)
		return r.bad(ReasonOutOfRange, v, want)
	}
	c.set8(row, uint64(n.Int64()))
	return nil
}
