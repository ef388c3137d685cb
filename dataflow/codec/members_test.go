package codec

import (
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestADocumentWithTooManyMembersIsBad(t *testing.T) {
	d, err := NewJSON(JSONConfig{Schema: component.NamedTypes{{Name: "a", Type: "int64"}}, MaxFields: 5}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	defer d.(*JSON).Release()
	object := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(`"f%d":%d`, i, i))
		}
		return "{" + strings.Join(out, ",") + "}"
	}
	for _, c := range []struct {
		doc string
		bad string
	}{
		{object(5), ""},
		{object(6), ReasonTooManyFields},
		{`{"a":1,"b":{"c":2,"d":[{"e":3}]}}`, ""},
		{`{"a":1,"b":{"c":2,"d":[{"e":3},{"e":4}]}}`, ReasonTooManyFields},
		{`{"a":1,"b":"::::::::::::::::::::::::::"}`, ""},
		{`{"a":1,"b":"\":::::::::::::::::::::::::::"}`, ""},
		{`{"a":1,":\\":2,"c":3,"d":4,"e":5,"f":6}`, ReasonTooManyFields},
	} {
		got := ""
		if bad := d.Append([]byte(c.doc)); bad != nil {
			got = bad.Reason
		}
		if got != c.bad {
			t.Errorf("%s: %q, want %q", c.doc, got, c.bad)
		}
	}
}
