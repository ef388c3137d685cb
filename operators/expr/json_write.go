package expr

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

func init() {
	j, s := kJSON, kString
	edit := func(name string, args []kind, f func(e *jsonEdit, n *jsonNode, a []*vec, i int) (*jsonNode, string)) {
		register(function{name: name, args: args, ret: j, fails: true, kernel: jsonEditKernel(f)})
	}
	edit("||", []kind{j, j}, (*jsonEdit).concat)
	edit("-", []kind{j, s}, (*jsonEdit).without)
	edit("-", []kind{j, kInt32}, (*jsonEdit).withoutIndex)
	edit("-", []kind{j, kTexts}, (*jsonEdit).withoutAll)
	edit("#-", []kind{j, kTexts}, (*jsonEdit).withoutPath)
	edit("jsonb_set", []kind{j, kTexts, j}, (*jsonEdit).set)
	edit("jsonb_set", []kind{j, kTexts, j, kBool}, (*jsonEdit).set)
	edit("jsonb_insert", []kind{j, kTexts, j}, (*jsonEdit).insert)
	edit("jsonb_insert", []kind{j, kTexts, j, kBool}, (*jsonEdit).insert)
	edit("jsonb_strip_nulls", []kind{j}, (*jsonEdit).strip)
	edit("json_strip_nulls", []kind{j}, (*jsonEdit).strip)
	register(function{name: "jsonb_pretty", args: []kind{j}, ret: s, kernel: func(c *call, out *vec, a []*vec) {
		t := c.json()
		eachValue(c, out, func(dst []byte, i int) []byte {
			t.reset()
			return t.parse(a[0].bytes(i&a[0].mask())).pretty(dst, 0)
		})
	}})
	for name, within := range map[string]bool{"@>": false, "<@": true} {
		register(function{name: name, args: []kind{j, j}, ret: kBool, kernel: jsonContains(within)})
	}
}

func jsonContains(within bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		t := c.json()
		eachWord(growBits(out, c.n), c.n, func(i int) bool {
			if !c.counts(i) {
				return false
			}
			t.reset()
			n, m := t.parse(a[0].bytes(i&a[0].mask())), t.parse(a[1].bytes(i&a[1].mask()))
			if within {
				n, m = m, n
			}
			return n.contains(m)
		})
	}
}

// jsonEdit makes new documents of old ones. What it returns beside a node is why the row
// is bad.
type jsonEdit struct {
	t     *jsonTree
	steps [][]byte
	// reason of what is bad.
	reason string
}

func jsonEditKernel(f func(e *jsonEdit, n *jsonNode, a []*vec, i int) (*jsonNode, string)) kernel {
	return func(c *call, out *vec, a []*vec) {
		e := &jsonEdit{t: c.json(), reason: badArgument}
		eachValue(c, out, func(dst []byte, i int) []byte {
			e.t.reset()
			n, bad := f(e, e.t.parse(a[0].bytes(i&a[0].mask())), a, i)
			if bad != "" {
				c.fail(i, e.reason, "%s", bad)
				e.reason = badArgument
				return dst
			}
			return n.write(dst)
		})
	}
}

func (e *jsonEdit) doc(a []*vec, k, i int) *jsonNode { return e.t.parse(a[k].bytes(i & a[k].mask())) }

func (e *jsonEdit) concat(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	m := e.doc(a, 1, i)
	if n.kind == jsonObject && m.kind == jsonObject {
		out := e.t.copyOf(n)
		for k, v := range m.kids {
			out.set(m.keys[k], v)
		}
		return out, ""
	}
	out := e.t.node(jsonArray)
	for _, x := range []*jsonNode{n, m} {
		if x.kind == jsonArray {
			out.kids = append(out.kids, x.kids...)
		} else {
			out.kids = append(out.kids, x)
		}
	}
	return out, ""
}

const noScalar = "a json value that is no object and no array has nothing to delete"

func (e *jsonEdit) without(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	if n.kind < jsonArray {
		return nil, noScalar
	}
	out := e.t.copyOf(n)
	out.drop(a[1].bytes(i & a[1].mask()))
	return out, ""
}

// drop removes the member of a name, or the strings that are equal to it.
func (n *jsonNode) drop(key []byte) {
	if n.kind == jsonObject {
		if k, ok := n.find(key); ok {
			n.remove(k)
		}
		return
	}
	n.kids = slices.DeleteFunc(n.kids, func(k *jsonNode) bool { return k.kind == jsonText && bytes.Equal(k.text, key) })
}

func (e *jsonEdit) withoutAll(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	if n.kind < jsonArray {
		return nil, noScalar
	}
	out := e.t.copyOf(n)
	from, to := a[1].span(i)
	for k := from; k < to; k++ {
		if !a[1].elem.isNull(k) {
			out.drop(a[1].elem.bytes(k))
		}
	}
	return out, ""
}

