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

// ProjectConfig configures project.
type ProjectConfig struct {
	// Compute maps names of columns to expressions over the input's columns. A
	// new name adds a column behind the others, in the order given; the name of
	// an input column replaces that column in its place.
	Compute component.NamedExprs `yaml:"compute"`
	// Rename maps names of input columns to new names. Expressions use the old
	// ones.
	Rename map[string]string `yaml:"rename"`
	// Drop lists input columns to leave out.
	Drop []string `yaml:"drop"`
	// Select lists the columns of the result, in this order; all others are left
	// out. It names them as they are after compute and rename. It does not go
	// together with drop.
	Select []string `yaml:"select"`
}

func init() {
	component.RegisterOperator(component.Operator[ProjectConfig]{
		Name:    "project",
		Summary: "Computes, renames, drops and reorders columns.",
		Doc: `Every expression reads the columns of the input, whatever else the step does.
Without select, the columns keep their order and computed ones follow. A row for
which an expression cannot be computed leaves by the port bad, once, as it came
in.`,
		Changes: true,
		Default: func() ProjectConfig { return ProjectConfig{} },
		Plan:    planProject,
		New:     newProject,
	})
}

// projectColumn is one column of the result: an input column or an expression.
type projectColumn struct {
	field arrow.Field
	// input is the index of the input column, or -1.
	input int
	expr  *expr.Expr
	path  string
}

// projectLayout is what a project does, worked out from its config.
type projectLayout struct {
	columns []projectColumn
	out     dataflow.Stream
}

func planProject(in component.OperatorIn, cfg ProjectConfig) (component.OperatorPlan, error) {
	l, problems := layoutProject(in.Inputs[0], cfg)
	if len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	plan := component.OperatorPlan{Ports: statelessPorts(l.out)}
	var print []string
	for _, c := range l.columns {
		if c.expr == nil {
			print = append(print, fmt.Sprintf("%q=%d", c.field.Name, c.input))
			continue
		}
		print = append(print, fmt.Sprintf("%q=%s", c.field.Name, c.expr))
		if why := c.expr.Volatile(); why != "" {
			plan.NotReplayable = why
		}
	}
	plan.Fingerprint = strings.Join(print, "\n")
	return plan, nil
}

// layoutProject checks a config against its input.
func layoutProject(in dataflow.Stream, cfg ProjectConfig) (*projectLayout, component.Problems) {
	p := &projectPlanner{in: in, cfg: cfg, user: dataflow.UserFields(in.Schema)}
	if len(cfg.Compute)+len(cfg.Rename)+len(cfg.Drop)+len(cfg.Select) == 0 {
		p.add("", "project has nothing to do: give compute, rename, drop or select")
		return nil, p.problems
	}
	p.checkNames()
	computed := p.compute()
	cols := p.merge(computed)
	if len(cfg.Select) > 0 {
		cols = p.pick(cols)
	}
	key := p.key(cols)
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	if len(cols) == 0 {
		p.add("drop", "no column is left: keep at least one")
		return nil, p.problems
	}
	for i := len(p.user); i < in.Schema.NumFields(); i++ {
		cols = append(cols, projectColumn{field: in.Schema.Field(i), input: i})
	}
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		fields[i] = c.field
	}
	out := dataflow.Stream{Schema: arrow.NewSchema(fields, nil), Changelog: in.Changelog, Key: key, Forgets: in.Forgets}
	return &projectLayout{columns: cols, out: out}, nil
}

type projectPlanner struct {
	in       dataflow.Stream
	cfg      ProjectConfig
	user     []arrow.Field
	problems component.Problems
}

