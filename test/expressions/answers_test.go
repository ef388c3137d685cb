package expressions

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"frazil/operators/expr"
	"frazil/operators/expr/exprtest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/jackc/pgx/v5"
)

// question asks for an expression on rows lo to before hi.
type question struct {
	text   string
	lo, hi int
}

// answer is the value of one row.
type answer struct {
	null bool
	text string
	// reason is why the row fails, "" if it does not: a reason of expr, "refused" if
	// nothing runs. detail is the message, state PostgreSQL's code.
	reason, detail, state string
}

func (a answer) String() string {
	switch {
	case a.state != "":
		return fmt.Sprintf("%s (%s: %s)", a.reason, a.state, a.detail)
	case a.reason != "":
		return fmt.Sprintf("%s (%s)", a.reason, a.detail)
	case a.null:
		return "null"
	}
	return "'" + a.text + "'"
}

// same says whether both are the same to the letter.
func (a answer) same(b answer) bool {
	if a.reason != "" || b.reason != "" {
		return a.reason == b.reason
	}
	return a.null == b.null && a.text == b.text
}

// answers are those to a question: the type where it is known, a value per row. typ is
// the name that each side has for it, sql PostgreSQL's with precision and scale.
type answers struct {
	typ, sql string
	rows     []answer
}

const refused = "refused"

// reasonOf is the reason of expr that means what an SQLSTATE and its message do.
func reasonOf(state, detail string) string {
	switch {
	case state == "42601" && strings.Contains(detail, "Unicode"): // of unistr
		return "invalid_argument"
	case state == "22012":
		return "division_by_zero"
	case state == "22003" || state == "22008" || state == "22015" || state == "54000":
		return "out_of_range"
	case state == "22P02" || state == "22007" || state == "22009":
		return "invalid_cast"
	case strings.HasPrefix(state, "42"):
		return refused
	}
	return "invalid_argument"
}

// The server evaluates all rows of an expression at once, and one by one where that
// fails.
const serverFunction = `
create function answer(texts text[], lo int[], hi int[])
returns table (k int, typ text, vals text[], states text[], details text[]) language plpgsql as $$
declare
  rows text := 'select array_agg(x::text), min(pg_typeof(x)::text) from (select (%s) as x from r where id >= %s and id < %s order by id offset 0) q';
  v text[]; t text;
begin
  for k in 1 .. array_length(texts, 1) loop
    vals := '{}'; states := '{}'; details := '{}'; typ := null;
    begin
      execute format(rows, texts[k], lo[k], hi[k]) into vals, typ;
    exception when others then
      if sqlstate like '42%' and sqlerrm not like '%Unicode%' or sqlstate like 'XX%' then
        states := array[sqlstate]; details := array[sqlerrm];
      else
        for i in lo[k] .. hi[k] - 1 loop
          begin
            execute format(rows, texts[k], i, i + 1) into v, t;
            vals := vals || v; states := states || ''::text; details := details || ''::text;
            typ := coalesce(t, typ);
          exception when others then
            vals := vals || null::text; states := states || sqlstate; details := details || sqlerrm;
          end;
        end loop;
      end if;
    end;
    answer.k := k;
    return next;
  end loop;
end $$`

// server is the PostgreSQL that is asked; the rows are in its table r.
type server struct{ conn *pgx.Conn }

func newServer(t *testing.T, url string, rows *exprtest.Rows) *server {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	for _, statement := range []string{
		"set timezone = 'UTC'; set jit = off; set datestyle = 'ISO, MDY'; set intervalstyle = 'postgres'; set extra_float_digits = 1; set bytea_output = 'hex'",
		"drop table if exists r; drop function if exists answer", serverFunction, rows.Create("r"), "analyze r",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("prepare the server: %v", err)
		}
	}
	return &server{conn}
}

// ask evaluates questions on the server.
func (s *server) ask(ctx context.Context, qs []question) ([]answers, error) {
	if len(qs) == 0 {
		return nil, nil
	}
	texts, lo, hi := make([]string, len(qs)), make([]int, len(qs)), make([]int, len(qs))
	for i, q := range qs {
		texts[i], lo[i], hi[i] = q.text, q.lo, q.hi
	}
	rows, err := s.conn.Query(ctx, "select k, coalesce(typ, ''), vals, states, details from answer($1, $2, $3)", texts, lo, hi)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make([]answers, len(qs))
	for rows.Next() {
		var k int
		var typ string
		var vals []*string
		var states, details []string
		if err := rows.Scan(&k, &typ, &vals, &states, &details); err != nil {
			return nil, err
		}
		q, a := qs[k-1], answers{typ: typ}
		for i := range q.hi - q.lo {
			switch {
			case len(states) == 1 && len(vals) == 0:
				a.rows = append(a.rows, answer{reason: reasonOf(states[0], details[0]), state: states[0], detail: details[0]})
			case len(states) > 0 && states[i] != "":
				a.rows = append(a.rows, answer{reason: reasonOf(states[i], details[i]), state: states[i], detail: details[i]})
			case vals[i] == nil:
				a.rows = append(a.rows, answer{null: true})
			default:
				a.rows = append(a.rows, answer{text: *vals[i]})
			}
		}
		out[k-1] = a
	}
	return out, rows.Err()
}

// here evaluates with expr.
type here struct{ batch arrow.RecordBatch }

func (h here) ask(qs []question) ([]answers, error) {
	out := make([]answers, len(qs))
	for i, q := range qs {
		a, err := h.one(q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.text, err)
		}
		out[i] = a
	}
	return out, nil
}

func (h here) one(q question) (out answers, err error) {
	n := q.hi - q.lo
	defer func() {
		if p := recover(); p != nil {
			at := strings.SplitN(string(debug.Stack()), "/operators/expr/", 3)
			out = answers{rows: slices.Repeat([]answer{{reason: "panic", detail: fmt.Sprint(p, " ", at[len(at)-1][:60])}}, n)}
		}
	}()
	e, err := expr.Compile(q.text, h.batch.Schema())
	var texts *expr.Expr
	if err == nil {
		texts, err = expr.Compile("("+q.text+")::text", h.batch.Schema())
	}
	if err != nil {
		a := answers{}
		for range n {
			a.rows = append(a.rows, answer{reason: refused, detail: err.Error()})
		}
		return a, nil
	}
	out = answers{typ: exprtest.TypeName(e.TypeText()), sql: exprtest.SQLType(e.TypeText())}
	b := h.batch.NewSlice(int64(q.lo), int64(q.hi))
	defer b.Release()
	a, bad, err := texts.NewEvaluator(memory.DefaultAllocator).Eval(b)
	if err != nil {
		return out, err
	}
	defer a.Release()
	vals := a.(*array.String)
	for i := range n {
		if vals.IsNull(i) {
			out.rows = append(out.rows, answer{null: true})
			continue
		}
		out.rows = append(out.rows, answer{text: strings.Clone(vals.Value(i))})
	}
	for _, r := range bad {
		out.rows[r.Row] = answer{reason: r.Bad.Reason, detail: r.Bad.Detail}
	}
	return out, nil
}
