package codec

import (
	"fmt"
	"slices"
)

// avroOp reads one value of a writer's schema into a column.
type avroOp struct {
	// kind is what lies in the payload.
	kind avroKind
	// col gets the value; nil: it is skipped.
	col *column
	// refuse is why no value can be read here; it is seen only where one comes.
	refuse string
	name   string // of a record's field, for messages
	size   int    // fixed
	digits int    // of the unit of a time below the second
	subs   []*avroOp
	elem   *avroOp // array, and of a map the values
	key    *column // map
	rest   []avroDefault
	// cost is what an element of an array, a map takes in memory, at least 1.
	cost int
	// symbols of an enum; nil: the reader's has no such one.
	symbols [][]byte
}

// avroDefault fills a column that the writer's schema does not have.
type avroDefault struct {
	op    *avroOp // reads the default; nil: the column is null
	col   *column
	bytes []byte
}

// avroResolver makes the program by which values of a writer's schema are read into
// the columns of a reader's, as the specification says of schema resolution.
type avroResolver struct {
	skips map[*avroType]*avroOp
}

// resolveAvro is the program of whole payloads.
func resolveAvro(w, r *avroType, cols []*column) (*avroOp, error) {
	a := avroResolver{skips: map[*avroType]*avroOp{}}
	switch {
	case r.kind != avRecord:
		return a.value(w, r, cols[0])
	case w.kind == avUnion:
		return a.union(w, func(b *avroType) (*avroOp, error) { return a.record(b, r, nil, cols) })
	}
	return a.record(w, r, nil, cols)
}

func cannotRead(w, r *avroType) error {
	return fmt.Errorf("%s cannot be read as %s", w.text(), r.text())
}

// value reads w into col, which is of the type r.
func (a *avroResolver) value(w, r *avroType, col *column) (*avroOp, error) {
	plain, null := r.optional()
	switch {
	case w.kind == avUnion:
		return a.union(w, func(b *avroType) (*avroOp, error) { return a.value(b, r, col) })
	case w.kind == avNull && null:
		return &avroOp{kind: avNull, col: col}, nil
	case w.kind == avNull:
		return nil, fmt.Errorf("null cannot be read as %s", r.text())
	}
	op := &avroOp{kind: w.kind, col: col, size: w.size}
	fits := false
	switch col.kind {
	case kBool:
		fits = w.kind == avBoolean
	case kInt32:
		fits = w.kind == avInt
	case kInt64:
		fits = w.kind == avInt || w.kind == avLong
	case kFloat32:
		fits = w.kind == avInt || w.kind == avLong || w.kind == avFloat
	case kFloat64:
		fits = w.kind == avInt || w.kind == avLong || w.kind == avFloat || w.kind == avDouble
	case kString:
		if fits = w.kind == avString || w.kind == avBytes || w.kind == avEnum; w.kind == avEnum {
			op.symbols = symbolsOf(w, plain)
		}
		fits = fits && (plain.kind == avEnum) == (w.kind == avEnum)
	case kBinary:
		fits = w.kind == avBytes && plain.kind == avBytes || w.kind == avString && plain.kind == avBytes || w.kind == avFixed && plain.kind == avFixed && w.size == plain.size
	case kUUID:
		fits = w.kind == avString || w.kind == avFixed && w.size == 16
	case kDecimal:
		fits = (w.kind == avBytes || w.kind == avFixed) && (w.logical != "decimal" || w.scale == plain.scale)
	case kDate:
		fits = w.kind == avInt
	case kTime, kTimestamp:
		fits = w.kind == avInt || w.kind == avLong
		// The writer knows the unit of its number; one that says nothing has the reader's.
		if op.digits = plain.digits(); w.isTime() {
			op.digits = w.digits()
		}
	case kList:
		return a.list(w, plain, col)
	case kStruct:
		return a.record(w, plain, col, col.obj.cols)
	}
	if !fits {
		return nil, cannotRead(w, r)
	}
	return op, nil
}

