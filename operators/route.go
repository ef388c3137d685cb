package operators

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// RouteConfig configures route.
type RouteConfig struct {
	// Routes maps names of ports to conditions over the input's columns, in the order
	// in which they are tried. A step behind reads one as STEP.NAME.
	Routes component.NamedExprs `yaml:"routes,required"`
	// Match says where a row goes for which several conditions are true: first (to
	// the first of them) or all (to each of them). Default: first.
	Match string `yaml:"match" oneof:"first,all"`
}

// Values of RouteConfig.Match.
const (
	routeFirst = "first"
	routeAll   = "all"
)

// routeElse is the port of rows for which no condition is true.
const routeElse = "else"

var routeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func init() {
	component.RegisterOperator(component.Operator[RouteConfig]{
		Name:    "route",
		Summary: "Sends rows to ports by conditions.",
		Doc: `A row goes to the port of the first condition that is true, or with match: all to
that of each. Null is not true. Rows for which none is true leave by the port else;
rows of ports that nobody reads, else among them, go to the quarantine. The step has
no main output.

A row leaves by the port bad, and by no other, if a condition that decides it cannot
be computed: with match: first those up to the first that is true, with all each.
Columns and the order of rows within a port stay as they are.

Of a changelog each change is judged by its own row: a row that changes its port is
taken away from the old one. Where the step before forgets rows in time, a row that
comes anew goes to the other ports as a delete of its key.`,
		Changes:  true,
		Branches: true,
		Default:  func() RouteConfig { return RouteConfig{Match: routeFirst} },
		Plan:     planRoute,
		New:      newRoute,
	})
}

func planRoute(in component.OperatorIn, cfg RouteConfig) (component.OperatorPlan, error) {
	exprs, problems := compileRoutes(in.Inputs[0].Schema, cfg)
	if len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	var plan component.OperatorPlan
	print := []string{cfg.Match}
	for i, r := range cfg.Routes {
		plan.Ports = append(plan.Ports, dataflow.Port{Name: r.Name, Stream: in.Inputs[0]})
		print = append(print, fmt.Sprintf("%s=%s", r.Name, exprs[i]))
		if why := exprs[i].Volatile(); why != "" {
			plan.NotReplayable = why
		}
	}
	plan.Ports = append(plan.Ports, dataflow.Port{Name: routeElse, Stream: in.Inputs[0]}, dataflow.BadPort())
	plan.Fingerprint = strings.Join(print, "\n")
	return plan, nil
}

// compileRoutes checks the conditions one by one, so that what is wrong points into
// the one that it is wrong with.
func compileRoutes(schema *arrow.Schema, cfg RouteConfig) (exprs []*expr.Expr, problems component.Problems) {
	if len(cfg.Routes) == 0 {
		return nil, component.Problems{{Path: "routes", Msg: "route has nothing to decide by: give routes: {NAME: \"CONDITION\", ...}"}}
	}
	for i, r := range cfg.Routes {
		path := "routes." + r.Name
		switch {
		case !routeName.MatchString(r.Name):
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("port name %q: expected a lower case letter, then lower case letters, digits and \"_\"", r.Name)})
		case r.Name == routeElse || r.Name == dataflow.PortBad || r.Name == dataflow.PortLate:
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("port name %q is taken: %s has the rows for which no condition is true, %s those that cannot be computed, and %s means late rows everywhere", r.Name, routeElse, dataflow.PortBad, dataflow.PortLate)})
		case slices.ContainsFunc(cfg.Routes[:i], func(x component.NamedExpr) bool { return x.Name == r.Name }):
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("port %q stands twice: join the conditions with or", r.Name)})
		}
		e, err := expr.Compile(r.Expr, schema)
		switch {
		case err != nil:
			problems = append(problems, expr.Problem(path, err))
			continue
		case e.Type().ID() != arrow.BOOL:
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("expected a condition (bool), this expression gives %s", dataflow.TypeName(e.Type()))})
		}
		exprs = append(exprs, e)
	}
	return exprs, problems
}

// routeCase joins the conditions into one expression whose value is the number of the
// first that is true: one that is not reached is not computed, and fails no row.
func routeCase(schema *arrow.Schema, cfg RouteConfig) (*expr.Expr, error) {
	var text strings.Builder
	text.WriteString("case")
	for i, r := range cfg.Routes {
		fmt.Fprintf(&text, " when (%s\n) then %d", r.Expr, i)
	}
	fmt.Fprintf(&text, " else %d end", len(cfg.Routes))
	return expr.Compile(text.String(), schema)
}

