package codec

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// decoder makes a decoder of cfg whose memory is checked at the end of the test.
func decoder(t testing.TB, cfg JSONConfig) *JSON {
	t.Helper()
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	d, err := NewJSON(cfg, alloc)
	if err != nil {
		t.Fatal(err)
	}
	j := d.(*JSON)
	t.Cleanup(func() {
		j.Release()
		if tb, ok := t.(*testing.T); ok {
			alloc.AssertSize(tb, 0)
		}
	})
	return j
}

// types makes a schema of alternating names and types.
func types(pairs ...string) component.NamedTypes {
	var out component.NamedTypes
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, component.NamedType{Name: pairs[i], Type: pairs[i+1]})
	}
	return out
}

// rowsOf flushes d and writes its rows as JSON.
func rowsOf(d *JSON) []string {
	n := d.Rows()
	cols := d.Flush()
	b := array.NewRecordBatch(d.Schema(), cols, int64(n))
	defer b.Release()
	for _, c := range cols {
		c.Release()
	}
	var out []string
	for i := range n {
		out = append(out, string(dataflow.RowJSON(b, i)))
	}
	return out
}

// both decodes doc with the fast pass and with the reference, holds them against
// each other and returns the row, or the reason with its detail.
func both(t testing.TB, cfg JSONConfig, doc string) (row string, bad *dataflow.Bad) {
	t.Helper()
	fast, ref := decoder(t, cfg), decoder(t, cfg)
	ref.viaReference = true
	// A first record teaches the fast pass an order; the second uses it.
	bad = fast.Append([]byte(doc))
	again := fast.Append([]byte(doc))
	want := ref.Append([]byte(doc))
	if fmt.Sprint(bad) != fmt.Sprint(want) || fmt.Sprint(again) != fmt.Sprint(want) {
		t.Fatalf("%s: fast %v, then %v, reference %v", doc, bad, again, want)
	}
	rows, rows2 := rowsOf(fast), rowsOf(ref)
	if bad != nil {
		if len(rows)+len(rows2) != 0 {
			t.Fatalf("%s: bad, and yet rows %v, %v", doc, rows, rows2)
		}
		return "", bad
	}
	if len(rows) != 2 || len(rows2) != 1 || rows[0] != rows2[0] || rows[1] != rows2[0] {
		t.Fatalf("%s: fast %v, reference %v", doc, rows, rows2)
	}
	return rows[0], nil
}

