package operators

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkShaping is route, cast, contract and unnest on a batch of 8192 rows, none of
// them bad; ns/row is for a row of the input.
func BenchmarkShaping(b *testing.B) {
	fields := append([]arrow.Field{
		{Name: "id", Type: dataflow.TypeInt64}, {Name: "kind", Type: dataflow.TypeString}, {Name: "n", Type: dataflow.TypeInt64},
		{Name: "digits", Type: dataflow.TypeString}, {Name: "at", Type: dataflow.TypeString}, {Name: "doc", Type: dataflow.TypeJSON},
		{Name: "l", Type: arrow.ListOf(dataflow.TypeInt64)},
	}, dataflow.SystemFields(true)...)
	schema := arrow.NewSchema(fields, nil)
	var rows strings.Builder
	const n = 8192
	for i := range n {
		fmt.Fprintf(&rows, `{"id":%d,"kind":"kind-%d","n":%d,"digits":"%d","at":"2026-03-01T10:00:00.123Z","doc":"[{\"a\":%d},{\"a\":2}]","l":[1,2,3,4],"_time":0,"_watermark":0,"_split":0,"_pos":%d}`+"\n", i, i%4, i%100, i, i, i)
	}
	in, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader("["+strings.ReplaceAll(strings.TrimSpace(rows.String()), "\n", ",")+"]"))
	if err != nil {
		b.Fatal(err)
	}
	defer in.Release()
	op := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: schema}}}
	env := &dataflow.Env{Step: "step", Alloc: memory.DefaultAllocator, Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}}
	made := func(o dataflow.Operator, err error) dataflow.Operator {
		if err != nil {
			b.Fatal(err)
		}
		return o
	}
	ctx := context.Background()
	for _, c := range []struct {
		name string
		op   dataflow.Operator
	}{
		{"route", made(newRoute(ctx, env, op, RouteConfig{Match: routeFirst, Routes: component.NamedExprs{{Name: "a", Expr: "kind = 'kind-1'"}, {Name: "b", Expr: "n < 10"}, {Name: "c", Expr: "kind like 'kind%' and n > 90"}}}))},
		{"cast_number", made(newCast(ctx, env, op, CastConfig{Columns: component.NamedTypes{{Name: "digits", Type: "int64"}}}))},
		{"cast_time", made(newCast(ctx, env, op, CastConfig{Columns: component.NamedTypes{{Name: "at", Type: "timestamptz"}}}))},
		{"contract", made(newContract(ctx, env, op, ContractConfig{Envelope: ContractEnvelope{ID: "id", Type: "kind"}, ContractRules: ContractRules{
			Required: []string{"n", "at"}, Allowed: map[string][]Scalar{"kind": {"kind-0", "kind-1", "kind-2", "kind-3"}}, Ranges: map[string]ContractRange{"n": {Min: "0", Max: "100"}},
			Rules: component.NamedExprs{{Name: "sum", Expr: "n * 2 < 1000"}}}}))},
		{"unnest_list_of_4", made(newUnnest(ctx, env, op, UnnestConfig{Column: "l", Ordinality: "o"}))},
		{"unnest_json_of_2", made(newUnnest(ctx, env, op, UnnestConfig{Column: "doc", Type: "struct{a: int64}", Flatten: true}))},
	} {
		b.Run(c.name, func(b *testing.B) {
			out := dataflow.EmitFunc(func(_ context.Context, port int, r arrow.RecordBatch) error {
				r.Release()
				return nil
			})
			b.ReportAllocs()
			for b.Loop() {
				if err := c.op.Process(ctx, 0, in, out); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
		})
		c.op.Close()
	}
}
