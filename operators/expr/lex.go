package expr

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is what is wrong with an expression's text.
type Error struct {
	Msg string
	// Offset points into the text, in bytes from 0.
	Offset int
}

// Error returns the message without the place.
func (e *Error) Error() string { return e.Msg }

func errAt(pos int, format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...), Offset: pos}
}

type tokenKind uint8

const (
	tokEnd tokenKind = iota
	tokIdent
	tokQuoted // a quoted identifier
	tokNumber
	tokString
	tokOp // operators and punctuation
)

type token struct {
	kind tokenKind
	// text is the identifier (lower case unless quoted), the number, the value of
	// the string or the operator.
	text     string
	pos, end int
}

func (t token) String() string {
	switch t.kind {
	case tokEnd:
		return "the end of the expression"
	case tokString:
		return fmt.Sprintf("string '%s'", t.text)
	}
	return fmt.Sprintf("%q", t.text)
}

type lexer struct {
	src  string
	pos  int
	toks []token
}

// lex splits src into tokens; the last one is tokEnd.
func lex(src string) ([]token, error) {
	l := &lexer{src: src}
	for {
		if err := l.skip(); err != nil {
			return nil, err
		}
		if l.pos >= len(src) {
			l.toks = append(l.toks, token{kind: tokEnd, pos: len(src), end: len(src)})
			return l.toks, nil
		}
		if err := l.next(); err != nil {
			return nil, err
		}
	}
}

// skip passes white space and comments.
func (l *lexer) skip() error {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case strings.ContainsRune(" \t\r\n\f\v", rune(rest[0])):
			l.pos++
		case strings.HasPrefix(rest, "--"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.pos += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return errAt(l.pos, "comment without its end */")
			}
			l.pos += n + 2
		default:
			return nil
		}
	}
	return nil
}

func identStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func (l *lexer) add(kind tokenKind, text string, end int) {
	l.toks = append(l.toks, token{kind: kind, text: text, pos: l.pos, end: end})
	l.pos = end
}

func (l *lexer) next() error {
	s, p := l.src, l.pos
	c := s[p]
	switch {
	case (c == 'e' || c == 'E') && p+1 < len(s) && s[p+1] == '\'':
		return l.escaped()
	case identStart(c):
		e := p + 1
		for e < len(s) && (identStart(s[e]) || digit(s[e]) || s[e] == '$') {
			e++
		}
		if !utf8.ValidString(s[p:e]) {
			return errAt(p, "the text is not valid UTF-8")
		}
		l.add(tokIdent, strings.ToLower(s[p:e]), e)
	case digit(c) || c == '.' && p+1 < len(s) && digit(s[p+1]):
		return l.number()
	case c == '\'':
		text, end, ok := quoted(s, p, '\'')
		if !ok {
			return errAt(p, "string without its closing quote")
		}
		if !utf8.ValidString(text) {
			return errAt(p, "the string is not valid UTF-8")
		}
		l.add(tokString, text, end)
	case c == '"':
		text, end, ok := quoted(s, p, '"')
		if !ok {
			return errAt(p, "quoted name without its closing quote")
		}
		if text == "" {
			return errAt(p, "empty name \"\"")
		}
		l.add(tokQuoted, text, end)
	default:
		return l.operator()
	}
	return nil
}

// quoted reads a text in quotes, a doubled quote standing for one.
func quoted(s string, p int, q byte) (text string, end int, ok bool) {
	var b strings.Builder
	for i := p + 1; i < len(s); i++ {
		if s[i] != q {
			b.WriteByte(s[i])
			continue
		}
		if i+1 < len(s) && s[i+1] == q {
			b.WriteByte(q)
			i++
			continue
		}
		return b.String(), i + 1, true
	}
	return "", 0, false
}