func (e *jsonEdit) withoutIndex(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	switch {
	case n.kind < jsonArray:
		return nil, noScalar
	case n.kind == jsonObject:
		return nil, "a member of an object is deleted by its name, not by a number"
	}
	out := e.t.copyOf(n)
	if k, ok := place(int64(of[int32](a[1])[i&a[1].mask()]), len(n.kids)); ok {
		out.remove(k)
	}
	return out, ""
}

// place turns the number of an element, negative from the end, into an index.
func place(k int64, n int) (int, bool) {
	if k < 0 {
		k += int64(n)
	}
	return int(k), k >= 0 && k < int64(n)
}

// path reads a path's steps; ok is false if one is null.
func (e *jsonEdit) path(a *vec, i int) (steps [][]byte, nullAt int) {
	from, to := a.span(i)
	steps, nullAt = e.steps[:0], -1
	for k := from; k < to; k++ {
		if a.elem.isNull(k) && nullAt < 0 {
			nullAt = k - from
		}
		steps = append(steps, a.elem.bytes(k))
	}
	e.steps = steps
	return steps, nullAt
}

// pathMode is what is to be done at the end of a path.
type pathMode uint8

const (
	pathSet    pathMode = iota // replace what is there
	pathCreate                 // that, or add
	pathBefore                 // insert
	pathAfter
	pathDelete
)

func (e *jsonEdit) set(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	mode := pathCreate
	if len(a) > 3 && !a[3].bits.get(i&a[3].mask()) {
		mode = pathSet
	}
	if n.kind < jsonArray {
		return nil, "nothing can be set in a json value that is no object and no array"
	}
	return e.along(n, a[1], i, e.doc(a, 2, i), mode)
}

func (e *jsonEdit) insert(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	mode := pathBefore
	if len(a) > 3 && a[3].bits.get(i&a[3].mask()) {
		mode = pathAfter
	}
	if n.kind < jsonArray {
		return nil, "nothing can be set in a json value that is no object and no array"
	}
	return e.along(n, a[1], i, e.doc(a, 2, i), mode)
}

func (e *jsonEdit) withoutPath(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	if n.kind < jsonArray {
		return nil, "a json value that is no object and no array has no path to delete"
	}
	return e.along(n, a[1], i, nil, pathDelete)
}

func (e *jsonEdit) along(n *jsonNode, path *vec, i int, v *jsonNode, mode pathMode) (*jsonNode, string) {
	steps, nullAt := e.path(path, i)
	if len(steps) == 0 || len(n.kids) == 0 && (mode == pathSet || mode == pathDelete) {
		return n, ""
	}
	return e.step(n, steps, 0, nullAt, v, mode)
}

func (e *jsonEdit) step(n *jsonNode, path [][]byte, at, nullAt int, v *jsonNode, mode pathMode) (*jsonNode, string) {
	if at == nullAt {
		return nil, "element " + strconv.Itoa(at+1) + " of the path is null"
	}
	if n.kind < jsonArray {
		return n, ""
	}
	last := at == len(path)-1
	out := e.t.copyOf(n)
	k, found := 0, false
	if n.kind == jsonObject {
		k, found = n.find(path[at])
	} else {
		x, ok := smallWhole(strings.TrimLeft(view(path[at]), " \t\n\v\f\r"))
		if !ok {
			e.reason = badCast
			return nil, "element " + strconv.Itoa(at+1) + " of the path is no whole number: " + strconv.Quote(string(path[at]))
		}
		if k, found = place(x, len(n.kids)); !found {
			if k = 0; x >= 0 {
				k = len(n.kids)
			}
		}
	}
	if !last {
		if found {
			kid, bad := e.step(n.kids[k], path, at+1, nullAt, v, mode)
			if bad != "" {
				return nil, bad
			}
			out.kids[k] = kid
		}
		return out, ""
	}
	switch {
	case mode == pathDelete:
		if found {
			out.remove(k)
		}
	case n.kind == jsonObject:
		switch {
		case found && mode >= pathBefore:
			return nil, "the object has a member " + strconv.Quote(string(path[at])) + " already: jsonb_set replaces it"
		case found || mode != pathSet:
			out.set(path[at], v)
		}
	case found && mode <= pathCreate:
		out.kids[k] = v
	case found && mode == pathAfter:
		out.kids = slices.Insert(out.kids, k+1, v)
	case found || mode != pathSet:
		out.kids = slices.Insert(out.kids, k, v)
	}
	return out, ""
}

func (e *jsonEdit) strip(n *jsonNode, a []*vec, i int) (*jsonNode, string) {
	out := e.t.copyOf(n)
	out.keys, out.kids = out.keys[:0], out.kids[:0]
	for k, v := range n.kids {
		if n.kind == jsonObject {
			if v.kind == jsonNull {
				continue
			}
			out.keys = append(out.keys, n.keys[k])
		}
		v, _ = e.strip(v, a, i)
		out.kids = append(out.kids, v)
	}
	return out, ""
}
