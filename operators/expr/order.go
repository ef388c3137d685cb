package expr

import "github.com/apache/arrow-go/v18/arrow"

// ParseOrder compiles one term of an order: an expression, then asc or desc, then
// nulls first or last. As in PostgreSQL nulls are last in ascending order and
// first in descending order.
func ParseOrder(text string, schema *arrow.Schema) (Order, error) {
	p, err := newParser(text)
	if err != nil {
		return Order{}, err
	}
	x, err := p.expr()
	if err != nil {
		return Order{}, err
	}
	var o Order
	if o.Desc = p.word("desc"); !o.Desc {
		p.word("asc")
	}
	o.NullsFirst = o.Desc
	switch {
	case p.word("nulls", "first"):
		o.NullsFirst = true
	case p.word("nulls", "last"):
		o.NullsFirst = false
	}
	if t := p.peek(); t.kind != tokEnd {
		return Order{}, p.unexpected(t, "asc, desc, nulls first, nulls last or the end")
	}
	if o.By, err = compile(text, x, schema); err != nil {
		return Order{}, err
	}
	if _, ok := keyOf(o.By.root.typ); !ok {
		return Order{}, errAt(x.pos, "values of %s have no order", o.By.root.typ)
	}
	return o, nil
}
