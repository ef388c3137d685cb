package pipelines_test

import (
	"strings"
	"testing"

	"frazil/dataflow/component"
	"frazil/pipelines"
	_ "frazil/pipelines/std"
)

const mendFile = `
name: p
sources:
  s:
    files: {paths: [x.ndjson]}
    decode: {json: {schema: {dev: string, at: timestamptz(ms), temp: float64, n: int64, price: "decimal(10,2)", key: binary}}}
sinks: {out: {from: s, drop: {}}}
`

func TestPayloadsAreMendedByExpressions(t *testing.T) {
	p, problems := pipelines.Parse("p.yaml", []byte(mendFile), pipelines.Options{Parallelism: 1})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, c := range []struct{ payload, column, expr, want, fails string }{
		{payload: `{"dev":"a","temp":215}`, column: "temp", expr: "temp / 10", want: `{"dev":"a","temp":21.5}`},
		{payload: `{"dev":"a","n":215}`, column: "n", expr: "n / 10", want: `{"dev":"a","n":21}`},
		{payload: `{"temp":"21.5C","x":{"a":1}}`, column: "temp", expr: "cast(replace(temp, 'C', '') as float8)", want: `{"temp":21.5,"x":{"a":1}}`},
		{payload: `{"price":"1,50"}`, column: "price", expr: "cast(replace(price, ',', '.') as decimal(10,2))", want: `{"price":"1.50"}`},
		{payload: `{"dev":null}`, column: "dev", expr: "coalesce(dev, 'none')", want: `{"dev":"none"}`},
		{payload: `{"at":"2026-01-02T03:04:05Z"}`, column: "at", expr: "cast(at as timestamptz)", want: `{"at":1767323045000}`},
		{payload: `{"dev":"a"}`, column: "n", expr: "7", want: `{"dev":"a","n":7}`},
		{payload: `{"a":0}`, column: "n", expr: "1 / a", fails: "division by zero"},
		{payload: `{"a":0}`, column: "n", expr: "b", fails: `n: unknown column "b"`},
		{payload: `[1]`, column: "n", expr: "1", fails: "no JSON object"},
		{payload: `{"a":`, column: "n", expr: "1", fails: "no JSON"},
	} {
		got, err := p.NewMender(component.NamedExprs{{Name: c.column, Expr: c.expr}}).JSON("s", []byte(c.payload))
		switch {
		case c.fails != "":
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s, %s = %s: %s %v, want an error about %q", c.payload, c.column, c.expr, got, err, c.fails)
			}
		case err != nil || string(got) != c.want:
			t.Errorf("%s, %s = %s: %s %v, want %s", c.payload, c.column, c.expr, got, err, c.want)
		}
	}
}

func TestTextIsMendedByAnExpression(t *testing.T) {
	p := &pipelines.Pipeline{}
	got, err := p.NewTextMender("replace(raw, ',}', '}')").Text([]byte(`{"a":1,}`))
	if err != nil || string(got) != `{"a":1}` {
		t.Errorf("%s %v", got, err)
	}
	for payload, expr := range map[string]string{"a": "length(raw)", "b": "null::text", "\xff": "raw"} {
		if got, err := p.NewTextMender(expr).Text([]byte(payload)); err == nil {
			t.Errorf("%q by %s gives %q", payload, expr, got)
		}
	}
}

func TestRowsAreMendedByExpressions(t *testing.T) {
	p, problems := pipelines.Parse("p.yaml", []byte(mendFile), pipelines.Options{Parallelism: 1})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := p.NewMender(component.NamedExprs{{Name: "at", Expr: "to_timestamp(n)"}})
	got, err := m.Row("s", []byte(`{"dev":"a","at":null,"temp":1,"n":5,"price":"2.00","key":"AP8="}`))
	if want := `{"dev":"a","at":"1970-01-01T00:00:05.000000Z","temp":1,"n":5,"price":"2.00","key":"AP8="}`; err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
}
