package expr

// What constants decide is decided before anything runs, as in PostgreSQL: what is
// then left out fails no row.

// isNull says whether n is the constant null.
func (n *node) isNull() bool { return n.konst != nil && n.konst.constNull() }

func anyNull(args []*node) bool {
	for _, a := range args {
		if a.isNull() {
			return true
		}
	}
	return false
}

// decided simplifies and (neutral true) and or (neutral false): without the neutral
// constants, and the other constant alone where it occurs.
func decided(args []*node, neutral bool) []*node {
	var out []*node
	for _, a := range args {
		switch {
		case a.konst == nil || a.isNull():
			out = append(out, a)
		case a.konst.bits.get(0) != neutral:
			return []*node{a}
		}
	}
	if len(out) == 0 {
		return args[:1]
	}
	return out
}

// branches leaves out the branches of a case that are never taken. A condition that is
// always true makes its result the last one.
func branches(conds, results []*node) ([]*node, []*node) {
	var cs, rs []*node
	for i, c := range conds {
		switch {
		case c.konst == nil:
			cs, rs = append(cs, c), append(rs, results[i])
		case !c.isNull() && c.konst.bits.get(0):
			return cs, append(rs, results[i])
		}
	}
	return cs, append(rs, results[len(conds)])
}

// candidates leaves out the operands of coalesce that are never the result.
func candidates(args []*node) []*node {
	var out []*node
	for _, a := range args {
		if a.isNull() {
			continue
		}
		out = append(out, a)
		if a.konst != nil {
			break
		}
	}
	if len(out) == 0 {
		return args[:1]
	}
	return out
}

// uses says whether part stands in n.
func (n *node) uses(part *node) bool {
	if n == part {
		return true
	}
	for _, a := range n.args {
		if a.uses(part) {
			return true
		}
	}
	return false
}