func symbolsOf(w, r *avroType) [][]byte {
	out := make([][]byte, len(w.symbols))
	for i, s := range w.symbols {
		switch {
		case r.kind != avEnum || slices.Contains(r.symbols, s):
			out[i] = []byte(s)
		case r.enumDefault != "":
			out[i] = []byte(r.enumDefault)
		}
	}
	return out
}

// union reads each branch as read says; one that cannot be read is refused where it
// comes.
func (a *avroResolver) union(w *avroType, read func(*avroType) (*avroOp, error)) (*avroOp, error) {
	op := &avroOp{kind: avUnion}
	var first error
	readable := false
	for _, b := range w.branches {
		sub, err := read(b)
		if err != nil {
			if first == nil {
				first = err
			}
			sub = &avroOp{kind: b.kind, refuse: err.Error()}
		} else {
			readable = true
		}
		op.subs = append(op.subs, sub)
	}
	if !readable {
		return nil, first
	}
	return op, nil
}

func (a *avroResolver) list(w, r *avroType, col *column) (*avroOp, error) {
	if w.kind != r.kind {
		return nil, cannotRead(w, r)
	}
	op := &avroOp{kind: w.kind, col: col, cost: 1 + col.elem.rowBytes()}
	into := col.elem
	if w.kind == avMap {
		op.key, into = col.elem.obj.cols[0], col.elem.obj.cols[1]
	}
	var err error
	op.elem, err = a.value(w.elem, r.elem, into)
	return op, err
}

// record reads the fields of w into those of r, by name and by r's aliases. col is the
// struct's, nil for the whole row.
func (a *avroResolver) record(w, r *avroType, col *column, cols []*column) (*avroOp, error) {
	if w.kind != avRecord {
		return nil, cannotRead(w, r)
	}
	op := &avroOp{kind: avRecord, col: col}
	from := make([]int, len(w.fields)) // the reader's field, -1: none
	for i := range from {
		from[i] = -1
	}
	for i, f := range r.fields {
		at := slices.IndexFunc(w.fields, func(x avroField) bool { return x.name == f.name })
		if at < 0 {
			at = slices.IndexFunc(w.fields, func(x avroField) bool { return slices.Contains(f.aliases, x.name) })
		}
		if at >= 0 && from[at] < 0 {
			from[at] = i
			continue
		}
		d, err := a.def(f, cols[i])
		if err != nil {
			return nil, err
		}
		op.rest = append(op.rest, d)
	}
	for i, f := range w.fields {
		sub := a.skip(f.typ)
		if at := from[i]; at >= 0 {
			var err error
			if sub, err = a.value(f.typ, r.fields[at].typ, cols[at]); err != nil {
				return nil, fmt.Errorf("field %q: %w", f.name, err)
			}
		}
		named := *sub
		named.name = f.name
		op.subs = append(op.subs, &named)
	}
	return op, nil
}

func (a *avroResolver) def(f avroField, col *column) (avroDefault, error) {
	if f.def == nil {
		return avroDefault{}, fmt.Errorf("field %q is not there, and has no default", f.name)
	}
	// A default of null is the common one; others are read as if they had been
	// written.
	if plain, null := f.typ.optional(); null && (plain == nil || f.typ.branches[f.def[0]>>1].kind == avNull) {
		return avroDefault{col: col}, nil
	}
	op, err := a.value(f.typ, f.typ, col)
	return avroDefault{op: op, col: col, bytes: f.def}, err
}

// skip reads w into nothing.
func (a *avroResolver) skip(w *avroType) *avroOp {
	if op := a.skips[w]; op != nil {
		return op
	}
	op := &avroOp{kind: w.kind, size: w.size, cost: 1}
	a.skips[w] = op
	if w.elem != nil {
		op.elem = a.skip(w.elem)
	}
	for _, b := range w.branches {
		op.subs = append(op.subs, a.skip(b))
	}
	for _, f := range w.fields {
		op.subs = append(op.subs, a.skip(f.typ))
	}
	return op
}
