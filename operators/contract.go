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

// ContractConfig configures contract.
type ContractConfig struct {
	// Envelope names the columns that say what an event is: each must be there, not
	// null and, if it is text, not empty.
	Envelope ContractEnvelope `yaml:"envelope"`
	// Version that the column envelope.version must have. Default: any.
	Version       Scalar `yaml:"version"`
	ContractRules `yaml:",inline"`
	// Versions holds the rules of several versions side by side, by the value of the
	// column envelope.version. A row keeps those of its version and those beside this
	// block; a version that is not listed is a violation. Not together with version.
	Versions map[string]ContractRules `yaml:"versions"`
}

// ContractEnvelope is the envelope of events.
type ContractEnvelope struct {
	// ID is the column that tells events apart.
	ID string `yaml:"id"`
	// Type is the column with the kind of event, a text.
	Type string `yaml:"type"`
	// Source is the column that names the producer, a text.
	Source string `yaml:"source"`
	// Time is the column that says when it happened: a date, timestamp or timestamptz.
	Time string `yaml:"time"`
	// Version is the column with the version of the contract that the event keeps.
	Version string `yaml:"version"`
}

// ContractRules are what rows must keep.
type ContractRules struct {
	// Types are the types that columns must have: checked before anything runs.
	Types component.NamedTypes `yaml:"types"`
	// Required lists columns that must not be null.
	Required []string `yaml:"required"`
	// Allowed lists the values that a column may have, null beside them.
	Allowed map[string][]Scalar `yaml:"allowed"`
	// Ranges bounds columns, null passes.
	Ranges map[string]ContractRange `yaml:"ranges"`
	// Patterns are regular expressions, those of the operator ~, of which a part of the
	// text must match: write ^ and $ for all of it. Null passes.
	Patterns map[string]string `yaml:"patterns"`
	// Rules are conditions over the columns, by names that tell them apart in
	// messages. A row breaks one that is false, or that cannot be computed; null
	// passes, as in a check of SQL.
	Rules component.NamedExprs `yaml:"rules"`
}

// ContractRange is a range, both ends included.
type ContractRange struct {
	// Min is the least value. Default: none.
	Min Scalar `yaml:"min"`
	// Max is the greatest value. Default: none.
	Max Scalar `yaml:"max"`
}

// Scalar is a text, a number, true or false, as it stands in the file; "" is none.
type Scalar string

// TypeText implements component.TypeTexter.
func (Scalar) TypeText() string { return "text, number, true or false" }

// UnmarshalNode implements component.Unmarshaler.
func (s *Scalar) UnmarshalNode(n *component.Node) error {
	switch n.Kind {
	case component.Text, component.Number, component.Bool:
		*s = Scalar(n.Text)
		return nil
	}
	return fmt.Errorf("expected a text, a number, true or false, got %s", n.Kind)
}

// badContract is the reason of rows that break a contract.
const badContract = "contract"

func init() {
	component.RegisterOperator(component.Operator[ContractConfig]{
		Name:    "contract",
		Summary: "Holds events to a contract: envelope, required fields, values, ranges, patterns, rules.",
		Doc: `Rows that keep the contract pass as they are. A row that breaks it leaves by the port
bad with the reason contract and every violation in its detail, not only the first.

Columns, types, values, patterns and rules are checked against the input before
anything runs. Null breaks required and the envelope only.`,
		Default: func() ContractConfig { return ContractConfig{} },
		Plan:    planContract,
		New:     newContract,
	})
}

func planContract(in component.OperatorIn, cfg ContractConfig) (component.OperatorPlan, error) {
	p, problems := compileContract(in.Inputs[0].Schema, cfg)
	if len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	plan := component.OperatorPlan{Ports: statelessPorts(in.Inputs[0])}
	var print []string
	for _, c := range p.checks {
		print = append(print, fmt.Sprintf("%d %s %s", c.version, c.what, c.expected))
		if c.expr != nil && c.expr.Volatile() != "" {
			plan.NotReplayable = c.expr.Volatile()
		}
	}
	plan.Fingerprint = strings.Join(print, "\n")
	return plan, nil
}

// contract is the running operator.
type contract struct {
	env    *dataflow.Env
	bad    *dataflow.BadRows
	checks []contractRun
	// version gives each row the index of its version; nil: there are none.
	version *expr.Evaluator
	found   []violation
	broken  []int64 // by check, of the batch
	rows    []int32
	value   []byte
}

// contractRun is a check with what runs it.
type contractRun struct {
	contractCheck
	eval *expr.Evaluator
}

// violation is a check that a row does not pass; text is what to say, where the check
// itself could not be computed.
type violation struct {
	row, check int32
	text       string
}

