package expr

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Compile parses text and checks it against the user's columns of schema.
// System columns are not visible. The error is an *Error.
func Compile(text string, schema *arrow.Schema) (*Expr, error) {
	a, err := parse(text)
	if err != nil {
		return nil, err
	}
	return compile(text, a, schema)
}

func compile(text string, a *ast, schema *arrow.Schema) (*Expr, error) {
	b := newBinder(text, schema)
	n, err := b.bind(a)
	if err != nil {
		return nil, err
	}
	if n.unknown {
		if n, err = b.convert(n, tString, implicitCast); err != nil {
			return nil, err
		}
	}
	var canon strings.Builder
	a.canonical(&canon)
	return &Expr{text: text, canon: canon.String(), root: n, slots: b.slots, columns: b.columns}, nil
}

// binder gives every part of a tree its type.
type binder struct {
	schema  *arrow.Schema
	slots   int
	columns []*node
	fold    Evaluator
	common  map[string]*node // parts by their canonical text
}

func newBinder(text string, schema *arrow.Schema) *binder {
	return &binder{schema: schema, fold: Evaluator{src: text, n: 1}}
}

// add gives n its slot and folds it if all its operands are constants.
func (b *binder) add(n *node) (*node, error) {
	n.slot = b.newSlot()
	fold := len(n.args) > 0
	for _, a := range n.args {
		fold = fold && a.konst != nil
		n.fails = n.fails || a.fails
		if n.kernel != nil && !n.loose && a.konst != nil && a.konst.constNull() && n.typ.k != kNested {
			// A strict function of null is null, whatever its other operands are.
			return b.literal(&node{pos: n.pos, end: n.end, unknown: true, null: true}, n.typ)
		}
	}
	if !fold || n.typ.k == kNested {
		return n, nil
	}
	ev := &b.fold
	ev.reset()
	v := n.eval(ev, n, nil)
	if len(ev.errs) > 0 {
		return nil, errAt(n.pos, "%s", ev.errs[0].Bad.Detail)
	}
	return b.constant(n, n.typ, copyConst(v, n.typ)), nil
}

// copyConst keeps the first value of v.
func copyConst(v *vec, t typ) *vec {
	out := &vec{n: 1, konst: true}
	if v.nulls && !v.valid.get(0) {
		setConstNull(out, t)
		return out
	}
	switch w := t.width(); {
	case t.k == kBool:
		growBits(out, 1)[0] = v.bits[0] & 1
	case w > 0:
		grow[int8](out, w)
		copy(out.raw, v.raw[:w])
	case t.k == kList:
		return copyList(v, t)
	default:
		s := v.text(0)
		out.off, out.raw = []int32{0, int32(len(s))}, []byte(s)
	}
	return out
}

func (b *binder) constant(at *node, t typ, v *vec) *node {
	return &node{typ: t, pos: at.pos, end: at.end, konst: v, eval: evalConst}
}

func fixedConst[T fixed](x T) *vec {
	v := &vec{n: 1, konst: true}
	grow[T](v, 1)[0] = x
	return v
}

func textConst(s string) *vec {
	return &vec{n: 1, konst: true, off: []int32{0, int32(len(s))}, raw: []byte(s)}
}

func boolConst(x bool) *vec {
	v := &vec{n: 1, konst: true, bits: bitset{0}}
	if x {
		v.bits[0] = 1
	}
	return v
}