func TestEveryTypeDecodesAsTheLanguageSays(t *testing.T) {
	for _, c := range []struct{ typ, doc, want string }{
		{"bool", `true`, `true`},
		{"bool", `1`, "mistyped"},
		{"int32", `-2147483648`, `-2147483648`},
		{"int32", `2147483648`, "out_of_range"},
		{"int64", `9223372036854775807`, `9223372036854775807`},
		{"int64", `-9223372036854775808`, `-9223372036854775808`},
		{"int64", `9223372036854775808`, "out_of_range"},
		{"int64", `9007199254740993`, `9007199254740993`},
		{"int64", `1.0`, `1`},
		{"int64", `1e3`, `1000`},
		{"int64", `120e-1`, `12`},
		{"int64", `-0`, `0`},
		{"int64", `0e99999999999999999999`, `0`},
		{"int64", `1e99999999999999999999`, "out_of_range"},
		{"int64", `1e-99999999999999999999`, "mistyped"},
		{"int64", `1.5`, "mistyped"},
		{"int64", `"1"`, "mistyped"},
		{"int64", `01`, "invalid_json"},
		{"int64", `00000000000000000001`, "invalid_json"},
		{"int64", `12345678`, `12345678`},
		{"int64", `1234567890123456`, `1234567890123456`},
		{"int64", `123456789012345678`, `123456789012345678`},
		{"int64", `1234567890123456789`, `1234567890123456789`},
		{"int64", `10000000000000000000000e-4`, `1000000000000000000`},
		{"int64", `null`, `null`},
		{"float32", `0.1`, `0.1`},
		{"float32", `3.5e38`, "out_of_range"},
		{"float64", `-0.0`, `-0`},
		{"float64", `1e400`, "out_of_range"},
		{"float64", `1e-400`, `0`},
		{"float64", `NaN`, "invalid_json"},
		{"float64", `"NaN"`, "mistyped"},
		{"decimal(10,2)", `12.34`, `"12.34"`},
		{"decimal(10,2)", `"12.34"`, `"12.34"`},
		{"decimal(10,2)", `"12,34"`, "mistyped"},
		{"decimal(10,2)", `1.230`, `"1.23"`},
		{"decimal(10,2)", `1.234`, "out_of_range"},
		{"decimal(10,2)", `-99999999.99`, `"-99999999.99"`},
		{"decimal(10,2)", `100000000`, "out_of_range"},
		{"decimal(38,0)", `99999999999999999999999999999999999999`, `"99999999999999999999999999999999999999"`},
		{"decimal(38,0)", `100000000000000000000000000000000000000`, "out_of_range"},
		{"decimal(38,10)", `-1234567890123456789012345678.0123456789`, `"-1234567890123456789012345678.0123456789"`},
		{"string", `"a"`, `"a"`},
		{"string", `1`, "mistyped"},
		{"string", `"\u0000\ud83d\ude00\n\/"`, `"\u0000` + "\U0001F600" + `\n/"`},
		{"string", `"` + "\u00e4\u6f22" + `"`, `"` + "\u00e4\u6f22" + `"`},
		{"string", `"\ud83d"`, "invalid_utf8"},
		{"string", "\"\xff\"", "invalid_utf8"},
		{"string", "\"a\tb\"", "invalid_json"},
		{"binary", `"AP8="`, `"00ff"`},
		{"binary", `"\u0041P8="`, `"00ff"`},
		{"binary", `"AP8"`, "mistyped"},
		{"binary", `"AP8=\n"`, "mistyped"},
		{"date", `"2024-02-29"`, `"2024-02-29"`},
		{"date", `"0001-01-01"`, `"0001-01-01"`},
		{"date", `"0000-12-31"`, "out_of_range"},
		{"date", `"2023-02-29"`, "invalid_time"},
		{"date", `"2024-02-29T00:00:00Z"`, "invalid_time"},
		{"date", `1`, "mistyped"},
		{"time", `"23:59:59.999999"`, `"23:59:59.999999"`},
		{"time", `"23:59:59.9999999"`, `"23:59:59.999999"`},
		{"time", `"24:00:00"`, "invalid_time"},
		{"timestamp", `"2026-03-01T10:00:00.25"`, `"2026-03-01T10:00:00.250000"`},
		{"timestamp", `"2026-03-01T10:00:00Z"`, "invalid_time"},
		{"timestamp(us)", `-1`, `"1969-12-31T23:59:59.999999"`},
		{"timestamptz", `"2026-03-01t10:00:00z"`, `"2026-03-01T10:00:00.000000Z"`},
		{"timestamptz", `"2026-03-01 10:00:00+05:30"`, `"2026-03-01T04:30:00.000000Z"`},
		{"timestamptz", `"2026-03-01T10:00:00"`, "invalid_time"},
		{"timestamptz", `"2026-03-01T10:00:60Z"`, "invalid_time"},
		{"timestamptz", `"0001-01-01T00:00:00+00:01"`, "out_of_range"},
		{"timestamptz", `"9999-12-31T23:59:59.999999999Z"`, `"9999-12-31T23:59:59.999999Z"`},
		{"timestamptz", `1772359200`, "mistyped"},
		{"timestamptz(s)", `"2026-03-01T10:00:00Z"`, "mistyped"},
		{"timestamptz(s)", `253402300800`, "out_of_range"},
		{"timestamptz(s)", `1e400`, "out_of_range"},
		{"timestamptz(ms)", `-0.001`, `"1969-12-31T23:59:59.999999Z"`},
		{"timestamptz(ms)", `-0.0015`, `"1969-12-31T23:59:59.999998Z"`},
		{"timestamptz(ms)", `1.7723592e12`, `"2026-03-01T10:00:00.000000Z"`},
		{"timestamptz(ns)", `-1`, `"1969-12-31T23:59:59.999999Z"`},
		{"uuid", `"123E4567-e89b-12d3-a456-426614174000"`, `"123e4567-e89b-12d3-a456-426614174000"`},
		{"uuid", `"123e4567e89b12d3a456426614174000"`, "mistyped"},
		{"json", ` {"b" : [1, 2.50 ,"x y"], "a":null } `, `{"b":[1,2.50,"x y"],"a":null}`},
		{"json", `"x"`, `"x"`},
		{"json", `null`, `null`},
		{"list<int64>", `[1,null, 3]`, `[1,null,3]`},
		{"list<int64>", `[ ]`, `[]`},
		{"list<int64>", `[1,"2"]`, "mistyped"},
		{"list<list<string>>", `[["a"],[],null,["b","c"]]`, `[["a"],[],null,["b","c"]]`},
		{"struct{a: int64, b: string}", `{"b":"x","a":1}`, `{"a":1,"b":"x"}`},
		{"struct{a: int64, b: string}", `{}`, `{"a":null,"b":null}`},
		{"struct{a: int64, b: string}", `[]`, "mistyped"},
		{"struct{a: struct{t: timestamptz(s)}}", `{"a":{"t":1,"t":2}}`, `{"a":{"t":"1970-01-01T00:00:02.000000Z"}}`},
		{"list<struct{a: int64, b: list<int32>}>", `[{"a":1},{"b":[1]},null,{"a":2,"b":[]}]`,
			`[{"a":1,"b":null},{"a":null,"b":[1]},null,{"a":2,"b":[]}]`},
	} {
		row, bad := both(t, JSONConfig{Schema: types("v", c.typ)}, `{"v":`+c.doc+`}`)
		got := strings.TrimSuffix(strings.TrimPrefix(row, `{"v":`), "}")
		if bad != nil {
			got = bad.Reason
		}
		if got != c.want {
			t.Errorf("%s of %s: got %s (%v), want %s", c.typ, c.doc, got, bad, c.want)
		}
	}
}

