package expr

import (
	"bytes"
	"slices"
	"strconv"

	"frazil/dataflow"
)

// jsonKind orders values of different kinds as jsonb does.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonText
	jsonNumber
	jsonBool
	jsonArray
	jsonObject
)

// jsonNode is one value of a document: text holds the characters of a string, a number
// without exponent, or true or false; kids the elements, or the values of the members,
// which are in jsonb's order, each name once.
type jsonNode struct {
	kind jsonKind
	text []byte
	keys [][]byte
	kids []*jsonNode
}

// jsonTree makes nodes in memory that it uses again after reset.
type jsonTree struct {
	nodes []*jsonNode
	used  int
	buf   []byte
	// Half of the members while they are sorted.
	keys [][]byte
	kids []*jsonNode
	// bad is why what was parsed is no jsonb.
	bad *dataflow.Bad
}

func (t *jsonTree) reset() { t.used, t.buf, t.bad = 0, t.buf[:0], nil }

func (t *jsonTree) node(kind jsonKind) *jsonNode {
	if t.used == len(t.nodes) {
		t.nodes = append(t.nodes, &jsonNode{})
	}
	n := t.nodes[t.used]
	t.used++
	n.kind, n.text, n.keys, n.kids = kind, nil, n.keys[:0], n.kids[:0]
	return n
}

// parse reads a valid document.
func (t *jsonTree) parse(b []byte) *jsonNode {
	n, _ := t.value(b, jsonSpace(b, 0))
	return n
}

func (t *jsonTree) value(b []byte, i int) (*jsonNode, int) {
	if i >= len(b) {
		return t.node(jsonNull), i
	}
	switch b[i] {
	case '{':
		n := t.node(jsonObject)
		for i = jsonSpace(b, i+1); i < len(b) && b[i] == '"'; i = jsonNext(b, i) {
			var key []byte
			key, i = t.string(b, i)
			var v *jsonNode
			v, i = t.value(b, jsonSpace(b, jsonSpace(b, i)+1))
			n.keys, n.kids = append(n.keys, key), append(n.kids, v)
		}
		t.order(n)
		return n, i + 1
	case '[':
		n := t.node(jsonArray)
		for i = jsonSpace(b, i+1); i < len(b) && b[i] != ']'; i = jsonNext(b, i) {
			var v *jsonNode
			v, i = t.value(b, i)
			n.kids = append(n.kids, v)
		}
		return n, i + 1
	case '"':
		n := t.node(jsonText)
		n.text, i = t.string(b, i)
		return n, i
	}
	end := i
	for end < len(b) && !jsonEnds(b[end]) {
		end++
	}
	word := b[i:end]
	switch b[i] {
	case 'n':
		return t.node(jsonNull), end
	case 't', 'f':
		n := t.node(jsonBool)
		n.text = word
		return n, end
	}
	n := t.node(jsonNumber)
	n.text = t.number(word)
	return n, end
}

func (t *jsonTree) string(b []byte, i int) ([]byte, int) {
	end, escaped := jsonString(b, i)
	s := b[i+1 : end-1]
	if !escaped {
		return s, end
	}
	from := len(t.buf)
	var fault jsonFault
	t.buf, fault = jsonUnescape(t.buf, s)
	switch {
	case t.bad != nil:
	case fault == jsonZero:
		t.bad = badf(badArgument, "a string of the json value holds U+0000")
	case fault == jsonHalf:
		t.bad = badf(badCast, "a string of the json value holds half of a surrogate pair")
	}
	return t.buf[from:len(t.buf):len(t.buf)], end
}

// maxJSONDigits bounds numbers like 1e9999.
const maxJSONDigits = 2000

// number writes w without exponent, as numeric does: 1.50, 100 for 1e2, 0 for -0.
func (t *jsonTree) number(w []byte) []byte {
	e := bytes.IndexAny(w, "eE")
	if e < 0 && (w[0] != '-' || bytes.IndexAny(w, "123456789") >= 0) {
		return w
	}
	exp, neg := 0, w[0] == '-'
	mantissa := w
	if e >= 0 {
		exp, _ = strconv.Atoi(view(w[e+1:]))
		mantissa = w[:e]
	}
	if neg {
		mantissa = mantissa[1:]
	}
	if exp > maxJSONDigits || exp < -maxJSONDigits {
		if t.bad == nil {
			t.bad = badf(badRange, "the number "+firstRunes(string(w), 40)+" of the json value has too many digits")
		}
		return w
	}
	whole, frac, _ := bytes.Cut(mantissa, []byte{'.'})
	size := len(whole) + len(frac)
	at := func(i int) byte {
		switch {
		case i < 0 || i >= size:
			return '0'
		case i < len(whole):
			return whole[i]
		}
		return frac[i-len(whole)]
	}
	point := len(whole) + exp // digits before the point
	from := len(t.buf)
	if neg && bytes.IndexAny(mantissa, "123456789") >= 0 {
		t.buf = append(t.buf, '-')
	}
	lead := min(0, point-1)
	for lead < point-1 && at(lead) == '0' {
		lead++
	}
	for ; lead < point; lead++ {
		t.buf = append(t.buf, at(lead))
	}
	if point < size {
		t.buf = append(t.buf, '.')
	}
	for ; lead < size; lead++ {
		t.buf = append(t.buf, at(lead))
	}
	return t.buf[from:len(t.buf):len(t.buf)]
}

