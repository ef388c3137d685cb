package expr

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"frazil/dataflow"
)

// TestNormalForms compares with what the library says of a whole text.
func TestNormalForms(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 4))
	parts := []string{"a", "plain text ", "\u00e4", "a\u0308", "\u0308", "\u0323", "\u0301", "e\u0301\u0323", "\ufb01", "\uac00", "\u1100\u1161", "\u1161", "\u11a8", "\u212b", "\u2460", "\u0f71\u0f72", "\U0001d15e", "\u3099", "\u304b", strings.Repeat("\u0301", 4)}
	forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{{Name: "s", Type: dataflow.TypeString}}, nil))
	defer b.Release()
	var texts []string
	for range 5000 {
		var s strings.Builder
		for range rnd.IntN(6) {
			s.WriteString(parts[rnd.IntN(len(parts))])
		}
		texts = append(texts, s.String())
		b.Field(0).(*array.StringBuilder).Append(s.String())
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	for name, f := range forms {
		for text, want := range map[string]func(s string) string{
			"normalize(s, " + name + ")": f.String,
			"(s is " + name + " normalized)::string": func(s string) string {
				if f.IsNormalString(s) {
					return "true"
				}
				return "false"
			},
		} {
			e, err := Compile(text, batch.Schema())
			if err != nil {
				t.Fatal(err)
			}
			a, bad, err := e.NewEvaluator(memory.DefaultAllocator).Eval(batch)
			if err != nil || len(bad) > 0 {
				t.Fatal(bad, err)
			}
			for i, s := range texts {
				if got := a.(*array.String).Value(i); got != want(s) {
					t.Fatalf("%s of %+q: got %+q, want %+q", text, s, got, want(s))
				}
			}
			a.Release()
		}
	}
}
