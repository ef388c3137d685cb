package expr

import (
	"strings"
)

// reserved words are no names unless quoted.
var reserved = map[string]bool{
	"and": true, "or": true, "not": true, "is": true, "null": true, "true": true, "false": true,
	"case": true, "when": true, "then": true, "else": true, "end": true, "in": true, "between": true,
	"like": true, "ilike": true, "similar": true, "cast": true, "distinct": true, "from": true, "as": true,
	"for": true, "where": true, "select": true, "any": true, "all": true, "some": true, "array": true,
	"symmetric": true, "isnull": true, "notnull": true,
}

const (
	maxDepth  = 200
	maxSource = 64 << 10
)

type parser struct {
	src   string
	toks  []token
	i     int
	depth int
}

// parse reads a whole text as one expression.
func parse(src string) (*ast, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	a, err := p.expr()
	if err != nil {
		return nil, err
	}
	if t := p.peek(); t.kind != tokEnd {
		return nil, p.unexpected(t, "an operator or the end")
	}
	return a, nil
}

func newParser(src string) (*parser, error) {
	if len(src) > maxSource {
		return nil, errAt(0, "the expression has %d bytes, at most %d are allowed", len(src), maxSource)
	}
	toks, err := lex(src)
	if err != nil {
		return nil, err
	}
	if toks[0].kind == tokEnd {
		return nil, errAt(0, "the expression is empty")
	}
	return &parser{src: src, toks: toks}, nil
}

func (p *parser) peek() token { return p.toks[p.i] }

func (p *parser) peekAt(n int) token {
	if p.i+n >= len(p.toks) {
		return p.toks[len(p.toks)-1]
	}
	return p.toks[p.i+n]
}

func (p *parser) take() token {
	t := p.toks[p.i]
	if t.kind != tokEnd {
		p.i++
	}
	return t
}

func (p *parser) unexpected(t token, expected string) error {
	return errAt(t.pos, "expected %s, found %s", expected, t)
}

func (p *parser) op(text string) bool {
	if t := p.peek(); t.kind == tokOp && t.text == text {
		p.i++
		return true
	}
	return false
}

func (p *parser) isWord(n int, word string) bool {
	t := p.peekAt(n)
	return t.kind == tokIdent && t.text == word
}

func (p *parser) word(words ...string) bool {
	for n, w := range words {
		if !p.isWord(n, w) {
			return false
		}
	}
	p.i += len(words)
	return true
}

func (p *parser) needOp(text string) error {
	if !p.op(text) {
		return p.unexpected(p.peek(), "\""+text+"\"")
	}
	return nil
}

func (p *parser) needWord(w string) error {
	if !p.word(w) {
		return p.unexpected(p.peek(), "\""+w+"\"")
	}
	return nil
}

// node makes an ast that starts at pos and ends behind the last token taken.
func (p *parser) node(op astOp, pos int, text string, args ...*ast) *ast {
	end := pos
	if p.i > 0 {
		end = p.toks[p.i-1].end
	}
	return &ast{op: op, pos: pos, end: end, text: text, args: args}
}

// expr is the lowest precedence: or, and, not, is, comparison, between/in/like,
// other operators, + -, * / %, ^, at time zone, unary minus, ::, field.
func (p *parser) expr() (*ast, error) {
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, errAt(p.peek().pos, "the expression is nested too deeply: at most %d levels", maxDepth)
	}
	return p.chain(opOr, "or", func() (*ast, error) { return p.chain(opAnd, "and", p.not) })
}

// chain collects operands of and / or in one node.
func (p *parser) chain(op astOp, word string, operand func() (*ast, error)) (*ast, error) {
	pos := p.peek().pos
	first, err := operand()
	if err != nil {
		return nil, err
	}
	args := []*ast{first}
	for p.word(word) {
		x, err := operand()
		if err != nil {
			return nil, err
		}
		args = append(args, x)
	}
	if len(args) == 1 {
		return first, nil
	}
	return p.node(op, pos, word, args...), nil
}

func (p *parser) not() (*ast, error) {
	pos := p.peek().pos
	n := 0
	for p.word("not") {
		n++
	}
	a, err := p.is()
	if err != nil {
		return nil, err
	}
	for range min(n, 2+n%2) { // not not not x is not x
		a = p.node(opNot, pos, "not", a)
	}
	return a, nil
}

