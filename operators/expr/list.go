package expr

import (
	"strings"

	"frazil/dataflow"
)

// lists makes the value of a list column row by row: add appends elements, end closes
// the row's list. Elements come from vecs of the same type, or as texts to read.
type lists struct {
	t     typ // of the elements
	out   *vec
	off   []int32
	child *vec
	n     int
	rows  int
}

// newLists begins the n values of out, a vec of lists of t.
func newLists(out *vec, t typ, n int) *lists {
	if out.ownElem == nil {
		out.ownElem = &vec{}
	}
	c := out.ownElem
	c.raw, c.off, c.bits, c.valid, c.nulls, c.konst = c.raw[:0], append(c.off[:0], 0), c.bits[:0], c.valid[:0], true, false
	if cap(out.ownOff) < n+1 {
		out.ownOff = make([]int32, n+1+n/8)
	}
	l := &lists{t: t, out: out, off: out.ownOff[:n+1], child: c}
	l.off[0] = 0
	return l
}

// end closes the list of the next row.
func (l *lists) end() {
	l.rows++
	l.off[l.rows] = int32(l.n)
}

// done hands the lists to their vec.
func (l *lists) done() {
	l.child.n = l.n
	l.out.off, l.out.elem = l.off, l.child
}

func (l *lists) room() {
	if l.n&63 == 0 {
		l.child.valid = append(l.child.valid, 0)
		if l.t.k == kBool {
			l.child.bits = append(l.child.bits, 0)
		}
	}
	l.n++
}

func (l *lists) null() {
	l.room()
	switch w := l.t.width(); {
	case l.t.k == kBool:
	case w > 0:
		l.child.raw = append(l.child.raw, zeros[:w]...)
	default:
		l.child.off = append(l.child.off, int32(len(l.child.raw)))
	}
}

var zeros [16]byte

// add appends value i of v, which may be null.
func (l *lists) add(v *vec, i int) {
	i &= v.mask()
	if v.nulls && !v.valid.get(i) {
		l.null()
		return
	}
	l.room()
	l.child.valid.set(l.n - 1)
	switch w := l.t.width(); {
	case l.t.k == kBool:
		if v.bits.get(i) {
			l.child.bits.set(l.n - 1)
		}
	case w > 0:
		l.child.raw = append(l.child.raw, v.raw[i*w:(i+1)*w]...)
	default:
		l.child.raw = append(l.child.raw, v.bytes(i)...)
		l.child.off = append(l.child.off, int32(len(l.child.raw)))
	}
}

// text appends a text, where elements are texts.
func (l *lists) text(s []byte) {
	l.room()
	l.child.valid.set(l.n - 1)
	l.child.raw = append(l.child.raw, s...)
	l.child.off = append(l.child.off, int32(len(l.child.raw)))
}

// addAll appends the elements of value i of v, a vec of lists.
func (l *lists) addAll(v *vec, i int) {
	from, to := v.span(i)
	for j := from; j < to; j++ {
		l.add(v.elem, j)
	}
}

// span returns where the elements of list i lie.
func (v *vec) span(i int) (from, to int) {
	i &= v.mask()
	return int(v.off[i]), int(v.off[i+1])
}

// copyList keeps list 0 of v as a constant.
func copyList(v *vec, t typ) *vec {
	out := &vec{n: 1, konst: true}
	l := newLists(out, t.elem(), 1)
	l.addAll(v, 0)
	l.end()
	l.done()
	return out
}

// parseList reads PostgreSQL's text of a one-dimensional array into texts; null elements
// are nil.
func parseList(s string) ([]*string, *dataflow.Bad) {
	var out []*string
	var p listText
	bad := p.read(s, func(text string, null bool) *dataflow.Bad {
		if null {
			out = append(out, nil)
			return nil
		}
		text = strings.Clone(text)
		out = append(out, &text)
		return nil
	})
	return out, bad
}

func shown(s string) string { return "'" + firstRunes(s, 80) + "'" }

// listText reads the text of an array.
type listText struct {
	s   string
	i   int
	buf []byte
}