// order sorts the members by the length of their names, then by these, and keeps the
// last of each name.
func (t *jsonTree) order(n *jsonNode) {
	sorted := true
	for i := 1; i < len(n.keys) && sorted; i++ {
		sorted = compareKeys(n.keys[i-1], n.keys[i]) < 0
	}
	if sorted {
		return
	}
	// Insertion sort is stable, and objects are small; a large one is sorted by halves.
	t.sort(n, 0, len(n.keys))
	w := 0
	for i := range n.keys {
		if i+1 < len(n.keys) && bytes.Equal(n.keys[i], n.keys[i+1]) {
			continue
		}
		n.keys[w], n.kids[w] = n.keys[i], n.kids[i]
		w++
	}
	n.keys, n.kids = n.keys[:w], n.kids[:w]
}

func (t *jsonTree) sort(n *jsonNode, lo, hi int) {
	if hi-lo > 24 {
		m := (lo + hi) / 2
		t.sort(n, lo, m)
		t.sort(n, m, hi)
		t.merge(n, lo, m, hi)
		return
	}
	for i := lo + 1; i < hi; i++ {
		for j := i; j > lo && compareKeys(n.keys[j-1], n.keys[j]) > 0; j-- {
			n.keys[j-1], n.keys[j] = n.keys[j], n.keys[j-1]
			n.kids[j-1], n.kids[j] = n.kids[j], n.kids[j-1]
		}
	}
}

func (t *jsonTree) merge(n *jsonNode, lo, m, hi int) {
	t.keys, t.kids = append(t.keys[:0], n.keys[lo:m]...), append(t.kids[:0], n.kids[lo:m]...)
	keys, kids := t.keys, t.kids
	i, j := 0, m
	for w := lo; i < len(keys); w++ {
		if j < hi && compareKeys(keys[i], n.keys[j]) > 0 {
			n.keys[w], n.kids[w] = n.keys[j], n.kids[j]
			j++
			continue
		}
		n.keys[w], n.kids[w] = keys[i], kids[i]
		i++
	}
}

func compareKeys(a, b []byte) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

// find returns where the member of a name is, or where it belongs.
func (n *jsonNode) find(key []byte) (int, bool) {
	return slices.BinarySearchFunc(n.keys, key, compareKeys)
}

// set puts a member into an object.
func (n *jsonNode) set(key []byte, v *jsonNode) {
	i, ok := n.find(key)
	if ok {
		n.kids[i] = v
		return
	}
	n.keys, n.kids = slices.Insert(n.keys, i, key), slices.Insert(n.kids, i, v)
}

func (n *jsonNode) remove(i int) {
	if n.kind == jsonObject {
		n.keys = slices.Delete(n.keys, i, i+1)
	}
	n.kids = slices.Delete(n.kids, i, i+1)
}

// copyOf is n with members of its own; what is below is shared.
func (t *jsonTree) copyOf(n *jsonNode) *jsonNode {
	m := t.node(n.kind)
	m.text, m.keys, m.kids = n.text, append(m.keys, n.keys...), append(m.kids, n.kids...)
	return m
}

// write appends n as jsonb writes it.
func (n *jsonNode) write(dst []byte) []byte {
	switch n.kind {
	case jsonNull:
		return append(dst, "null"...)
	case jsonText:
		return appendJSONString(dst, n.text)
	case jsonArray:
		dst = append(dst, '[')
		for i, k := range n.kids {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = k.write(dst)
		}
		return append(dst, ']')
	case jsonObject:
		dst = append(dst, '{')
		for i, k := range n.kids {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(appendJSONString(dst, n.keys[i]), ": "...)
			dst = k.write(dst)
		}
		return append(dst, '}')
	}
	return append(dst, n.text...)
}

// pretty appends n indented as jsonb_pretty does.
func (n *jsonNode) pretty(dst []byte, depth int) []byte {
	if n.kind < jsonArray {
		return n.write(dst)
	}
	line := func(d int) {
		dst = append(dst, '\n')
		for range d {
			dst = append(dst, "    "...)
		}
	}
	open, shut := byte('['), byte(']')
	if n.kind == jsonObject {
		open, shut = '{', '}'
	}
	dst = append(dst, open)
	for i, k := range n.kids {
		if i > 0 {
			dst = append(dst, ',')
		}
		line(depth + 1)
		if n.kind == jsonObject {
			dst = append(appendJSONString(dst, n.keys[i]), ": "...)
		}
		dst = k.pretty(dst, depth+1)
	}
	line(depth)
	return append(dst, shut)
}

// appendJSONString writes s in quotes, escaped as far as it must be.
func appendJSONString(dst, s []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			if c < 0x20 {
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
				continue
			}
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

// jsonWriter writes documents in jsonb's form.
type jsonWriter struct{ tree jsonTree }

func (w *jsonWriter) canonical(dst, doc []byte) []byte {
	w.tree.reset()
	return w.tree.parse(doc).write(dst)
}
