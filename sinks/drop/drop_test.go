package drop

import (
	"context"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestItKeepsNoReference(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: dataflow.TypeInt64}}, nil)
	b, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(`[{"n":1},{"n":2}]`))
	if err != nil {
		t.Fatal(err)
	}
	spec := component.SinkNamed("drop")
	w, err := spec.NewWriter(context.Background(), &dataflow.Env{}, component.SinkIn{}, spec.NewConfig())
	if err != nil {
		t.Fatal(err)
	}
	if bad, err := w.Write(context.Background(), b); bad != nil || err != nil {
		t.Fatal(bad, err)
	}
	b.Release()
	if p, err := w.Prepare(context.Background(), 1); p != nil || err != nil {
		t.Fatal(p, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
