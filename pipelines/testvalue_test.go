package pipelines

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

func TestValuesInTestsAreComparedByWhatTheyMean(t *testing.T) {
	for _, c := range []struct {
		typ, yaml, got string
		same           bool
		wrong          string // what lint says
	}{
		{"int64", "5", "5", true, ""},
		{"int64", "5_000", "5000", true, ""},
		{"int64", "5", "6", false, ""},
		{"int64", "9007199254740993", "9007199254740992", false, ""},
		{"int64", "null", "5", false, ""},
		{"int64", "5", "null", false, ""},
		{"int64", "null", "null", true, ""},
		{"int64", "true", "5", false, `expected a number, got "true"`},
		{"float64", "0.1", "0.1000000001", false, ""},
		{"float64", "69.8", "69.80000000000001", true, ""},
		{"float64", "1e3", "1000", true, ""},
		{"float64", ".nan", `"NaN"`, true, ""},
		{"float64", "-.inf", `"-Inf"`, true, ""},
		{"float64", "warm", "1", false, `expected a number, got "warm"`},
		{"decimal(20,3)", "12.5", `"12.500"`, true, ""},
		{"decimal(20,3)", `"12.5"`, `"12.500"`, true, ""},
		{"decimal(20,3)", "12.501", `"12.500"`, false, ""},
		{"bool", "true", "true", true, ""},
		{"bool", "false", "true", false, ""},
		{"bool", `"yes"`, "true", false, `expected true or false, got "yes"`},
		{"string", "a b", `"a b"`, true, ""},
		{"string", `"5"`, `"5"`, true, ""},
		{"string", "5", `"5"`, true, `write "5" in quotes`},
		{"string", `""`, `""`, true, ""},
		{"string", "{a: 1, b: [x, 2.0]}", `"{\"b\":[\"x\",2],\"a\":1}"`, true, ""},
		{"string", "{a: 1}", `"{\"a\":1,\"b\":2}"`, false, ""},
		{"timestamptz", "2026-03-01T11:00:00+01:00", `"2026-03-01T10:00:00.000000Z"`, true, ""},
		{"timestamptz", "2026-03-01T10:00:00.000001Z", `"2026-03-01T10:00:00.000000Z"`, false, ""},
		{"timestamptz", "2026-03-01", `"2026-03-01T00:00:00.000000Z"`, false, `expected a time, as 2026-03-01T10:05:00Z, got "2026-03-01"`},
		{"timestamp", "2026-03-01T10:00:00", `"2026-03-01T10:00:00.000000"`, true, ""},
		{"date", "2026-03-01", `"2026-03-01"`, true, ""},
		{"time", `"10:00:00.5"`, `"10:00:00.500000"`, true, ""},
		{"uuid", "6F9619FF-8B86-D011-B42D-00C04FC964FF", `"6f9619ff-8b86-d011-b42d-00c04fc964ff"`, true, ""},
		{"binary", "text", `"74657874"`, true, ""},
		{"binary", `'\x00ff'`, `"00ff"`, true, ""},
		{"binary", "text", `"00ff"`, false, ""},
		{"json", "{a: [1, null]}", `{"a":[1.0,null]}`, true, ""},
		{"json", "{a: 1}", `{"a":"1"}`, false, ""},
		{"list<int64>", "[1, null]", "[1,null]", true, ""},
		{"list<int64>", "[1]", "[1,2]", false, ""},
		{"list<int64>", "[x]", "[1]", false, `expected a number, got "x"`},
		{"struct{a: int64, b: string}", "{a: 1}", `{"a":1,"b":null}`, true, ""},
		{"struct{a: int64, b: string}", "{a: 1}", `{"a":1,"b":"x"}`, false, ""},
		{"struct{a: int64}", "{c: 1}", `{"a":1}`, false, `it has no field "c"`},
	} {
		spec, err := dataflow.ParseType(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		n, problems := component.Parse("x", []byte("v: "+c.yaml), nil)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := CheckValue(spec.Type, n.Get("v")); got != c.wrong {
			t.Errorf("%s: %s: lint says %q, want %q", c.typ, c.yaml, got, c.wrong)
		}
		if got := MatchValue(spec.Type, n.Get("v"), []byte(c.got)); got != c.same {
			t.Errorf("%s: %s against %s: %t, want %t", c.typ, c.yaml, c.got, got, c.same)
		}
	}
}
