package expr

import (
	"strconv"
	"strings"
)

func (p *parser) primary() (*ast, error) {
	t := p.take()
	switch t.kind {
	case tokNumber:
		return p.node(opNumber, t.pos, t.text), nil
	case tokString:
		text := t.text
		return p.node(opString, t.pos, text), nil
	case tokQuoted:
		if n := p.peek(); n.kind == tokOp && n.text == "(" {
			return p.call(t)
		}
		return p.node(opColumn, t.pos, t.text), nil
	case tokOp:
		if t.text != "(" {
			return nil, p.unexpected(t, "a value, a column or a function")
		}
		a, err := p.expr()
		if err != nil {
			return nil, err
		}
		if n := p.peek(); n.kind == tokOp && n.text == "," {
			return p.rowOf(t.pos, a)
		}
		if err := p.needOp(")"); err != nil {
			return nil, err
		}
		return a, nil
	case tokIdent:
		return p.identifier(t)
	}
	return nil, p.unexpected(t, "a value, a column or a function")
}

func (p *parser) identifier(t token) (*ast, error) {
	switch t.text {
	case "null":
		return p.node(opNull, t.pos, ""), nil
	case "true", "false":
		return p.node(opBool, t.pos, t.text), nil
	case "case":
		return p.caseExpr(t.pos)
	case "cast":
		return p.cast(t.pos)
	case "array":
		return p.array(t.pos)
	}
	if reserved[t.text] {
		return nil, errAt(t.pos, "expected a value, a column or a function, found the word %q: a column of that name must be quoted", t.text)
	}
	if typ, ok, err := p.typedLiteral(t); err != nil || ok {
		return typ, err
	}
	if n := p.peek(); n.kind == tokOp && n.text == "(" {
		return p.call(t)
	}
	switch t.text {
	case "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp":
		return nil, clockError(t.pos, t.text)
	}
	return p.node(opColumn, t.pos, t.text), nil
}

func clockError(pos int, name string) error {
	return errAt(pos, "%s reads the clock: expressions depend on the row alone; use the event time column", name)
}

// typedLiteral reads date '2024-01-01' and the like.
func (p *parser) typedLiteral(t token) (*ast, bool, error) {
	if _, ok := typeWords[t.text]; !ok && t.text != "double" && t.text != "list" {
		return nil, false, nil // a column or a function, mostly
	}
	start := p.i
	p.i--
	typ, err := p.typeName()
	if err != nil || p.peek().kind != tokString {
		p.i = start
		return nil, false, nil
	}
	if typ.char() && p.toks[p.i-1].text != ")" {
		typ.p = 0 // char 'ab' is not cut
	}
	s := p.take()
	if typ.k == kInterval && typ.p == 0 {
		if err := p.intervalFieldsOf(&typ); err != nil {
			return nil, false, err
		}
	}
	a := p.node(opTyped, t.pos, s.text)
	a.typ = typ
	return a, true, nil
}

func (p *parser) caseExpr(pos int) (*ast, error) {
	a := &ast{op: opCase, pos: pos}
	if !p.isWord(0, "when") {
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		a.operand = x
	}
	for p.word("when") {
		w, err := p.expr()
		if err != nil {
			return nil, err
		}
		if err := p.needWord("then"); err != nil {
			return nil, err
		}
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		a.args = append(a.args, w, x)
	}
	if len(a.args) == 0 {
		return nil, p.unexpected(p.peek(), "\"when\"")
	}
	if p.word("else") {
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		a.otherwise = x
	}
	if err := p.needWord("end"); err != nil {
		return nil, err
	}
	a.end = p.toks[p.i-1].end
	return a, nil
}

