package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// UnnestConfig configures unnest.
type UnnestConfig struct {
	// Column is a list, or a json column whose documents are arrays.
	Column string `yaml:"column,required"`
	// As names the column of the element, which stands in the place of the list. Not
	// together with flatten. Default: the name of the list.
	As string `yaml:"as"`
	// Type is that of the elements of a json column, as in a decode schema: string,
	// struct{sku: string, n: int32}. Default: json.
	Type string `yaml:"type"`
	// Flatten puts the fields of elements that are structs in the place of the list,
	// each as a column of its own. Default: false.
	Flatten bool `yaml:"flatten"`
	// Ordinality names a further column, int64, behind the others: the number of the
	// element, from 1. Default: none.
	Ordinality string `yaml:"ordinality"`
	// KeepEmpty lets a row without elements (null, an empty list) go on once, with
	// null for the element. Otherwise it is counted as filtered. Default: false.
	KeepEmpty bool `yaml:"keep_empty"`
}

func init() {
	component.RegisterOperator(component.Operator[UnnestConfig]{
		Name:    "unnest",
		Summary: "Makes a row of each element of a list.",
		Doc: `Each element of a list, or of a JSON array, becomes a row with the other columns of the
row that it came in; the column of the element stands in the place of the list. Rows of
one list follow one another in its order, in batches of bounded size.

A row that is made keeps event time, stamp and origin of its row, and has the number of
its element beside them: as in orders.ndjson:12#3 of a bad row. So rows of one list are
told apart, in the same way in every run.

A row whose JSON is no array, or holds an element of another type, leaves by the port
bad as a whole.`,
		Default: func() UnnestConfig { return UnnestConfig{} },
		Plan:    planUnnest,
		New:     newUnnest,
	})
}

// Bounds of the batches that unnest makes.
const (
	unnestRows  = 8192
	unnestBytes = 4 << 20
)

// unnestPlan is what an unnest does, worked out from its config.
type unnestPlan struct {
	column int
	// parse is the type of a json column's list; "" for a list.
	parse string
	// flat: the element's fields are columns.
	flat bool
	keep bool
	// elements is how many columns stand in the place of the list.
	elements int
	ordinal  bool
	users    int // columns of the input
	out      *arrow.Schema
}

func planUnnest(in component.OperatorIn, cfg UnnestConfig) (component.OperatorPlan, error) {
	p, problems := layoutUnnest(in.Inputs[0].Schema, cfg)
	if len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	ports := statelessPorts(dataflow.Stream{Schema: p.out})
	if p.parse == "" {
		ports = ports[:statelessBad] // No row can fail.
	}
	return component.OperatorPlan{Ports: ports, Fingerprint: fmt.Sprintf("%q %s %t %t %s", cfg.Column, p.parse, p.flat, p.keep, p.out)}, nil
}

// layoutUnnest checks a config against its input.
func layoutUnnest(schema *arrow.Schema, cfg UnnestConfig) (*unnestPlan, component.Problems) {
	var problems component.Problems
	add := func(path, format string, args ...any) {
		problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	names := windowUserNames(schema)
	p := &unnestPlan{column: slices.Index(names, cfg.Column), flat: cfg.Flatten, keep: cfg.KeepEmpty, users: len(names), ordinal: cfg.Ordinality != ""}
	if p.column < 0 {
		add("column", "%s", projectUnknown(cfg.Column, names))
		return nil, problems
	}
	element, err := p.elementOf(schema.Field(p.column).Type, cfg)
	if err != nil {
		return nil, component.AsProblems(err)
	}
	made := []arrow.Field{{Name: cfg.As, Type: element, Nullable: true}}
	switch {
	case cfg.As == "":
		made[0].Name = cfg.Column
	case cfg.Flatten:
		add("as", "as and flatten do not go together: with flatten the fields keep their names")
	case dataflow.IsSystem(cfg.As):
		add("as", "column name %q is not allowed: names with %q are reserved for the system", cfg.As, dataflow.SysPrefix)
	}
	if cfg.Flatten {
		s, ok := element.(*arrow.StructType)
		if !ok {
			add("flatten", "elements of column %q are %s: only those that are structs have fields", cfg.Column, dataflow.TypeName(element))
			return nil, problems
		}
		made = slices.Clone(s.Fields())
		for i := range made {
			made[i].Nullable = true
		}
	}
	p.elements = len(made)
	fields := slices.Concat(dataflow.UserFields(schema)[:p.column], made, dataflow.UserFields(schema)[p.column+1:])
	if p.ordinal {
		fields = append(fields, arrow.Field{Name: cfg.Ordinality, Type: dataflow.TypeInt64, Nullable: cfg.KeepEmpty})
	}
	problems = append(problems, unnestNames(fields, cfg)...)
	fields = append(fields, dataflow.SysFields(schema)...)
	p.out = arrow.NewSchema(append(fields, dataflow.ElementField(schema)), nil)
	return p, problems
}

// unnestNames checks that no two columns of the result have one name.
func unnestNames(fields []arrow.Field, cfg UnnestConfig) (problems component.Problems) {
	for i, f := range fields {
		path, way := "as", "name the element with as"
		switch {
		case i == len(fields)-1 && f.Name == cfg.Ordinality:
			path, way = "ordinality", "choose another name"
		case cfg.Flatten:
			path, way = "flatten", "rename the column before, or leave flatten out"
		}
		switch {
		case dataflow.IsSystem(f.Name):
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("column name %q is not allowed: names with %q are reserved for the system", f.Name, dataflow.SysPrefix)})
		case slices.ContainsFunc(fields[:i], func(have arrow.Field) bool { return have.Name == f.Name }):
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("the result would have two columns %q: %s", f.Name, way)})
		}
	}
	return problems
}

