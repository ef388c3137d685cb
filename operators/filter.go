package operators

import (
	"context"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// FilterConfig configures filter.
type FilterConfig struct {
	// Where is a boolean expression over the input's columns. Rows for which it
	// is true pass; rows for which it is false or null are counted as filtered.
	Where string `yaml:"where,required"`
}

func init() {
	component.RegisterOperator(component.Operator[FilterConfig]{
		Name:    "filter",
		Summary: "Lets rows pass for which a condition is true.",
		Doc: `Null is not true: a row whose condition is null is filtered. A row for which the
condition cannot be computed (division by zero, a failed cast) leaves by the port
bad. Columns and the order of rows stay as they are.

Of a changelog each change is judged by its own row. Where the step before forgets
rows in time (group, dedup with keep: last), a row that does not pass may take the
place of one that did and is not taken back: it goes on as a delete of its key.`,
		Changes: true,
		Default: func() FilterConfig { return FilterConfig{} },
		Plan:    planFilter,
		New:     newFilter,
	})
}

func planFilter(in component.OperatorIn, cfg FilterConfig) (component.OperatorPlan, error) {
	e, err := compileFilter(in, cfg)
	if err != nil {
		return component.OperatorPlan{}, component.Problems{expr.Problem("where", err)}
	}
	return component.OperatorPlan{
		Ports:         statelessPorts(in.Inputs[0]),
		NotReplayable: e.Volatile(),
		Fingerprint:   e.String(),
	}, nil
}

func compileFilter(in component.OperatorIn, cfg FilterConfig) (*expr.Expr, error) {
	e, err := expr.Compile(cfg.Where, in.Inputs[0].Schema)
	if err != nil {
		return nil, err
	}
	if e.Type().ID() != arrow.BOOL {
		return nil, fmt.Errorf("expected a condition (bool), this expression gives %s", dataflow.TypeName(e.Type()))
	}
	return e, nil
}

// filter is the running operator.
type filter struct {
	env  *dataflow.Env
	eval *expr.Evaluator
	bad  *dataflow.BadRows
	rows []int32
	// forgets: see dataflow.Stream.
	forgets bool
}

func newFilter(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg FilterConfig) (dataflow.Operator, error) {
	e, err := compileFilter(in, cfg)
	if err != nil {
		return nil, fmt.Errorf("where: %w", err)
	}
	return &filter{env: env, eval: e.NewEvaluator(env.Alloc), bad: dataflow.NewBadRows(env), forgets: in.Inputs[0].Forgets}, nil
}

// Process passes the rows for which the condition is true.
func (f *filter) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	rows, errs, err := f.eval.Select(b, f.rows[:0])
	if err != nil {
		return err
	}
	f.rows = rows
	var ops arrow.Array
	if f.forgets {
		rows, ops = statelessDeletes(f.env, b, rows, errs)
		defer ops.Release()
	}
	f.env.Fates.Passed.Add(int64(len(rows)))
	f.env.Fates.Filtered.Add(b.NumRows() - int64(len(rows)) - int64(len(errs)))
	if err := statelessBadRows(ctx, f.env, f.bad, b, errs, out); err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	kept, err := statelessTakeAs(f.env, b, rows, ops)
	if err != nil {
		return err
	}
	return out.Emit(ctx, statelessOut, kept)
}

// Close frees the builder of bad rows.
func (f *filter) Close() error {
	f.bad.Release()
	return nil
}

var _ dataflow.Operator = (*filter)(nil)