func TestRecordsAreAcceptedOrRefusedWithTheirReason(t *testing.T) {
	base := JSONConfig{Schema: types("a", "int64", "s", "string")}
	with := func(f func(*JSONConfig)) JSONConfig {
		c := base
		f(&c)
		return c
	}
	required := with(func(c *JSONConfig) { c.Required = []string{"s"} })
	strict := with(func(c *JSONConfig) { c.Extra = ExtraBad })
	whole := with(func(c *JSONConfig) { c.Whole = "doc" })
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		cfg       JSONConfig
		doc, want string
	}{
		{base, `{}`, `{"a":null,"s":null}`},
		{base, ` { "s" : "x" , "a" : 1 } `, `{"a":1,"s":"x"}`},
		{base, `{"a":1,"a":2}`, `{"a":2,"s":null}`},
		{base, `{"a":"x","a":2}`, `{"a":2,"s":null}`},
		{base, `{"a":1,"a":null}`, `{"a":null,"s":null}`},
		{base, `{"s":"first","a":1,"s":"2"}`, `{"a":1,"s":"2"}`},
		{base, `{"a":1,"a":"x"}`, `mistyped: column "a": expected int64, got string "x" at byte 11`},
		{base, `{"a":1,"\u0061":7}`, `{"a":7,"s":null}`},
		{base, `{"z":[{"y":1e5}],"a":1}`, `{"a":1,"s":null}`},
		{base, `{"z":[{"y":01}],"a":1}`, `invalid_json: byte 11: expected JSON, got 01}],"a":1}`},
		{base, `{"z":"` + "\xc3" + `","a":1}`, `invalid_utf8: byte 6: expected UTF-8 text, got "\xc3\",\"a\":1}"`},
		{base, `{"a":1}x`, `invalid_json: byte 7: expected JSON, got x`},
		{base, `{"a":1,}`, `invalid_json: byte 7: expected JSON, got }`},
		{base, `{,"a":1}`, `invalid_json: byte 1: expected JSON, got ,"a":1}`},
		{base, `{"a":1`, `invalid_json: byte 6: the document ends too early`},
		{base, ``, `invalid_json: byte 0: the document ends too early`},
		{base, "\xef\xbb\xbf{}", `invalid_json: byte 0: expected JSON, got "\ufeff{}"`},
		{base, `[1]`, `not_an_object: expected an object, got array [1]`},
		{base, `null`, `not_an_object: expected an object, got null null`},
		{base, `{"z":` + deep(63) + `}`, `{"a":null,"s":null}`},
		{base, `{"z":` + deep(64) + `}`, `too_deep: byte 68: nested deeper than depth = 64`},
		{required, `{"s":"x"}`, `{"a":null,"s":"x"}`},
		{required, `{"a":1}`, `missing_required: column "s": expected string, got nothing or null`},
		{required, `{"s":null}`, `missing_required: column "s": expected string, got nothing or null`},
		{required, `{"s":null,"s":"x"}`, `{"a":null,"s":"x"}`},
		{strict, `{"a":1,"s":"x"}`, `{"a":1,"s":"x"}`},
		{strict, `{"a":1,"z":2}`, `extra_field: field "z" is outside the schema`},
		{whole, ` {"a" : 1, "z":[ 1 ]}`, `{"a":1,"s":null,"doc":{"a":1,"z":[1]}}`},
		{whole, ` [1 , "a b"]`, `{"a":null,"s":null,"doc":[1,"a b"]}`},
		{whole, `null`, `{"a":null,"s":null,"doc":null}`},
		{with(func(c *JSONConfig) { c.MaxRecord = 8 }), `{"a":11}`, `{"a":11,"s":null}`},
		{with(func(c *JSONConfig) { c.MaxRecord = 8 }), `{"a":111}`, `too_large: record of 9 bytes, expected at most max_record = 8B`},
		{with(func(c *JSONConfig) { c.Depth = 1 }), `{"z":{}}`, `too_deep: byte 5: nested deeper than depth = 1`},
		{JSONConfig{Schema: types("t", "timestamptz(s)")}, `{"t":1772359200000}`,
			`out_of_range: column "t": expected timestamptz(s) from 0001-01-01T00:00:00.000000Z to before 10000-01-01T00:00:00.000000Z, got number 1772359200000 at byte 5`},
		{JSONConfig{Schema: types("l", "list<struct{x: int64}>"), Extra: ExtraBad}, `{"l":[{"x":1},{"y":2}]}`,
			`extra_field: field "l[1].y" is outside the schema`},
		{JSONConfig{Schema: types("l", "list<struct{x: int64}>")}, `{"l":[{"x":1}, {"x":2, "x":"3"}]}`,
			`mistyped: column "l[1].x": expected int64, got string "3" at byte 27`},
	} {
		got, bad := both(t, c.cfg, c.doc)
		if bad != nil {
			got = bad.Error()
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.doc, got, c.want)
		}
	}
}

