package expr

import (
	"bytes"
	"strconv"
)

func init() {
	l := kind(kList)
	register(
		function{name: "cardinality", args: []kind{l}, ret: kInt32, kernel: lengthKernel(true)},
		function{name: "array_length", args: []kind{l, kInt32}, ret: kInt32, kernel: lengthKernel(false)},
		function{name: "array_upper", args: []kind{l, kInt32}, ret: kInt32, kernel: lengthKernel(false)},
		function{name: "array_lower", args: []kind{l, kInt32}, ret: kInt32, kernel: func(c *call, out *vec, a []*vec) {
			lengthKernel(false)(c, out, a)
			for i := range of[int32](out) {
				of[int32](out)[i] = 1
			}
		}},
		function{name: "array_ndims", args: []kind{l}, ret: kInt32, kernel: func(c *call, out *vec, a []*vec) {
			lengthKernel(true)(c, out, a)
			for i, n := range of[int32](out) {
				of[int32](out)[i] = 1
				if n == 0 {
					out.needValid(c.n).clear(i)
				}
			}
		}},
		function{name: "array_dims", args: []kind{l}, ret: kString, kernel: arrayDims},
		function{name: "array_to_string", args: []kind{l, kString}, ret: kString, kernel: arrayToString},
		function{name: "array_to_string", args: []kind{l, kString, kString}, ret: kString, loose: true, kernel: arrayToString},
		function{name: "string_to_array", args: []kind{kString, kString}, result: textsType, loose: true, kernel: stringToArray},
		function{name: "string_to_array", args: []kind{kString, kString, kString}, result: textsType, loose: true, kernel: stringToArray},
		function{name: "trim_array", args: []kind{l, kInt32}, result: sameType, fails: true, kernel: trimArray},
	)
	specialForms["array_fill"] = (*binder).arrayFill
	for name, f := range map[string]listForm{
		"array_append": {"le", appendElement}, "array_prepend": {"el", appendElement}, "array_cat": {"ll", concatLists},
		"array_remove": {"le", removeElement}, "array_replace": {"lee", replaceElement},
		"array_position": {"le", firstPosition}, "array_positions": {"le", allPositions},
	} {
		specialForms[name] = func(b *binder, a *ast) (*node, error) { return b.listCall(a, f) }
	}
}

// arrayFill binds array_fill(value, array[n]).
func (b *binder) arrayFill(a *ast) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	if len(args) != 2 {
		return nil, errAt(a.pos, "array_fill takes a value and a list with the number of elements")
	}
	if args[0].unknown {
		return nil, errAt(args[0].pos, "array_fill: the type of the value is not known: add a cast")
	}
	if args[0].typ.k >= kList {
		return nil, errAt(args[0].pos, "lists of %s are not supported here", args[0].typ)
	}
	if args[1], err = b.convert(args[1], listOf(tInt32), implicitCast); err != nil {
		return nil, err
	}
	return b.add(&node{typ: listOf(args[0].typ), pos: a.pos, end: a.end, args: args, eval: evalCall, kernel: fillKernel, loose: true, fails: true})
}

// maxFill bounds a list that is made of a number.
const maxFill = 1 << 20

func fillKernel(c *call, out *vec, a []*vec) {
	l := newLists(out, c.node.typ.elem(), c.n)
	for i := range c.n {
		if !a[1].isNull(i) {
			from, to := a[1].span(i)
			switch {
			case to-from > 1:
				c.fail(i, badArgument, "lists have one dimension, and %d are asked for", to-from)
			case to > from && a[1].elem.isNull(from):
				c.fail(i, badArgument, "the number of elements is null")
			case to > from:
				n := int(of[int32](a[1].elem)[from])
				if n < 0 || n > maxFill {
					c.fail(i, badArgument, "expected a number of elements between 0 and %d, got %d", maxFill, n)
					break
				}
				for range n {
					l.add(a[0], i)
				}
			}
		} else if c.counts(i) {
			c.fail(i, badArgument, "the number of elements is null")
		}
		l.end()
	}
	l.done()
}

func textsType([]*node) (typ, error) { return tTexts, nil }

// listForm is a function over lists and elements of one type: sign tells which operand
// is which. A null operand is a value like others.
type listForm struct {
	sign   string
	kernel func(sign string) listKernel
}

type listKernel struct {
	result func(e typ) typ
	run    kernel
}

