package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"frazil/operators/expr"
)

func TestExpressionsAtThePrompt(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		out  string
		errs string
	}{
		{[]string{"1 + 1"}, exitOK, "int32\n2\n", ""},
		{[]string{"--", "-1 + 2"}, exitOK, "int32\n1\n", ""},
		{[]string{"'a' || null"}, exitOK, "string\nnull\n", ""},
		{[]string{"price * 0.5", "--row", `{"price": 3}`}, exitOK, "decimal(20,1)\n1.5\n", ""},
		{[]string{"price / qty", "--row", `{"price": 3, "qty": 0}`}, exitFailed, "int64\n", "row 1 is bad: division_by_zero: price / qty: division by zero\n"},
		{[]string{"price + qy", "--row", `{"price": 3, "qty": 0}`}, exitWrong, "", "frazil: unknown column \"qy\"; did you mean \"qty\"?\n    price + qy\n            ^\n"},
		{[]string{"1 +\n\tnow()"}, exitWrong, "", "frazil: now() reads the clock: expressions depend on the row alone; use the event time column\n    \tnow()\n    \t^\n"},
		{[]string{"date_trunc('day', ts)", "--schema", "ts timestamptz, p: decimal(10,2)", "--row", `{"ts": "2024-01-31T10:00:00Z"}`}, exitOK, "timestamptz\n2024-01-31 00:00:00+00\n", ""},
		{[]string{"p * 2", "--schema", "p decimal(10,2)"}, exitOK, "decimal(20,2)\n", ""},
		{[]string{"p * 2", "--schema", "p decimal(10,2)", "--format", "ndjson"}, exitOK, `{"type":"decimal(20,2)"}` + "\n", ""},
		{[]string{"p * 2", "--schema", "p deciml"}, exitWrong, "", "frazil: --schema: column \"p\": type \"deciml\": unknown type name \"deciml\""},
		{[]string{"p * 2", "--schema", "p"}, exitWrong, "", "frazil: --schema: \"p\": expected a name and a type, as price int64\n"},
		{[]string{"interval '36 hours'", "--format", "ndjson"}, exitOK, `{"row":1,"value":"36:00:00","type":"interval"}` + "\n", ""},
		{[]string{"concat(b, a)", "--row", "-"}, exitFailed, "string\nx1\n2.5\ny\n", "row 3 is bad: invalid_json: byte 0: expected JSON, got no\n"},
		{[]string{"10 / a", "--row", "-", "--format", "ndjson"}, exitFailed, `{"row":1,"value":10,"type":"float64"}
{"row":2,"value":4,"type":"float64"}
{"row":3,"reason":"invalid_json","detail":"byte 0: expected JSON, got no"}
{"row":4,"reason":"division_by_zero","detail":"10 / a: division by zero"}
`, ""},
		{[]string{"a.b.c"}, exitWrong, "", "frazil: unknown column \"a\""},
		{nil, exitWrong, "", "frazil: expr needs one EXPRESSION; put -- before one that begins with a minus\n"},
	} {
		stdin = "{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2.5}\n\nno\n{\"a\": 0, \"b\": \"y\"}\n"
		if strings.HasPrefix(fmt.Sprint(c.args), "[concat") {
			stdin = strings.Replace(stdin, `"a": 0`, `"a": null`, 1)
		}
		code, stdout, stderr := frazil(append([]string{"expr"}, c.args...)...)
		if code != c.code || stdout != c.out || !strings.HasPrefix(stderr, c.errs) || c.errs == "" && stderr != "" {
			t.Errorf("frazil expr %q: exit code %d, want %d\n%s%s--- want\n%s%s", c.args, code, c.code, stdout, stderr, c.out, c.errs)
		}
	}
}

// Columns get the types that the values of all rows have.
func TestTypesOfColumnsComeFromTheirValues(t *testing.T) {
	rows := [][]byte{
		[]byte(`{"i": 1, "f": 1, "s": "2024-01-31", "n": null, "b": true, "o": {"x": 1}, "l": [1], "m": 1, "big": 9223372036854775808}`),
		[]byte(`{"i": null, "f": 1.5, "n": null, "late": 2, "m": "x"}`),
		[]byte(`no row`),
	}
	got := fmt.Sprint(inferColumns(rows))
	want := "[{i int64} {f float64} {s string} {n string} {b bool} {o json} {l json} {m json} {big float64} {late int64}]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFunctionsAreListedAndExplained(t *testing.T) {
	for _, c := range []struct {
		args, out, errs string
		code            int
	}{
		{"", "mathematics\n", "", exitOK},
		{"", "\n  nullif               Null if both are equal, else the first\n", "", exitOK},
		{"", "\naggregates (docs/guides/aggregates.md)\n  approx_count_distinct", "", exitOK},
		{"mod", "mod (mathematics)\n\nThe same as the operator %.\n\n  mod(int32, int32) -> int32\n", "", exitOK},
		{"MOD", "\nexamples\n  mod(7, 3)\n    1\n", "", exitOK},
		{"mod --format ndjson", `{"name":"mod","group":"mathematics","signatures":["mod(int32, int32) -> int32"`, "", exitOK},
		{"||", "|| (string)", "", exitOK},
		{"dat_trunc", "", `there is no function or operator "dat_trunc"; did you mean "date_trunc"?`, exitWrong},
		{"sum", "", "sum is an aggregate", exitWrong},
		{"a b", "", "functions takes one NAME", exitWrong},
	} {
		code, stdout, stderr := frazil(append([]string{"functions"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout, c.out) || !strings.Contains(stderr, c.errs) {
			t.Errorf("frazil functions %s: exit code %d, want %d\n%s%s", c.args, code, c.code, stdout, stderr)
		}
	}
}

const functionsPage = "../../docs/reference/functions.md"

// TestReferenceOfFunctionsIsFresh: the page says what the registry knows.
func TestReferenceOfFunctionsIsFresh(t *testing.T) {
	w := &strings.Builder{}
	fmt.Fprint(w, "# Functions and operators of expressions\n\n")
	fmt.Fprint(w, "What [expressions](../guides/expressions.md) can call; `frazil functions NAME` shows the same. The\nexamples are run as tests. Aggregates have a [page of their own](../guides/aggregates.md).\n")
	group := ""
	for _, f := range expr.Functions() {
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(w, "\n## %s\n", strings.ToUpper(group[:1])+group[1:])
		}
		fmt.Fprintf(w, "\n### `%s`\n\n%s\n\n```text\n%s\n\n", f.Name, strings.Join(wrap(markdown(f.Text), 96), "\n"), strings.Join(f.Signatures, "\n"))
		for _, e := range f.Examples {
			fmt.Fprintf(w, "%s\n    %s\n", e.Expr, e.Value)
		}
		fmt.Fprint(w, "```\n")
	}
	if *rewrite {
		if err := os.WriteFile(functionsPage, []byte(w.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(functionsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != w.String() {
		t.Errorf("%s is stale: go test ./cmd/frazil -run Reference -rewrite", functionsPage)
	}
}

// markdown keeps characters from being taken for marks.
func markdown(s string) string {
	return strings.NewReplacer("_", `\_`, "*", `\*`, "<", "&lt;", "[", `\[`, `\`, `\\`, "|", `\|`).Replace(s)
}
