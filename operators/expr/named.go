package expr

import (
	"slices"

	"frazil/dataflow/component"
)

// namedOperands are the operands of a function that may be given by name, as in
// make_interval(days => 10).
type namedOperands struct {
	names []string
	// zeros stand for operands that are left out.
	zeros bool
}

// named holds them by function; files that register such a function add to it.
var named = map[string]namedOperands{}

// nameOf reads the name of an operand if one stands here, with the => or := behind.
func (p *parser) nameOf() string {
	t := p.peek()
	if t.kind != tokIdent && t.kind != tokQuoted {
		return ""
	}
	next, last := p.peekAt(1), p.peekAt(2)
	switch {
	case next.kind == tokOp && next.text == "=>":
		p.i += 2
	case next.kind == tokOp && next.text == ":" && last.kind == tokOp && last.text == "=":
		p.i += 3
	default:
		return ""
	}
	return t.text
}

// arrange puts operands given by name in their places.
func arrange(a *ast) (*ast, error) {
	f, ok := named[a.text]
	if !ok {
		return nil, errAt(a.pos, "%s takes no operands by name", a.text)
	}
	out := *a
	out.names, out.args = nil, nil
	for i, x := range a.args {
		name := a.names[i]
		at := i
		if name == "" {
			if i > 0 && a.names[i-1] != "" {
				return nil, errAt(x.pos, "an operand without a name stands behind one with a name")
			}
		} else if at = slices.Index(f.names, name); at < 0 {
			return nil, errAt(x.pos, "%s has no operand %q%s", a.text, name, component.DidYouMean(name, f.names))
		}
		for len(out.args) <= at {
			out.args = append(out.args, nil)
		}
		if out.args[at] != nil {
			return nil, errAt(x.pos, "operand %q of %s is given twice", name, a.text)
		}
		out.args[at] = x
	}
	for i, x := range out.args {
		switch {
		case x != nil:
		case f.zeros:
			out.args[i] = &ast{op: opNumber, pos: a.pos, end: a.end, text: "0"}
		default:
			return nil, errAt(a.pos, "%s needs the operand %q", a.text, f.names[i])
		}
	}
	return &out, nil
}
