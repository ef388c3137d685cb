package expr

// logical binds and, or, not, is, between, in.
func (b *binder) logical(a *ast) (*node, error) {
	switch a.op {
	case opAnd, opOr:
		return b.junction(a)
	case opNot:
		x, err := b.condition(a.args[0], "not")
		if err != nil {
			return nil, err
		}
		return b.negate(a, x)
	case opIs:
		return b.is(a)
	case opDistinct:
		return b.distinct(a)
	case opBetween:
		return b.between(a)
	}
	return b.in(a)
}

// condition binds a part that must be boolean.
func (b *binder) condition(a *ast, where string) (*node, error) {
	x, err := b.bind(a)
	if err != nil {
		return nil, err
	}
	if !x.unknown && x.typ.k != kBool {
		return nil, errAt(a.pos, "%s needs a boolean, this is %s", where, x.typ)
	}
	return b.convert(x, tBool, implicitCast)
}

type evalFunc func(ev *Evaluator, n *node, sel bitset) *vec

func (b *binder) junction(a *ast) (*node, error) {
	var args []*node
	for _, p := range a.args {
		x, err := b.condition(p, a.text)
		if err != nil {
			return nil, err
		}
		args = append(args, x)
	}
	if a.op == opAnd {
		return b.both(a, args...)
	}
	return b.either(a, args...)
}

// both is args joined by and.
func (b *binder) both(a *ast, args ...*node) (*node, error) {
	return b.join(a, evalAnd, decided(args, true))
}

// either is args joined by or.
func (b *binder) either(a *ast, args ...*node) (*node, error) {
	return b.join(a, evalOr, decided(args, false))
}

func (b *binder) join(a *ast, eval evalFunc, args []*node) (*node, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	return b.add(&node{typ: tBool, pos: a.pos, end: a.end, args: args, eval: eval})
}

func (b *binder) negate(a *ast, x *node) (*node, error) {
	return b.add(&node{typ: tBool, pos: a.pos, end: a.end, args: []*node{x}, eval: evalCall, kernel: notKernel})
}

func (b *binder) is(a *ast) (*node, error) {
	n := &node{typ: tBool, pos: a.pos, end: a.end, eval: evalCall, loose: true}
	var x *node
	var err error
	switch a.text {
	case "null":
		if x, err = b.bind(a.args[0]); err == nil && x.unknown {
			x, err = b.convert(x, tString, implicitCast)
		}
		n.kernel = isNullKernel
		if a.not {
			n.kernel = isNotNullKernel
		}
	default:
		x, err = b.condition(a.args[0], "is "+a.text)
		n.kernel = isKernel(a.text, a.not)
	}
	if err != nil {
		return nil, err
	}
	n.args = []*node{x}
	return b.add(n)
}

func (b *binder) distinct(a *ast) (*node, error) {
	l, err := b.bind(a.args[0])
	if err != nil {
		return nil, err
	}
	r, err := b.bind(a.args[1])
	if err != nil {
		return nil, err
	}
	eq, err := b.comparison(a, "=", l, r)
	if err != nil {
		return nil, err
	}
	l, r = eq.args[0], eq.args[1]
	n := &node{typ: tBool, pos: a.pos, end: a.end, args: []*node{l, r}, eval: evalCall, loose: true}
	n.kernel = distinctKernel(eq.kernel, a.not)
	return b.add(n)
}

// comparison is apply without folding, for forms that run the kernel of a
// comparison themselves.
func (b *binder) comparison(a *ast, op string, l, r *node) (*node, error) {
	if n, err := b.listOperator(a, op, []*node{l, r}); n != nil || err != nil {
		return n, err
	}
	args := []*node{l, r}
	charLiterals(op, args)
	f, err := resolve(op, args)
	if f == nil {
		return nil, noFunction(a.pos, op, args, err)
	}
	n := &node{typ: tBool, pos: a.pos, end: a.end, kernel: f.kernel}
	for i, x := range args {
		to := typ{k: f.as[i]}
		if to.k == kDecimal {
			to.p = free
		}
		if x, err = b.convert(x, to, implicitCast); err != nil {
			return nil, err
		}
		n.args = append(n.args, x)
	}
	return n, nil
}

func (b *binder) between(a *ast) (*node, error) {
	var x [3]*node
	for i, p := range a.args {
		n, err := b.bind(p)
		if err != nil {
			return nil, err
		}
		x[i] = n
	}
	var wraps [3]func(*node) (*node, error)
	for i := range x {
		wraps[i] = func(n *node) (*node, error) { return n, nil }
		// Without symmetric a bound stands once, and the upper one is not looked
		// at where the lower one decides.
		if i == 0 || a.text == "symmetric" {
			x[i], wraps[i] = b.share(x[i])
		}
	}
	pair := func(lo, hi *node) (*node, error) {
		l, err := b.apply(a, ">=", []*node{x[0], lo})
		if err != nil {
			return nil, err
		}
		h, err := b.apply(a, "<=", []*node{x[0], hi})
		if err != nil {
			return nil, err
		}
		return b.both(a, l, h)
	}
	n, err := pair(x[1], x[2])
	if err == nil && a.text == "symmetric" {
		var m *node
		if m, err = pair(x[2], x[1]); err == nil {
			n, err = b.either(a, n, m)
		}
	}
	if err == nil && a.not {
		n, err = b.negate(a, n)
	}
	for _, wrap := range wraps {
		if err != nil {
			return nil, err
		}
		n, err = wrap(n)
	}
	return n, err
}

