package expr

import (
	"bytes"
	"cmp"
)

func init() {
	two := []kind{kJSON, kJSON}
	test := func(ok func(c int) bool) kernel {
		return func(c *call, out *vec, a []*vec) {
			t := c.json()
			eachWord(growBits(out, c.n), c.n, func(i int) bool {
				if !c.counts(i) {
					return false
				}
				t.reset()
				return ok(compareRoots(t.parse(a[0].bytes(i&a[0].mask())), t.parse(a[1].bytes(i&a[1].mask()))))
			})
		}
	}
	for op, ok := range map[string]func(int) bool{
		"=": func(c int) bool { return c == 0 }, "<>": func(c int) bool { return c != 0 },
		"<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
		">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
	} {
		register(function{name: op, args: two, ret: kBool, kernel: test(ok)})
	}
}

// json is the memory for the documents of this node.
func (c *call) json() *jsonTree {
	t, ok := c.slot.cache.(*jsonTree)
	if !ok {
		t = &jsonTree{}
		c.slot.cache = t
	}
	return t
}

// compareRoots compares whole documents: PostgreSQL takes one that is no array and no
// object for an array of one element, which is less than a true one.
func compareRoots(a, b *jsonNode) int {
	scalarA, scalarB := a.kind < jsonArray, b.kind < jsonArray
	switch {
	case scalarA && scalarB:
		return a.compare(b)
	case scalarA && b.kind == jsonArray:
		return cmp.Or(cmp.Compare(1, len(b.kids)), -1)
	case scalarB && a.kind == jsonArray:
		return cmp.Or(cmp.Compare(len(a.kids), 1), 1)
	}
	return a.compare(b)
}

func (n *jsonNode) compare(m *jsonNode) int {
	if n.kind != m.kind {
		return cmp.Compare(n.kind, m.kind)
	}
	switch n.kind {
	case jsonText:
		return bytes.Compare(n.text, m.text)
	case jsonBool: // false is before true
		return bytes.Compare(n.text, m.text)
	case jsonNumber:
		return compareNumbers(n.text, m.text)
	}
	if c := cmp.Compare(len(n.kids), len(m.kids)); c != 0 {
		return c
	}
	for i, k := range n.kids {
		if n.kind == jsonObject {
			if c := bytes.Compare(n.keys[i], m.keys[i]); c != 0 {
				return c
			}
		}
		if c := k.compare(m.kids[i]); c != 0 {
			return c
		}
	}
	return 0
}

// compareNumbers compares decimals without exponent.
func compareNumbers(a, b []byte) int {
	negA, negB := a[0] == '-', b[0] == '-'
	if negA != negB {
		return cmp.Compare(bit(negB), bit(negA))
	}
	if negA {
		return compareNumbers(b[1:], a[1:])
	}
	wa, fa, _ := bytes.Cut(a, []byte{'.'})
	wb, fb, _ := bytes.Cut(b, []byte{'.'})
	return cmp.Or(cmp.Compare(len(wa), len(wb)), bytes.Compare(wa, wb), bytes.Compare(bytes.TrimRight(fa, "0"), bytes.TrimRight(fb, "0")))
}

// contains says whether n holds all of m, as @> does.
func (n *jsonNode) contains(m *jsonNode) bool {
	if n.kind < jsonArray || m.kind < jsonArray {
		if n.kind == jsonArray { // a root may be one element
			return n.has(m)
		}
		return n.kind == m.kind && n.compare(m) == 0
	}
	if n.kind != m.kind {
		return false
	}
	for i, k := range m.kids {
		if n.kind == jsonArray {
			if !n.has(k) {
				return false
			}
			continue
		}
		at, ok := n.find(m.keys[i])
		if !ok || !n.kids[at].holds(k) {
			return false
		}
	}
	return true
}

// has says whether an element of n holds m.
func (n *jsonNode) has(m *jsonNode) bool {
	for _, k := range n.kids {
		if k.holds(m) {
			return true
		}
	}
	return false
}

// holds is contains below the root.
func (n *jsonNode) holds(m *jsonNode) bool {
	return n.kind == m.kind && (n.kind >= jsonArray && n.contains(m) || n.kind < jsonArray && n.compare(m) == 0)
}