// listCall binds one: lists and elements get a common type.
func (b *binder) listCall(a *ast, f listForm) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	from := (*node)(nil)
	if a.text == "array_position" && len(args) == 3 {
		if from, err = b.convert(args[2], tInt32, implicitCast); err != nil {
			return nil, err
		}
		args = args[:2]
	}
	if len(args) != len(f.sign) {
		return nil, errAt(a.pos, "%s takes %d operands, there are %d", a.text, len(f.sign), len(args))
	}
	n, err := b.listNode(a, f, args, from)
	if err != nil {
		return nil, err
	}
	return b.add(n)
}

// listNode is listCall without folding, over bound operands; more goes last, as it is.
func (b *binder) listNode(a *ast, f listForm, args []*node, more *node) (*node, error) {
	var elems []*node
	known := false
	for i, x := range args {
		switch {
		case x.typ.k == kList:
			known = true
			elems = append(elems, &node{typ: x.typ.elem(), pos: x.pos, end: x.end})
		case f.sign[i] == 'l' && !x.unknown:
			return nil, errAt(x.pos, "%s: operand %d must be a list, this is %s", a.text, i+1, x.typ)
		case f.sign[i] == 'e':
			known = known || !x.unknown // a list of such elements
			elems = append(elems, &node{typ: x.typ, unknown: x.unknown, null: x.null, text: x.text, pos: x.pos, end: x.end, konst: x.konst})
		}
	}
	t := tString
	if known {
		var err error
		if t, err = b.commonType(a.text, elems); err != nil {
			return nil, err
		}
	}
	n := &node{pos: a.pos, end: a.end, eval: evalCall, loose: true}
	for i, x := range args {
		to := t
		if f.sign[i] == 'l' {
			to = listOf(t)
		}
		x, err := b.convert(x, to, implicitCast)
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, x)
	}
	if more != nil {
		n.args = append(n.args, more)
	}
	k := f.kernel(f.sign)
	n.typ, n.kernel = k.result(t), k.run
	return n, nil
}

func listResult(e typ) typ { return listOf(e) }

func appendElement(sign string) listKernel {
	return listKernel{listResult, func(c *call, out *vec, a []*vec) {
		l := newLists(out, c.node.typ.elem(), c.n)
		for i := range c.n {
			for k, s := range sign {
				switch {
				case s == 'e':
					l.add(a[k], i)
				case !a[k].isNull(i):
					l.addAll(a[k], i)
				}
			}
			l.end()
		}
		l.done()
	}}
}

// concatLists: a null list is none, two are null.
func concatLists(string) listKernel {
	return listKernel{listResult, func(c *call, out *vec, a []*vec) {
		l := newLists(out, c.node.typ.elem(), c.n)
		for i := range c.n {
			none := true
			for _, v := range a {
				if !v.isNull(i) {
					none = false
					l.addAll(v, i)
				}
			}
			if none {
				out.needValid(c.n).clear(i)
			}
			l.end()
		}
		l.done()
	}}
}

// eachList calls f for each list with where its elements lie; null ones are made null.
func eachList(c *call, out *vec, v *vec, f func(i, from, to int)) {
	for i := range c.n {
		from, to := 0, 0
		if v.isNull(i) {
			out.needValid(c.n).clear(i)
		} else {
			from, to = v.span(i)
		}
		f(i, from, to)
	}
}

func removeElement(string) listKernel {
	return listKernel{listResult, func(c *call, out *vec, a []*vec) {
		t := c.node.typ.elem()
		l := newLists(out, t, c.n)
		eachList(c, out, a[0], func(i, from, to int) {
			for k := from; k < to; k++ {
				if compareNulls(t, a[0].elem, k, a[1], i) != 0 {
					l.add(a[0].elem, k)
				}
			}
			l.end()
		})
		l.done()
	}}
}

func replaceElement(string) listKernel {
	return listKernel{listResult, func(c *call, out *vec, a []*vec) {
		t := c.node.typ.elem()
		l := newLists(out, t, c.n)
		eachList(c, out, a[0], func(i, from, to int) {
			for k := from; k < to; k++ {
				if compareNulls(t, a[0].elem, k, a[1], i) == 0 {
					l.add(a[2], i)
				} else {
					l.add(a[0].elem, k)
				}
			}
			l.end()
		})
		l.done()
	}}
}

