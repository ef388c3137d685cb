package console

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func batch(t *testing.T, rows string) arrow.RecordBatch {
	t.Helper()
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "a\"b", Type: dataflow.TypeInt64, Nullable: true}, {Name: "doc", Type: dataflow.TypeJSON, Nullable: true},
		{Name: "s", Type: dataflow.TypeString, Nullable: true}, {Name: dataflow.SysPos, Type: dataflow.TypeInt64},
	}, nil)
	b, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Release(); mem.AssertSize(t, 0) })
	return b
}

func TestRowsComeOutAtOnceAsLinesOfJSON(t *testing.T) {
	var out bytes.Buffer
	w := &writer{out: &out, prefix: "bad: "}
	b := batch(t, `[{"a\"b":1,"doc":null,"s":"x\ny","_pos":0},{"a\"b":null,"doc":null,"s":"z","_pos":1}]`)
	bad, err := w.Write(context.Background(), b)
	if bad != nil || err != nil {
		t.Fatal(bad, err)
	}
	want := `bad: {"a\"b":1,"doc":null,"s":"x\ny"}` + "\n" + `bad: {"a\"b":null,"doc":null,"s":"z"}` + "\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if p, err := w.Prepare(context.Background(), 1); p != nil || err != nil {
		t.Errorf("prepare gives %v, %v", p, err)
	}
	if out.String() != want {
		t.Error("a barrier printed something")
	}
}

func TestADocumentWithLineEndsStaysOnOneLine(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	bld := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{{Name: "doc", Type: dataflow.TypeJSON}}, nil))
	defer bld.Release()
	bld.Field(0).(*array.ExtensionBuilder).StorageBuilder().(*array.StringBuilder).Append("{\r\n \"x\": 1\n}")
	b := bld.NewRecordBatch()
	defer b.Release()
	var out bytes.Buffer
	if _, err := (&writer{out: &out}).Write(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if want := "{\"doc\":{   \"x\": 1 }}\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAClosedOutputEndsThePipeline(t *testing.T) {
	_, err := (&writer{out: broken{}}).Write(context.Background(), batch(t, `[{"s":"z","_pos":1}]`))
	if !errors.Is(err, dataflow.ErrPermanent) {
		t.Errorf("got %v", err)
	}
}

func TestItHasNoCommitter(t *testing.T) {
	if s := component.SinkNamed("console"); s == nil || s.NewCommitter != nil {
		t.Error("console must write through")
	}
}
