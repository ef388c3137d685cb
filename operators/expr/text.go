package expr

import (
	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// AppendText writes value i of a as a cast to text does, and null as "null".
// What has no text of its own, as a struct, is written as JSON. It is for
// people: it makes more garbage than a kernel may.
func AppendText(dst []byte, a arrow.Array, i int) []byte {
	if a.IsNull(i) {
		return append(dst, "null"...)
	}
	t, ok := typeOf(a.DataType())
	if !ok && arrow.TypeEqual(a.DataType(), typ{k: kInterval}.arrow()) {
		t, ok = typ{k: kInterval}, true
	}
	if !ok || t.k == kNested {
		return dataflow.AppendJSON(dst, a, i)
	}
	one := array.NewSlice(a, int64(i), int64(i)+1)
	defer one.Release()
	var v vec
	v.borrow(one, t)
	return textOf(t, &v)(dst, 0)
}

// TypeText is the type of e's value as the language spells it.
func (e *Expr) TypeText() string { return e.root.typ.String() }