// elementOf is the type of the elements of a column of type t.
func (p *unnestPlan) elementOf(t arrow.DataType, cfg UnnestConfig) (arrow.DataType, error) {
	list, isList := t.(*arrow.ListType)
	switch {
	case isList && cfg.Type != "":
		return nil, component.Badf("type", "column %q is %s: its elements have their type; type is for json columns", cfg.Column, dataflow.TypeName(t))
	case isList:
		return list.Elem(), nil
	case !arrow.TypeEqual(t, dataflow.TypeJSON):
		way := ""
		if t.ID() == arrow.STRING {
			way = "; a text that holds JSON becomes one in a cast step before"
		}
		return nil, component.Badf("column", "column %q has type %s: expected a list or json%s", cfg.Column, dataflow.TypeName(t), way)
	}
	text := cfg.Type
	if text == "" {
		text = "json"
	}
	spec, err := dataflow.ParseType(text)
	if err != nil {
		return nil, component.Badf("type", "%v", err)
	}
	p.parse = "list<" + text + ">"
	return spec.Type, nil
}

// unnest is the running operator.
type unnest struct {
	env  *dataflow.Env
	plan *unnestPlan
	// values reads the arrays of a json column; nil for lists.
	values *jsonValues
	bad    *dataflow.BadRows
	errs   []expr.RowError
	// The rows of the batch that is being made: of the input, of the elements (the
	// last one is null), and their numbers.
	parents, elements, numbers []int32
	bytes                      int64
	sizes                      rowSizes
}

func newUnnest(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg UnnestConfig) (dataflow.Operator, error) {
	p, problems := layoutUnnest(in.Inputs[0].Schema, cfg)
	if len(problems) > 0 {
		return nil, problems
	}
	u := &unnest{env: env, plan: p, bad: dataflow.NewBadRows(env)}
	if p.parse != "" {
		var err error
		if u.values, err = newJSONValues(cfg.Column, p.parse, env.Alloc); err != nil {
			return nil, fmt.Errorf("type: %w", err)
		}
	}
	return u, nil
}

// Process makes the rows of one batch.
func (u *unnest) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	lists := u.lists(b)
	defer lists.Release()
	if err := statelessBadRows(ctx, u.env, u.bad, b, u.errs, out); err != nil {
		return err
	}
	sources, null, err := u.sources(lists)
	if err != nil {
		return err
	}
	defer releaseAll(sources)
	u.sizes.of(b, u.plan.column)
	errs := u.errs
	for row := range lists.Len() {
		if len(errs) > 0 && errs[0].Row == row {
			errs = errs[1:]
			continue
		}
		lo, hi := lists.ValueOffsets(row)
		if lists.IsNull(row) {
			hi = lo
		}
		if lo == hi && !u.plan.keep {
			u.env.Fates.Filtered.Add(1)
			continue
		}
		u.env.Fates.Absorbed.Add(1)
		if lo == hi {
			if err := u.add(ctx, b, sources, int32(row), null, 0, out); err != nil {
				return err
			}
		}
		for at := lo; at < hi; at++ {
			element := int32(at)
			if u.plan.flat && lists.ListValues().IsNull(int(at)) {
				element = null
			}
			if err := u.add(ctx, b, sources, int32(row), element, int32(at-lo+1), out); err != nil {
				return err
			}
		}
	}
	return u.flush(ctx, b, sources, out)
}

// lists returns the lists of b, which the caller owns, and fills errs.
func (u *unnest) lists(b arrow.RecordBatch) *array.List {
	u.errs = u.errs[:0]
	a := b.Column(u.plan.column)
	if u.values == nil {
		a.Retain()
		return a.(*array.List)
	}
	text, checked := textsOf(a)
	for i := range a.Len() {
		if a.IsNull(i) {
			u.values.null()
			continue
		}
		if bad := u.values.document(text.Value(i), checked); bad != nil {
			u.errs = append(u.errs, expr.RowError{Row: i, Bad: *bad})
			u.values.null()
		}
	}
	return u.values.flush().(*array.List)
}

// needsNull says whether rows have no element, or one without fields.
func (u *unnest) needsNull(lists *array.List) bool {
	if u.plan.flat && lists.ListValues().NullN() > 0 {
		return true
	}
	if !u.plan.keep {
		return false
	}
	for row := range lists.Len() {
		if lo, hi := lists.ValueOffsets(row); lo == hi || lists.IsNull(row) {
			return true
		}
	}
	return false
}

// sources are the columns of the elements, which the caller owns. null is the index of
// a null behind them, where one is needed.
func (u *unnest) sources(lists *array.List) (sources []arrow.Array, null int32, err error) {
	values := lists.ListValues()
	cols := []arrow.Array{values}
	if u.plan.flat {
		cols = cols[:0]
		for i := range u.plan.elements {
			cols = append(cols, values.(*array.Struct).Field(i))
		}
	}
	if !u.needsNull(lists) {
		for _, c := range cols {
			c.Retain()
		}
		return cols, int32(values.Len()), nil
	}
	for _, c := range cols {
		none := array.MakeArrayOfNull(u.env.Alloc, c.DataType(), 1)
		with, err := array.Concatenate([]arrow.Array{c, none}, u.env.Alloc)
		none.Release()
		if err != nil {
			releaseAll(sources)
			return nil, 0, fmt.Errorf("add a null to the elements: %w", err)
		}
		sources = append(sources, with)
	}
	return sources, int32(values.Len()), nil
}
