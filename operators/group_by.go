package operators

import (
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// byKeys is a checked list of groups: columns of the input and expressions.
type byKeys struct {
	schema *arrow.Schema // the columns of the key, as results have them
	cols   []int         // of the input, -1 for an expression
	exprs  []*expr.Expr  // nil for a column
}

// newByKeys resolves by against input. Paths of problems start with "by".
func newByKeys(input *arrow.Schema, by []By) (*byKeys, component.Problems) {
	k := &byKeys{}
	known := windowUserNames(input)
	var fields []arrow.Field
	var problems component.Problems
	for i, b := range by {
		path := fmt.Sprintf("by[%d]", i)
		bad := func(format string, args ...any) {
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
		}
		c, f := slices.Index(known, b.Name), arrow.Field{}
		var e *expr.Expr
		switch {
		case b.Expr != "":
			var err error
			if e, err = expr.Compile(b.Expr, input); err != nil {
				problems = append(problems, expr.Problem(path+"."+b.Name, err))
				continue
			}
			c, f = -1, arrow.Field{Name: b.Name, Type: e.Type(), Nullable: true}
		case c < 0:
			bad("unknown column %q%s; columns: %s", b.Name, component.DidYouMean(b.Name, known), component.Names(known))
			continue
		default:
			f = input.Field(c)
		}
		if dataflow.IsSystem(f.Name) || f.Name == "" {
			bad("%q is no name of a column: names that begin with %q are reserved", f.Name, dataflow.SysPrefix)
		}
		if slices.ContainsFunc(fields, func(have arrow.Field) bool { return have.Name == f.Name }) {
			bad("column %q stands twice", f.Name)
		}
		if _, err := keyKindOf(f); err != nil {
			bad("%s", err)
		}
		fields, k.cols, k.exprs = append(fields, f), append(k.cols, c), append(k.exprs, e)
	}
	k.schema = arrow.NewSchema(fields, nil)
	return k, problems
}

// names are those of the result's columns.
func (k *byKeys) names() []string {
	var names []string
	for _, f := range k.schema.Fields() {
		names = append(names, f.Name)
	}
	return names
}

// fingerprint covers what the bytes of keys mean.
func (k *byKeys) fingerprint() string {
	s := " by"
	for i, f := range k.schema.Fields() {
		what := fmt.Sprintf("%q", f.Name)
		if k.exprs[i] != nil {
			what = "(" + k.exprs[i].String() + ")"
		}
		s += fmt.Sprintf(" %s %s,", what, dataflow.TypeName(f.Type))
	}
	return s
}

// keyText says it for people.
func (k *byKeys) keyText() string {
	if len(k.cols) == 0 {
		return "nothing, so one task has all rows"
	}
	return strings.Join(k.names(), ", ")
}

// byFeed makes the keys of batches. One goroutine uses it.
type byFeed struct {
	*byKeys
	evals  []*expr.Evaluator
	enc    *keyEncoder
	cols   []arrow.Array
	failed [][]expr.RowError
}

func (k *byKeys) newFeed(env *dataflow.Env) (*byFeed, error) {
	f := &byFeed{byKeys: k, evals: make([]*expr.Evaluator, len(k.exprs)), failed: make([][]expr.RowError, len(k.exprs))}
	index := make([]int, len(k.cols))
	for i := range index {
		index[i] = i
		if e := k.exprs[i]; e != nil {
			f.evals[i] = e.NewEvaluator(env.Alloc)
		}
	}
	var err error
	f.enc, err = newKeyEncoder(k.schema, index)
	return f, err
}

// bind computes the keys of b. It borrows b until unbind.
func (f *byFeed) bind(b arrow.RecordBatch) error {
	f.unbind()
	for i, c := range f.byKeys.cols {
		if c >= 0 {
			a := b.Column(c)
			a.Retain()
			f.cols = append(f.cols, a)
			continue
		}
		a, errs, err := f.evals[i].Eval(b)
		if err != nil {
			return fmt.Errorf("evaluate %s: %w", f.exprs[i], err)
		}
		f.cols, f.failed[i] = append(f.cols, a), errs
	}
	keys := array.NewRecordBatch(f.schema, f.cols, b.NumRows())
	defer keys.Release()
	f.enc.bind(keys)
	return nil
}

// failures visits the rows that have no key. A row may come several times.
func (f *byFeed) failures(visit func(row int, bad dataflow.Bad)) {
	for i, errs := range f.failed {
		for _, e := range errs {
			visit(e.Row, dataflow.Bad{Reason: e.Bad.Reason, Detail: "by " + f.schema.Field(i).Name + ": " + e.Bad.Detail})
		}
	}
}

// unbind lets go of the bound batch.
func (f *byFeed) unbind() {
	for i := range f.failed {
		f.failed[i] = nil
	}
	for _, a := range f.cols {
		a.Release()
	}
	f.cols = f.cols[:0]
}