func firstPosition(string) listKernel {
	return listKernel{func(typ) typ { return tInt32 }, func(c *call, out *vec, a []*vec) {
		t := c.node.args[0].typ.elem()
		r := grow[int32](out, c.n)
		clear(r)
		eachList(c, out, a[0], func(i, from, to int) {
			start := from
			if len(a) > 2 {
				if a[2].isNull(i) {
					c.fail(i, badArgument, "the first position is null")
				}
				start += max(0, int(of[int32](a[2])[i&a[2].mask()])-1)
			}
			for k := start; k < to; k++ {
				if compareNulls(t, a[0].elem, k, a[1], i) == 0 {
					r[i] = int32(k - from + 1)
					return
				}
			}
			out.needValid(c.n).clear(i)
		})
	}}
}

func allPositions(string) listKernel {
	return listKernel{func(typ) typ { return listOf(tInt32) }, func(c *call, out *vec, a []*vec) {
		t := c.node.args[0].typ.elem()
		l := newLists(out, tInt32, c.n)
		one := fixedConst(int32(0))
		eachList(c, out, a[0], func(i, from, to int) {
			for k := from; k < to; k++ {
				if compareNulls(t, a[0].elem, k, a[1], i) == 0 {
					of[int32](one)[0] = int32(k - from + 1)
					l.add(one, 0)
				}
			}
			l.end()
		})
		l.done()
	}}
}

func lengthKernel(empty bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		r := grow[int32](out, c.n)
		for i := range r {
			from, to := a[0].span(i)
			r[i] = int32(to - from)
			if !empty && (r[i] == 0 || of[int32](a[1])[i&a[1].mask()] != 1) {
				out.needValid(c.n).clear(i)
			}
		}
	}
}

func arrayDims(c *call, out *vec, a []*vec) {
	off, data := growText(out, c.n)
	for i := range c.n {
		from, to := a[0].span(i)
		switch {
		case !c.counts(i):
		case from == to:
			out.needValid(c.n).clear(i)
		default:
			data = strconv.AppendInt(append(data, "[1:"...), int64(to-from), 10)
			data = append(data, ']')
		}
		off[i+1] = int32(len(data))
	}
	setText(out, off, data)
}

// arrayToString joins the elements; a third operand stands for null ones.
func arrayToString(c *call, out *vec, a []*vec) {
	write := textOf(c.node.args[0].typ.elem(), a[0].elem)
	off, data := growText(out, c.n)
	for i := range c.n {
		switch {
		case a[0].isNull(i) || a[1].isNull(i):
			out.needValid(c.n).clear(i)
		default:
			sep := a[1].bytes(i & a[1].mask())
			from, to := a[0].span(i)
			first := true
			for k := from; k < to; k++ {
				null := a[0].elem.isNull(k)
				if null && (len(a) < 3 || a[2].isNull(i)) {
					continue
				}
				if !first {
					data = append(data, sep...)
				}
				first = false
				if null {
					data = append(data, a[2].bytes(i&a[2].mask())...)
				} else {
					data = write(data, k)
				}
			}
		}
		off[i+1] = int32(len(data))
	}
	setText(out, off, data)
}

// stringToArray splits; a null separator splits into characters.
func stringToArray(c *call, out *vec, a []*vec) {
	l := newLists(out, tString, c.n)
	add := func(i int, s []byte) {
		if len(a) > 2 && !a[2].isNull(i) && bytes.Equal(s, a[2].bytes(i&a[2].mask())) {
			l.null()
			return
		}
		l.text(s)
	}
	for i := range c.n {
		if a[0].isNull(i) {
			out.needValid(c.n).clear(i)
			l.end()
			continue
		}
		s := a[0].bytes(i & a[0].mask())
		switch {
		case len(s) == 0:
		case a[1].isNull(i):
			for len(s) > 0 {
				n := len(firstRunes(view(s), 1))
				add(i, s[:n])
				s = s[n:]
			}
		default:
			sep := a[1].bytes(i & a[1].mask())
			for len(sep) > 0 {
				k := bytes.Index(s, sep)
				if k < 0 {
					break
				}
				add(i, s[:k])
				s = s[k+len(sep):]
			}
			add(i, s)
		}
		l.end()
	}
	l.done()
}

func trimArray(c *call, out *vec, a []*vec) {
	l := newLists(out, c.node.typ.elem(), c.n)
	for i := range c.n {
		if c.counts(i) {
			from, to := a[0].span(i)
			n := int(of[int32](a[1])[i&a[1].mask()])
			if n < 0 || n > to-from {
				c.fail(i, badArgument, "expected a number of elements between 0 and %d, got %d", to-from, n)
				n = 0
			}
			for k := from; k < to-n; k++ {
				l.add(a[0].elem, k)
			}
		}
		l.end()
	}
	l.done()
}