func (p *parser) is() (*ast, error) {
	pos := p.peek().pos
	a, err := p.comparison()
	if err != nil {
		return nil, err
	}
	for {
		switch {
		case p.word("isnull"):
			a = p.node(opIs, pos, "null", a)
		case p.word("notnull"):
			a = p.node(opIs, pos, "null", a)
			a.not = true
		case p.word("is"):
			not := p.word("not")
			t := p.take()
			switch {
			case t.kind == tokIdent && (t.text == "null" || t.text == "true" || t.text == "false" || t.text == "unknown"):
				a = p.node(opIs, pos, t.text, a)
			case t.kind == tokIdent && (t.text == "normalized" || normalForms[t.text] && p.word("normalized")):
				a = p.normalized(pos, t, a)
				if not {
					a = p.node(opNot, pos, "not", a)
				}
				continue
			case t.kind == tokIdent && t.text == "distinct":
				if err := p.needWord("from"); err != nil {
					return nil, err
				}
				b, err := p.comparison()
				if err != nil {
					return nil, err
				}
				a = p.node(opDistinct, pos, "", a, b)
			default:
				return nil, p.unexpected(t, "null, true, false, unknown or distinct from after \"is\"")
			}
			a.not = not
		default:
			return a, nil
		}
	}
}

var comparisons = map[string]bool{"<": true, ">": true, "=": true, "<=": true, ">=": true, "<>": true}

func (p *parser) comparison() (*ast, error) {
	pos := p.peek().pos
	a, err := p.range_()
	if err != nil {
		return nil, err
	}
	t := p.peek()
	if t.kind != tokOp || !comparisons[t.text] {
		return a, nil
	}
	p.i++
	if n, err := p.anyWord(pos, t.text, a); n != nil || err != nil {
		return n, err
	}
	b, err := p.range_()
	if err != nil {
		return nil, err
	}
	if n := p.peek(); n.kind == tokOp && comparisons[n.text] {
		return nil, errAt(n.pos, "comparisons cannot be chained: write a %s b and b %s c", t.text, n.text)
	}
	return p.node(opBinary, pos, t.text, a, b), nil
}

// range_ reads between, in, like and ilike.
func (p *parser) range_() (*ast, error) {
	pos := p.peek().pos
	a, err := p.other()
	if err != nil {
		return nil, err
	}
	start := p.i
	not := p.word("not")
	var r *ast
	switch {
	case p.word("between"):
		r, err = p.between(pos, a)
	case p.word("in"):
		r, err = p.in(pos, a)
	case p.word("like"):
		r, err = p.like(pos, a, "like")
	case p.word("ilike"):
		r, err = p.like(pos, a, "ilike")
	case p.word("overlaps"):
		r, err = p.overlaps(pos, a)
	case p.word("similar", "to"):
		r, err = p.similar(pos, a)
	default:
		p.i = start
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	if opposite := map[string]string{"like": "!~~", "ilike": "!~~*"}[r.text]; not && r.op == opAny && opposite != "" {
		r.text = opposite // of each comparison, not of what they are together
		return r, nil
	}
	if not && (r.op == opCall || r.op == opAny || r.op == opBinary) {
		return p.node(opNot, pos, "not", r), nil
	}
	r.not = not
	return r, nil
}

func (p *parser) between(pos int, a *ast) (*ast, error) {
	mode := ""
	if p.word("symmetric") {
		mode = "symmetric"
	} else {
		p.word("asymmetric")
	}
	lo, err := p.other()
	if err != nil {
		return nil, err
	}
	if err := p.needWord("and"); err != nil {
		return nil, err
	}
	hi, err := p.other()
	if err != nil {
		return nil, err
	}
	return p.node(opBetween, pos, mode, a, lo, hi), nil
}

func (p *parser) in(pos int, a *ast) (*ast, error) {
	if err := p.needOp("("); err != nil {
		return nil, err
	}
	args := []*ast{a}
	for {
		x, err := p.expr()
		if err != nil {
			return nil, err
		}
		args = append(args, x)
		if p.op(")") {
			return p.node(opIn, pos, "", args...), nil
		}
		if !p.op(",") {
			return nil, p.unexpected(p.peek(), "\",\" or \")\"")
		}
	}
}

func (p *parser) like(pos int, a *ast, name string) (*ast, error) {
	if n, err := p.anyWord(pos, name, a); n != nil || err != nil {
		return n, err
	}
	b, err := p.other()
	if err != nil {
		return nil, err
	}
	args := []*ast{a, b}
	if p.word("escape") {
		e, err := p.other()
		if err != nil {
			return nil, err
		}
		args = append(args, e)
	}
	return p.node(opCall, pos, name, args...), nil
}

// similar reads the pattern of similar to, which becomes a regular expression.
func (p *parser) similar(pos int, a *ast) (*ast, error) {
	pattern, err := p.like(p.peek().pos, a, "similar_to_escape")
	if err != nil {
		return nil, err
	}
	pattern.args = pattern.args[1:]
	return p.node(opBinary, pos, "~", a, pattern), nil
}

// other reads every operator without a place of its own: ||, ->, ~, ...
func (p *parser) other() (*ast, error) {
	return p.left(p.additive, func(t token) bool {
		switch t.text {
		case "+", "-", "*", "/", "%", "^", "::", "(", ")", ",", ".", "[", "]", ":", ";":
			return false
		}
		return !comparisons[t.text]
	})
}

func (p *parser) additive() (*ast, error) {
	return p.left(p.multiplicative, func(t token) bool { return t.text == "+" || t.text == "-" })
}

func (p *parser) multiplicative() (*ast, error) {
	return p.left(p.power, func(t token) bool { return t.text == "*" || t.text == "/" || t.text == "%" })
}

func (p *parser) power() (*ast, error) {
	return p.left(p.zone, func(t token) bool { return t.text == "^" })
}

// left reads operators that group from left to right.
func (p *parser) left(operand func() (*ast, error), mine func(token) bool) (*ast, error) {
	pos := p.peek().pos
	a, err := operand()
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		t := p.peek()
		if t.kind != tokOp || !mine(t) {
			return a, nil
		}
		if n > 4*maxDepth {
			return nil, errAt(t.pos, "too many operators in a row: at most %d", 4*maxDepth)
		}
		p.i++
		listed, err := p.anyWord(pos, t.text, a)
		if err != nil {
			return nil, err
		}
		if listed != nil {
			a = listed
			continue
		}
		b, err := operand()
		if err != nil {
			return nil, err
		}
		a = p.node(opBinary, pos, t.text, a, b)
	}
}