func newContract(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg ContractConfig) (dataflow.Operator, error) {
	p, problems := compileContract(in.Inputs[0].Schema, cfg)
	if len(problems) > 0 {
		return nil, problems
	}
	c := &contract{env: env, bad: dataflow.NewBadRows(env)}
	for _, check := range p.checks {
		run := contractRun{contractCheck: check}
		if check.expr != nil {
			run.eval = check.expr.NewEvaluator(env.Alloc)
		}
		c.checks = append(c.checks, run)
	}
	if p.version != nil {
		c.version = p.version.NewEvaluator(env.Alloc)
	}
	return c, nil
}

// Process passes the rows that keep the contract.
func (c *contract) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	c.found = c.found[:0]
	for i := range c.checks {
		if err := c.run(b, i); err != nil {
			return err
		}
	}
	if err := c.ofItsVersion(b); err != nil {
		return err
	}
	if len(c.found) == 0 {
		c.env.Fates.Passed.Add(b.NumRows())
		b.Retain()
		return out.Emit(ctx, statelessOut, b)
	}
	errs := c.errors(b)
	if err := statelessBadRows(ctx, c.env, c.bad, b, errs, out); err != nil {
		return err
	}
	c.rows = statelessRest(c.rows[:0], b.NumRows(), errs)
	c.env.Fates.Passed.Add(int64(len(c.rows)))
	if len(c.rows) == 0 {
		return nil
	}
	kept, err := statelessTake(c.env, b, c.rows)
	if err != nil {
		return err
	}
	return out.Emit(ctx, statelessOut, kept)
}

// run finds the rows that do not pass check i.
func (c *contract) run(b arrow.RecordBatch, i int) error {
	check := &c.checks[i]
	switch {
	case check.eval != nil:
		rows, errs, err := check.eval.Select(b, c.rows[:0])
		if err != nil {
			return fmt.Errorf("%s: %w", check.what, err)
		}
		c.rows = rows
		for _, row := range rows {
			c.found = append(c.found, violation{row: row, check: int32(i)})
		}
		for _, e := range errs {
			c.found = append(c.found, violation{row: int32(e.Row), check: int32(i), text: e.Bad.Detail})
		}
	default:
		a := b.Column(check.column)
		for row := 0; a.NullN() > 0 && row < a.Len(); row++ {
			if a.IsNull(row) {
				c.found = append(c.found, violation{row: int32(row), check: int32(i)})
			}
		}
	}
	return nil
}

// ofItsVersion leaves of what was found, by row, what the version of the row asks for.
func (c *contract) ofItsVersion(b arrow.RecordBatch) error {
	slices.SortStableFunc(c.found, func(x, y violation) int { return int(x.row - y.row) })
	if c.version == nil || len(c.found) == 0 {
		return nil
	}
	a, errs, err := c.version.Eval(b)
	if err != nil {
		return fmt.Errorf("envelope.version: %w", err)
	}
	defer a.Release()
	if len(errs) > 0 {
		return fmt.Errorf("envelope.version: %w", &errs[0].Bad)
	}
	versions := a.(*array.Int32).Int32Values()
	c.found = slices.DeleteFunc(c.found, func(v violation) bool {
		of := c.checks[v.check].version
		return of != everyVersion && of != int(versions[v.row])
	})
	return nil
}

// errors joins what was found of each row, and counts it by rule.
func (c *contract) errors(b arrow.RecordBatch) []expr.RowError {
	c.broken = append(c.broken[:0], make([]int64, len(c.checks))...)
	for _, v := range c.found {
		c.broken[v.check]++
	}
	for i, n := range c.broken {
		c.env.Broken.Add(c.checks[i].rule, n)
	}
	var errs []expr.RowError
	for i := 0; i < len(c.found); {
		row := c.found[i].row
		var texts []string
		for ; i < len(c.found) && c.found[i].row == row; i++ {
			texts = append(texts, c.text(b, c.found[i]))
		}
		errs = append(errs, expr.RowError{Row: int(row), Bad: dataflow.Bad{Reason: badContract, Detail: strings.Join(texts, "; ")}})
	}
	return errs
}

// text says one violation.
func (c *contract) text(b arrow.RecordBatch, v violation) string {
	check := &c.checks[v.check]
	switch {
	case v.text != "":
		return check.what + ": " + v.text
	case check.column < 0:
		return check.what + ": " + check.expected
	}
	c.value = dataflow.AppendJSON(c.value[:0], b.Column(check.column), int(v.row))
	return fmt.Sprintf("%s: %s, got %s", check.what, check.expected, shortText(string(c.value)))
}

// Close frees the builder of bad rows.
func (c *contract) Close() error {
	c.bad.Release()
	return nil
}

var (
	_ dataflow.Operator     = (*contract)(nil)
	_ component.Unmarshaler = (*Scalar)(nil)
)