// bindPart is bind for one that was not met before.
func (b *binder) bindPart(a *ast) (*node, error) {
	at := &node{pos: a.pos, end: a.end}
	if spelled, err := spellRow(a); err != nil {
		return nil, err
	} else if spelled != nil {
		return b.bind(spelled)
	}
	switch a.op {
	case opNumber:
		return b.number(a)
	case opString:
		return &node{typ: tUnknown, pos: a.pos, end: a.end, unknown: true, text: a.text}, nil
	case opNull:
		return &node{typ: tUnknown, pos: a.pos, end: a.end, unknown: true, null: true}, nil
	case opBool:
		return b.constant(at, tBool, boolConst(a.text == "true")), nil
	case opTyped:
		at.typ, at.unknown, at.text = tUnknown, true, a.text
		return b.convert(at, a.typ, explicitCast)
	case opColumn:
		return b.column(a)
	case opField:
		return b.field(a)
	case opCall:
		return b.call(a)
	case opUnary:
		return b.named(a, "unary "+a.text, a.args)
	case opBinary:
		return b.named(a, a.text, a.args)
	case opAnd, opOr, opNot, opIs, opDistinct, opBetween, opIn:
		return b.logical(a)
	case opCase:
		return b.caseOf(a)
	case opArray:
		return b.arrayOf(a)
	case opSubscript:
		return b.element(a)
	case opAny:
		return b.any(a)
	case opRow:
		return nil, errAt(a.pos, "a row of values can be compared, and tested for null, with another one; it is no value itself")
	case opCast:
		if x := a.args[0]; x.op == opNumber && (a.typ.k == kFloat32 || a.typ.k == kFloat64) {
			if _, _, bad := parseDecimal(x.text); bad != nil { // as 1e300
				return b.convert(&node{typ: tUnknown, pos: x.pos, end: x.end, unknown: true, text: x.text}, a.typ, explicitCast)
			}
		}
		x, err := b.bind(a.args[0])
		if err != nil {
			return nil, err
		}
		n, err := b.convert(x, a.typ, explicitCast)
		if err != nil {
			return nil, err
		}
		return n, nil
	}
	return nil, errAt(a.pos, "this is not supported")
}

// number types a literal as PostgreSQL does: integer, bigint or numeric.
func (b *binder) number(a *ast) (*node, error) {
	at := &node{pos: a.pos, end: a.end}
	if !strings.ContainsAny(a.text, ".eE") {
		if x, err := strconv.ParseInt(a.text, 10, 64); err == nil {
			if x >= math.MinInt32 && x <= math.MaxInt32 {
				return b.constant(at, tInt32, fixedConst(int32(x))), nil
			}
			return b.constant(at, tInt64, fixedConst(x)), nil
		}
	}
	d, t, bad := parseDecimal(a.text)
	if bad != nil {
		return nil, errAt(a.pos, "%s", bad.Detail)
	}
	return b.constant(at, t, fixedConst(d)), nil
}

func (b *binder) column(a *ast) (*node, error) {
	for _, c := range b.columns {
		if c.col == a.text {
			n := *c
			n.pos, n.end = a.pos, a.end
			return &n, nil
		}
	}
	var names []string
	for i, f := range dataflow.UserFields(b.schema) {
		names = append(names, f.Name)
		if f.Name != a.text {
			continue
		}
		t, ok := typeOf(f.Type)
		if !ok {
			return nil, errAt(a.pos, "column %q has type %s, which expressions cannot use", a.text, f.Type)
		}
		n := &node{typ: t, pos: a.pos, end: a.end, eval: evalColumn, col: a.text, colIx: i, slot: b.newSlot()}
		b.columns = append(b.columns, n)
		return n, nil
	}
	if dataflow.IsSystem(a.text) {
		return nil, errAt(a.pos, "unknown column %q: names with %q are reserved for the system", a.text, dataflow.SysPrefix)
	}
	hint := component.DidYouMean(a.text, names)
	if hint == "" && len(names) > 0 && len(names) <= 20 {
		hint = "; known: " + strings.Join(names, ", ")
	}
	return nil, errAt(a.pos, "unknown column %q%s", a.text, hint)
}

func (b *binder) call(a *ast) (*node, error) {
	if a.names != nil {
		var err error
		if a, err = arrange(a); err != nil {
			return nil, err
		}
	}
	switch {
	case aggregateNames[a.text] || a.filter != nil || a.distinct || a.star:
		return nil, errAt(a.pos, "%s(...) is an aggregate: it belongs into a window's aggregate block", a.text)
	}
	if f := specialForms[a.text]; f != nil {
		return f(b, a)
	}
	if t, ok := typeWords[a.text]; ok && len(a.args) == 1 && functions[a.text] == nil {
		x, err := b.bind(a.args[0])
		if err != nil {
			return nil, err
		}
		return b.convert(x, t, explicitCast)
	}
	return b.named(a, a.text, a.args)
}

// named binds operands and chooses the overload.
func (b *binder) named(a *ast, name string, parts []*ast) (*node, error) {
	args := make([]*node, len(parts))
	for i, x := range parts {
		n, err := b.bind(x)
		if err != nil {
			return nil, err
		}
		args[i] = n
	}
	return b.apply(a, name, args)
}

