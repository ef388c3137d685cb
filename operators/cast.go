package operators

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// CastConfig configures cast.
type CastConfig struct {
	// Columns maps columns to the types that they get: {n: int64, at: timestamptz(ms)}.
	Columns component.NamedTypes `yaml:"columns,required"`
	// OnError says what a value that cannot be converted does: bad (its row leaves by
	// the port bad) or null (it becomes null). Default: bad.
	OnError string `yaml:"on_error" oneof:"bad,null"`
}

// Values of CastConfig.OnError.
const (
	castBad  = "bad"
	castNull = "null"
)

func init() {
	component.RegisterOperator(component.Operator[CastConfig]{
		Name:    "cast",
		Summary: "Converts columns to other types.",
		Doc: `A cast that does not exist is refused before anything runs. Casts are PostgreSQL's,
but for three kinds, which follow the rules of decode: a text becomes a date, time,
timestamp or timestamptz only in the form of RFC 3339; a whole number becomes a time if
the type says its unit, as timestamptz(ms); a json column, or a text that holds JSON,
becomes any type by the rules for JSON documents, without coercion.

Lists, structs and json become text or json as JSON documents. Null stays null. Columns
keep their names and places. Of a changelog the columns of the key must stay as they
are.`,
		Changes: true,
		Default: func() CastConfig { return CastConfig{OnError: castBad} },
		Plan:    planCast,
		New:     newCast,
	})
}

// castPlan is what a cast does, worked out from its config.
type castPlan struct {
	out dataflow.Stream
	// columns are those that are converted.
	columns []castColumn
}

// castColumn is the conversion of one column. One of expr, units, parse, write is set.
type castColumn struct {
	index int
	field arrow.Field // of the result
	// expr computes it.
	expr *expr.Expr
	// units is how many microseconds the unit of a number has, as a fraction.
	units *castUnit
	// parse reads a text as a value of the type, in the language of the file.
	parse string
	// quoted: the text is the value of a JSON string, and no document.
	quoted bool
	// write: the value becomes a JSON document.
	write bool
}

func planCast(in component.OperatorIn, cfg CastConfig) (component.OperatorPlan, error) {
	p, problems := layoutCast(in.Inputs[0], cfg)
	if len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	print := []string{cfg.OnError}
	for _, c := range cfg.Columns {
		print = append(print, fmt.Sprintf("%q=%s", c.Name, c.Type))
	}
	ports := statelessPorts(p.out)
	if cfg.OnError == castNull {
		ports = ports[:statelessBad]
	}
	return component.OperatorPlan{Ports: ports, Fingerprint: strings.Join(print, "\n")}, nil
}

