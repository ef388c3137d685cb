package expr

import "slices"

// any binds x operator any(list) and x operator all(list).
func (b *binder) any(a *ast) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	x, l := args[0], args[1]
	word := "any"
	if a.all {
		word = "all"
	}
	if l.unknown {
		t := x.typ
		if x.unknown {
			t = tString
		}
		if l, err = b.convert(l, listOf(t), implicitCast); err != nil {
			return nil, err
		}
	}
	if l.typ.k != kList {
		return nil, errAt(l.pos, "%s needs a list on its right side, this is %s", word, l.typ)
	}
	if l.konst != nil {
		return b.anyOf(a, x, l)
	}
	// The operator between x and an element, as the rows of all elements see it.
	e := &node{typ: l.typ.elem(), pos: l.pos, end: l.end}
	f, err := resolve(a.text, []*node{x, e})
	if f == nil {
		return nil, noFunction(a.pos, a.text, []*node{x, e}, err)
	}
	if f.ret != kBool {
		return nil, errAt(a.pos, "%s needs an operator that is true or false", word)
	}
	as := func(i int) typ {
		if f.as[i] == kDecimal {
			return tDecimal
		}
		return typ{k: f.as[i]}
	}
	if x, err = b.convert(x, as(0), implicitCast); err != nil {
		return nil, err
	}
	if e.typ.k != as(1).k {
		if l, err = b.convert(l, listOf(as(1)), implicitCast); err != nil {
			return nil, err
		}
	}
	n := &node{typ: tBool, pos: a.pos, end: a.end, args: []*node{x, l}, eval: evalCall, loose: true}
	pair := &node{typ: tBool, pos: a.pos, end: a.end, args: []*node{x, {typ: l.typ.elem()}}}
	n.kernel = anyKernel(f.kernel, pair, a.all)
	return b.add(n)
}

// anyOf spells a constant list out.
func (b *binder) anyOf(a *ast, x, l *node) (*node, error) {
	at := &node{pos: a.pos, end: a.end}
	v := l.konst
	if v.constNull() {
		return b.literal(&node{pos: a.pos, end: a.end, unknown: true, null: true}, tBool)
	}
	from, to := v.span(0)
	if from == to {
		return b.constant(at, tBool, boolConst(a.all)), nil
	}
	ref, wrap := b.share(x)
	var tests []*node
	for i := from; i < to; i++ {
		out := &vec{n: 1, konst: true}
		gather(&call{n: 1, out: out}, out, l.typ.elem(), v.elem, func(int) int { return i })
		t, err := b.apply(a, a.text, []*node{ref, b.constant(l, l.typ.elem(), out)})
		if err != nil {
			return nil, err
		}
		if t.typ.k != kBool {
			return nil, errAt(a.pos, "any and all need an operator that is true or false")
		}
		tests = append(tests, t)
	}
	n := tests[0]
	if len(tests) > 1 {
		join := b.either
		if a.all {
			join = b.both
		}
		var err error
		if n, err = join(a, tests...); err != nil {
			return nil, err
		}
	}
	return wrap(n)
}

// pairs is the memory of an any: both sides of all comparisons.
type pairs struct {
	rows, elems []int32
	l, r, out   vec
	// bad are comparisons that failed: that counts where none before has decided.
	bad  []RowError
	slot slot
}

func anyKernel(kn kernel, pair *node, all bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		p, ok := c.slot.cache.(*pairs)
		if !ok {
			p = &pairs{}
			c.slot.cache = p
		}
		p.rows, p.elems = p.rows[:0], p.elems[:0]
		for i := range c.n {
			if a[1].isNull(i) || !c.counts(i) {
				continue
			}
			from, to := a[1].span(i)
			for k := from; k < to; k++ {
				p.rows, p.elems = append(p.rows, int32(i)), append(p.elems, int32(k))
			}
		}
		n := len(p.rows)
		p.bad = p.bad[:0]
		in := &call{n: n, node: pair, out: &p.out, ev: c.ev, slot: &p.slot, pairs: p}
		pick := func(dst, v *vec, t typ, at []int32) {
			dst.n, dst.konst, dst.nulls = n, false, false
			m := v.mask()
			gather(&call{n: n, out: dst}, dst, t, v, func(j int) int { return int(at[j]) & m })
		}
		pick(&p.l, a[0], pair.args[0].typ, p.rows)
		pick(&p.r, a[1].elem, pair.args[1].typ, p.elems)
		p.out.n, p.out.konst, p.out.nulls = n, false, false
		p.out.andValid(&p.l)
		p.out.andValid(&p.r)
		kn(in, &p.out, []*vec{&p.l, &p.r})
		reduceAny(c, out, a[1], p, all)
	}
}

// reduceAny joins the comparisons of each row by or, for all by and.
func reduceAny(c *call, out, lists *vec, p *pairs, all bool) {
	b := growBits(out, c.n)
	b.fill(0)
	valid := out.needValid(c.n)
	valid.fill(^uint64(0))
	for i := range c.n {
		if lists.isNull(i) {
			valid.clear(i)
		} else if all {
			b.set(i)
		}
	}
	decided := c.slot.m1.sized(c.n)
	c.slot.m1 = decided
	decided.fill(0)
	slices.SortStableFunc(p.bad, func(x, y RowError) int { return x.Row - y.Row })
	bad := p.bad
	for j, row := range p.rows {
		i := int(row)
		failed := (*RowError)(nil)
		for ; len(bad) > 0 && bad[0].Row <= j; bad = bad[1:] {
			if failed == nil {
				failed = &bad[0]
			}
		}
		switch {
		case decided.get(i):
		case failed != nil:
			decided.set(i)
			valid.set(i)
			c.failBad(i, &failed.Bad)
		case p.out.isNull(j):
			valid.clear(i)
		case p.out.bits.get(j) != all:
			decided.set(i)
			valid.set(i)
			if all {
				b.clear(i)
			} else {
				b.set(i)
			}
		}
	}
}

// anyWord reads any, some or all and its list behind an operator; nil if there is none.
func (p *parser) anyWord(pos int, op string, a *ast) (*ast, error) {
	if t := p.peekAt(1); t.kind != tokOp || t.text != "(" || !p.isWord(0, "any") && !p.isWord(0, "some") && !p.isWord(0, "all") {
		return nil, nil
	}
	all := p.isWord(0, "all")
	p.i += 2
	l, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	n := p.node(opAny, pos, op, a, l)
	n.all = all
	return n, nil
}
