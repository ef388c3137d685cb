package expressions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"frazil/operators/expr/exprtest"
)

// sides are the two that are compared.
type sides struct {
	server *server
	here   here
	rows   *exprtest.Rows
}

func (s sides) ask(ctx context.Context, qs []question) (theirs, ours []answers, err error) {
	if theirs, err = s.server.ask(ctx, qs); err != nil {
		return nil, nil, err
	}
	ours, err = s.here.ask(qs)
	return theirs, ours, err
}

// odd is a row on which the sides differ, on its way to being explained.
type odd struct {
	original, tree *exprtest.Tree
	row            int
	theirs, ours   answer
	rules          []string
	// fault describes what no rule explains, kind is what such faults have in common.
	fault, kind string
}

// sameAnswer compares to the letter, but for a constant that fails: it is refused here
// before anything runs.
func sameAnswer(theirs, ours answer) bool {
	return theirs.same(ours) || theirs.reason != "" && ours.reason == refused
}

func sameType(theirs, ours answers) bool {
	return theirs.typ == "" || ours.typ == "" || exprtest.IsTypeOf(ours.typ, theirs.typ)
}

// explain takes the rows apart until each is explained by rules or a fault.
func (s sides) explain(ctx context.Context, odds []*odd) error {
	for range 12 {
		var open []*odd
		var qs []question
		var parts [][]*exprtest.Tree
		for _, o := range odds {
			if o.fault != "" || o.tree == nil {
				continue
			}
			var ps []*exprtest.Tree
			for _, p := range o.tree.All() {
				ps = append(ps, p)
				qs = append(qs, question{p.String(), o.row, o.row + 1})
			}
			open, parts = append(open, o), append(parts, ps)
		}
		if len(open) == 0 {
			return nil
		}
		theirs, ours, err := s.ask(ctx, qs)
		if err != nil {
			return err
		}
		for i, o := range open {
			n := len(parts[i])
			s.step(o, parts[i], theirs[:n], ours[:n])
			theirs, ours = theirs[n:], ours[n:]
		}
	}
	for _, o := range odds {
		if o.fault == "" && o.tree != nil {
			o.fault = "not explained after many steps: " + o.tree.String()
		}
	}
	return nil
}

// step looks for the first part that differs, which has operands that do not, and
// judges it.
func (s sides) step(o *odd, parts []*exprtest.Tree, theirs, ours []answers) {
	for k, p := range parts {
		a, b := theirs[k].rows[0], ours[k].rows[0]
		if sameType(theirs[k], ours[k]) && sameAnswer(a, b) && b.reason != "panic" {
			continue
		}
		d := difference{part: p, theirs: a, ours: b, theirType: theirs[k].typ, ourType: ours[k].sql, refusedPart: refusedPart(p, parts, theirs, ours)}
		for _, x := range p.Args {
			if j := slices.Index(parts, x); j >= 0 {
				d.operands = append(d.operands, ours[j].rows[0])
			}
		}
		rule := d.rule()
		if rule == "" || !sameType(theirs[k], ours[k]) {
			o.fault = s.describe(o, k, parts, theirs, ours)
			o.kind = fmt.Sprint(p.Name, " ", ours[k].typ, " ", a.state, " ", b.reason)
			return
		}
		o.rules = append(o.rules, rule)
		if p == o.tree || a.reason != "" || b.reason != "" {
			o.tree = nil
			return
		}
		v := &b.text
		if b.null {
			v = nil
		}
		o.tree = o.tree.Replace(p, exprtest.Literal(v, ours[k].sql))
		return
	}
	if len(o.rules) == 0 {
		last := len(parts) - 1
		o.fault = "differs only beside other rows or the second time: " + o.tree.String() + " " + theirs[last].rows[0].String()
		return
	}
	o.tree = nil
}

// refusedConstant says whether a constant part of p fails there and is refused here.
func refusedPart(p *exprtest.Tree, parts []*exprtest.Tree, theirs, ours []answers) bool {
	for _, x := range p.All() {
		for k, q := range parts {
			if q == x && x != p && theirs[k].rows[0].reason != "" && ours[k].rows[0].reason == refused {
				return true
			}
		}
	}
	return false
}

// describe says how part k differs, its operands written as values.
func (s sides) describe(o *odd, k int, parts []*exprtest.Tree, theirs, ours []answers) string {
	p := parts[k]
	small := *p
	small.Args = nil
	for _, a := range p.Args {
		v := a
		for j, q := range parts[:k] {
			if r := ours[j].rows[0]; q == a && r.reason == "" && !a.Constant() {
				text := &r.text
				if r.null {
					text = nil
				}
				v = exprtest.Literal(text, ours[j].sql)
			}
		}
		small.Args = append(small.Args, v)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n    PostgreSQL: %s %s\n    here:       %s %s\n    operands as values: %s\n    row: %s", p, theirs[k].typ, theirs[k].rows[0],
		ours[k].sql, ours[k].rows[0], small.String(), s.rows.Text(o.row, o.original.String()))
	if p != o.original {
		fmt.Fprintf(&b, "\n    in: %s", o.original)
	}
	return b.String()
}
