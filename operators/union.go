package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// UnionConfig configures union. It has no settings.
type UnionConfig struct{}

func init() {
	component.RegisterOperator(component.Operator[UnionConfig]{
		Name:    "union",
		Summary: "Merges several inputs with the same columns into one stream.",
		Doc: `All inputs have the same columns: names, types and order. Rows pass as they are,
duplicates too; rows of one input keep their order, how the inputs interleave is
not defined. The watermark is the least of the inputs'.`,
		MultiInput: true,
		Changes:    true,
		Default:    func() UnionConfig { return UnionConfig{} },
		Plan:       planUnion,
		New:        newUnion,
	})
}

func planUnion(in component.OperatorIn, _ UnionConfig) (component.OperatorPlan, error) {
	first := in.Inputs[0]
	var problems component.Problems
	for i, s := range in.Inputs[1:] {
		if diff := unionDifference(first, s); diff != "" {
			problems = append(problems, component.Problem{Msg: fmt.Sprintf(
				"union needs the same columns on every input, but %q and %q differ: %s; align them with a project step", in.Names[0], in.Names[i+1], diff)})
		}
	}
	if len(problems) > 0 {
		return component.OperatorPlan{}, problems
	}
	out := first
	out.Schema = unionSchema(in.Inputs)
	for _, s := range in.Inputs {
		out.Forgets = out.Forgets || s.Forgets
	}
	return component.OperatorPlan{
		Ports: []dataflow.Port{{Name: dataflow.PortOut, Stream: out}},
	}, nil
}

// unionDifference says how b differs from a, "" if it does not.
func unionDifference(a, b dataflow.Stream) string {
	if a.Changelog != b.Changelog || !slices.Equal(a.Key, b.Key) {
		return fmt.Sprintf("the first is %s, the second %s", unionKind(a), unionKind(b))
	}
	left, right := withoutElements(a.Schema), withoutElements(b.Schema)
	for i := range max(len(left), len(right)) {
		switch {
		case i >= len(left) || i < len(right) && dataflow.IsSystem(left[i].Name) && !dataflow.IsSystem(right[i].Name):
			return fmt.Sprintf("only the second has column %q", right[i].Name)
		case i >= len(right) || !dataflow.IsSystem(left[i].Name) && dataflow.IsSystem(right[i].Name):
			return fmt.Sprintf("only the first has column %q", left[i].Name)
		case left[i].Name != right[i].Name:
			return fmt.Sprintf("column %d is %q in the first and %q in the second", i+1, left[i].Name, right[i].Name)
		case !arrow.TypeEqual(left[i].Type, right[i].Type):
			return fmt.Sprintf("column %q has type %s in the first and %s in the second",
				left[i].Name, dataflow.TypeName(left[i].Type), dataflow.TypeName(right[i].Type))
		}
	}
	return ""
}

func unionKind(s dataflow.Stream) string {
	if !s.Changelog {
		return "append only"
	}
	return fmt.Sprintf("a changelog by %v", s.Key)
}

// withoutElements are the fields of s but for the numbers of elements, which rows
// that no unnest made do not have.
func withoutElements(s *arrow.Schema) []arrow.Field {
	elements := dataflow.ElementColumns(s)
	var out []arrow.Field
	for i, f := range s.Fields() {
		if !slices.Contains(elements, i) {
			out = append(out, f)
		}
	}
	return out
}

// unionSchema is the inputs' schema, a column nullable if it is in any, with the
// numbers of elements of the input that has the most.
func unionSchema(inputs []dataflow.Stream) *arrow.Schema {
	most := inputs[0].Schema
	for _, s := range inputs[1:] {
		if s.Schema.NumFields() > most.NumFields() {
			most = s.Schema
		}
	}
	fields := slices.Clone(most.Fields())
	for _, s := range inputs {
		for i, f := range withoutElements(s.Schema) {
			fields[i].Nullable = fields[i].Nullable || f.Nullable
		}
	}
	return arrow.NewSchema(fields, nil)
}

// union is the running operator.
type union struct {
	env    *dataflow.Env
	schema *arrow.Schema
}

func newUnion(_ context.Context, env *dataflow.Env, in component.OperatorIn, _ UnionConfig) (dataflow.Operator, error) {
	return &union{env: env, schema: unionSchema(in.Inputs)}, nil
}

// Process passes the batch on.
func (u *union) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	u.env.Fates.Passed.Add(b.NumRows())
	missing := u.schema.NumFields() - int(b.NumCols())
	if missing == 0 {
		return out.Emit(ctx, 0, statelessSchema(b, u.schema))
	}
	// No unnest stands before this input, or fewer than before the others.
	none := array.NewInt32Builder(u.env.Alloc)
	defer none.Release()
	none.AppendValues(make([]int32, b.NumRows()), nil)
	zeros := none.NewArray()
	defer zeros.Release()
	cols := slices.Clone(b.Columns())
	for range missing {
		cols = append(cols, zeros)
	}
	return out.Emit(ctx, 0, array.NewRecordBatch(u.schema, cols, b.NumRows()))
}

// Close has nothing to free.
func (u *union) Close() error { return nil }

var _ dataflow.Operator = (*union)(nil)