// escaped reads E'..' with C-like escapes.
func (l *lexer) escaped() error {
	s, p := l.src, l.pos
	var b strings.Builder
	for i := p + 2; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\'' && i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		case c == '\'':
			if !utf8.ValidString(b.String()) {
				return errAt(p, "the string is not valid UTF-8")
			}
			l.add(tokString, b.String(), i+1)
			return nil
		case c == '\\' && i+1 < len(s):
			i++
			n, err := escape(s, i, &b)
			if err != nil {
				return err
			}
			i += n
		default:
			b.WriteByte(c)
		}
	}
	return errAt(p, "string without its closing quote")
}

// escape writes what the escape at s[i] stands for and returns how many bytes
// more than that one it took.
func escape(s string, i int, b *strings.Builder) (int, error) {
	simple := map[byte]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}
	c := s[i]
	if r, ok := simple[c]; ok {
		b.WriteByte(r)
		return 0, nil
	}
	hex := func(from, most int) (rune, int) {
		var r rune
		n := 0
		for n < most && from+n < len(s) {
			d := strings.IndexByte("0123456789abcdef", s[from+n]|0x20)
			if d < 0 {
				break
			}
			r = r<<4 | rune(d)
			n++
		}
		return r, n
	}
	switch {
	case c == 'x':
		if r, n := hex(i+1, 2); n > 0 {
			b.WriteByte(byte(r))
			return n, nil
		}
	case c == 'u' || c == 'U':
		want := 4
		if c == 'U' {
			want = 8
		}
		r, n := hex(i+1, want)
		if n != want || !utf8.ValidRune(r) {
			return 0, errAt(i-1, "invalid Unicode escape: expected \\uXXXX or \\UXXXXXXXX")
		}
		b.WriteRune(r)
		return n, nil
	case c >= '0' && c <= '7':
		v, n := 0, 0
		for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
			v = v<<3 | int(s[i+n]-'0')
			n++
		}
		b.WriteByte(byte(v))
		return n - 1, nil
	}
	b.WriteByte(c)
	return 0, nil
}

func (l *lexer) number() error {
	s, p := l.src, l.pos
	e := p
	for e < len(s) && digit(s[e]) {
		e++
	}
	if e < len(s) && s[e] == '.' {
		e++
		for e < len(s) && digit(s[e]) {
			e++
		}
	}
	if e < len(s) && (s[e] == 'e' || s[e] == 'E') {
		x := e + 1
		if x < len(s) && (s[x] == '+' || s[x] == '-') {
			x++
		}
		if x < len(s) && digit(s[x]) {
			for x < len(s) && digit(s[x]) {
				x++
			}
			e = x
		}
	}
	if e < len(s) && identStart(s[e]) {
		return errAt(p, "trailing junk after the number %s", s[p:e])
	}
	l.add(tokNumber, s[p:e], e)
	return nil
}

const opChars = "+-*/<>=~!@#%^&|`?"

func (l *lexer) operator() error {
	s, p := l.src, l.pos
	if strings.HasPrefix(s[p:], "::") {
		l.add(tokOp, "::", p+2)
		return nil
	}
	if strings.IndexByte("(),.[]:;", s[p]) >= 0 {
		l.add(tokOp, s[p:p+1], p+1)
		return nil
	}
	e := p
	for e < len(s) && strings.IndexByte(opChars, s[e]) >= 0 {
		if strings.HasPrefix(s[e:], "--") || strings.HasPrefix(s[e:], "/*") {
			break
		}
		e++
	}
	if e == p {
		r, _ := utf8.DecodeRuneInString(s[p:])
		return errAt(p, "unexpected character %q", r)
	}
	// As in SQL, a longer operator ends in + or - only if it has one of the
	// characters that no arithmetic uses: a*-b is a * (-b).
	for e-p > 1 && (s[e-1] == '+' || s[e-1] == '-') && !strings.ContainsAny(s[p:e], "~!@#%^&|`?") {
		e--
	}
	text := s[p:e]
	if text == "!=" {
		text = "<>"
	}
	l.add(tokOp, text, e)
	return nil
}
