package exprtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

const (
	fewRows, manyRows = 1000, 4000
	// mostMore is how many more allocations the batch of many rows may take than that of
	// few: were it one for a single row of each hundred and fifty, which is how often rows
	// repeat, it would be 20. What grows in steps, as buffers of the result that double, is
	// below it.
	mostMore = 15
)

// allocations measures what expressions over random rows allocate.
type allocations struct {
	t    *testing.T
	rows *Rows
	base arrow.RecordBatch
	// measured counts the expressions.
	measured int
	// made are the columns of batches, by their number and the rows that they repeat.
	made map[string]arrow.RecordBatch
}

// texts are the texts that casts from text are measured with, beside the edges of a type.
var texts = map[string][]string{
	"bool": {"TRUE", "Yes", "off", " f "}, "int16": {" 12 ", "+7"}, "int32": {" 12 ", "+7"}, "int64": {" 12 ", "+7"},
	"decimal": {"1E5", " +12.50 ", ".5", "5.", "000000000000000000000000000000000000000000000000000012.5"},
	"float32": {"1E5", "INF", "-Infinity", ".5"}, "float64": {"1E5", "INF", "-Infinity", ".5", "0000000000000000000000000000000000000000.1e10"},
	"string":      {"the quick brown fox jumps over the lazy dog, THE QUICK BROWN FOX; \"quoted\", it's \\ äöü 日本語"},
	"binary":      {`\x 00 FF`, `abc\\\001`, `\xDEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEFDEADBEEF`},
	"date":        {"January 5, 2024", "5-Jan-2024", "20240105", "J2451187", "2024-060", "0044-03-15 BC", "EPOCH"},
	"time":        {"4:05 PM", "040506", "T04:05:06", "ALLBALLS"},
	"timestamp":   {"2024-01-05T04:05:06.789Z", "Fri Jan 05 10:20:30 2024", "2024-01-05 04:05:06 America/New_York", "0044-03-15 12:00:00 BC"},
	"timestamptz": {"2024-01-05T04:05:06.789Z", "2024-01-05 04:05:06 Europe/Berlin", "2024-01-05 04:05:06 EST", "2024-01-05 04:05:06-03:30", "Fri Jan 05 10:20:30 2024 PST"},
	"interval":    {"1 Year 2 Months 3 Days 4 Hours", "P1Y2M3DT4H5M6.5S", "@ 1.5 weeks ago", "1-2", "3 4:05:06", "1.5 MONTHS"},
	"uuid":        {"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"},
	"json": {`{"b": 1.50e3, "a": [1, {"c": "\u00e4\n", "a": null}], "long": "` + strings.Repeat("text ", 20) + `"}`, `[1e2, -0, 1.5E-3, 12345678901234567890123456789012345678901234567890]`,
		`{"k9":1,"k8":1,"k7":1,"k6":1,"k5":1,"k4":1,"k3":1,"k2":1,"k1":1,"j9":1,"j8":1,"j7":1,"j6":1,"j5":1,"j4":1,"j3":1,"j2":1,"j1":1,"i9":1,"i8":1,"i7":1,"i6":1,"i5":1,"i4":1,"i3":1,"i2":1,"i1":1}`},
	"int32[]": {"{ 1 , 2 }", `{"3"}`}, "string[]": {`{"` + strings.Repeat("long ", 20) + `",b}`, "{ A , null }"}, "float64[]": {"{1E5}"},
}

// own are texts for operands, as hints are, that only this test needs.
var own = map[string][][]string{
	"substring": {nil, patterns, {"#", "\\"}}, "similar_to_escape": {{"a%", "_b|c", "(a|b)#%"}, {"#", "\\"}},
	"regexp_replace":   {nil, patterns, {"", "x", "[\\1]", "\\&"}, {"", "g", "i", "gi"}, nil, {"", "g", "i", "gi"}},
	"to_date":          {{"2024-01-05", "1999-12-31"}, {"YYYY-MM-DD", "yyyy-mm-dd", "IYYY-MM-DD"}},
	"to_timestamp":     {{"2024-01-05 04:05:06", "1999-12-31 23:59:59"}, {"YYYY-MM-DD HH24:MI:SS", "yyyy-mm-dd hh24:mi:ss"}},
	"make_timestamptz": {nil, nil, nil, nil, nil, nil, zones},
	"unistr":           {{`d\0061t\+000061`, "plain"}},
}

func hintsOf(name string, i int) []string {
	h := own[name]
	if h == nil {
		h = hints[name]
	}
	if i < len(h) {
		return h[i]
	}
	return nil
}

