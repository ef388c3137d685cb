package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// oneDocument is a batch of one row, with the text of a document as it came.
func oneDocument(doc string) arrow.RecordBatch {
	b := array.NewExtensionBuilder(memory.DefaultAllocator, dataflow.TypeJSON.(arrow.ExtensionType))
	defer b.Release()
	b.StorageBuilder().(*array.StringBuilder).Append(doc)
	a := b.NewArray()
	defer a.Release()
	return array.NewRecordBatch(arrow.NewSchema([]arrow.Field{{Name: "doc", Type: dataflow.TypeJSON, Nullable: true}}, nil), []arrow.Array{a}, 1)
}

// Documents are read as they came: with white space, names twice, escapes in names.
func TestDocumentsAsTheyCame(t *testing.T) {
	for _, c := range []struct{ doc, expr, want string }{
		{`{"a":1,"a":2}`, "doc -> 'a'", "2"},
		{`{"a":1,"b":0,"a":2}`, "doc::string", `{"a": 2, "b": 0}`},
		{`{"\u0061" : [ 1 , "x\ny" ] }`, "doc -> 'a' ->> 1", "x\ny"},
		{" [ 1 , { } , [ ] ] ", "doc -> -2", "{}"},
		{" [ 1 , { } , [ ] ] ", "jsonb_array_length(doc)", "3"},
		{`{"k":{"x":"}"},"v":"a]"}`, "doc ->> 'v'", "a]"},
		{`{"k":"\"","v":1}`, "doc ->> 'v'", "1"},
		{`[1e2, 1.50, -0, -0.0, 1E-3, 0.5e1, 12.3e1]`, "doc::string", "[100, 1.50, 0, 0.0, 0.001, 5, 123]"},
		{`{"bb":1,"a":2,"ab":3}`, "doc::string", `{"a": 2, "ab": 3, "bb": 1}`},
		{`"\ud83d\ude00\u00e9"`, "doc::string", `"😀é"`},
		{`"\u0001\/"`, "doc::string", `"\u0001/"`},
		{`{"a":{"b":[10,20]}}`, "doc #>> '{a,b,-1}'", "20"},
		{`{"a":1}`, "doc = '{\"a\":1.0}'", "true"},
		{`1e5000`, "doc::string", "1e5000"}, // numbers of thousands of digits stay as they came
		{`"x"`, "doc::int", "bad invalid_argument"},
		{`2.5`, "doc::int", "3"},
		{`[]`, "doc < '1'", "true"},
		{`true`, "case when jsonb_typeof(doc) = 'array' then jsonb_array_length(doc) else -1 end", "-1"},
	} {
		b := oneDocument(c.doc)
		e, err := Compile(c.expr, b.Schema())
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		a, errs, err := e.NewEvaluator(memory.DefaultAllocator).Eval(b)
		if err != nil {
			t.Fatal(err)
		}
		got := oracleText(a, e.root.typ)
		if len(errs) > 0 {
			got = "bad " + errs[0].Bad.Reason
		}
		if got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.expr, c.doc, got, c.want)
		}
		a.Release()
		b.Release()
	}
}

// Random documents, with all that a writer may do, are what encoding/json says they are.
func TestRandomDocuments(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	var w jsonWriter
	var scratch []byte
	for range 20_000 {
		doc := randomDocument(rng, 3)
		if !json.Valid(doc) {
			t.Fatalf("the test made %s", doc)
		}
		canon := w.canonical(nil, doc)
		if again := w.canonical(nil, canon); !bytes.Equal(again, canon) {
			t.Fatalf("%s: %s, and again %s", doc, canon, again)
		}
		var want, got any
		if err := json.Unmarshal(doc, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(canon, &got); err != nil {
			t.Fatalf("%s: %s: %v", doc, canon, err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: %s", doc, canon)
		}
		at := jsonSpace(doc, 0)
		if end := jsonSkip(doc, at); len(bytes.TrimSpace(doc[end:])) > 0 {
			t.Fatalf("%s ends at %d", doc, end)
		}
		if m, ok := want.(map[string]any); ok {
			for name, v := range m {
				part, found := jsonMember(doc, at, name, &scratch)
				var x any
				if !found || json.Unmarshal(part, &x) != nil || fmt.Sprint(x) != fmt.Sprint(v) {
					t.Fatalf("%s: member %q is %s", doc, name, part)
				}
			}
		}
	}
}

func randomDocument(rng *rand.Rand, depth int) []byte {
	var b bytes.Buffer
	space := func() { b.WriteString(strings.Repeat([]string{" ", "\n", "\t", ""}[rng.IntN(4)], rng.IntN(3))) }
	text := func() {
		b.WriteByte('"')
		for range rng.IntN(4) {
			b.WriteString([]string{"a", "b", "é", `\"`, `\\`, `\n`, `\u0041`, `\ud83d\ude00`, "]", "}", ",", `\/`}[rng.IntN(12)])
		}
		b.WriteByte('"')
	}
	var value func(depth int)
	value = func(depth int) {
		space()
		switch n := rng.IntN(8); {
		case n == 0:
			b.WriteString("null")
		case n == 1:
			b.WriteString([]string{"true", "false"}[rng.IntN(2)])
		case n == 2:
			text()
		case n <= 4 || depth == 0:
			b.WriteString([]string{"0", "1", "-12.50", "3e2", "5E-3", "0.1", "1.25e1", "10"}[rng.IntN(8)])
		case n == 5:
			b.WriteByte('[')
			space()
			for i := range rng.IntN(4) {
				if i > 0 {
					b.WriteByte(',')
				}
				value(depth - 1)
			}
			b.WriteByte(']')
		default:
			b.WriteByte('{')
			for i := range rng.IntN(30) >> uint(rng.IntN(5)) {
				if i > 0 {
					b.WriteByte(',')
				}
				space()
				text()
				space()
				b.WriteByte(':')
				value(depth - 1)
			}
			space()
			b.WriteByte('}')
		}
		space()
	}
	value(depth)
	return b.Bytes()
}