// Case C16 of the collection.
func TestEpochUnitsAreDeclaredAndImplausibleTimesRefused(t *testing.T) {
	for _, c := range []struct{ unit, doc, want string }{
		{"(s)", `{"src":"s","ts":1772359200}`, "2026-03-01T10:00:00.000000Z"},
		{"(s)", `{"src":"sf","ts":1772359200.25}`, "2026-03-01T10:00:00.250000Z"},
		{"(ms)", `{"src":"ms","ts":1772359200123}`, "2026-03-01T10:00:00.123000Z"},
		{"(us)", `{"src":"us","ts":1772359200481516}`, "2026-03-01T10:00:00.481516Z"},
		{"(ns)", `{"src":"ns","ts":1772359200000000999}`, "2026-03-01T10:00:00.000000Z"},
		{"", `{"src":"iso","ts":"2026-03-01T11:00:00+01:00"}`, "2026-03-01T10:00:00.000000Z"},
		{"(s)", `{"src":"bad1","ts":1772359200000}`, "out_of_range"},
		{"(ms)", `{"src":"bad2","ts":1772359200}`, "out_of_range"},
		{"(s)", `{"src":"bad3","ts":"yesterday"}`, "mistyped"},
		{"(s)", `{"src":"nul","ts":null}`, "null"},
	} {
		cfg := JSONConfig{Schema: types("src", "string", "ts", "timestamptz"+c.unit), TimeRange: []string{"2000-01-01", "2100-01-01"}}
		row, bad := both(t, cfg, c.doc)
		if bad != nil {
			if bad.Reason != c.want {
				t.Errorf("%s: got %v, want %s", c.doc, bad, c.want)
			}
			continue
		}
		if !strings.HasSuffix(strings.ReplaceAll(row, `"`, ""), ",ts:"+c.want+"}") {
			t.Errorf("%s: got %s, want %s", c.doc, row, c.want)
		}
	}
}

