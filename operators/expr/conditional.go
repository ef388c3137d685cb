package expr

import "slices"

// specialForms are written like functions, but choose among their operands.
var specialForms map[string]func(b *binder, a *ast) (*node, error)

func init() {
	specialForms = map[string]func(b *binder, a *ast) (*node, error){
		"coalesce": (*binder).coalesce,
		"nullif":   (*binder).nullif,
		"greatest": func(b *binder, a *ast) (*node, error) { return b.extreme(a, ">") },
		"least":    func(b *binder, a *ast) (*node, error) { return b.extreme(a, "<") },
	}
}

func (b *binder) bindAll(parts []*ast) ([]*node, error) {
	out := make([]*node, len(parts))
	for i, p := range parts {
		n, err := b.bind(p)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

// caseOf binds both forms of case. The operands of the node are condition,
// result, condition, result, ..., result.
func (b *binder) caseOf(a *ast) (*node, error) {
	var conds, results []*node
	var operand *node
	var err error
	wrap := func(n *node) (*node, error) { return n, nil }
	if a.operand != nil {
		if operand, err = b.bind(a.operand); err != nil {
			return nil, err
		}
		if operand.unknown {
			if operand, err = b.convert(operand, tString, implicitCast); err != nil {
				return nil, err
			}
		}
		operand, wrap = b.share(operand)
	}
	for i := 0; i < len(a.args); i += 2 {
		var c *node
		if operand == nil {
			c, err = b.condition(a.args[i], "when")
		} else {
			if c, err = b.bind(a.args[i]); err == nil {
				c, err = b.apply(a.args[i], "=", []*node{operand, c})
			}
		}
		if err != nil {
			return nil, err
		}
		r, err := b.bind(a.args[i+1])
		if err != nil {
			return nil, err
		}
		conds, results = append(conds, c), append(results, r)
	}
	last := &node{typ: tUnknown, pos: a.pos, end: a.end, unknown: true, null: true}
	if a.otherwise != nil {
		if last, err = b.bind(a.otherwise); err != nil {
			return nil, err
		}
	}
	results, t, err := b.unify("case", append(results, last))
	if err != nil {
		return nil, err
	}
	if conds, results = branches(conds, results); len(conds) == 0 {
		return results[0], nil
	}
	n := &node{typ: t, pos: a.pos, end: a.end, eval: evalCase}
	for i, c := range conds {
		n.args = append(n.args, c, results[i])
	}
	n.args = append(n.args, results[len(conds)])
	if n, err = b.add(n); err != nil {
		return nil, err
	}
	return wrap(n)
}

func (b *binder) coalesce(a *ast) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, errAt(a.pos, "coalesce needs at least one value")
	}
	args, t, err := b.unify("coalesce", args)
	if err != nil {
		return nil, err
	}
	if args = candidates(args); len(args) == 1 {
		return args[0], nil
	}
	return b.add(&node{typ: t, pos: a.pos, end: a.end, args: args, eval: evalCoalesce})
}

func (b *binder) nullif(a *ast) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	if len(args) != 2 {
		return nil, errAt(a.pos, "nullif needs two values")
	}
	first, wrap := args[0], func(n *node) (*node, error) { return n, nil }
	if !first.unknown {
		first, wrap = b.share(first)
	}
	eq, err := b.comparison(a, "=", first, args[1])
	if err != nil {
		return nil, err
	}
	// The result has the type of the first operand where PostgreSQL compares it as it
	// is, else the one that it has in the comparison.
	value := eq.args[0]
	if first.typ.comparedAsIs(args[1].typ) {
		value = first
	}
	if anyNull(eq.args) {
		return wrap(value)
	}
	eq.end, eq.eval = a.end, evalCall
	if eq, err = b.add(eq); err != nil {
		return nil, err
	}
	n := &node{typ: value.typ, pos: a.pos, end: a.end, args: []*node{value, eq}, eval: evalNullif}
	if n, err = b.add(n); err != nil {
		return nil, err
	}
	return wrap(n)
}

// comparedAsIs says whether PostgreSQL compares values of both types without
// converting one.
func (t typ) comparedAsIs(u typ) bool {
	for _, group := range [][]kind{{kInt16, kInt32, kInt64}, {kFloat32, kFloat64}, {kDate, kTimestamp, kTimestampTZ}} {
		if slices.Contains(group, t.k) && slices.Contains(group, u.k) {
			return true
		}
	}
	return false
}

// extreme binds greatest (op ">") and least (op "<").
func (b *binder) extreme(a *ast, op string) (*node, error) {
	args, err := b.bindAll(a.args)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return nil, errAt(a.pos, "%s needs at least one value", a.text)
	}
	args, t, err := b.unify(a.text, args)
	if err != nil {
		return nil, err
	}
	cmp, err := b.comparison(a, op, args[0], args[0])
	if err != nil {
		return nil, err
	}
	n := &node{typ: t, pos: a.pos, end: a.end, args: args, kernel: cmp.kernel, eval: evalExtreme, loose: true}
	return b.add(n)
}

func evalCase(ev *Evaluator, n *node, sel bitset) *vec {
	s := &ev.slots[n.slot]
	rest, taken := s.m1.sized(ev.n), s.m2.sized(ev.n)
	s.m1, s.m2 = rest, taken
	if sel == nil {
		rest.fill(^uint64(0))
	} else {
		copy(rest, sel)
	}
	choice := s.choices(ev.n)
	last := len(n.args) - 1
	s.args = s.args[:0]
	clear(choice)
	for i := 0; i < last; i += 2 {
		c := n.args[i].eval(ev, n.args[i], rest)
		for w := range rest {
			taken[w] = rest[w] & c.validWord(w) & c.bitWord(w)
			rest[w] &^= taken[w]
		}
		s.args = append(s.args, n.args[i+1].eval(ev, n.args[i+1], taken))
		mark(choice, taken, ev.n, uint16(i/2))
	}
	s.args = append(s.args, n.args[last].eval(ev, n.args[last], rest))
	mark(choice, rest, ev.n, uint16(last/2))
	return blend(ev, n, s)
}