// route is the running operator. Its ports are those of routes, else, bad.
type route struct {
	env *dataflow.Env
	bad *dataflow.BadRows
	// first decides with match: first; all holds the conditions otherwise.
	first *expr.Evaluator
	all   []*expr.Evaluator
	rows  [][]int32 // by port
	errs  []expr.RowError
	// forgets: see dataflow.Stream.
	forgets bool
	seen    []bool // rows that go somewhere, with match: all
}

func newRoute(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg RouteConfig) (dataflow.Operator, error) {
	exprs, problems := compileRoutes(in.Inputs[0].Schema, cfg)
	if len(problems) > 0 {
		return nil, problems
	}
	r := &route{env: env, bad: dataflow.NewBadRows(env), rows: make([][]int32, len(exprs)+1), forgets: in.Inputs[0].Forgets}
	if cfg.Match == routeAll {
		for _, e := range exprs {
			r.all = append(r.all, e.NewEvaluator(env.Alloc))
		}
		return r, nil
	}
	e, err := routeCase(in.Inputs[0].Schema, cfg)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	r.first = e.NewEvaluator(env.Alloc)
	return r, nil
}

// Process sends each row where it belongs.
func (r *route) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	for i := range r.rows {
		r.rows[i] = r.rows[i][:0]
	}
	decide := r.decideFirst
	if r.first == nil {
		decide = r.decideAll
	}
	if err := decide(b); err != nil {
		return err
	}
	passed := b.NumRows() - int64(len(r.errs))
	r.env.Fates.Passed.Add(passed)
	sent := int64(0)
	for port, rows := range r.rows {
		n, err := r.send(ctx, port, b, rows, out)
		if err != nil {
			return err
		}
		sent += n
	}
	r.env.Fates.Created.Add(sent - passed)
	return r.sendBad(ctx, b, out)
}

// send emits rows of b, and what else the readers of the port must know.
func (r *route) send(ctx context.Context, port int, b arrow.RecordBatch, rows []int32, out dataflow.Emitter) (int64, error) {
	var ops arrow.Array
	if r.forgets {
		rows, ops = statelessDeletes(r.env, b, rows, r.errs)
		defer ops.Release()
	}
	if len(rows) == 0 {
		return 0, nil
	}
	kept, err := statelessTakeAs(r.env, b, rows, ops)
	if err != nil {
		return 0, err
	}
	return int64(len(rows)), out.Emit(ctx, port, kept)
}

func (r *route) sendBad(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	if len(r.errs) == 0 {
		return nil
	}
	for i := range r.errs {
		r.bad.AddRow(&r.errs[i].Bad, b, r.errs[i].Row)
	}
	r.env.Fates.Bad.Add(int64(len(r.errs)))
	return out.Emit(ctx, len(r.rows), r.bad.Flush())
}

// decideFirst fills rows and errs with match: first.
func (r *route) decideFirst(b arrow.RecordBatch) error {
	a, errs, err := r.first.Eval(b)
	if err != nil {
		return err
	}
	defer a.Release()
	r.errs = errs
	for i, port := range a.(*array.Int32).Int32Values() {
		if a.IsValid(i) {
			r.rows[port] = append(r.rows[port], int32(i))
		}
	}
	return nil
}

// decideAll fills rows and errs with match: all.
func (r *route) decideAll(b arrow.RecordBatch) error {
	r.errs = r.errs[:0]
	for i, ev := range r.all {
		rows, errs, err := ev.Select(b, r.rows[i])
		if err != nil {
			return err
		}
		r.rows[i] = rows
		r.errs = append(r.errs, errs...)
	}
	r.errs = oneErrorEach(r.errs)
	r.seen = append(r.seen[:0], make([]bool, b.NumRows())...)
	for _, e := range r.errs {
		r.seen[e.Row] = true
	}
	if len(r.errs) > 0 {
		for i, rows := range r.rows {
			r.rows[i] = slices.DeleteFunc(rows, func(row int32) bool { return r.seen[row] })
		}
	}
	for _, rows := range r.rows {
		for _, row := range rows {
			r.seen[row] = true
		}
	}
	none := len(r.all)
	for i, seen := range r.seen {
		if !seen {
			r.rows[none] = append(r.rows[none], int32(i))
		}
	}
	return nil
}

// Close frees the builder of bad rows.
func (r *route) Close() error {
	r.bad.Release()
	return nil
}

var _ dataflow.Operator = (*route)(nil)