func (p *parser) zone() (*ast, error) {
	pos := p.peek().pos
	a, err := p.unary()
	if err != nil {
		return nil, err
	}
	for p.word("at", "time", "zone") {
		z, err := p.unary()
		if err != nil {
			return nil, err
		}
		a = p.node(opCall, pos, "timezone", z, a)
	}
	return a, nil
}

func (p *parser) unary() (*ast, error) {
	t := p.peek()
	operand := p.unary
	switch {
	case t.kind != tokOp:
		return p.postfix()
	case t.text == "-" || t.text == "+":
	case t.text == "@" || t.text == "~" || t.text == "|/" || t.text == "||/":
		operand = p.additive // as in PostgreSQL, they bind less than arithmetic
	default:
		return p.postfix()
	}
	p.i++
	p.depth++
	defer func() { p.depth-- }()
	if p.depth > maxDepth {
		return nil, errAt(t.pos, "the expression is nested too deeply: at most %d levels", maxDepth)
	}
	a, err := operand()
	if err != nil {
		return nil, err
	}
	if t.text == "-" && a.op == opNumber { // the smallest bigint is a literal
		text, neg := strings.CutPrefix(a.text, "-")
		if !neg {
			text = "-" + text
		}
		return p.node(opNumber, t.pos, text), nil
	}
	return p.node(opUnary, t.pos, t.text, a), nil
}

func (p *parser) postfix() (*ast, error) {
	pos := p.peek().pos
	a, err := p.primary()
	if err != nil {
		return nil, err
	}
	for {
		switch {
		case p.op("::"):
			t, err := p.typeName()
			if err != nil {
				return nil, err
			}
			a = p.node(opCast, pos, "", a)
			a.typ = t
		case p.op("."):
			t := p.take()
			if t.kind != tokIdent && t.kind != tokQuoted {
				return nil, p.unexpected(t, "the name of a field")
			}
			a = p.node(opField, pos, t.text, a)
		case p.peek().kind == tokOp && p.peek().text == "[":
			if a, err = p.subscript(pos, a); err != nil {
				return nil, err
			}
		default:
			return a, nil
		}
	}
}
