package expr

// Rows of values, (a, b) or row(a, b), are no values: what is asked of them is spelled out
// over their parts.

// rowOf reads what follows the first value in parentheses.
func (p *parser) rowOf(pos int, first *ast) (*ast, error) {
	args := []*ast{first}
	for p.op(",") {
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		args = append(args, x)
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	return p.node(opRow, pos, "", args...), nil
}

// spellRow rewrites a question of rows; nil if a is none.
func spellRow(a *ast) (*ast, error) {
	if len(a.args) == 0 || a.args[0].op != opRow {
		return nil, nil
	}
	l := a.args[0]
	at := func(op astOp, text string, args ...*ast) *ast {
		return &ast{op: op, pos: a.pos, end: a.end, text: text, args: args}
	}
	pairs := func(r *ast, op astOp, text string, not bool) ([]*ast, error) {
		if r.op != opRow || len(r.args) != len(l.args) {
			return nil, errAt(r.pos, "a row of %d values is compared with a row of as many", len(l.args))
		}
		var out []*ast
		for i, x := range l.args {
			n := at(op, text, x, r.args[i])
			n.not = not
			out = append(out, n)
		}
		return out, nil
	}
	negated := func(n *ast, not bool) *ast {
		if not {
			return at(opNot, "not", n)
		}
		return n
	}
	switch a.op {
	case opIs:
		if a.text != "null" {
			return nil, nil
		}
		var all []*ast
		for _, x := range l.args {
			n := at(opIs, a.text, x)
			n.not = a.not
			all = append(all, n)
		}
		return at(opAnd, "and", all...), nil
	case opDistinct:
		all, err := pairs(a.args[1], opDistinct, "", a.not)
		if err != nil || !a.not {
			return at(opOr, "or", all...), err
		}
		return at(opAnd, "and", all...), nil
	case opIn:
		var tests []*ast
		for _, r := range a.args[1:] {
			all, err := pairs(r, opBinary, "=", false)
			if err != nil {
				return nil, err
			}
			tests = append(tests, at(opAnd, "and", all...))
		}
		return negated(at(opOr, "or", tests...), a.not), nil
	case opBinary:
		if !comparisons[a.text] {
			return nil, nil
		}
		eq, err := pairs(a.args[1], opBinary, "=", false)
		if err != nil {
			return nil, err
		}
		if a.text == "=" || a.text == "<>" {
			return negated(at(opAnd, "and", eq...), a.text == "<>"), nil
		}
		strict, _ := pairs(a.args[1], opBinary, a.text[:1], false)
		last := len(eq) - 1
		out := at(opBinary, a.text, l.args[last], a.args[1].args[last])
		for i := last - 1; i >= 0; i-- {
			out = at(opOr, "or", strict[i], at(opAnd, "and", eq[i], out))
		}
		return out, nil
	}
	return nil, nil
}
