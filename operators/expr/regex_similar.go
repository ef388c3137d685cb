package expr

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// similarPattern appends the regular expression of a pattern of similar to. In
// substring, two quotes behind the escape character mark the part that is meant.
func similarPattern(dst []byte, pattern, escape string) ([]byte, error) {
	esc := rune(-1)
	if escape != "" {
		r, n := utf8.DecodeRuneInString(escape)
		if n != len(escape) {
			return dst, errors.New("the escape must be empty or one character")
		}
		esc = r
	}
	dst = append(dst, "^(?:"...)
	escaped, inside, quotes := false, false, 0
	for _, r := range pattern {
		switch {
		case escaped && r == '"' && !inside:
			switch quotes {
			case 0:
				dst = append(dst, "){1,1}?("...)
			case 1:
				dst = append(dst, "){1,1}(?:"...)
			default:
				return dst, errors.New("a pattern of similar to may hold two quotes behind the escape character, not more")
			}
			quotes++
			escaped = false
		case escaped:
			dst = utf8.AppendRune(append(dst, '\\'), r)
			escaped = false
		case r == esc:
			escaped = true
		case inside:
			if r == '\\' {
				dst = append(dst, '\\')
			}
			dst = utf8.AppendRune(dst, r)
			inside = r != ']'
		case r == '[':
			dst = append(dst, '[')
			inside = true
		case r == '%':
			dst = append(dst, ".*"...)
		case r == '_':
			dst = append(dst, '.')
		case r == '(':
			dst = append(dst, "(?:"...)
		case strings.ContainsRune(`\.^$`, r):
			dst = utf8.AppendRune(append(dst, '\\'), r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, ")$"...), nil
}

func similarKernel(c *call, out *vec, a []*vec) {
	mx := a[0].mask()
	eachValue(c, out, func(dst []byte, i int) []byte {
		escape := `\`
		if len(a) > 1 {
			escape = a[1].text(i & a[1].mask())
		}
		start := len(dst)
		dst, err := similarPattern(dst, a[0].text(i&mx), escape)
		if err != nil {
			c.fail(i, badArgument, "%s", err.Error())
			return dst[:start]
		}
		return dst
	})
}