func (b *binder) in(a *ast) (*node, error) {
	var args []*node
	for _, p := range a.args {
		n, err := b.bind(p)
		if err != nil {
			return nil, err
		}
		args = append(args, n)
	}
	// Without a common type each is compared by itself, as PostgreSQL does.
	same, _, mismatch := b.unify("in", args)
	if mismatch == nil {
		args = same
	}
	ref, wrap := b.share(args[0])
	var tests []*node
	for _, v := range args[1:] {
		eq, err := b.apply(a, "=", []*node{ref, v})
		if err != nil {
			if mismatch != nil {
				err = mismatch
			}
			return nil, err
		}
		tests = append(tests, eq)
	}
	n, err := b.either(a, tests...)
	if err != nil {
		return nil, err
	}
	if a.not {
		if n, err = b.negate(a, n); err != nil {
			return nil, err
		}
	}
	return wrap(n)
}

func evalAnd(ev *Evaluator, n *node, sel bitset) *vec { return junction(ev, n, sel, ^uint64(0)) }

func evalOr(ev *Evaluator, n *node, sel bitset) *vec { return junction(ev, n, sel, 0) }

// junction computes and (neutral all ones) or or (neutral all zeros) over
// three-valued operands. A row that is decided (false for and, true for or) is
// masked for the operands to come, so that those do not fail it.
func junction(ev *Evaluator, n *node, sel bitset, neutral uint64) *vec {
	s := &ev.slots[n.slot]
	out := &s.out
	out.n, out.konst = ev.n, false
	w := words(ev.n)
	// undecided: not decided yet; known: no null met so far.
	undecided, known := s.m1.sized(ev.n), s.m2.sized(ev.n)
	s.m1, s.m2 = undecided, known
	undecided.fill(^uint64(0))
	known.fill(^uint64(0))
	nulls := false
	for i, a := range n.args {
		mask := sel
		if i > 0 && a.fails {
			mask = s.m3.sized(ev.n)
			s.m3 = mask
			copy(mask, undecided)
			if sel != nil {
				for j := range mask {
					mask[j] &= sel[j]
				}
			}
		}
		v := a.eval(ev, a, mask)
		nulls = nulls || v.nulls
		for j := range w {
			bits, valid := ^uint64(0), ^uint64(0)
			if v.konst {
				bits = -(v.bits[0] & 1)
				if v.nulls {
					valid = -(v.valid[0] & 1)
				}
			} else {
				bits = v.bits[j]
				if v.nulls {
					valid = v.valid[j]
				}
			}
			// Decided where the value is known and not the neutral one.
			undecided[j] &^= valid & (bits ^ neutral)
			known[j] &= valid
		}
	}
	b := growBits(out, ev.n)
	for j := range w {
		b[j] = neutral ^ ^undecided[j]
	}
	out.nulls = nulls
	if nulls {
		out.valid = out.valid.sized(ev.n)
		for j := range w {
			out.valid[j] = known[j] | ^undecided[j]
		}
	}
	return out
}

func notKernel(c *call, out *vec, a []*vec) {
	b := growBits(out, c.n)
	if a[0].konst {
		b.fill(^-(a[0].bits[0] & 1))
		return
	}
	for i := range b {
		b[i] = ^a[0].bits[i]
	}
}

// validWords returns the validity of v word by word.
func (v *vec) validWord(i int) uint64 {
	switch {
	case !v.nulls:
		return ^uint64(0)
	case v.konst:
		return -(v.valid[0] & 1)
	}
	return v.valid[i]
}

func (v *vec) bitWord(i int) uint64 {
	if v.konst {
		return -(v.bits[0] & 1)
	}
	return v.bits[i]
}

func isNullKernel(c *call, out *vec, a []*vec) {
	b := growBits(out, c.n)
	for i := range b {
		b[i] = ^a[0].validWord(i)
	}
}

func isNotNullKernel(c *call, out *vec, a []*vec) {
	b := growBits(out, c.n)
	for i := range b {
		b[i] = a[0].validWord(i)
	}
}

// isKernel tests for true, false and unknown.
func isKernel(what string, not bool) kernel {
	var flip, value uint64
	if not {
		flip = ^uint64(0)
	}
	if what == "false" {
		value = ^uint64(0)
	}
	return func(c *call, out *vec, a []*vec) {
		b := growBits(out, c.n)
		for i := range b {
			valid := a[0].validWord(i)
			if what == "unknown" {
				b[i] = ^valid ^ flip
				continue
			}
			b[i] = (valid & (a[0].bitWord(i) ^ value)) ^ flip
		}
	}
}

// distinctKernel compares with eq, a null being a value equal to itself.
func distinctKernel(eq kernel, not bool) kernel {
	var flip uint64
	if not {
		flip = ^uint64(0)
	}
	return func(c *call, out *vec, a []*vec) {
		eq(c, out, a)
		b := out.bits
		for i := range b {
			l, r := a[0].validWord(i), a[1].validWord(i)
			same := l&r&b[i] | ^l&^r
			b[i] = ^same ^ flip
		}
	}
}
