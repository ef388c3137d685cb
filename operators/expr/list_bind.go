package expr

// arrayType reads the brackets behind the name of a type.
func (p *parser) arrayType(t typ) (typ, error) {
	n := 0
	for p.peek().kind == tokOp && p.peek().text == "[" {
		at := p.take()
		if p.peek().kind == tokNumber {
			p.i++ // PostgreSQL takes no notice of the size either
		}
		if err := p.needOp("]"); err != nil {
			return t, err
		}
		if n++; n > 1 {
			return t, errAt(at.pos, "lists of lists are not supported here")
		}
	}
	if n == 0 {
		return t, nil
	}
	return listOf(t), nil
}

// array reads array[a, b, ...].
func (p *parser) array(pos int) (*ast, error) {
	if err := p.needOp("["); err != nil {
		return nil, err
	}
	if p.op("]") {
		return p.node(opArray, pos, ""), nil
	}
	var args []*ast
	for {
		if p.peek().kind == tokOp && p.peek().text == "[" || p.isWord(0, "array") {
			return nil, errAt(p.peek().pos, "lists of lists are not supported here")
		}
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		args = append(args, x)
		if p.op("]") {
			return p.node(opArray, pos, "", args...), nil
		}
		if !p.op(",") {
			return nil, p.unexpected(p.peek(), "\",\" or \"]\"")
		}
	}
}

// subscript reads [i] or [from:to] behind a.
func (p *parser) subscript(pos int, a *ast) (*ast, error) {
	p.i++
	bound := func() (*ast, error) {
		if t := p.peek(); t.kind == tokOp && (t.text == ":" || t.text == "]") {
			return nil, nil
		}
		return p.expr()
	}
	lo, err := bound()
	if err != nil {
		return nil, err
	}
	if !p.op(":") {
		if lo == nil {
			return nil, p.unexpected(p.peek(), "the number of an element")
		}
		if err := p.needOp("]"); err != nil {
			return nil, err
		}
		return p.node(opSubscript, pos, "", a, lo), nil
	}
	hi, err := bound()
	if err != nil {
		return nil, err
	}
	if err := p.needOp("]"); err != nil {
		return nil, err
	}
	if lo == nil {
		lo = p.node(opNull, pos, "")
	}
	if hi == nil {
		hi = p.node(opNull, pos, "")
	}
	n := p.node(opSubscript, pos, ":", a, lo, hi)
	return n, nil
}

// arrayOf binds array[...].
func (b *binder) arrayOf(a *ast) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return &node{typ: tUnknown, pos: a.pos, end: a.end, unknown: true, text: "{}", emptyList: true}, nil
	}
	args, t, err := b.unify("array", args)
	if err != nil {
		return nil, err
	}
	if t.k >= kList {
		return nil, errAt(a.pos, "lists of %s are not supported here", t)
	}
	return b.add(&node{typ: listOf(t), pos: a.pos, end: a.end, args: args, eval: evalCall, kernel: arrayKernel, loose: true})
}

func arrayKernel(c *call, out *vec, a []*vec) {
	l := newLists(out, c.node.typ.elem(), c.n)
	for i := range c.n {
		for _, v := range a {
			l.add(v, i)
		}
		l.end()
	}
	l.done()
}

// element binds a[i] and a[i:j].
func (b *binder) element(a *ast) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	x := args[0]
	if x.typ.k == kJSON && a.text == "" {
		// PostgreSQL 14: a document's member or element.
		return b.apply(a, "->", args)
	}
	if x.typ.k != kList {
		return nil, errAt(a.pos, "%s is no list: it has no elements", x.typ)
	}
	n := &node{typ: x.typ.elem(), pos: a.pos, end: a.end, eval: evalElement, loose: true, kernel: elementKernel, args: []*node{x}}
	if a.text == ":" {
		n.typ, n.kernel = listOf(x.typ.elem()), sliceKernel(a.args[1].op == opNull && a.args[1].pos == a.pos, a.args[2].op == opNull && a.args[2].pos == a.pos)
	}
	for _, i := range args[1:] {
		if !i.unknown && i.typ.k != kInt16 && i.typ.k != kInt32 {
			if i.typ.k != kInt64 {
				return nil, errAt(i.pos, "the number of an element is an int32, this is %s", i.typ)
			}
			if i, err = b.convert(i, tInt32, explicitCast); err != nil {
				return nil, err
			}
		}
		if i, err = b.convert(i, tInt32, implicitCast); err != nil {
			return nil, err
		}
		n.args = append(n.args, i)
	}
	return b.add(n)
}