func (p *projectPlanner) add(path, format string, args ...any) {
	p.problems = append(p.problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
}

func (p *projectPlanner) names() []string {
	out := make([]string, len(p.user))
	for i, f := range p.user {
		out[i] = f.Name
	}
	return out
}

// known reports whether name is an input column, and the problem if not.
func (p *projectPlanner) known(path, name string) bool {
	if slices.ContainsFunc(p.user, func(f arrow.Field) bool { return f.Name == name }) {
		return true
	}
	p.add(path, "%s", projectUnknown(name, p.names()))
	return false
}

func projectUnknown(name string, known []string) string {
	if dataflow.IsSystem(name) {
		return fmt.Sprintf("unknown column %q: names with %q are reserved for the system", name, dataflow.SysPrefix)
	}
	return fmt.Sprintf("unknown column %q%s", name, component.DidYouMean(name, known))
}

// newName checks the name that a column gets.
func (p *projectPlanner) newName(path, name string) {
	switch {
	case name == "":
		p.add(path, "the name of a column is empty")
	case dataflow.IsSystem(name):
		p.add(path, "column name %q is not allowed: names with %q are reserved for the system", name, dataflow.SysPrefix)
	}
}

// checkNames checks rename and drop on their own.
func (p *projectPlanner) checkNames() {
	for _, from := range p.renamed() {
		path := "rename." + from
		if p.known(path, from) {
			p.newName(path, p.cfg.Rename[from])
		}
	}
	for i, name := range p.cfg.Drop {
		path := fmt.Sprintf("drop[%d]", i)
		p.known(path, name)
		if slices.Contains(p.cfg.Drop[:i], name) {
			p.add(path, "column %q is dropped twice", name)
		}
		if _, ok := p.cfg.Rename[name]; ok {
			p.add(path, "column %q is renamed and dropped: do one", name)
		}
	}
	if len(p.cfg.Drop) > 0 && len(p.cfg.Select) > 0 {
		p.add("drop", "drop and select do not go together: select lists what stays")
	}
}

// renamed lists the columns to rename in a stable order.
func (p *projectPlanner) renamed() []string {
	out := make([]string, 0, len(p.cfg.Rename))
	for from := range p.cfg.Rename {
		out = append(out, from)
	}
	slices.Sort(out)
	return out
}

// compute compiles the expressions.
func (p *projectPlanner) compute() []projectColumn {
	var out []projectColumn
	for _, c := range p.cfg.Compute {
		path := "compute." + c.Name
		p.newName(path, c.Name)
		e, err := expr.Compile(c.Expr, p.in.Schema)
		if err != nil {
			p.problems = append(p.problems, expr.Problem(path, err))
			continue
		}
		if e.Type().ID() == arrow.INTERVAL_MONTH_DAY_NANO {
			p.add(path, "an interval cannot be a column: convert it, as extract(epoch from ...)")
			continue
		}
		if slices.ContainsFunc(out, func(o projectColumn) bool { return o.field.Name == c.Name }) {
			p.add(path, "column %q is computed twice", c.Name)
		}
		f := arrow.Field{Name: c.Name, Type: e.Type(), Nullable: true}
		out = append(out, projectColumn{field: f, input: -1, expr: e, path: path})
	}
	return out
}

// merge puts kept, renamed, replaced and new columns into one order.
func (p *projectPlanner) merge(computed []projectColumn) []projectColumn {
	var out []projectColumn
	placed := map[string]bool{}
	for i, f := range p.user {
		if slices.Contains(p.cfg.Drop, f.Name) {
			continue
		}
		c := projectColumn{field: f, input: i, path: "rename." + f.Name}
		if to, ok := p.cfg.Rename[f.Name]; ok {
			c.field.Name = to
		} else if j := slices.IndexFunc(computed, func(o projectColumn) bool { return o.field.Name == f.Name }); j >= 0 {
			c = computed[j]
			placed[f.Name] = true
		}
		out = append(out, c)
	}
	for _, c := range computed {
		if !placed[c.field.Name] {
			out = append(out, c)
		}
	}
	seen := map[string]bool{}
	for _, c := range out {
		if seen[c.field.Name] {
			path := c.path
			if c.input >= 0 && p.cfg.Rename[p.user[c.input].Name] == "" {
				path = "rename"
			}
			p.add(path, "the result would have two columns %q: rename or drop one", c.field.Name)
		}
		seen[c.field.Name] = true
	}
	return out
}

// pick keeps the selected columns in the order of select.
func (p *projectPlanner) pick(cols []projectColumn) []projectColumn {
	var out []projectColumn
	var names []string
	for _, c := range cols {
		names = append(names, c.field.Name)
	}
	for i, name := range p.cfg.Select {
		path := fmt.Sprintf("select[%d]", i)
		j := slices.Index(names, name)
		switch {
		case j < 0:
			p.add(path, "%s", projectUnknown(name, names))
		case slices.Contains(p.cfg.Select[:i], name):
			p.add(path, "column %q is selected twice", name)
		default:
			out = append(out, cols[j])
		}
	}
	for _, c := range cols {
		if c.expr != nil && !slices.Contains(p.cfg.Select, c.field.Name) {
			p.add(c.path, "column %q is computed but not selected: add it to select", c.field.Name)
		}
	}
	return out
}

// key follows the key columns of a changelog through the step.
func (p *projectPlanner) key(cols []projectColumn) []string {
	var out []string
	for _, k := range p.in.Key {
		j := slices.IndexFunc(cols, func(c projectColumn) bool { return c.input >= 0 && p.user[c.input].Name == k })
		if j < 0 {
			p.add("", "column %q is part of the key of this changelog: it must stay as it is", k)
			continue
		}
		out = append(out, cols[j].field.Name)
	}
	return out
}

// project is the running operator.
type project struct {
	rowsOut
	layout *projectLayout
	evals  []*expr.Evaluator // by column; nil for input columns
}

func newProject(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg ProjectConfig) (dataflow.Operator, error) {
	l, problems := layoutProject(in.Inputs[0], cfg)
	if len(problems) > 0 {
		return nil, problems
	}
	p := &project{rowsOut: newRowsOut(env), layout: l, evals: make([]*expr.Evaluator, len(l.columns))}
	for i, c := range l.columns {
		if c.expr != nil {
			p.evals[i] = c.expr.NewEvaluator(env.Alloc)
		}
	}
	return p, nil
}

// Process computes the columns of one batch.
func (p *project) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	made, err := p.compute(b)
	if err != nil {
		return err
	}
	return p.send(ctx, b, made, out)
}

// compute builds the result of all rows and collects the failed ones in p.errs.
func (p *project) compute(b arrow.RecordBatch) (arrow.RecordBatch, error) {
	p.errs = p.errs[:0]
	cols := make([]arrow.Array, len(p.layout.columns))
	defer func() {
		for i, c := range cols {
			if c != nil && p.evals[i] != nil {
				c.Release()
			}
		}
	}()
	for i, c := range p.layout.columns {
		if c.expr == nil {
			cols[i] = b.Column(c.input)
			continue
		}
		a, errs, err := p.evals[i].Eval(b)
		if err != nil {
			return nil, fmt.Errorf("compute %s: %w", c.field.Name, err)
		}
		cols[i] = a
		for _, e := range errs {
			e.Bad.Detail = c.field.Name + ": " + e.Bad.Detail
			p.errs = append(p.errs, e)
		}
	}
	p.errs = oneErrorEach(p.errs)
	return array.NewRecordBatch(p.layout.out.Schema, cols, b.NumRows()), nil
}

// Close frees the builder of bad rows.
func (p *project) Close() error {
	p.bad.Release()
	return nil
}

var _ dataflow.Operator = (*project)(nil)
