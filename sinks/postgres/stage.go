package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// stage is a temporary table of the rows of a commit: the columns as they were spooled,
// _n, which counts them from 1, and _del. Nothing in it refuses a row.
type stage struct {
	*write
	names []string
	// values are the columns' values as the table takes them, shown as people read
	// them; of the alias s.
	values, shown []string
	// from is the table whose rows are applied, and row the column that counts them.
	from, row string
	// indexed: rows are found by their number without a look at all of them.
	indexed  bool
	refusedN []int64
}

// OIDs of the types whose values are staged as bytes, since PostgreSQL checks them as it
// reads them.
const (
	oidJSON  = 114
	oidJSONB = 3802
)

// stage makes the temporary table. It is gone at the end of the transaction.
func (w *write) stage(ctx context.Context, t *table, columns []spooled, names []string) (*stage, error) {
	s := &stage{write: w, names: names, from: "pg_temp.frazil_rows", row: "_n"}
	var lines []string
	for _, c := range columns {
		now, name := t.column(c.Name), "s."+quoteColumn(c.Name)
		kind, shown := "bytea", ""
		switch c.OID {
		case oidJSON:
			shown = "convert_from(" + name + ", 'UTF8')"
		case oidJSONB:
			shown = "convert_from(substring(" + name + " FROM 2), 'UTF8')"
		default:
			shown = name
			if kind = now.base; c.OID != now.oid {
				if err := w.tx.QueryRow(ctx, "SELECT format_type($1::int8::oid, -1)", int64(c.OID)).Scan(&kind); err != nil {
					return nil, explain("stage rows", err)
				}
			}
		}
		value := shown
		if shown != name || c.OID != now.oid {
			// Without the type's bounds: a cast to them cuts, an assignment refuses.
			value = "CAST(" + shown + " AS " + now.base + ")"
		}
		s.values, s.shown = append(s.values, value), append(s.shown, shown+" AS "+quoteColumn(c.Name))
		lines = append(lines, quoteColumn(c.Name)+" "+kind)
	}
	if err := w.do(ctx, "DROP TABLE IF EXISTS pg_temp.frazil_rows, pg_temp.frazil_last"); err != nil {
		return nil, err
	}
	return s, w.do(ctx, "CREATE TEMP TABLE frazil_rows ("+strings.Join(lines, ", ")+", _n bigint, _del boolean) ON COMMIT DROP")
}

// apply writes the n rows that were staged.
func (s *stage) apply(ctx context.Context, n int64) error {
	if !s.shape.upsert {
		return s.bisect(ctx, 1, n+1)
	}
	// A row that is refused leaves its key to the row before it: as if that one had come
	// in another commit.
	s.from, s.row = "pg_temp.frazil_last", "_r"
	for {
		last, err := s.lastOfKeys(ctx)
		if err != nil {
			return err
		}
		s.refusedN = nil
		if err := s.bisect(ctx, 1, last+1); err != nil || len(s.refusedN) == 0 {
			return err
		}
		if err := s.leaveRest(ctx); err != nil {
			return err
		}
	}
}

// lastOfKeys makes the table of the last row of each key, counted in the order of the
// keys, so that transactions lock rows in one order.
func (s *stage) lastOfKeys(ctx context.Context) (n int64, err error) {
	key := columnList("s.", s.shape.key)
	if err := s.do(ctx, "DROP TABLE IF EXISTS pg_temp.frazil_last"); err != nil {
		return 0, err
	}
	s.indexed = false
	tag, err := s.tx.Exec(ctx, fmt.Sprintf(`CREATE TEMP TABLE frazil_last ON COMMIT DROP AS
SELECT row_number() OVER (ORDER BY %[1]s) AS _r, s.* FROM (SELECT DISTINCT ON (%[1]s) s.* FROM pg_temp.frazil_rows s ORDER BY %[1]s, s._n DESC) s`, key))
	return tag.RowsAffected(), explain("find the last row of each key", err)
}

// leaveRest leaves those rows staged whose key's last row was refused, without that.
func (s *stage) leaveRest(ctx context.Context) error {
	var same []string
	for _, k := range s.shape.key {
		same = append(same, fmt.Sprintf("l.%[1]s = s.%[1]s", quoteColumn(k)))
	}
	return s.do(ctx, fmt.Sprintf(`DELETE FROM pg_temp.frazil_rows s WHERE s._n = ANY($1)
OR NOT EXISTS (SELECT FROM pg_temp.frazil_last l WHERE l._n = ANY($1) AND %s)`, strings.Join(same, " AND ")), s.refusedN)
}

