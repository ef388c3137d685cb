package codec

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"
)

// shape is what is known of the values of one field.
type shape struct {
	seen, nulls                      int
	bools, numbers, strings, objects int
	arrays                           int
	num                              numbers
	text                             textForms
	// elem are the elements of all arrays.
	elem *shape
	// fields of all objects, in the order in which they were first seen.
	fields map[string]*shape
	order  []string
}

// numbers is what is known of JSON numbers.
type numbers struct {
	// written: some number has a fraction or an exponent.
	fraction, exponent bool
	// whole digits and places after the point, at most; places differ where
	// fewest is less.
	digits, places, fewest int
	// significant digits at most.
	significant int
	// trailing: some fraction ends in 0, so the writer has fixed places.
	trailing bool
	min, max float64
	zeros    int
	n        int
}

// textForms counts the strings that have a form.
type textForms struct {
	zoned, local, dates, clocks, uuids, decimals int
	dec                                          numbers
	longest                                      int
}

func (s *shape) add(v *fastjson.Value) {
	s.seen++
	switch v.Type() {
	case fastjson.TypeNull:
		s.nulls++
	case fastjson.TypeTrue, fastjson.TypeFalse:
		s.bools++
	case fastjson.TypeNumber:
		s.numbers++
		s.num.add(v.MarshalTo(nil))
	case fastjson.TypeString:
		s.strings++
		s.text.add(v.GetStringBytes())
	case fastjson.TypeArray:
		s.arrays++
		if s.elem == nil {
			s.elem = &shape{}
		}
		for _, x := range v.GetArray() {
			s.elem.add(x)
		}
	case fastjson.TypeObject:
		s.addObject(v.GetObject())
	}
}

// addObject takes the last value of each key.
func (s *shape) addObject(o *fastjson.Object) {
	s.objects++
	if s.fields == nil {
		s.fields = map[string]*shape{}
	}
	last := map[string]*fastjson.Value{}
	var order []string
	o.Visit(func(key []byte, v *fastjson.Value) {
		k := string(key)
		if _, twice := last[k]; !twice {
			order = append(order, k)
		}
		last[k] = v
	})
	for _, k := range order {
		f := s.fields[k]
		if f == nil {
			f = &shape{}
			s.fields[k] = f
			s.order = append(s.order, k)
		}
		f.add(last[k])
	}
}

func (n *numbers) add(text []byte) {
	mantissa, _, exp := strings.Cut(strings.ToLower(string(text)), "e")
	n.exponent = n.exponent || exp
	whole, frac, hasFrac := strings.Cut(strings.TrimLeft(mantissa, "-"), ".")
	n.fraction = n.fraction || hasFrac
	digits := len(strings.TrimLeft(whole, "0"))
	n.digits = max(n.digits, digits)
	n.significant = max(n.significant, len(strings.TrimLeft(whole+frac, "0")))
	if n.n == 0 {
		n.fewest = len(frac)
	}
	n.places, n.fewest = max(n.places, len(frac)), min(n.fewest, len(frac))
	n.trailing = n.trailing || strings.HasSuffix(frac, "0") && len(frac) > 1
	f, _ := strconv.ParseFloat(string(text), 64)
	switch {
	case f == 0:
		n.zeros++
	case n.n == n.zeros:
		n.min, n.max = f, f
	default:
		n.min, n.max = min(n.min, f), max(n.max, f)
	}
	n.n++
}

// whole: every number is written without fraction and exponent.
func (n *numbers) whole() bool { return !n.fraction && !n.exponent }

// decimalType is a decimal that holds them all, "" if there is none.
func (n *numbers) decimalType() string {
	need := max(n.digits, 1) + n.places
	for _, p := range []int{18, 38} {
		if need <= p {
			return fmt.Sprintf("decimal(%d,%d)", p, n.places)
		}
	}
	return ""
}

func (t *textForms) add(b []byte) {
	t.longest = max(t.longest, len(b))
	if len(b) == 0 {
		return
	}
	if _, ok := parseUUID(b); ok {
		t.uuids++
		return
	}
	if c := b[0]; c != '-' && (c < '0' || c > '9') {
		return
	}
	if isDecimalText(b) {
		t.decimals++
		t.dec.add(b)
		return
	}
	if _, ok := parseTimestamp(b, true); ok {
		t.zoned++
	} else if _, ok := parseTimestamp(b, false); ok {
		t.local++
	} else if _, ok := parseDate(b); ok && len(b) == 10 {
		t.dates++
	} else if _, n := parseClock(b); n == len(b) && n > 0 {
		t.clocks++
	}
}

// isDecimalText: digits with a point, as amounts are written to stay exact. Text
// of digits alone may be a name.
func isDecimalText(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("-"))
	whole, frac, ok := bytes.Cut(b, []byte("."))
	if !ok || len(whole) == 0 || len(frac) == 0 || len(whole) > 1 && whole[0] == '0' {
		return false
	}
	for _, c := range b {
		if c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// A number of the years 2000 to 2099 in a unit of time.
const (
	year2000 = 946_684_800
	year2100 = 4_102_444_800
)

// unit is the unit in which all numbers but zeros are times of this century.
func (n *numbers) unit() string {
	if n.n == n.zeros || n.exponent {
		return ""
	}
	for i, u := range []string{"s", "ms", "us", "ns"} {
		k := math.Pow(1000, float64(i))
		if n.min >= year2000*k && n.max < year2100*k {
			return u
		}
	}
	return ""
}