func TestFieldsOutsideTheSchemaAreCountedForRowsOnly(t *testing.T) {
	d := decoder(t, JSONConfig{Schema: types("a", "int64", "s", "struct{x: int64}")})
	for range 3 {
		if bad := d.Append([]byte(`{"a":1,"z":[],"s":{"x":1,"y":2}}`)); bad != nil {
			t.Fatal(bad)
		}
		if bad := d.Append([]byte(`{"z":1,"a":"x"}`)); bad == nil {
			t.Fatal("a bad record was taken")
		}
	}
	if got := fmt.Sprint(d.Extra()); got != "map[s.y:3 z:3]" {
		t.Errorf("extra fields %s", got)
	}
	for i := range 3 * maxExtras {
		if bad := d.Append(fmt.Appendf(nil, `{"f%d":1}`, i)); bad != nil {
			t.Fatal(bad)
		}
	}
	if n := len(d.Extra()); n > maxExtras+3 {
		t.Errorf("%d names kept", n)
	}
}

func TestBatchesStandOnTheirOwn(t *testing.T) {
	d := decoder(t, JSONConfig{Schema: types("a", "int64", "s", "string", "l", "list<string>", "b", "bool", "o", "struct{x: decimal(5,1)}")})
	rnd := []int{0, 1, 2, 100, 3, 0, 5000, 1, 17}
	for round, n := range rnd {
		var want []string
		for i := range n {
			doc := fmt.Sprintf(`{"a":%d,"s":"%s","l":["%d",null],"b":%t,"o":{"x":%d.5}}`, i, strings.Repeat("x", i%50), i, i%2 == 0, i)
			row := strings.Replace(doc, fmt.Sprintf("%d.5}", i), fmt.Sprintf(`"%d.5"}`, i), 1)
			if i%7 == 0 {
				doc, row = `{}`, `{"a":null,"s":null,"l":null,"b":null,"o":null}`
			}
			if i%5 == 0 {
				if bad := d.Append([]byte(`{"l":["abc","def"],"s":"given up half way","a":1,"b":`)); bad == nil {
					t.Fatal("half a record was taken")
				}
			}
			if bad := d.Append([]byte(doc)); bad != nil {
				t.Fatal(bad)
			}
			want = append(want, row)
		}
		got := rowsOf(d)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d, %d rows: got\n%v\nwant\n%v", round, n, got, want)
		}
	}
}

func TestSchemaTellsWhatCannotBeNull(t *testing.T) {
	s, err := JSONConfig{Schema: types("a", "int64", "b", "string"), Required: []string{"b"}, Whole: "doc"}.ArrowSchema()
	if err != nil {
		t.Fatal(err)
	}
	want := []arrow.Field{
		{Name: "a", Type: dataflow.TypeInt64, Nullable: true}, {Name: "b", Type: dataflow.TypeString}, {Name: "doc", Type: dataflow.TypeJSON},
	}
	if !s.Equal(arrow.NewSchema(want, nil)) {
		t.Errorf("got %s", s)
	}
}

