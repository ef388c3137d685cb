package sinks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"

	"github.com/jackc/pgx/v5"
)

// Rows are appended, put by key as the changes of their sums, and appended to a table
// that refuses some.
const toPostgres = `
` + numbers + `  sums: {from: rows, group: {by: [key], aggregate: {rows: count(*), total: sum(n)}, expire_after: 24h}}
sinks:
  all: {from: rows, postgres: {url: %[1]q, table: numbers, create_table: true}}
  kept: {from: sums, postgres: {url: %[1]q, table: sums, create_table: true}}
  picky: {from: rows, postgres: {url: %[1]q, table: picky}}
checkpoint: {every: 100ms}
`

// TestPostgres: whatever is killed, the tables hold each row once, the sums are those of
// the rows, and a row that its table refuses is in the table of refused ones once.
func TestPostgres(t *testing.T) {
	program.Long(t)
	full.Suite{Name: "postgres-sink", Total: 20, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		rng := rand.New(rand.NewPCG(uint64(portion), 2))
		db := rig.NewPostgres(t)
		url := db.URL("postgres")
		ask := func(query string) (out int64, err error) {
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				return 0, err
			}
			defer conn.Close(context.Background())
			return out, conn.QueryRow(t.Context(), query).Scan(&out)
		}
		number := func(query string) int64 {
			t.Helper()
			n, err := ask(query)
			must(t, err)
			return n
		}
		conn, err := pgx.Connect(t.Context(), url)
		must(t, err)
		_, err = conn.Exec(t.Context(), `CREATE TABLE picky (n int8 PRIMARY KEY CHECK (n % 1000 <> 7), key text)`)
		must(t, err)
		must(t, conn.Close(t.Context()))

		p := program.New(t, fmt.Sprint("postgres", portion), fmt.Sprintf(toPostgres, url))
		engine := p.Start(nil, "run", p.File)
		rows := func() int64 {
			n, err := ask("SELECT count(*) FROM numbers")
			if err != nil {
				return -1 // It is away, or the table is not there yet.
			}
			return n
		}
		engine.Until("the first rows", func() bool { return rows() > 0 })
		for _, name := range order(rng, map[string]int{"engine": kills, "database": kills}) {
			before := rows()
			switch name {
			case "engine":
				engine.Kill()
				engine = p.Start(nil, "run", p.File)
			case "database":
				db.Kill()
				must(t, db.Start())
			}
			if rng.IntN(3) > 0 { // Else the next one while it recovers.
				engine.Until("rows behind the kill of the "+name, func() bool { return rows() > before })
			}
		}
		end := rows()
		engine.Until("rows at the end", func() bool { return rows() > end })
		engine.Terminate()

		conn, err = pgx.Connect(t.Context(), url)
		must(t, err)
		defer conn.Close(context.Background())
		read := func(query string) []int64 {
			t.Helper()
			r, err := conn.Query(t.Context(), query)
			must(t, err)
			out, err := pgx.CollectRows(r, pgx.RowTo[int64])
			must(t, err)
			return out
		}
		all := read("SELECT n FROM numbers")
		if wrong := numbered(all, len(all)); wrong != "" {
			t.Errorf("appended: %s", wrong)
		}
		if wrong := numbered(read(`SELECT n FROM picky UNION ALL SELECT ("row"->>'n')::int8 FROM frazil_refused`), len(all)); wrong != "" {
			t.Errorf("those of the table that refuses some, and the refused ones: %s", wrong)
		}
		if got, want := number("SELECT count(*) FROM frazil_refused WHERE reason = 'check_failed'"), int64(len(all)+992)/1000; got != want {
			t.Errorf("%d rows were refused, want %d", got, want)
		}
		// The record of the target counts them, whoever was killed.
		if line := fmt.Sprintf("picky: %d of the staged rows were refused", number("SELECT count(*) FROM frazil_refused")); !strings.Contains(engine.Stdout.String(), line) {
			t.Errorf("the summary does not say %q:\n%s", line, engine.Stdout.String())
		}
		if n := number(`SELECT count(*) FROM (SELECT key, count(*) AS rows, sum(n) AS total FROM numbers GROUP BY key) w FULL JOIN sums s USING (key)
WHERE (w.rows, w.total) IS DISTINCT FROM (s.rows, s.total)`); n != 0 {
			t.Errorf("%d sums are not those of the rows", n)
		}
		return full.Figures{"kills_engine": kills, "kills_database": kills, "rows": int64(len(all))}
	})
}
