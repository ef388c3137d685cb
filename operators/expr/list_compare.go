package expr

import (
	"bytes"
	"cmp"
)

// compareNulls compares element i of v with j of w, both of t; null is equal to null and
// greater than all others.
func compareNulls(t typ, v *vec, i int, w *vec, j int) int {
	if n, m := v.isNull(i), w.isNull(j); n || m {
		return cmp.Compare(bit(n), bit(m))
	}
	return compareAt(t, v, i&v.mask(), w, j&w.mask())
}

// compareAt orders values as < does.
func compareAt(t typ, v *vec, i int, w *vec, j int) int {
	switch t.k {
	case kBool:
		return cmp.Compare(bit(v.bits.get(i)), bit(w.bits.get(j)))
	case kInt16, kInt32, kDate:
		return cmp.Compare(of[int32](v)[i], of[int32](w)[j])
	case kInt64, kTime, kTimestamp, kTimestampTZ:
		return cmp.Compare(of[int64](v)[i], of[int64](w)[j])
	case kFloat32:
		return compareFloats(float64(of[float32](v)[i]), float64(of[float32](w)[j]))
	case kFloat64:
		return compareFloats(of[float64](v)[i], of[float64](w)[j])
	case kDecimal:
		x, y := of[dec](v)[i], of[dec](w)[j]
		switch {
		case x.less(y):
			return -1
		case x == y:
			return 0
		}
		return 1
	case kInterval:
		return of[interval](v)[i].cmp(of[interval](w)[j])
	case kUUID:
		x, y := of[uuid16](v)[i], of[uuid16](w)[j]
		return bytes.Compare(x[:], y[:])
	case kJSON:
		var t jsonTree
		return compareRoots(t.parse(v.bytes(i)), t.parse(w.bytes(j)))
	}
	return bytes.Compare(v.bytes(i), w.bytes(j))
}

// compareFloats: NaN is equal to NaN and greater than all others.
func compareFloats(x, y float64) int {
	switch {
	case x != x || y != y:
		return cmp.Compare(bit(x != x), bit(y != y))
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// compareLists compares element by element; a list that ends first is less.
func compareLists(t typ, v *vec, i int, w *vec, j int) int {
	f1, t1 := v.span(i)
	f2, t2 := w.span(j)
	for k := 0; k < min(t1-f1, t2-f2); k++ {
		if c := compareNulls(t, v.elem, f1+k, w.elem, f2+k); c != 0 {
			return c
		}
	}
	return cmp.Compare(t1-f1, t2-f2)
}

// listOperator binds an operator of which an operand is a list, without folding; nil if it
// is none of theirs.
func (b *binder) listOperator(a *ast, op string, args []*node) (*node, error) {
	if len(args) != 2 || args[0].typ.k != kList && args[1].typ.k != kList {
		return nil, nil
	}
	if args[0].typ.k == kJSON {
		return nil, nil // ?|, ?&, #> and their kind take a list of texts
	}
	switch op {
	case "||":
		sign, f := "ll", concatLists
		for i := range args {
			other := args[1-i].typ.k == kList
			if args[i].typ.k != kList && !args[i].unknown && other {
				sign, f = [2]string{"el", "le"}[i], appendElement
			}
		}
		return b.listNode(a, listForm{sign, f}, args, nil)
	case "=", "<>", "<", "<=", ">", ">=", "@>", "<@", "&&":
		n, err := b.listNode(a, listForm{"ll", func(string) listKernel {
			return listKernel{func(typ) typ { return tBool }, listTest(op)}
		}}, args, nil)
		if n != nil {
			n.loose = false
		}
		return n, err
	}
	return nil, nil
}

func listTest(op string) kernel {
	return func(c *call, out *vec, a []*vec) {
		t := c.node.args[0].typ.elem()
		has := func(v *vec, k int, w *vec, j int) bool {
			if v.elem.isNull(k) {
				return false
			}
			from, to := w.span(j)
			for m := from; m < to; m++ {
				if !w.elem.isNull(m) && compareAt(t, v.elem, k, w.elem, m) == 0 {
					return true
				}
			}
			return false
		}
		// within says whether all elements of v are in w.
		within := func(v, w *vec, i int) bool {
			from, to := v.span(i)
			for k := from; k < to; k++ {
				if !has(v, k, w, i) {
					return false
				}
			}
			return true
		}
		eachWord(growBits(out, c.n), c.n, func(i int) bool {
			if !c.counts(i) {
				return false
			}
			switch op {
			case "@>":
				return within(a[1], a[0], i)
			case "<@":
				return within(a[0], a[1], i)
			case "&&":
				from, to := a[0].span(i)
				for k := from; k < to; k++ {
					if has(a[0], k, a[1], i) {
						return true
					}
				}
				return false
			}
			r := compareLists(t, a[0], i, a[1], i)
			switch op {
			case "=":
				return r == 0
			case "<>":
				return r != 0
			case "<":
				return r < 0
			case "<=":
				return r <= 0
			case ">":
				return r > 0
			}
			return r >= 0
		})
	}
}
