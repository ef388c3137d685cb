package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"frazil/dataflow/component"
)

// field binds s.name, a field of a struct.
func (b *binder) field(a *ast) (*node, error) {
	x, err := b.bind(a.args[0])
	if err != nil {
		return nil, err
	}
	st, ok := x.typ.dt.(*arrow.StructType)
	if !ok {
		return nil, errAt(a.pos, "%q is no struct but %s: it has no field %q", b.text(a.args[0]), x.typ, a.text)
	}
	ix, ok := st.FieldIdx(a.text)
	if !ok {
		var names []string
		for _, f := range st.Fields() {
			names = append(names, f.Name)
		}
		return nil, errAt(a.pos, "%q has no field %q%s", b.text(a.args[0]), a.text, component.DidYouMean(a.text, names))
	}
	t, ok := typeOf(st.Field(ix).Type)
	if !ok {
		return nil, errAt(a.pos, "field %q has type %s, which expressions cannot use", a.text, st.Field(ix).Type)
	}
	return b.add(&node{typ: t, pos: a.pos, end: a.end, args: []*node{x}, eval: evalField, colIx: ix})
}

func (b *binder) text(a *ast) string { return b.fold.src[a.pos:a.end] }

func evalField(ev *Evaluator, n *node, sel bitset) *vec {
	v := n.args[0].eval(ev, n.args[0], sel)
	s := &ev.slots[n.slot]
	out := &s.out
	out.borrow(v.arr.(*array.Struct).Field(n.colIx), n.typ)
	out.andValid(v)
	return out
}