// apply makes the node of a function or operator over bound operands.
func (b *binder) apply(a *ast, name string, args []*node) (*node, error) {
	if n, err := b.listOperator(a, name, args); err != nil {
		return nil, err
	} else if n != nil {
		return b.add(n)
	}
	charLiterals(name, args)
	f, err := resolve(name, args)
	if f == nil {
		return nil, noFunction(a.pos, name, args, err)
	}
	n := &node{pos: a.pos, end: a.end, eval: evalCall, kernel: f.kernel, loose: f.loose, fails: f.fails}
	n.args = make([]*node, len(args))
	for i, x := range args {
		to := typ{k: f.arg(f.as, i)}
		switch to.k {
		case kList:
			if x.unknown {
				return nil, errAt(x.pos, "%s: the type of the list is not known: add a cast", name)
			}
		case kAny:
			if x.typ.k == kNested && f.ret != kJSON {
				return nil, errAt(x.pos, "%s does not take values of type %s", name, x.typ)
			}
			to = x.typ
			if x.unknown {
				to = tString
			}
		case kDecimal:
			to.p = free
		}
		if n.args[i], err = b.convert(x, to, implicitCast); err != nil {
			return nil, err
		}
	}
	n.typ = typ{k: f.ret}
	if f.result != nil {
		if n.typ, err = f.result(n.args); err != nil {
			var e *Error
			if errors.As(err, &e) {
				return nil, err
			}
			return nil, errAt(a.pos, "%s", err.Error())
		}
	}
	if name == "||" && f.ret == kString {
		joinTexts(n)
	}
	return b.add(n)
}

// convert gives n the type to, inserting a cast if that is needed and allowed.
func (b *binder) convert(n *node, to typ, context castContext) (*node, error) {
	if n.unknown {
		return b.literal(n, to)
	}
	from := n.typ
	switch {
	case to.k == kTexts:
		to = tTexts
	case to.k == kList && to.e == kUnknown:
		to = from
	}
	if from.k == to.k && from.same(to) {
		return n, nil
	}
	if to.k == kList {
		return b.convertList(n, to, context)
	}
	if from.k == to.k && from.k != kNested {
		switch {
		case to.k == kDecimal && to.p == free, from == to:
			return n, nil
		case to.k == kString && (to.p == 0 || from.p != 0 && from.p <= to.p) && (!to.char() || from.char()):
			return n, nil
		case to.char():
		case to.k != kDecimal && to.p == 0:
			return n, nil
		}
	}
	def, ok := casts[castKey{from.k, to.k}]
	if !ok || context == implicitCast && def.context != implicitCast {
		return nil, errAt(n.pos, "cannot convert %s to %s%s", from, to, castHint(ok))
	}
	if to.k == kDecimal && to.p == free {
		to = from.asDecimal()
	}
	return b.add(&node{typ: to, pos: n.pos, end: n.end, args: []*node{n}, eval: evalCall, kernel: def.kernel, fails: def.fails})
}

func castHint(possible bool) string {
	if possible {
		return ": write an explicit cast"
	}
	return ""
}

// literal reads a string or null as a value of type to.
func (b *binder) literal(n *node, to typ) (*node, error) {
	if n.null {
		if to.k == kDecimal && to.p == free {
			to = decimalType(1, 0)
		}
		switch to.k {
		case kUnknown:
			to = tString
		case kTexts:
			to = tTexts
		}
		v := &vec{n: 1}
		setConstNull(v, to)
		return b.constant(n, to, v), nil
	}
	if n.emptyList && to.k != kList && to.k != kTexts {
		return nil, errAt(n.pos, "the type of array[] is not known: write a cast, as in array[]::int64[]")
	}
	switch {
	case to.k == kTexts:
		return b.listLiteral(n, tTexts)
	case to.k == kList && to.e != kUnknown:
		return b.listLiteral(n, to)
	case to.k == kUnknown || to == tString:
		return b.constant(n, tString, textConst(n.text)), nil
	case to.k == kNested:
		return nil, errAt(n.pos, "cannot convert a string to %s", to)
	case to.k == kDecimal && to.p == free:
		d, t, bad := parseDecimal(strings.TrimSpace(n.text))
		if bad != nil {
			return nil, errAt(n.pos, "%s", bad.Detail)
		}
		return b.constant(n, t, fixedConst(d)), nil
	}
	x := b.constant(n, tString, textConst(n.text))
	return b.convert(x, to, explicitCast)
}

