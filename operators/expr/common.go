package expr

import "strings"

// Equal parts of an expression are one node, which is computed once for a batch. Values
// do not depend on which rows are asked for, but failures do, and so do the values of
// kernels that leave out rows: when more rows are asked for than before, the part is
// computed again, for both, into the same memory. So what holds the values already sees
// the same ones, and no row fails that nobody asks for.

// maxCommon bounds the text of parts that are compared, so that long chains are not
// written down again and again.
const maxCommon = 512

// commonKey is equal for equal parts; "" for one that is not worth it.
func commonKey(a *ast) string {
	switch a.op {
	case opNumber, opString, opNull, opBool, opTyped, opColumn:
		return ""
	}
	if n := a.end - a.pos; n <= 0 || n > maxCommon {
		return ""
	}
	var b strings.Builder
	a.canonical(&b)
	return b.String()
}

// bind gives a part its type, and equal parts the same node.
func (b *binder) bind(a *ast) (*node, error) {
	key := commonKey(a)
	if key == "" {
		return b.bindPart(a)
	}
	if n := b.common[key]; n != nil {
		if n.once == nil {
			n.once, n.eval, n.memo = n.eval, evalCommon, b.newSlot()
		}
		return n, nil
	}
	n, err := b.bindPart(a)
	if err == nil && n.konst == nil && !n.unknown && n.col == "" {
		if b.common == nil {
			b.common = map[string]*node{}
		}
		b.common[key] = n
	}
	return n, err
}

// evalCommon computes a node that stands in several places.
func evalCommon(ev *Evaluator, n *node, sel bitset) *vec {
	s := &ev.slots[n.memo]
	switch {
	case s.batch != ev.batches:
		s.batch, s.whole = ev.batches, sel == nil
		if sel != nil {
			s.m1 = s.m1.sized(ev.n)
			copy(s.m1, sel)
		}
	case s.whole || sel != nil && !s.m1.addAll(sel):
		return s.args[0]
	case sel == nil:
		s.whole = true
	}
	mask := s.m1
	if s.whole {
		mask = nil
	}
	v := n.once(ev, n, mask)
	s.args = append(s.args[:0], v)
	return v
}

// addAll adds the rows of c to b, and says whether there were new ones.
func (b bitset) addAll(c bitset) bool {
	var more uint64
	for w := range b {
		more |= c[w] &^ b[w]
		b[w] |= c[w]
	}
	return more != 0
}
