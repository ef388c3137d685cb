package dataflow

import (
	"strings"
	"testing"
)

func TestParseTypeReadsWhatTypeNameWrites(t *testing.T) {
	for _, text := range []string{
		"bool", "int32", "int64", "float32", "float64", "decimal(10,2)", "decimal(38,0)", "string", "binary", "date", "time",
		"timestamp", "timestamptz", "uuid", "json", "list<int64>", "list<list<string>>", "struct{a: int64, b: list<decimal(4,1)>}",
		"struct{a: struct{b: bool}}",
	} {
		spec, err := ParseType(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := TypeName(spec.Type); got != text || spec.Unit != "" {
			t.Errorf("%s is written as %s (unit %q)", text, got, spec.Unit)
		}
	}
}

func TestParseTypeReadsUnits(t *testing.T) {
	for text, want := range map[string]string{"timestamptz(ms)": "ms", "timestamp( ns )": "ns", "timestamptz(s)": "s", "timestamp(us)": "us"} {
		if spec, err := ParseType(text); err != nil || spec.Unit != want {
			t.Errorf("%s: unit %q, %v", text, spec.Unit, err)
		}
	}
	spec, err := ParseType("list<struct{at: timestamptz(ms), n: int64}>")
	if err != nil || spec.Fields[0].Spec.Fields[0].Spec.Unit != "ms" {
		t.Errorf("%+v, %v", spec, err)
	}
}

func TestParseTypeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "integer": `unknown type name "integer": it is int32 here`, "VARCHAR": "it is string here", "strin": "known: binary", "int64 int64": "unexpected", "decimal": "", "decimal(0,0)": "", "decimal(39,0)": "", "decimal(5,6)": "",
		"decimal(5)": "", "list<int64": "", "list<>": "", "struct{a int64}": "", "struct{a: int64, a: int64}": "", "timestamptz(h)": "",
		"string(ms)": "", "struct{}": "", "list": "",
	} {
		spec, err := ParseType(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", text, spec, err)
		}
	}
}