// layoutCast checks a config against its input.
func layoutCast(in dataflow.Stream, cfg CastConfig) (*castPlan, component.Problems) {
	var problems component.Problems
	add := func(path, format string, args ...any) {
		problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if len(cfg.Columns) == 0 {
		add("columns", "cast has nothing to do: give columns: {COLUMN: TYPE, ...}")
	}
	names := windowUserNames(in.Schema)
	fields := slices.Clone(in.Schema.Fields())
	p := &castPlan{}
	for _, c := range cfg.Columns {
		path := "columns." + c.Name
		i := slices.Index(names, c.Name)
		spec, err := dataflow.ParseType(c.Type)
		switch {
		case i < 0:
			add(path, "%s", projectUnknown(c.Name, names))
			continue
		case err != nil:
			add(path, "%v", err)
			continue
		case slices.Contains(in.Key, c.Name):
			add(path, "column %q is part of the key of this changelog: it must stay as it is", c.Name)
			continue
		}
		col, err := castOf(in.Schema, i, spec, c.Type)
		if err != nil {
			add(path, "%v", err)
			continue
		}
		fields[i] = arrow.Field{Name: c.Name, Type: spec.Type, Nullable: fields[i].Nullable || cfg.OnError == castNull}
		if col != nil {
			col.index, col.field = i, fields[i]
			p.columns = append(p.columns, *col)
		}
	}
	p.out = in
	p.out.Schema = arrow.NewSchema(fields, nil)
	return p, problems
}

// castOf says how column i becomes spec, whose text is given; nil if it is that
// already.
func castOf(schema *arrow.Schema, i int, spec dataflow.TypeSpec, text string) (*castColumn, error) {
	from, name := schema.Field(i).Type, schema.Field(i).Name
	no := func(hint string) (*castColumn, error) {
		return nil, fmt.Errorf("column %q has type %s, which cannot be cast to %s%s", name, dataflow.TypeName(from), text, hint)
	}
	json, nested := arrow.TypeEqual(from, dataflow.TypeJSON), arrow.IsNested(from.ID())
	isText := from.ID() == arrow.STRING
	switch {
	case spec.Unit != "":
		if from.ID() != arrow.INT32 && from.ID() != arrow.INT64 {
			if json {
				return &castColumn{parse: text}, nil
			}
			return no(": only whole numbers (int32, int64) are times in a unit; a text in the form of RFC 3339 becomes one without a unit, " + dataflow.TypeName(spec.Type))
		}
		return &castColumn{units: newCastUnit(spec.Unit)}, nil
	case arrow.TypeEqual(from, spec.Type):
		return nil, nil
	case (json || nested) && spec.Type.ID() == arrow.STRING, nested && arrow.TypeEqual(spec.Type, dataflow.TypeJSON):
		return &castColumn{write: true}, nil
	case nested:
		return no("; it can become string or json")
	case json, isText && (arrow.IsNested(spec.Type.ID()) || arrow.TypeEqual(spec.Type, dataflow.TypeJSON)):
		return &castColumn{parse: text}, nil
	case isText && castTime(spec.Type):
		return &castColumn{parse: text, quoted: true}, nil
	case arrow.IsNested(spec.Type.ID()) || arrow.TypeEqual(spec.Type, dataflow.TypeJSON):
		return no("; only text and json can")
	}
	e, err := expr.Compile(fmt.Sprintf("cast(%s as %s)", quoteColumn(name), dataflow.TypeName(spec.Type)), schema)
	if err != nil {
		return no("")
	}
	if !arrow.TypeEqual(e.Type(), spec.Type) {
		return no(fmt.Sprintf(": that gives %s", dataflow.TypeName(e.Type())))
	}
	return &castColumn{expr: e}, nil
}

// castTime says whether t is a type of times.
func castTime(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.DATE32, arrow.TIME64, arrow.TIMESTAMP:
		return true
	}
	return false
}

// quoteColumn writes the name of a column as expressions do.
func quoteColumn(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// cast is the running operator.
type cast struct {
	rowsOut
	plan *castPlan
	// values are by converted column.
	values []castValues
	nulls  bool // on_error: null
}

// castValues converts one column of a batch. The caller owns the array, which is null
// where a value failed; errs holds those rows in order and is valid until the next call.
type castValues interface {
	convert(b arrow.RecordBatch) (a arrow.Array, errs []expr.RowError, err error)
}

func newCast(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg CastConfig) (dataflow.Operator, error) {
	p, problems := layoutCast(in.Inputs[0], cfg)
	if len(problems) > 0 {
		return nil, problems
	}
	c := &cast{rowsOut: newRowsOut(env), plan: p, nulls: cfg.OnError == castNull}
	for i := range p.columns {
		v, err := p.columns[i].values(env)
		if err != nil {
			return nil, fmt.Errorf("columns.%s: %w", p.columns[i].field.Name, err)
		}
		c.values = append(c.values, v)
	}
	return c, nil
}

// Process converts the columns of one batch.
func (c *cast) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	made, err := c.convert(b)
	if err != nil {
		return err
	}
	return c.send(ctx, b, made, out)
}

// convert builds the result of all rows and collects the failed ones in c.errs.
func (c *cast) convert(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	c.errs = c.errs[:0]
	cols := slices.Clone(b.Columns())
	var owned []arrow.Array
	defer func() {
		for _, a := range owned {
			a.Release()
		}
	}()
	for i, v := range c.values {
		col := &c.plan.columns[i]
		a, errs, err := v.convert(b)
		if err != nil {
			return nil, fmt.Errorf("cast column %q: %w", col.field.Name, err)
		}
		owned = append(owned, a)
		cols[col.index] = a
		if c.nulls {
			continue
		}
		c.errs = append(c.errs, errs...)
	}
	c.errs = oneErrorEach(c.errs)
	return array.NewRecordBatch(c.plan.out.Schema, cols, b.NumRows()), nil
}

// Close frees what the conversions hold.
func (c *cast) Close() error {
	c.bad.Release()
	for _, v := range c.values {
		if x, ok := v.(interface{ release() }); ok {
			x.release()
		}
	}
	return nil
}

var _ dataflow.Operator = (*cast)(nil)
