package expr

// callArgs reads the arguments of a call and the order by behind them, up to
// the closing parenthesis.
func (p *parser) callArgs(a *ast) error {
	for {
		name := p.nameOf()
		x, err := p.expr()
		if err != nil {
			return err
		}
		a.args = append(a.args, x)
		if name != "" || a.names != nil {
			a.names = append(a.names, make([]string, len(a.args)-len(a.names))...)
			a.names[len(a.args)-1] = name
		}
		switch {
		case p.op(","):
			continue
		case p.op(")"):
			return nil
		case p.isWord(0, "order") && p.isWord(1, "by"):
			a.order, err = p.orderBy()
			return err
		}
		return p.unexpected(p.peek(), "\",\" or \")\"")
	}
}

// withinGroup reads "within group (order by x)" if it stands here.
func (p *parser) withinGroup(a *ast) error {
	if !p.isWord(0, "within") || !p.isWord(1, "group") {
		return nil
	}
	pos := p.peek().pos
	if a.distinct || len(a.order) > 0 {
		return errAt(pos, "%s takes its order from within group (...) alone", a.text)
	}
	p.i += 2
	if err := p.needOp("("); err != nil {
		return err
	}
	if !p.isWord(0, "order") {
		return p.unexpected(p.peek(), "\"order by\"")
	}
	var err error
	a.within = true
	a.order, err = p.orderBy()
	return err
}

// orderBy reads "order by" and its terms up to the closing parenthesis. As in
// PostgreSQL nulls are last in ascending order and first in descending order.
func (p *parser) orderBy() ([]orderAst, error) {
	p.i++
	if err := p.needWord("by"); err != nil {
		return nil, err
	}
	var out []orderAst
	for {
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		o := orderAst{by: x}
		if o.desc = p.word("desc"); !o.desc {
			p.word("asc")
		}
		o.nullsFirst = o.desc
		switch {
		case p.word("nulls", "first"):
			o.nullsFirst = true
		case p.word("nulls", "last"):
			o.nullsFirst = false
		}
		out = append(out, o)
		if p.op(")") {
			return out, nil
		}
		if !p.op(",") {
			return nil, p.unexpected(p.peek(), "\",\" or \")\"")
		}
	}
}

// orderSuffix writes the direction of a term, nothing for the usual one.
func orderSuffix(desc, nullsFirst bool) string {
	s := ""
	if desc {
		s = " desc"
	}
	switch {
	case nullsFirst && !desc:
		s += " nulls first"
	case !nullsFirst && desc:
		s += " nulls last"
	}
	return s
}