// unify converts several operands to their common type, as case, coalesce, in
// and greatest do. what names the form in messages.
func (b *binder) unify(what string, args []*node) ([]*node, typ, error) {
	t, err := b.commonType(what, args)
	if err != nil {
		return nil, t, err
	}
	out := make([]*node, len(args))
	for i, a := range args {
		n, err := b.convert(a, t, implicitCast)
		if err != nil {
			return nil, t, err
		}
		out[i] = n
	}
	return out, t, nil
}

// commonType is the type that unify converts to.
func (b *binder) commonType(what string, args []*node) (typ, error) {
	t := tUnknown
	for _, a := range args {
		switch {
		case a.typ.k == kNested:
			return t, errAt(a.pos, "%s does not take values of type %s", what, a.typ)
		case a.typ.k == kList && t.k == kList && !a.typ.same(t):
			switch {
			case t.e == kDecimal && a.typ.e == kDecimal:
				t = listOf(commonDecimal(t.elem(), a.typ.elem()))
			case implicit(t.e, a.typ.e) && !implicit(a.typ.e, t.e):
				t = a.typ
			case !implicit(a.typ.e, t.e):
				return t, errAt(a.pos, "%s types %s and %s do not match: add a cast", what, t, a.typ)
			}
		case a.unknown || a.typ.k == t.k && t.k != kDecimal:
		case t.k == kUnknown:
			t = a.typ
		case t.k.category() != a.typ.k.category():
			return t, errAt(a.pos, "%s types %s and %s do not match: add a cast", what, t, a.typ)
		case t.k == kDecimal && a.typ.k.numeric() && a.typ.k <= kDecimal || a.typ.k == kDecimal && t.k.numeric() && t.k < kDecimal:
			t = commonDecimal(t.asDecimal(), a.typ.asDecimal())
		case !t.k.preferred() && implicit(t.k, a.typ.k) && !implicit(a.typ.k, t.k):
			t = a.typ
		}
	}
	if t.k == kUnknown {
		t = tString
	}
	t.dt = nil
	if t.k != kDecimal && t.k != kList {
		t.p = 0
		if t.char() && !allChar(args) {
			t.s = 0
		}
	}
	if t.k == kDecimal {
		for _, a := range args { // literals keep their places
			if a.unknown && !a.null {
				if _, lt, bad := parseDecimal(strings.TrimSpace(a.text)); bad == nil {
					t = commonDecimal(t, lt)
				}
			}
		}
	}
	return t, nil
}

// share prepares a part that a form uses several times, so that it is computed
// once: use ref in its place and give the whole to wrap.
func (b *binder) share(x *node) (ref *node, wrap func(whole *node) (*node, error)) {
	if x.unknown || x.konst != nil || x.col != "" {
		return x, func(whole *node) (*node, error) { return whole, nil }
	}
	ref = &node{typ: x.typ, pos: x.pos, end: x.end, eval: evalRef, slot: b.newSlot()}
	return ref, func(whole *node) (*node, error) {
		if !whole.uses(ref) {
			return whole, nil
		}
		let := &node{typ: whole.typ, pos: whole.pos, end: whole.end, args: []*node{x, whole}, eval: evalLet, colIx: ref.slot}
		return b.add(let)
	}
}

// newSlot gives out the memory of one node.
func (b *binder) newSlot() int {
	b.fold.slots = append(b.fold.slots, slot{})
	b.slots++
	return b.slots - 1
}

// evalLet computes the shared part, then what uses it.
func evalLet(ev *Evaluator, n *node, sel bitset) *vec {
	v := n.args[0].eval(ev, n.args[0], sel)
	s := &ev.slots[n.colIx]
	s.args = append(s.args[:0], v)
	return n.args[1].eval(ev, n.args[1], sel)
}

func evalRef(ev *Evaluator, n *node, _ bitset) *vec { return ev.slots[n.slot].args[0] }
