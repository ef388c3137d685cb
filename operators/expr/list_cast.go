package expr

import "frazil/dataflow"

// listLiteral reads a constant text as a list of type t.
func (b *binder) listLiteral(n *node, t typ) (*node, error) {
	texts, bad := parseList(n.text)
	if bad != nil {
		return nil, errAt(n.pos, "%s", bad.Detail)
	}
	var elems []*node
	for _, s := range texts {
		e := &node{typ: tUnknown, pos: n.pos, end: n.end, unknown: true, null: s == nil}
		if s != nil {
			e.text = *s
		}
		elems = append(elems, e)
	}
	if t.e == kDecimal && t.p == free { // one type for all of them
		d := decimalType(1, 0)
		for _, e := range elems {
			if _, lt, bad := parseDecimal(trimSpace(e.text)); !e.null && bad == nil {
				d = commonDecimal(d, lt)
			}
		}
		t = listOf(d)
	}
	out := &vec{n: 1, konst: true}
	l := newLists(out, t.elem(), 1)
	for _, e := range elems {
		x, err := b.convert(e, t.elem(), implicitCast)
		if err != nil {
			return nil, err
		}
		l.add(x.konst, 0)
	}
	l.end()
	l.done()
	return b.constant(n, t, out), nil
}

// convertList casts the elements, or the text of a list.
func (b *binder) convertList(n *node, to typ, context castContext) (*node, error) {
	if to.e == kDecimal && to.p == free && n.typ.k == kList {
		to = listOf(n.typ.elem().asDecimal())
	}
	if n.typ.k != kList {
		if n.typ.k != kString || context == implicitCast {
			return nil, errAt(n.pos, "cannot convert %s to %s", n.typ, to)
		}
		return b.add(&node{typ: to, pos: n.pos, end: n.end, args: []*node{n}, eval: evalCall, kernel: castTextList(to), fails: true})
	}
	from := n.typ.elem()
	def, ok := casts[castKey{from.k, to.e}]
	if !ok || context == implicitCast && def.context != implicitCast {
		return nil, errAt(n.pos, "cannot convert %s to %s%s", n.typ, to, castHint(ok))
	}
	// The cast of an element, for kernels that ask for their types.
	el := &node{typ: to.elem(), pos: n.pos, end: n.end, args: []*node{{typ: from}}}
	return b.add(&node{typ: to, pos: n.pos, end: n.end, args: []*node{n}, eval: evalCall, kernel: castElements(def.kernel, el), fails: def.fails})
}

// castElements runs the cast of an element over all elements.
func castElements(kn kernel, el *node) kernel {
	return func(c *call, out *vec, a []*vec) {
		x := a[0]
		if out.ownElem == nil {
			out.ownElem = &vec{}
		}
		e := out.ownElem
		e.n, e.konst, e.nulls = x.elem.n, false, false
		e.andValid(x.elem)
		kn(&call{n: x.elem.n, node: el, out: e, ev: c.ev, slot: c.slot, outer: c, lists: x}, e, []*vec{x.elem})
		// A copy: a part that stands in several places may get other offsets later.
		out.ownOff = append(out.ownOff[:0], x.off...)
		out.off, out.elem, out.konst = out.ownOff, e, x.konst
	}
}

func castTextList(t typ) kernel {
	return func(c *call, out *vec, a []*vec) {
		m := a[0].mask()
		l := newLists(out, t.elem(), c.n)
		parse := elementReader(c, t.elem())
		var p listText
		add := func(text string, null bool) *dataflow.Bad {
			if null {
				l.null()
				return nil
			}
			return parse(l, text)
		}
		for i := range c.n {
			if c.counts(i) {
				s := a[0].text(i & m)
				bad := p.read(s, nil) // what is no list has no element that is bad
				if bad == nil {
					bad = p.read(s, add)
				}
				if bad != nil {
					c.failBad(i, bad)
				}
			}
			l.end()
		}
		l.done()
	}
}

// elementReader reads texts as elements, one at a time through the cast of a column.
func elementReader(c *call, t typ) func(l *lists, s string) *dataflow.Bad {
	if t.k == kString && t.p == 0 {
		return func(l *lists, s string) *dataflow.Bad { l.part(s); return nil }
	}
	def := casts[castKey{kString, t.k}]
	el := &node{typ: t, args: []*node{{typ: tString}}}
	ev := &Evaluator{n: 1, src: c.ev.src}
	var out vec
	var s slot
	in := textConst("")
	one, args := call{n: 1, node: el, out: &out, ev: ev, slot: &s}, []*vec{in}
	return func(l *lists, text string) *dataflow.Bad {
		ev.reset()
		in.raw, in.off[1] = append(in.raw[:0], text...), int32(len(text))
		out.n, out.konst, out.nulls = 1, false, false
		def.kernel(&one, &out, args)
		if len(ev.errs) > 0 {
			return &ev.errs[0].Bad
		}
		l.add(&out, 0)
		return nil
	}
}