// fromText is the column with texts of a type, hintName that with the texts that operand i of
// a function takes.
func fromText(typ string) string {
	return "text_" + strings.TrimSuffix(typ, "[]") + strconv.Itoa(strings.Count(typ, "["))
}

func hintName(name string, i int) string {
	names := slices.Sorted(maps.Keys(hints))
	for n := range own {
		if hints[n] == nil {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("hint_%d_%d", slices.Index(names, name), i)
}

func newAllocations(t *testing.T) *allocations {
	if rig.Raced {
		t.Skip("the race detector makes pools forget")
	}
	rng := rand.New(rand.NewPCG(8, 8))
	a := &allocations{t: t, rows: NewRows(rng, 300), made: map[string]arrow.RecordBatch{}}
	for k, c := range a.rows.Columns {
		for i, row := range a.rows.Values {
			if more := texts[c.Type]; i%4 == k%2 && (c.Type == "string" || c.Type == "json" || c.Type == "binary") && row[k] != nil {
				row[k] = &more[rng.IntN(len(more))]
			}
		}
	}
	for _, typ := range types {
		a.column(rng, fromText(typ.name), append(slices.Clone(typ.edges), texts[typ.name]...))
	}
	for name := range merged(hints, own) {
		for i := range max(len(hints[name]), len(own[name])) {
			if h := hintsOf(name, i); h != nil {
				a.column(rng, hintName(name, i), h)
			}
		}
	}
	b, err := a.rows.Batch(memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Release()
		for _, m := range a.made {
			m.Release()
		}
	})
	a.base = b
	return a
}

func merged(a, b map[string][][]string) map[string][][]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// column adds one of texts.
func (a *allocations) column(rng *rand.Rand, name string, texts []string) {
	a.rows.Columns = append(a.rows.Columns, Column{Name: name, Type: "string", SQL: "text"})
	for i, row := range a.rows.Values {
		a.rows.Values[i] = append(row, &texts[rng.IntN(len(texts))])
	}
}

// good returns the rows that text can be computed for, at most 150, and the columns
// that it reads.
func (a *allocations) good(text string) (rows []int, columns []int, err error) {
	e, err := expr.Compile(text, a.base.Schema())
	if err != nil {
		return nil, nil, err
	}
	v, bad, err := e.NewEvaluator(memory.DefaultAllocator).Eval(a.base)
	if err != nil {
		return nil, nil, err
	}
	v.Release()
	failed := map[int]bool{}
	for _, r := range bad {
		failed[r.Row] = true
	}
	for i := range a.rows.Values {
		if !failed[i] && len(rows) < 150 {
			rows = append(rows, i)
		}
	}
	for i, c := range a.rows.Columns {
		if slices.Contains(e.Columns(), c.Name) {
			columns = append(columns, i)
		}
	}
	return rows, columns, nil
}

// batch repeats rows up to manyRows, with these columns. The caller releases it.
func (a *allocations) batch(rows, columns []int) arrow.RecordBatch {
	fields, cols := []arrow.Field{}, []arrow.Array{}
	for _, k := range columns {
		key := fmt.Sprint(k, rows)
		if a.made[key] == nil {
			part := &Rows{Columns: a.rows.Columns[k : k+1]}
			for i := range manyRows {
				part.Values = append(part.Values, a.rows.Values[rows[i%len(rows)]][k:k+1])
			}
			b, err := part.Batch(memory.DefaultAllocator)
			if err != nil {
				a.t.Fatal(err)
			}
			a.made[key] = b
		}
		fields, cols = append(fields, a.made[key].Schema().Field(0)), append(cols, a.made[key].Column(0))
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, manyRows)
}

// more returns how many more allocations an expression takes for many rows than for few; ok
// is false if it has no good rows.
func (a *allocations) more(text string) (more float64, ok bool, err error) {
	rows, columns, err := a.good(text)
	if err != nil || len(rows) == 0 || len(columns) == 0 {
		return 0, false, err
	}
	many := a.batch(rows, columns)
	defer many.Release()
	few := many.NewSlice(0, fewRows)
	defer few.Release()
	e, err := expr.Compile(text, many.Schema())
	if err != nil {
		return 0, false, err
	}
	ev := e.NewEvaluator(memory.DefaultAllocator)
	run := func(b arrow.RecordBatch) func() {
		return func() {
			v, bad, err := ev.Eval(b)
			if err != nil || len(bad) > 0 {
				a.t.Fatalf("%s: %v %v", text, bad, err)
			}
			v.Release()
		}
	}
	a.measured++
	for range 3 { // a collection of garbage may empty pools meanwhile
		more = testing.AllocsPerRun(1, run(many)) - testing.AllocsPerRun(1, run(few))
		if more <= mostMore {
			break
		}
	}
	return more, true, nil
}

// check fails the test if text allocates for rows.
func (a *allocations) check(text string) (ok bool) {
	more, ok, err := a.more(text)
	if err != nil {
		return false
	}
	if more > mostMore {
		a.t.Errorf("%s: %.0f more allocations for %d rows than for %d", text, more, manyRows, fewRows)
	}
	return ok
}

// columnsOf are the columns that operand i of a function may be.
func columnsOf(name string, i int, typ string) string {
	if name == "normalize" && i == 1 {
		return "nfkd"
	}
	if hintsOf(name, i) != nil && typ == "string" {
		return hintName(name, i)
	}
	if typ == "int16" {
		return []string{"(i4 % 200)::smallint", "(j4 % 200)::smallint"}[i%2]
	}
	if limit[name] == i+1 {
		return "(" + columnNames[typ][0] + " % 40)"
	}
	names := columnNames[typ]
	if names == nil {
		return ""
	}
	return names[i%2]
}

// constantsOf are values that operand i may be as a constant.
func constantsOf(name string, i int, typ string) []string {
	if h := hintsOf(name, i); h != nil && typ == "string" {
		var out []string
		for _, x := range h {
			out = append(out, quote(&x))
		}
		return out
	}
	if limit[name] == i+1 {
		return []string{"7"}
	}
	t := typeNamed(typ)
	if t == nil {
		return nil
	}
	var out []string
	for _, x := range t.edges {
		out = append(out, "("+quote(&x)+"::"+t.sql+")")
	}
	return out
}

// written is a call of o.
func written(o expr.Overload, args []string) string {
	op, unary := strings.CutPrefix(o.Name, "unary ")
	sign := op[0] != '_' && (op[0] < 'a' || op[0] > 'z')
	var parts []string
	switch {
	case unary:
		parts = []string{"(" + op + " ", ")"}
	case sign && len(args) == 2:
		parts = []string{"(", " " + op + " ", ")"}
	case sign: // of three operands
		words := map[string]string{"~~": "like", "~~*": "ilike", "!~~": "not like", "!~~*": "not ilike"}
		parts = []string{"(", " " + words[op] + " ", " escape ", ")"}
	default:
		parts = callParts(o.Name, len(args))
	}
	var b strings.Builder
	for i, a := range args {
		b.WriteString(parts[i] + a)
	}
	return b.String() + parts[len(args)]
}

// concrete puts types in the place of any and list.
func concrete(o expr.Overload) []expr.Overload {
	var out []expr.Overload
	for word, names := range map[string][]string{"list": listTypes, "any": typeNames()} {
		if !slices.Contains(o.Args, word) {
			continue
		}
		for _, n := range names {
			of := o
			of.Args = slices.Clone(o.Args)
			for i, a := range of.Args {
				if a == word {
					of.Args[i] = n
				}
			}
			out = append(out, concrete(of)...)
		}
		return out
	}
	return []expr.Overload{o}
}

func typeNames() []string {
	var out []string
	for _, t := range types {
		out = append(out, t.name)
	}
	return out
}

// TestNoOverloadAllocatesPerRow holds every overload of the registry to memory of the batch,
// with columns as operands and with each of them as a constant. The one thing that needs
// memory for rows is a regular expression that was not met before; here there are few.
func TestNoOverloadAllocatesPerRow(t *testing.T) {
	a := newAllocations(t)
	for _, o := range expr.Overloads() {
		done := false
		for _, of := range concrete(o) {
			done = a.overload(of) || done
		}
		if !done {
			t.Errorf("%s(%s) was not measured", o.Name, strings.Join(o.Args, ", "))
		}
	}
	t.Logf("%d expressions measured", a.measured)
}

// overload measures the ways to call o; ok says whether there was one.
func (a *allocations) overload(o expr.Overload) (ok bool) {
	if len(o.Args) == 0 {
		return true
	}
	var args []string
	for i, typ := range o.Args {
		args = append(args, columnsOf(o.Name, i, typ))
	}
	if o.Variadic {
		args = append(args, args[len(args)-1])
	}
	ok = a.check(written(o, args))
	for i, typ := range o.Args {
		n := 0
		for _, text := range constantsOf(o.Name, i, typ) {
			with := slices.Clone(args)
			with[i] = text
			if a.check(written(o, with)) {
				ok = true
				if n++; n == 2 {
					break
				}
			}
		}
	}
	return ok
}

// TestNoCastAllocatesPerRow does the same for casts.
func TestNoCastAllocatesPerRow(t *testing.T) {
	a := newAllocations(t)
	casts := expr.Casts()
	for _, l := range listTypes {
		casts = append(casts, [2]string{"string", l}, [2]string{l, "string"})
		for _, m := range listTypes {
			casts = append(casts, [2]string{l, m})
		}
	}
	modified := map[string][]string{
		"decimal": {"numeric(10,2)", "numeric(38,10)"}, "string": {"varchar(3)", "char(5)"}, "time": {"time(3)"},
		"timestamp": {"timestamp(0)"}, "timestamptz": {"timestamptz(3)"}, "interval": {"interval(0)", "interval hour to minute"},
	}
	for _, c := range casts {
		if c[0] == "list" || c[0] == c[1] {
			continue // in the types of lists
		}
		from := columnsOf("", 0, c[0])
		if c[0] == "string" && c[1] != "string" {
			from = fromText(c[1])
		}
		ok := false
		for _, sql := range append(modified[c[1]], typeNamed(c[1]).sql) {
			ok = a.check("("+from+")::"+sql) || ok
		}
		if !ok {
			t.Errorf("%s::%s was not measured", c[0], c[1])
		}
	}
	t.Logf("%d expressions measured", a.measured)
}

// compiles says whether t has a regular expression that is computed, so that nearly every row
// has another one. Each is compiled when it is new, which is the one thing that needs memory
// for rows; those of a column that has few are kept.
func compiles(t *Tree) bool {
	for _, part := range t.All() {
		pattern := strings.HasPrefix(part.Name, "regexp_") || strings.Contains(part.Name, "~") && !strings.Contains(part.Name, "~~") ||
			part.Name == "substring" && len(part.Args) > 1 && part.Args[1].Type == "string"
		if pattern && len(part.Args) > 1 && !(part.Args[1].Constant() && len(part.Args) < 4) {
			return true
		}
	}
	return false
}

// TestNoFormAllocatesPerRow does the same for random expressions, which have the forms with a
// syntax of their own among them. FRAZIL_COUNT asks for more of them.
func TestNoFormAllocatesPerRow(t *testing.T) {
	_, rng := seeded(t)
	count := 1000
	if n, err := strconv.Atoi(os.Getenv("FRAZIL_COUNT")); err == nil {
		count = n
	}
	a := newAllocations(t)
	g := NewGenerator(rng, a.rows)
	for range count {
		if t := g.Any(3); !compiles(t) {
			a.check(t.String())
		}
	}
	for _, text := range []string{
		`regexp_replace(s, '((a)|(b|c))+', '\\2-\\3', 'g')`, `regexp_match(s, '(\w)*?(\d+)')`, `substring(s from '(x|(yz|a)+)*')`, `regexp_match(s, '(([a-c])+?)(\w*)$')`,
		`regexp_split_to_array(s, '(?:a|b)+')`, `s ~ '(a|b)*c(d|e)\M'`, `s ~* '^THE .*(fox|dog)'`, `s similar to '%(a|b)_*'`,
		`to_char(ts, '"Q"Q FMDay DDth RM Y,YYY HH12:MI:SS.US AM TZH')`, `to_char(tz, 'IYYY-"W"IW-ID J CC ad')`, `to_char(iv, 'YYYY MM DDD HH24:MI:SS.MS')`,
		`extract(epoch from ts)`, `extract(julian from tz)`, `extract(week from dt)`, `tz at time zone 'Europe/Berlin'`, `date_trunc('week', tz, 'America/New_York')`,
		`s = any(at)`, `i4 = any(array[1, 2, i4])`, `s like any(array['%a', t])`, `(i4, s) < (j4, t)`, `row(i4, s) is distinct from row(j4, t)`,
		`case i4 when 1 then s when 2 then t else s || t end`, `greatest(n, m, 3.5)`, `array_fill(i4, array[3])`, `ai[1:2]`, `af[2]`, `at[1]`, `(js -> 'a' ->> 'b')::int`, `js #>> '{a,b}'`,
	} {
		if _, _, err := a.good(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		a.check(text)
	}
	t.Logf("%d expressions measured", a.measured)
}
