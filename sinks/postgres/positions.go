package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/spool"

	"github.com/jackc/pgx/v5"
)

// In the positions table, of each pipeline and sink, the row with clock 0 is a
// spool.Record, and row n the clock decisions of the n-th commit that has any.
const positionsTable = `CREATE TABLE IF NOT EXISTS %s (
	pipeline text,
	sink text,
	clock integer,
	record json NOT NULL,
	PRIMARY KEY (pipeline, sink, clock)
)`

// In the refused table, code is the SQLSTATE and detail the message of the database.
const refusedTable = `CREATE TABLE IF NOT EXISTS %s (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at timestamptz NOT NULL DEFAULT now(),
	pipeline text NOT NULL,
	sink text NOT NULL,
	target text NOT NULL,
	epoch bigint NOT NULL,
	reason text NOT NULL,
	code text NOT NULL,
	detail text NOT NULL,
	"row" json
)`

// ensure makes our tables, once, and looks whether the role may use them.
func (k *committer) ensure(ctx context.Context) error {
	if k.ready {
		return nil
	}
	for _, x := range []struct{ name, text, rights string }{
		{k.cfg.PositionsTable, positionsTable, "SELECT, INSERT, UPDATE"}, {k.cfg.RefusedTable, refusedTable, "INSERT"},
	} {
		text := fmt.Sprintf(x.text, quote(x.name))
		there, err := k.allowed(ctx, x.name, x.rights)
		if err != nil {
			return err
		}
		if there {
			continue
		}
		if !k.cfg.CreatePositions {
			return dataflow.Permanentf("table %s is not there: set create_positions: true, or make it:\n%s", x.name, text)
		}
		if err := create(ctx, k.conn, text); err != nil {
			return err
		}
	}
	k.ready = true
	return nil
}

// allowed says whether a table is there; without the rights on it that is an error.
func (k *committer) allowed(ctx context.Context, name, rights string) (there bool, err error) {
	var role string
	var all bool
	err = k.conn.QueryRow(ctx, `
SELECT current_user::text, (SELECT bool_and(has_table_privilege(c.oid, r)) FROM unnest(string_to_array($2, ', ')) r)
FROM pg_class c WHERE c.oid = to_regclass($1)`, quote(name), rights).Scan(&role, &all)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil
	case err != nil:
		return false, explain(fmt.Sprintf("look for table %s", name), err)
	case !all:
		return false, dataflow.Permanentf("the role %s lacks rights: GRANT %s ON %s TO %s", role, rights, quote(name), quoteColumn(role))
	}
	return true, nil
}

// lock locks the record of the pipeline and sink, which waits for a transaction that is
// under way with it, and reads it; an empty one if there was none.
func (k *committer) lock(ctx context.Context, tx pgx.Tx) (r spool.Record, err error) {
	name := quote(k.cfg.PositionsTable)
	_, err = tx.Exec(ctx, "INSERT INTO "+name+" (pipeline, sink, clock, record) VALUES ($1, $2, 0, '{}') ON CONFLICT DO NOTHING", k.env.Pipeline, k.env.Step)
	if err != nil {
		return r, explain("lock the positions", err)
	}
	var text string
	err = tx.QueryRow(ctx, "SELECT record::text FROM "+name+" WHERE pipeline = $1 AND sink = $2 AND clock = 0 FOR UPDATE", k.env.Pipeline, k.env.Step).Scan(&text)
	if err != nil {
		return r, explain("lock the positions", err)
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, dataflow.Permanentf("the positions in table %s cannot be read: %w", k.cfg.PositionsTable, err)
	}
	return r, r.Readable("table " + k.cfg.PositionsTable)
}

// save puts next in the place of the record that is locked.
func (k *committer) save(ctx context.Context, tx pgx.Tx, next spool.Record, clock []dataflow.ClockDecision) error {
	set := func(n int, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return dataflow.Permanent(err)
		}
		_, err = tx.Exec(ctx, "INSERT INTO "+quote(k.cfg.PositionsTable)+` (pipeline, sink, clock, record) VALUES ($1, $2, $3, $4::json)
ON CONFLICT (pipeline, sink, clock) DO UPDATE SET record = EXCLUDED.record`, k.env.Pipeline, k.env.Step, n, string(text))
		return explain("write the positions", err)
	}
	if len(clock) > 0 {
		if err := set(next.Clocks, clock); err != nil {
			return err
		}
	}
	return set(0, next)
}

// clocks adds the clock decisions to what the record says.
func (k *committer) clocks(ctx context.Context, tx pgx.Tx, r spool.Record) (dataflow.Committed, error) {
	out := r.Committed()
	if r.Clocks == 0 {
		return out, nil
	}
	rows, err := tx.Query(ctx, "SELECT record::text FROM "+quote(k.cfg.PositionsTable)+" WHERE pipeline = $1 AND sink = $2 AND clock BETWEEN 1 AND $3 ORDER BY clock",
		k.env.Pipeline, k.env.Step, r.Clocks)
	if err != nil {
		return out, explain("read the clock decisions", err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return out, explain("read the clock decisions", err)
	}
	out.ClockComplete = len(texts) == r.Clocks
	for _, text := range texts {
		var c []dataflow.ClockDecision
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return out, dataflow.Permanentf("the clock decisions in table %s cannot be read: %w", k.cfg.PositionsTable, err)
		}
		out.Clock = append(out.Clock, c...)
	}
	return out, nil
}