func (s *slot) choices(n int) []uint16 {
	if cap(s.choice) < n {
		s.choice = make([]uint16, n+n/8)
	}
	s.choice = s.choice[:n]
	return s.choice
}

// mark sets choice to k where rows is set.
func mark(choice []uint16, rows bitset, n int, k uint16) {
	for w := range words(n) {
		m := rows[w] & tail(n, w)
		if m == 0 {
			continue
		}
		base := w << 6
		for i := range min(64, n-base) {
			if m>>uint(i)&1 != 0 {
				choice[base+i] = k
			}
		}
	}
}

func evalCoalesce(ev *Evaluator, n *node, sel bitset) *vec {
	s := &ev.slots[n.slot]
	rest, taken := s.m1.sized(ev.n), s.m2.sized(ev.n)
	s.m1, s.m2 = rest, taken
	if sel == nil {
		rest.fill(^uint64(0))
	} else {
		copy(rest, sel)
	}
	choice := s.choices(ev.n)
	clear(choice)
	s.args = s.args[:0]
	for i, a := range n.args {
		v := a.eval(ev, a, rest)
		s.args = append(s.args, v)
		if i == 0 && !v.nulls {
			return v
		}
		for w := range rest {
			taken[w] = rest[w]
			if i < len(n.args)-1 {
				taken[w] &= v.validWord(w)
			}
			rest[w] &^= taken[w]
		}
		mark(choice, taken, ev.n, uint16(i))
		if rest.none(ev.n) {
			break
		}
	}
	return blend(ev, n, s)
}

// evalNullif makes the first operand null where the second one is true.
func evalNullif(ev *Evaluator, n *node, sel bitset) *vec {
	s := &ev.slots[n.slot]
	value := n.args[0].eval(ev, n.args[0], sel)
	eq := n.args[1].eval(ev, n.args[1], sel)
	s.args = append(s.args[:0], value)
	clear(s.choices(ev.n))
	out := blend(ev, n, s)
	valid := out.needValid(ev.n)
	for w := range words(ev.n) {
		valid[w] &^= eq.bitWord(w) & eq.validWord(w)
	}
	return out
}

// evalExtreme keeps, row by row, the operand that beats the others. Nulls are
// left out.
func evalExtreme(ev *Evaluator, n *node, sel bitset) *vec {
	s := &ev.slots[n.slot]
	best := &s.tmp
	args := make([]*vec, len(n.args))
	for i, a := range n.args {
		args[i] = a.eval(ev, a, sel)
	}
	choice := s.choices(ev.n)
	var cmp vec
	cur := args[0]
	for i, v := range args[1:] {
		cmp.n, cmp.konst, cmp.nulls = ev.n, false, false
		c := call{n: ev.n, node: n, out: &cmp, sel: sel, ev: ev, slot: s}
		n.kernel(&c, &cmp, []*vec{v, cur})
		for row := range choice {
			switch {
			case cur.isNull(row), cmp.bits.get(row) && !v.isNull(row):
				choice[row] = 1
			default:
				choice[row] = 0
			}
		}
		s.args = append(s.args[:0], cur, v)
		// Two memories take turns, since blend reads what the last one wrote.
		out := &s.out
		if i%2 == 1 {
			out = best
		}
		cur = blendInto(ev, n, s, out)
	}
	return cur
}

// blend takes for each row the value of the operand that s.choice names.
func blend(ev *Evaluator, n *node, s *slot) *vec { return blendInto(ev, n, s, &s.out) }

func blendInto(ev *Evaluator, n *node, s *slot, out *vec) *vec {
	out.n, out.konst, out.nulls = ev.n, false, false
	nulls := false
	for _, a := range s.args {
		nulls = nulls || a.nulls
	}
	if nulls {
		valid := out.needValid(ev.n)
		valid.fill(0)
		for i, k := range s.choice {
			if !s.args[k].isNull(i) {
				valid.set(i)
			}
		}
	}
	switch t := n.typ; {
	case t.k == kBool:
		b := growBits(out, ev.n)
		b.fill(0)
		for i, k := range s.choice {
			a := s.args[k]
			if a.bits.get(i & a.mask()) {
				b.set(i)
			}
		}
	case t.width() == 4:
		blendFixed[int32](s, out)
	case t.width() == 8:
		blendFixed[int64](s, out)
	case t.width() == 16:
		blendFixed[dec](s, out)
	case t.k == kList:
		l := newLists(out, t.elem(), ev.n)
		for i, k := range s.choice {
			if !s.args[k].isNull(i) {
				l.addAll(s.args[k], i)
			}
			l.end()
		}
		l.done()
	default:
		off, data := growText(out, ev.n)
		for i, k := range s.choice {
			a := s.args[k]
			if !a.isNull(i) {
				data = append(data, a.text(i&a.mask())...)
			}
			off[i+1] = int32(len(data))
		}
		setText(out, off, data)
	}
	return out
}

func blendFixed[T fixed](s *slot, out *vec) {
	dst := grow[T](out, len(s.choice))
	var vals [8][]T
	var masks [8]int
	if len(s.args) > len(vals) {
		for i, k := range s.choice {
			a := s.args[k]
			dst[i] = of[T](a)[i&a.mask()]
		}
		return
	}
	for k, a := range s.args {
		vals[k], masks[k] = of[T](a), a.mask()
	}
	for i, k := range s.choice {
		dst[i] = vals[k&7][i&masks[k&7]]
	}
}