// evalElement is evalCall, but computes the numbers of elements only for rows with a
// list.
func evalElement(ev *Evaluator, n *node, sel bitset) *vec {
	s := &ev.slots[n.slot]
	list := n.args[0].eval(ev, n.args[0], sel)
	s.args = append(s.args[:0], list)
	mask := sel
	if list.nulls {
		mask = s.m1.sized(ev.n)
		s.m1 = mask
		for w := range mask {
			mask[w] = list.validWord(w)
			if sel != nil {
				mask[w] &= sel[w]
			}
		}
	}
	for _, a := range n.args[1:] {
		s.args = append(s.args, a.eval(ev, a, mask))
	}
	out := &s.out
	out.n, out.konst, out.nulls = ev.n, false, false
	c := call{n: ev.n, node: n, out: out, sel: sel, ev: ev, slot: s}
	n.kernel(&c, out, s.args)
	return out
}

// elementKernel takes one element; null where there is none.
func elementKernel(c *call, out *vec, a []*vec) {
	at := of[int32](a[1])
	gather(c, out, c.node.typ, a[0].elem, func(i int) int {
		if a[0].isNull(i) || a[1].isNull(i) {
			return -1
		}
		from, to := a[0].span(i)
		k := int(at[i&a[1].mask()])
		if k < 1 || k > to-from {
			return -1
		}
		return from + k - 1
	})
}

// gather takes for each row the value of v that pick names, null for -1.
func gather(c *call, out *vec, t typ, v *vec, pick func(i int) int) {
	valid := out.needValid(c.n)
	valid.fill(0)
	take := func(i int, copy func(k int)) {
		if k := pick(i); k >= 0 && !v.isNull(k) {
			valid.set(i)
			copy(k)
		}
	}
	switch w := t.width(); {
	case t.k == kBool:
		b := growBits(out, c.n)
		b.fill(0)
		for i := range c.n {
			take(i, func(k int) {
				if v.bits.get(k) {
					b.set(i)
				}
			})
		}
	case w > 0:
		grow[int8](out, c.n*w)
		clear(out.raw)
		for i := range c.n {
			take(i, func(k int) { copy(out.raw[i*w:(i+1)*w], v.raw[k*w:(k+1)*w]) })
		}
	default:
		off, data := growText(out, c.n)
		for i := range c.n {
			take(i, func(k int) { data = append(data, v.bytes(k)...) })
			off[i+1] = int32(len(data))
		}
		setText(out, off, data)
	}
}

// sliceKernel takes elements from one to another; open bounds are the list's.
func sliceKernel(openLo, openHi bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		lo, hi := of[int32](a[1]), of[int32](a[2])
		l := newLists(out, c.node.typ.elem(), c.n)
		valid := out.needValid(c.n)
		for i := range c.n {
			if a[0].isNull(i) || !openLo && a[1].isNull(i) || !openHi && a[2].isNull(i) {
				valid.clear(i)
				l.end()
				continue
			}
			from, to := a[0].span(i)
			first, last := 1, to-from
			if !openLo {
				first = max(first, int(lo[i&a[1].mask()]))
			}
			if !openHi {
				last = min(last, int(hi[i&a[2].mask()]))
			}
			for k := first; k <= last; k++ {
				l.add(a[0].elem, from+k-1)
			}
			l.end()
		}
		l.done()
	}
}
