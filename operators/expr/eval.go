package expr

import (
	"fmt"
	"math/bits"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Reasons of bad rows. They are stable.
const (
	badZero     = "division_by_zero"
	badRange    = "out_of_range"
	badCast     = "invalid_cast"
	badArgument = "invalid_argument"
)

// RowError says why one row could not be computed.
type RowError struct {
	Row int
	Bad dataflow.Bad
}

// node is one typed part of an expression, ready to run.
type node struct {
	typ      typ
	pos, end int
	args     []*node
	slot     int
	// eval computes n for the rows of the batch. Errors count only for rows in
	// sel; nil is all rows. The vec is valid until the node is evaluated again.
	eval   func(ev *Evaluator, n *node, sel bitset) *vec
	kernel kernel
	loose  bool // the kernel sees nulls
	fails  bool // it or a part of it may fail a row
	joins  bool // texts joined by ||
	// Of a node that stands in several places: what computes it, and the slot that says
	// for which rows it has.
	once  func(ev *Evaluator, n *node, sel bitset) *vec
	memo  int
	konst *vec
	col   string // a column
	colIx int
	// A literal without a type yet.
	unknown bool
	null    bool
	text    string
	// emptyList: it is array[], which needs a cast to a list.
	emptyList bool
}

// kernel computes out from its operands for all rows of the call. Unless the
// function is loose, out is null already where an operand is, and the values
// under nulls do not matter.
type kernel func(c *call, out *vec, a []*vec)

// call is one run of a kernel.
type call struct {
	n    int
	node *node
	out  *vec
	sel  bitset
	ev   *Evaluator
	slot *slot
	// Where rows are the elements of lists: the call for the lists, and these.
	outer *call
	lists *vec
	// Where rows are the comparisons of an any: these.
	pairs *pairs
}

// slot is the memory of one node.
type slot struct {
	out, tmp   vec
	args       []*vec
	m1, m2, m3 bitset
	choice     []uint16
	cache      any // what a kernel keeps about its constant operands
	// Of a node that stands in several places: the batch that it was computed for, the
	// rows of it (in m1, or all of them), and its values (in args).
	batch int64
	whole bool
}

// fail marks row i bad, unless it is null anyway or its branch is not taken.
func (c *call) fail(i int, reason, format string, args ...any) {
	if c.outer != nil {
		row, _ := slices.BinarySearch(c.lists.off, int32(i)+1)
		c.outer.fail(max(row-1, 0), reason, format, args...)
		return
	}
	if c.counts(i) && (c.pairs != nil || !c.ev.failed.get(i)) {
		c.report(i, reason, fmt.Sprintf(format, args...))
	}
}

// failBad is fail with a mistake that has its text; it needs no memory where the row's
// value does not matter.
func (c *call) failBad(i int, bad *dataflow.Bad) {
	if c.outer != nil {
		c.fail(i, bad.Reason, "%s", bad.Detail)
		return
	}
	if c.counts(i) && (c.pairs != nil || !c.ev.failed.get(i)) {
		c.report(i, bad.Reason, bad.Detail)
	}
}

func (c *call) report(i int, reason, detail string) {
	if c.pairs != nil {
		c.pairs.bad = append(c.pairs.bad, RowError{i, dataflow.Bad{Reason: reason, Detail: detail}})
		return
	}
	ev := c.ev
	ev.failed.set(i)
	if ev.batch != nil { // a constant's error points into the text anyway
		detail = ev.part(c.node) + ": " + detail
	}
	ev.errs = append(ev.errs, RowError{Row: i, Bad: dataflow.Bad{Reason: reason, Detail: detail}})
}

// counts says whether row i's value matters.
func (c *call) counts(i int) bool {
	return (c.sel == nil || c.sel.get(i)) && (!c.out.nulls || c.out.valid.get(i))
}

// Expr is a compiled expression. It is immutable and safe for concurrent use.
type Expr struct {
	text    string
	canon   string
	root    *node
	slots   int
	columns []*node
}

// Type returns the type of the result.
func (e *Expr) Type() arrow.DataType { return e.root.typ.arrow() }

// Columns returns the names of the columns that are read, each once, in the
// order in which they occur.
func (e *Expr) Columns() []string {
	out := make([]string, len(e.columns))
	for i, c := range e.columns {
		out[i] = c.col
	}
	return out
}

// String returns the text in a canonical form: the same for texts that differ
// in white space, comments, superfluous parentheses or the case of words.
func (e *Expr) String() string { return e.canon }

// Volatile says why the same row may give another value at another time; "" if
// it may not. Functions that read the clock are refused by Compile, so it is
// always "" today.
func (e *Expr) Volatile() string { return "" }

// Const says whether the value is the same for every row.
func (e *Expr) Const() bool { return e.root.konst != nil }

// Evaluator runs an expression over batches of the schema it was compiled for.
// It keeps scratch memory between calls: one goroutine uses it.
type Evaluator struct {
	e      *Expr
	alloc  memory.Allocator
	slots  []slot
	batch  arrow.RecordBatch
	n      int
	errs   []RowError
	failed bitset
	src    string
	// batches counts those that were evaluated.
	batches int64
}

// NewEvaluator returns an evaluator whose results come from alloc.
func (e *Expr) NewEvaluator(alloc memory.Allocator) *Evaluator {
	return &Evaluator{e: e, alloc: alloc, slots: make([]slot, e.slots), src: e.text}
}

// Eval computes the expression for every row of b. The caller owns the array;
// it is null where a row failed. The failed rows come in ascending order, each
// once; they are valid until the next call.
func (ev *Evaluator) Eval(b arrow.RecordBatch) (arrow.Array, []RowError, error) {
	if err := ev.start(b); err != nil {
		return nil, nil, err
	}
	defer func() { ev.batch = nil }()
	root := ev.e.root
	if root.col != "" && len(root.args) == 0 {
		a := b.Column(root.colIx)
		a.Retain()
		return a, nil, nil
	}
	v := root.eval(ev, root, nil)
	if root.typ.k == kInterval {
		ev.checkNano(v, root)
	}
	if len(ev.errs) > 0 {
		v = ev.spoil(v, root)
	}
	a, err := toArrow(v, root.typ, ev.n, ev.alloc)
	if err != nil {
		return nil, nil, fmt.Errorf("evaluate %q: %w", ev.e.text, err)
	}
	return a, ev.failures(), nil
}

// start points the columns' slots at b.
func (ev *Evaluator) start(b arrow.RecordBatch) error {
	ev.batch, ev.n = b, int(b.NumRows())
	ev.batches++
	ev.reset()
	for _, c := range ev.e.columns {
		if err := ev.load(c); err != nil {
			return err
		}
	}
	return nil
}

// failures returns the failed rows in order.
func (ev *Evaluator) failures() []RowError {
	slices.SortFunc(ev.errs, func(x, y RowError) int { return x.Row - y.Row })
	return ev.errs
}

func (ev *Evaluator) reset() {
	ev.errs = ev.errs[:0]
	ev.failed = ev.failed.sized(max(ev.n, 1))
	ev.failed.fill(0)
}

// load points a column's slot at the batch.
func (ev *Evaluator) load(c *node) error {
	if c.colIx >= int(ev.batch.NumCols()) {
		return fmt.Errorf("evaluate %q: the batch has no column %q", ev.e.text, c.col)
	}
	a := ev.batch.Column(c.colIx)
	if t, ok := typeOf(a.DataType()); !ok || t.k != c.typ.k {
		return fmt.Errorf("evaluate %q: column %q has type %s in the batch and %s in the schema", ev.e.text, c.col, a.DataType(), c.typ)
	}
	ev.slots[c.slot].out.borrow(a, c.typ)
	return nil
}

// spoil makes failed rows null. A value that stands for all rows is spread if
// only some failed.
func (ev *Evaluator) spoil(v *vec, n *node) *vec {
	if v.konst {
		out := &ev.slots[n.slot].tmp
		spread(v, out, n.typ, ev.n)
		v = out
	}
	valid := v.needValid(ev.n)
	for _, e := range ev.errs {
		valid.clear(e.Row)
	}
	return v
}

// part is the source text of n, shortened, for messages.
func (ev *Evaluator) part(n *node) string {
	s := ev.src
	if n.pos < 0 || n.end > len(s) || n.pos >= n.end {
		return s
	}
	s = s[n.pos:n.end]
	if len(s) > 80 {
		cut := 77
		for cut > 0 && s[cut]&0xc0 == 0x80 {
			cut--
		}
		s = s[:cut] + "..."
	}
	return s
}

func evalConst(_ *Evaluator, n *node, _ bitset) *vec { return n.konst }

func evalColumn(ev *Evaluator, n *node, _ bitset) *vec { return &ev.slots[n.slot].out }

// evalCall runs a kernel over evaluated operands.
func evalCall(ev *Evaluator, n *node, sel bitset) *vec {
	s := &ev.slots[n.slot]
	if s.args == nil {
		s.args = make([]*vec, len(n.args))
	}
	for i, a := range n.args {
		s.args[i] = a.eval(ev, a, sel)
	}
	out := &s.out
	out.n, out.konst, out.nulls = ev.n, false, false
	if !n.loose {
		for _, a := range s.args {
			if a.constNull() {
				setConstNull(out, n.typ)
				return out
			}
		}
		for _, a := range s.args {
			out.andValid(a)
		}
	}
	c := call{n: ev.n, node: n, out: out, sel: sel, ev: ev, slot: s}
	n.kernel(&c, out, s.args)
	return out
}

// setConstNull makes out a null for all rows.
func setConstNull(out *vec, t typ) {
	out.konst, out.nulls = true, true
	out.valid = out.valid.sized(1)
	out.valid[0] = 0
	switch w := t.width(); {
	case t.k == kBool:
		growBits(out, 1)[0] = 0
	case w > 0:
		clear(grow[int64](out, 2))
	case t.k == kNested:
		out.arr = nil
	case t.k == kList:
		l := newLists(out, t.elem(), 1)
		l.end()
		l.done()
	default:
		out.ownOff = append(out.ownOff[:0], 0, 0)
		out.off, out.raw = out.ownOff, nil
	}
}

// spread writes a constant out for n rows.
func spread(v, out *vec, t typ, n int) {
	out.n, out.konst, out.nulls = n, false, false
	out.andConstValid(v, n)
	switch w := t.width(); {
	case t.k == kBool:
		b := growBits(out, n)
		b.fill(0)
		if v.bits.get(0) {
			b.fill(^uint64(0))
		}
	case w > 0:
		grow[int8](out, n*w)
		for i := range n {
			copy(out.raw[i*w:(i+1)*w], v.raw[:w])
		}
	case t.k == kNested:
		out.arr = v.arr
	case t.k == kList:
		l := newLists(out, t.elem(), n)
		for range n {
			l.addAll(v, 0)
			l.end()
		}
		l.done()
	default:
		off, data := growText(out, n)
		s := v.text(0)
		for i := range n {
			data = append(data, s...)
			off[i+1] = int32(len(data))
		}
		setText(out, off, data)
	}
}

func (v *vec) andConstValid(c *vec, n int) {
	if c.nulls && !c.valid.get(0) {
		v.n = n
		v.needValid(n).fill(0)
	}
}

// Select appends to rows, in ascending order, the rows of b for which a boolean
// expression is true. The failed rows are as with Eval, and never among rows.
func (ev *Evaluator) Select(b arrow.RecordBatch, rows []int32) ([]int32, []RowError, error) {
	root := ev.e.root
	if root.typ.k != kBool {
		return rows, nil, fmt.Errorf("evaluate %q: select rows by a value of type %s", ev.e.text, root.typ)
	}
	if err := ev.start(b); err != nil {
		return rows, nil, err
	}
	defer func() { ev.batch = nil }()
	v := root.eval(ev, root, nil)
	for w := range words(ev.n) {
		m := v.bitWord(w) & v.validWord(w) &^ ev.failed[w] & tail(ev.n, w)
		for base := int32(w << 6); m != 0; m &= m - 1 {
			rows = append(rows, base+int32(bits.TrailingZeros64(m)))
		}
	}
	return rows, ev.failures(), nil
}