func (p *parser) cast(pos int) (*ast, error) {
	if err := p.needOp("("); err != nil {
		return nil, err
	}
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.needWord("as"); err != nil {
		return nil, err
	}
	t, err := p.typeName()
	if err != nil {
		return nil, err
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	a := p.node(opCast, pos, "", x)
	a.typ = t
	return a, nil
}

func (p *parser) call(name token) (*ast, error) {
	p.i++ // the parenthesis
	if name.kind == tokIdent {
		switch name.text {
		case "extract":
			return p.extract(name.pos)
		case "substring":
			return p.substring(name.pos)
		case "row":
			x, err := p.expr()
			if err != nil {
				return nil, err
			}
			return p.rowOf(name.pos, x)
		case "position":
			return p.position(name.pos)
		case "trim":
			return p.trim(name.pos)
		case "overlay":
			return p.overlay(name.pos)
		case "normalize":
			return p.normalize(name.pos)
		case "now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday",
			"current_time", "current_timestamp", "localtime", "localtimestamp":
			return nil, clockError(name.pos, name.text+"()")
		}
	}
	a := &ast{op: opCall, pos: name.pos, text: name.text}
	if p.op("*") {
		a.star = true
		if err := p.needOp(")"); err != nil {
			return nil, err
		}
	} else if !p.op(")") {
		a.distinct = p.word("distinct")
		if err := p.callArgs(a); err != nil {
			return nil, err
		}
	}
	if a.text == "age" && len(a.args) == 1 && name.kind == tokIdent {
		return nil, clockError(name.pos, "age with one operand")
	}
	if err := p.withinGroup(a); err != nil {
		return nil, err
	}
	if p.isWord(0, "filter") && p.peekAt(1).text == "(" {
		p.i += 2
		if err := p.needWord("where"); err != nil {
			return nil, err
		}
		f, err := p.expr()
		if err != nil {
			return nil, err
		}
		if err := p.needOp(")"); err != nil {
			return nil, err
		}
		a.filter = f
	}
	if p.isWord(0, "over") {
		return nil, errAt(p.peek().pos, "over (...) is not supported: use a window step")
	}
	a.end = p.toks[p.i-1].end
	return a, nil
}

// args reads a list up to its closing parenthesis.
func (p *parser) args() ([]*ast, error) {
	var out []*ast
	for {
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		out = append(out, x)
		if p.op(")") {
			return out, nil
		}
		if !p.op(",") {
			return nil, p.unexpected(p.peek(), "\",\" or \")\"")
		}
	}
}

func (p *parser) extract(pos int) (*ast, error) {
	t := p.take()
	if t.kind != tokIdent && t.kind != tokString && t.kind != tokQuoted {
		return nil, p.unexpected(t, "a field, as year, hour or epoch,")
	}
	field := p.node(opString, t.pos, strings.ToLower(t.text))
	if err := p.needWord("from"); err != nil {
		return nil, err
	}
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	return p.node(opCall, pos, "extract", field, x), nil
}

// substring reads substring(s from 2 for 3) and substring(s, 2, 3).
func (p *parser) substring(pos int) (*ast, error) {
	s, err := p.expr()
	if err != nil {
		return nil, err
	}
	var from, length *ast
	for {
		var part **ast
		switch {
		case from == nil && p.word("from"):
			part = &from
		case length == nil && p.word("for"):
			part = &length
		}
		if part == nil {
			break
		}
		if *part, err = p.expr(); err != nil {
			return nil, err
		}
	}
	args := []*ast{s}
	switch {
	case from == nil && length == nil && p.word("similar"):
		from, err = p.other()
		if err == nil {
			err = p.needWord("escape")
		}
		if err == nil {
			length, err = p.expr()
		}
		if err != nil {
			return nil, err
		}
		args = append(args, from, length)
	case from == nil && length == nil:
		for p.op(",") {
			x, err := p.expr()
			if err != nil {
				return nil, err
			}
			args = append(args, x)
		}
	case from == nil:
		args = append(args, p.node(opNumber, pos, "1"), length)
	case length == nil:
		args = append(args, from)
	default:
		args = append(args, from, length)
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	return p.node(opCall, pos, "substring", args...), nil
}

// position reads position(a in b), which is strpos(b, a).
func (p *parser) position(pos int) (*ast, error) {
	a, err := p.other()
	if err != nil {
		return nil, err
	}
	if err := p.needWord("in"); err != nil {
		return nil, err
	}
	b, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	return p.node(opCall, pos, "strpos", b, a), nil
}

// trim reads trim([both|leading|trailing] [chars] from s) and trim(s, chars).
func (p *parser) trim(pos int) (*ast, error) {
	name := "btrim"
	switch {
	case p.word("both"):
	case p.word("leading"):
		name = "ltrim"
	case p.word("trailing"):
		name = "rtrim"
	}
	if p.word("from") {
		args, err := p.args()
		if err != nil {
			return nil, err
		}
		return p.node(opCall, pos, name, args...), nil
	}
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	if p.word("from") {
		args, err := p.args()
		if err != nil {
			return nil, err
		}
		return p.node(opCall, pos, name, append(args, x)...), nil
	}
	args := []*ast{x}
	if p.op(",") {
		rest, err := p.args()
		if err != nil {
			return nil, err
		}
		return p.node(opCall, pos, name, append(args, rest...)...), nil
	}
	if err := p.needOp(")"); err != nil {
		return nil, err
	}
	return p.node(opCall, pos, name, args...), nil
}

// number reads an unsigned number in a type's parentheses.
func (p *parser) number() (int, error) {
	t := p.take()
	n, err := strconv.Atoi(t.text)
	if t.kind != tokNumber || err != nil {
		return 0, p.unexpected(t, "a whole number")
	}
	return n, nil
}
