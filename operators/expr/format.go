package expr

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

func init() {
	register(function{name: "format", args: []kind{kString, kAny}, variadic: true, ret: kString, loose: true, fails: true, kernel: formatKernel})
	for name, nulls := range map[string]bool{"num_nulls": true, "num_nonnulls": false} {
		register(function{name: name, args: []kind{kAny, kAny}, variadic: true, ret: kInt32, loose: true, kernel: countNulls(nulls)})
	}
	describe("string", "format", "The text with %s, %I (as a name in SQL) and %L (as a literal in SQL) replaced by the values that follow; %% is %. Between % and the letter may stand a place as 2$, - for left and a width.",
		example{"format('Hello %s, %1$s', 'World')", "Hello World, World"}, example{"format('%I = %L', 'Total', 5)", `"Total" = '5'`}, example{"format('|%-6s|%6s|', 'ab', 'cd')", "|ab    |    cd|"})
	describe("comparison", "num_nulls", "How many of the values are null.", example{"num_nulls(1, null, 2)", "1"})
	describe("comparison", "num_nonnulls", "How many of the values are not null.", example{"num_nonnulls(1, null, 2)", "2"})
}

func countNulls(nulls bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		r := grow[int32](out, c.n)
		for i := range r {
			r[i] = 0
			for _, v := range a {
				if v.isNull(i) == nulls {
					r[i]++
				}
			}
		}
	}
}

// formatter writes one row of format.
type formatter struct {
	c     *call
	a     []*vec
	write []func(dst []byte, i int) []byte
	row   int
	next  int // the operand that comes next, from 1
	buf   []byte
	part  []byte
}

func formatKernel(c *call, out *vec, a []*vec) {
	out.andValid(a[0])
	f := &formatter{c: c, a: a, write: make([]func([]byte, int) []byte, len(a))}
	for k, v := range a {
		f.write[k] = outputOf(c.node.args[k].typ, v)
	}
	eachValue(c, out, func(dst []byte, i int) []byte {
		if a[0].isNull(i) {
			return dst
		}
		start := len(dst)
		f.row, f.next = i, 1
		dst, err := f.format(dst, a[0].text(i&a[0].mask()))
		if err != nil {
			c.fail(i, badArgument, "%s", err.Error())
			return dst[:start]
		}
		if n := len(dst) - start; n > maxText {
			tooLarge(c, i, int64(n))
			return dst[:start]
		}
		return dst
	})
}

var errFormatEnd = errors.New("the format ends behind a %: write %% for a % sign")

func (f *formatter) format(dst []byte, s string) ([]byte, error) {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			dst = append(dst, s[i])
			continue
		}
		if i++; i >= len(s) {
			return dst, errFormatEnd
		}
		if s[i] == '%' {
			dst = append(dst, '%')
			continue
		}
		var err error
		if dst, i, err = f.item(dst, s, i); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// item writes what stands behind the % at s[i-1] and returns its last place.
func (f *formatter) item(dst []byte, s string, i int) ([]byte, int, error) {
	place, width := 0, 0
	n, after, err := formatNumber(s, i)
	if err != nil {
		return dst, i, err
	}
	switch {
	case after > i && after < len(s) && s[after] == '$':
		if n == 0 {
			return dst, i, errors.New("the format has value 0, they count from 1")
		}
		place, i = n, after+1
	case after > i:
		width, i = n, after
	}
	left := false
	for width == 0 && i < len(s) && s[i] == '-' {
		left = true
		i++
	}
	if width == 0 {
		if width, i, err = f.width(s, i); err != nil {
			return dst, i, err
		}
	}
	if i >= len(s) {
		return dst, i, errFormatEnd
	}
	if place == 0 {
		place = f.next
	}
	f.next = place + 1
	if width < 0 {
		left, width = true, -width
	}
	if s[i] != 's' && s[i] != 'I' && s[i] != 'L' {
		return dst, i, fmt.Errorf("the format has %%%c: known are %%s, %%I, %%L and %%%%", s[i])
	}
	if place >= len(f.a) {
		return dst, i, errors.New("the format has more places than there are values")
	}
	f.part = f.part[:0]
	if f.part, err = f.value(f.part, place, s[i]); err != nil {
		return dst, i, err
	}
	pad := width - utf8.RuneCount(f.part)
	if pad > maxText {
		return dst, i, fmt.Errorf("the width %d is too large", width)
	}
	if left {
		dst = append(dst, f.part...)
	}
	for ; pad > 0; pad-- {
		dst = append(dst, ' ')
	}
	if !left {
		dst = append(dst, f.part...)
	}
	return dst, i, nil
}

// width reads a width: a number, or * for the next value, or *2$.
func (f *formatter) width(s string, i int) (int, int, error) {
	if i >= len(s) || s[i] != '*' {
		return formatNumber(s, i)
	}
	place, after, err := formatNumber(s, i+1)
	if err != nil {
		return 0, i, err
	}
	switch {
	case after == i+1:
		place = f.next
	case after >= len(s) || s[after] != '$':
		return 0, i, errors.New("the place of a width must end in $")
	case place == 0:
		return 0, i, errors.New("the format has value 0, they count from 1")
	default:
		after++
	}
	f.next = place + 1
	if place >= len(f.a) {
		return 0, i, errors.New("the format has more places than there are values")
	}
	v := f.a[place]
	if v.isNull(f.row) {
		return 0, after, nil
	}
	f.buf = f.write[place](f.buf[:0], f.row&v.mask())
	w, bad := parseInt(view(f.buf), 32)
	if bad != nil {
		return 0, after, errors.New(bad.Detail)
	}
	return int(w), after, nil
}

// formatNumber reads digits from s[i] on; after is i if there are none.
func formatNumber(s string, i int) (n, after int, err error) {
	for ; i < len(s) && digit(s[i]); i++ {
		if n = 10*n + int(s[i]-'0'); n > math.MaxInt32 {
			return 0, i, errors.New("a number in the format is out of range")
		}
	}
	return n, i, nil
}

func (f *formatter) value(dst []byte, place int, letter byte) ([]byte, error) {
	v := f.a[place]
	if v.isNull(f.row) {
		switch letter {
		case 'I':
			return dst, errors.New("null is no name for %I")
		case 'L':
			dst = append(dst, "NULL"...)
		}
		return dst, nil
	}
	if letter == 's' {
		return f.write[place](dst, f.row&v.mask()), nil
	}
	f.buf = f.write[place](f.buf[:0], f.row&v.mask())
	if letter == 'I' {
		return appendIdent(dst, view(f.buf)), nil
	}
	return appendLiteral(dst, view(f.buf)), nil
}
