// Package tutorial_test holds the operator that CONTRIBUTING.md walks through,
// so that the text compiles and runs. A real operator stands in the package
// operators, in a file of its own; this one is a test file so that it is no part
// of the product.
package tutorial_test

// tutorial:begin
import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// SampleConfig configures sample.
type SampleConfig struct {
	// Every is how many records of a split there are for one row that passes,
	// at least 1; no default. With 10, those at positions 0, 10, 20, ... pass.
	Every int64 `yaml:"every,required"`
}

func init() {
	component.RegisterOperator(component.Operator[SampleConfig]{
		Name:    "sample",
		Summary: "Lets every n-th record of a split pass.",
		Doc: `A row passes by its position in its split, so that the same rows pass whatever
the speed and parallelism. Order and columns stay as they are. No state.`,
		Default: func() SampleConfig { return SampleConfig{} },
		Plan:    planSample,
		New:     newSample,
	})
}

func planSample(in component.OperatorIn, cfg SampleConfig) (component.OperatorPlan, error) {
	if cfg.Every < 1 {
		return component.OperatorPlan{}, component.Badf("every", "expected a number of 1 or more, got %d", cfg.Every)
	}
	if dataflow.Column(in.Inputs[0].Schema, dataflow.SysPos) < 0 {
		return component.OperatorPlan{}, component.Badf("", "rows of %q were made by an operator and have no position: put sample before it", in.Names[0])
	}
	return component.OperatorPlan{Ports: []dataflow.Port{{Name: dataflow.PortOut, Stream: in.Inputs[0]}}}, nil
}

// sample is the running operator.
type sample struct {
	env   *dataflow.Env
	every int64
	pos   int
	rows  []int32
}

func newSample(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg SampleConfig) (dataflow.Operator, error) {
	return &sample{env: env, every: cfg.Every, pos: dataflow.Column(in.Inputs[0].Schema, dataflow.SysPos)}, nil
}

// Process passes the rows on whose turn it is.
func (s *sample) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	s.rows = s.rows[:0]
	for i, p := range b.Column(s.pos).(*array.Int64).Int64Values() {
		if p%s.every == 0 {
			s.rows = append(s.rows, int32(i))
		}
	}
	s.env.Fates.Passed.Add(int64(len(s.rows)))
	s.env.Fates.Filtered.Add(b.NumRows() - int64(len(s.rows)))
	if len(s.rows) == 0 {
		return nil
	}
	taken, err := dataflow.TakeBatch(s.env.Alloc, b, s.rows)
	if err != nil {
		return err
	}
	return out.Emit(ctx, 0, taken) // Emit takes the reference over.
}

// Close has nothing to free.
func (s *sample) Close() error { return nil }

var _ dataflow.Operator = (*sample)(nil)

// tutorial:end