// read calls f, if there is one, with the text of every element of s.
func (p *listText) read(s string, f func(text string, null bool) *dataflow.Bad) *dataflow.Bad {
	p.s, p.i = s, 0
	p.space()
	if p.peek() == '[' {
		return badf(badArgument, "lists begin with element 1: no bounds in "+shown(s))
	}
	if !p.take('{') {
		return notA("list", s)
	}
	p.space()
	if p.take('}') {
		return p.rest()
	}
	for {
		e, null, ok := p.element()
		switch {
		case !ok && p.peek() == '{':
			return badf(badArgument, "lists have one dimension: "+shown(s))
		case !ok:
			return notA("list", s)
		case f == nil:
		default:
			if bad := f(e, null); bad != nil {
				return bad
			}
		}
		switch {
		case p.take(','):
		case p.take('}'):
			return p.rest()
		default:
			return notA("list", s)
		}
	}
}

func (p *listText) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *listText) take(c byte) bool {
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *listText) space() {
	for p.i < len(p.s) && isSpace(p.s[p.i]) {
		p.i++
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func (p *listText) rest() *dataflow.Bad {
	p.space()
	if p.i < len(p.s) {
		return notA("list", p.s)
	}
	return nil
}

// element reads one, quoted or not, and the white space behind it.
// The text is valid until the next one is read.
func (p *listText) element() (text string, null, ok bool) {
	p.space()
	b := p.buf[:0]
	defer func() { p.buf = b }()
	if p.take('"') {
		for {
			switch {
			case p.i >= len(p.s):
				return "", false, false
			case p.take('"'):
				p.space()
				return view(b), false, true
			case p.take('\\') && p.i >= len(p.s):
				return "", false, false
			}
			b = append(b, p.s[p.i])
			p.i++
		}
	}
	keep := 0 // white space at the end does not count
	escaped := false
	for p.i < len(p.s) && p.s[p.i] != ',' && p.s[p.i] != '}' {
		c := p.s[p.i]
		switch {
		case c == '{' || c == '"':
			return "", false, false
		case c == '\\':
			p.i++
			if p.i >= len(p.s) {
				return "", false, false
			}
			b, escaped = append(b, p.s[p.i]), true
			keep = len(b)
		default:
			b = append(b, c)
			if !isSpace(c) {
				keep = len(b)
			}
		}
		p.i++
	}
	b = b[:keep]
	if len(b) == 0 {
		return "", false, false
	}
	return view(b), !escaped && equalFold(view(b), "null"), true
}

func equalFold(s, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i := range len(s) {
		if s[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}

// appendList writes list i of v as PostgreSQL does.
func appendList(dst []byte, v *vec, i int, write func([]byte, int) []byte) []byte {
	from, to := v.span(i)
	dst = append(dst, '{')
	for j := from; j < to; j++ {
		if j > from {
			dst = append(dst, ',')
		}
		if v.elem.isNull(j) {
			dst = append(dst, "NULL"...)
			continue
		}
		start := len(dst)
		dst = write(dst, j)
		dst = quoteElement(dst, start)
	}
	return append(dst, '}')
}

// quoteElement puts quotes around dst from start on if it would not read back.
func quoteElement(dst []byte, start int) []byte {
	e := dst[start:]
	need, escapes := len(e) == 0 || equalFold(view(e), "null"), 0
	for _, c := range e {
		switch {
		case c == '"' || c == '\\':
			need = true
			escapes++
		case c == '{' || c == '}' || c == ',' || isSpace(c):
			need = true
		}
	}
	if !need {
		return dst
	}
	n := len(e)
	for range escapes + 2 {
		dst = append(dst, 0)
	}
	w := len(dst) - 1
	dst[w] = '"'
	for r := start + n - 1; r >= start; r-- {
		w--
		c := dst[r]
		dst[w] = c
		if c == '"' || c == '\\' {
			w--
			dst[w] = '\\'
		}
	}
	dst[start] = '"'
	return dst
}
