package expressions

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/rig"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/jackc/pgx/v5"
)

// patterns of a portion, each with a text and options of its own.
const patterns = 5000

// What is asked of each: groups, replacing all, splitting, and where a match ends.
var regexQuestions = []string{
	`regexp_match(s, p, f)::text`, `regexp_replace(s, p, '<\&\1>', f || 'g')`, `regexp_split_to_array(s, p, f)::text`,
	`regexp_instr(s, p, 2, 1, 1, f)::text`, `(s ~ p)::text`, `substring(s from p)`,
}

// TestRandomRegularExpressions: random regular expressions find in random texts what
// PostgreSQL finds, to the last group. Back references and look-around, which are
// refused, are not among them.
func TestRandomRegularExpressions(t *testing.T) {
	url := rig.Postgres(t)
	full.Suite{Name: "random-regexes", Total: 200, Short: 2}.Run(t, func(t *testing.T, portion int) full.Figures {
		return randomRegexes(t, url, portion)
	})
}

func randomRegexes(t *testing.T, url string, portion int) full.Figures {
	rng := rand.New(rand.NewPCG(uint64(portion), 9))
	var cols [3][]string // p, s, f
	for range patterns {
		cols[0] = append(cols[0], wholePattern(rng))
		cols[1] = append(cols[1], regexText(rng))
		cols[2] = append(cols[2], pick(rng, "", "", "", "i", "n", "p", "w"))
	}
	theirs := regexesThere(t, url, cols)
	f := full.Figures{"patterns": patterns}
	for k, text := range regexQuestions {
		for i, ours := range regexesHere(t, text, cols) {
			f["answers"]++
			if ours == "error" {
				f["errors"]++
			}
			if ours != theirs[k][i] {
				t.Errorf("%s for pattern %q, text %q, options %q is %q, on the server %q", text, cols[0][i], cols[1][i], cols[2][i], ours, theirs[k][i])
			}
		}
	}
	t.Logf("%d answers, %d of them errors", f["answers"], f["errors"])
	return f
}

func regexesThere(t *testing.T, url string, cols [3][]string) [][]string {
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, `create or replace function pg_temp.ask(q text, s text, p text, f text) returns text language plpgsql as $$
		declare x text; begin execute 'select coalesce(' || q || ', ''null'') from (select $1 s, $2 p, $3 f) r' into x using s, p, f; return x;
		exception when others then return 'error'; end $$`); err != nil {
		t.Fatal(err)
	}
	out := make([][]string, len(regexQuestions))
	for k, q := range regexQuestions {
		rows, err := conn.Query(ctx, "select pg_temp.ask($1, s, p, f) from unnest($2::text[], $3::text[], $4::text[]) with ordinality as c(p, s, f, i) order by i", q, cols[0], cols[1], cols[2])
		if err != nil {
			t.Fatal(err)
		}
		if out[k], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func regexesHere(t *testing.T, text string, cols [3][]string) []string {
	var fields []arrow.Field
	for _, name := range []string{"p", "s", "f"} {
		fields = append(fields, arrow.Field{Name: name, Type: dataflow.TypeString})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for k, c := range cols {
		b.Field(k).(*array.StringBuilder).AppendValues(c, nil)
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	e, err := expr.Compile(text, batch.Schema())
	if err != nil {
		t.Fatal(err)
	}
	a, bad, err := e.NewEvaluator(memory.DefaultAllocator).Eval(batch)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	out := make([]string, a.Len())
	for i := range out {
		if out[i] = "null"; a.IsValid(i) {
			out[i] = a.(*array.String).Value(i)
		}
	}
	for _, r := range bad {
		out[r.Row] = "error"
	}
	return out
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

func wholePattern(rng *rand.Rand) string {
	p := randomPattern(rng, 4)
	if rng.IntN(30) == 0 { // mostly mistakes
		p += pick(rng, "(", `\`, "[a", "{2", "a{2", "*", "**", ")", "|", "[b-a]", "[[:foo:]]", "a{3,2}", `\q`, `\cA`, `\B`, "[[.a.]]",
			"[[=a=]b]", "(?#x)", "a{256}", "[a-b-c]", `[\d-a]`, "a{,2}", "(?i:a)", "(?<n>a)", `\p{L}`)
	}
	if rng.IntN(40) == 0 {
		p = pick(rng, "(?i)", "(?x)", "(?q)", "***=", "***:", "(?n)", "(?z)", "(?c)") + p
	}
	return p
}

func randomPattern(rng *rand.Rand, depth int) string {
	if depth <= 0 || rng.IntN(5) == 0 {
		return pick(rng, "a", "b", "c", "a", "b", "ab", ".", "[ab]", "[^a]", `\w`, `\d`, `\s`, "[[:alpha:]]", `\m`, `\M`, `\y`, `\Y`, "^", "$", `\A`, `\Z`,
			"ö", "é", `\W`, `\S`, "A", "[a-c]", "[^[:space:]b]", `\.`, "x", "[]a]", "[a-]", "[-a]", `\n`, `\x61`, `\u00f6`, "1", `[\w-]`, `\D`, "[[:<:]]", "[[:upper:]]")
	}
	part := func() string { return randomPattern(rng, depth-1) }
	switch rng.IntN(7) {
	case 0, 1:
		return part() + part()
	case 2:
		return part() + "|" + part()
	case 3:
		return "(" + part() + ")"
	case 4:
		return "(?:" + part() + ")"
	}
	p := part()
	if len(p) > 1 && strings.IndexByte(`([\`, p[0]) < 0 {
		p = pick(rng, "(", "(?:") + p + ")"
	}
	return p + pick(rng, "*", "+", "?", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,1}", "{2,}?", "{1,2}?", "{0}", "{2}?", "{1}")
}

func regexText(rng *rand.Rand) string {
	var b strings.Builder
	for range rng.IntN(9) {
		b.WriteString(pick(rng, "a", "b", "c", "a", "b", " ", "ö", "A", "x", "1", "\n", "é", ".", "ab"))
	}
	return b.String()
}