func TestConfigProblemsNameTheirPath(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "decode needs one format; known: avro, json, json_schema, protobuf, raw, sparkplug, text"},
		{Config{JSON: &JSONConfig{}}, "json.schema: the columns are not declared: write schema: {name: type, ...}, or whole: COLUMN to keep documents as they are"},
		{Config{JSON: &JSONConfig{Schema: types("ts", "timestamptz(h)")}}, `json.schema.ts: type "timestamptz(h)": unit "h" of timestamptz: expected s, ms, us or ns`},
		{Config{JSON: &JSONConfig{Schema: types("_ts", "date")}}, `json.schema._ts: column "_ts": names beginning with "_" are reserved`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date", "a", "date")}}, `json.schema.a: column "a" is declared twice`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), Required: []string{"a", "b"}}}, `json.required[1]: "b" is no column of the schema; columns: a`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), Whole: "a"}}, `json.whole: column "a" is in the schema already: choose another name`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), Extra: "drop"}}, `json.extra: "drop" is unknown: expected ignore or bad`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), Depth: 257}}, `json.depth: 257 is out of range: expected 1 to 256`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), MaxRecord: 1 << 30}}, `json.max_record: 1GiB is out of range: expected 1B to 256MiB`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), TimeRange: []string{"2000"}}}, `json.time_range: expected two times, as [2000-01-01, 2100-01-01]`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), TimeRange: []string{"2000-01-01", "soon"}}}, `json.time_range: "soon" is no time: expected a date or RFC 3339, as 2000-01-01 or 2000-01-01T00:00:00Z`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date"), TimeRange: []string{"2001-01-01", "2000-01-01"}}}, `json.time_range: [2001-01-01, 2000-01-01] is no range inside the years 1 to 9999`},
		{Config{JSON: &JSONConfig{Schema: types("a", "date")}}, ""},
		{Config{JSON: &JSONConfig{Whole: "doc"}}, ""},
	} {
		got := ""
		if err := c.cfg.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// shared opens a file of the collection of outside data, or skips.
func shared(t *testing.T, name string) io.Reader {
	t.Helper()
	dir := os.Getenv("FRAZIL_SHARED")
	if dir == "" {
		root, err := os.Getwd()
		for err == nil {
			if _, e := os.Stat(filepath.Join(root, "go.mod")); e == nil || root == filepath.Dir(root) {
				break
			}
			root = filepath.Dir(root)
		}
		dir = filepath.Join(root, "..", "shared")
	}
	b, err := os.ReadFile(filepath.Join(dir, "data", name))
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("outside data: %v", err)
		}
		t.Skipf("outside data is absent (FRAZIL_SHARED): %v", err)
	}
	if !strings.HasSuffix(name, ".gz") {
		return bytes.NewReader(b)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func TestJSONTestSuiteIsAcceptedAndRefusedAsItSays(t *testing.T) {
	lines := bufio.NewScanner(shared(t, "jsontestsuite/parsing.ndjson.gz"))
	lines.Buffer(nil, 4<<20)
	seen := map[string]int{}
	for lines.Scan() {
		var doc struct{ Name, Expect, Base64 string }
		if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(doc.Base64)
		if err != nil {
			t.Fatal(err)
		}
		seen[doc.Expect]++
		// As a whole document, as a field outside the schema and as a column.
		row, bad := both(t, JSONConfig{Whole: "doc"}, string(raw))
		if doc.Expect == "accept" && bad != nil || doc.Expect == "reject" && bad == nil {
			t.Errorf("%s: expected %s, got %v", doc.Name, doc.Expect, bad)
		}
		if bad == nil {
			var got map[string]json.RawMessage
			if err := json.Unmarshal([]byte(row), &got); err != nil {
				t.Errorf("%s: row %s: %v", doc.Name, row, err)
			}
		}
		for _, key := range []string{"v", "other"} {
			_, inside := both(t, JSONConfig{Schema: types("v", "json")}, `{"`+key+`":`+string(raw)+`}`)
			if (bad == nil) != (inside == nil) && len(raw) < 1000 {
				t.Errorf("%s: alone %v, as field %q %v", doc.Name, bad, key, inside)
			}
		}
	}
	if seen["accept"] != 95 || seen["reject"] != 188 || seen["either"] != 35 {
		t.Errorf("read %v documents", seen)
	}
}

func TestDocumentsThatParsersReadDifferently(t *testing.T) {
	lines := bufio.NewScanner(shared(t, "jsontestsuite/transform.ndjson"))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var doc struct {
			Name, Base64 string
			Postgres     *string `json:"postgres_jsonb"`
		}
		if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		raw, _ := base64.StdEncoding.DecodeString(doc.Base64)
		_, bad := both(t, JSONConfig{Whole: "doc"}, string(raw))
		// U+0000 is text here, unlike in PostgreSQL.
		if (bad == nil) != (doc.Postgres != nil) && !bytes.Contains(raw, []byte(`\u0000`)) {
			t.Errorf("%s: PostgreSQL %v, we %v", doc.Name, doc.Postgres != nil, bad)
		}
	}
}

func TestDoublesAreExact(t *testing.T) {
	lines := bufio.NewScanner(shared(t, "jsontestsuite/doubles.ndjson"))
	n := 0
	for lines.Scan() {
		var doc struct{ JSON, Bits string }
		if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		for _, ref := range []bool{false, true} {
			d := decoder(t, JSONConfig{Schema: types("v", "float64")})
			d.viaReference = ref
			if bad := d.Append([]byte(`{"v":` + doc.JSON + `}`)); bad != nil {
				t.Errorf("%s: %v", doc.JSON, bad)
				continue
			}
			col := d.Flush()[0].(*array.Float64)
			if got := fmt.Sprintf("%016x", math.Float64bits(col.Value(0))); got != doc.Bits {
				t.Errorf("%s: got bits %s, want %s", doc.JSON, got, doc.Bits)
			}
			col.Release()
		}
		n++
	}
	if n != 66 {
		t.Errorf("read %d numbers", n)
	}
}