// bisect writes rows from lo to before hi; where the table refuses, half of them and
// the other half, down to single rows, which go to the table of refused rows.
func (s *stage) bisect(ctx context.Context, lo, hi int64) error {
	if lo >= hi {
		return nil
	}
	err := s.try(ctx, lo, hi)
	if err == nil {
		return nil
	}
	if refusal(err) == "" {
		return explain("write rows", err)
	}
	if err := s.do(ctx, "ROLLBACK TO SAVEPOINT frazil_try"); err != nil {
		return err
	}
	if !s.indexed {
		s.indexed = true
		if err := s.do(ctx, fmt.Sprintf("CREATE INDEX ON %[1]s (%[2]s); ANALYZE %[1]s (%[2]s)", s.from, s.row)); err != nil {
			return err
		}
	}
	if hi-lo == 1 {
		return s.refuse(ctx, lo, err)
	}
	mid := lo + (hi-lo)/2
	if err := s.bisect(ctx, lo, mid); err != nil {
		return err
	}
	return s.bisect(ctx, mid, hi)
}

// try writes rows from lo to before hi.
func (s *stage) try(ctx context.Context, lo, hi int64) error {
	if _, err := s.tx.Exec(ctx, "SAVEPOINT frazil_try"); err != nil {
		return err
	}
	for _, text := range s.statements() {
		if _, err := s.tx.Exec(ctx, text, lo, hi); err != nil {
			return err
		}
	}
	_, err := s.tx.Exec(ctx, "RELEASE SAVEPOINT frazil_try")
	return err
}

// statements write the rows from $1 to before $2.
func (s *stage) statements() (out []string) {
	table, names := quote(s.cfg.Table), columnList("", s.names)
	these := fmt.Sprintf("s.%[1]s >= $1::int8 AND s.%[1]s < $2::int8", s.row)
	if !s.shape.upsert {
		return []string{fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s s WHERE %s ORDER BY s.%s", table, names, strings.Join(s.values, ", "), s.from, these, s.row)}
	}
	isKey := map[string]bool{}
	var same, sets []string
	for _, k := range s.shape.key {
		isKey[k] = true
	}
	for i, name := range s.names {
		if isKey[name] {
			same = append(same, fmt.Sprintf("t.%s = %s", quoteColumn(name), s.values[i]))
		} else {
			sets = append(sets, fmt.Sprintf("%[1]s = EXCLUDED.%[1]s", quoteColumn(name)))
		}
	}
	if s.shape.deletes {
		gone := fmt.Sprintf("%s AND s._del AND %s", these, strings.Join(same, " AND "))
		out = append(out,
			fmt.Sprintf("SELECT FROM %s t JOIN %s s ON %s ORDER BY s.%s FOR UPDATE OF t", table, s.from, gone, s.row),
			fmt.Sprintf("DELETE FROM %s t USING %s s WHERE %s", table, s.from, gone))
	}
	what := "DO NOTHING"
	if len(sets) > 0 {
		what = "DO UPDATE SET " + strings.Join(sets, ", ")
	}
	return append(out, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s s WHERE %s AND NOT s._del ORDER BY s.%s ON CONFLICT (%s) %s",
		table, names, strings.Join(s.values, ", "), s.from, these, s.row, columnList("", s.shape.key), what))
}

// refuse puts one row into the table of refused rows.
func (s *stage) refuse(ctx context.Context, row int64, because error) error {
	var pg *pgconn.PgError
	if !errors.As(because, &pg) {
		return because
	}
	detail := pg.Message
	if pg.Detail != "" {
		detail += ": " + pg.Detail
	}
	var n int64
	if err := s.tx.QueryRow(ctx, fmt.Sprintf("SELECT _n FROM %s WHERE %s = $1::int8", s.from, s.row), row).Scan(&n); err != nil {
		return explain("find a refused row", err)
	}
	s.refused++
	s.refusedN = append(s.refusedN, n)
	return s.do(ctx, fmt.Sprintf(`INSERT INTO %s (pipeline, sink, target, epoch, reason, code, detail, "row")
SELECT $1, $2, $3, $4::int8, $5, $6, $7, row_to_json(x) FROM (SELECT %s FROM %s s WHERE s.%s = $8::int8) x`,
		quote(s.cfg.RefusedTable), strings.Join(s.shown, ", "), s.from, s.row),
		s.env.Pipeline, s.env.Step, s.cfg.Table, int64(s.epoch), refusal(because), pg.Code, detail, row)
}
