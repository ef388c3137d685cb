package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// pgCleanup deletes or marks rows of PostgreSQL.
type pgCleanup struct {
	cfg  Cleanup
	conn *pgx.Conn
	// place is behind all that is committed now.
	place func(ctx context.Context, conn *pgx.Conn) (uint64, error)
	// table and id as identifiers, idType the type of the latter.
	table, id, idType string
}

// openPgCleanTable connects to what is cleaned up as the config says; place is behind all
// that is committed when it is called.
func openPgCleanTable(ctx context.Context, cfg Config, place func(context.Context, *pgx.Conn) (uint64, error)) (cleanTable, error) {
	c, err := openPgCleanup(ctx, cfg, place)
	if err != nil {
		return nil, err
	}
	if cfg.Cleanup.Mode == modePartitions {
		return &pgPartitions{pgCleanup: c, full: cfg, past: map[string]time.Time{}}, nil
	}
	return c, nil
}

// endOfLog is the place of a cleanTable where the log is read.
func endOfLog(ctx context.Context, conn *pgx.Conn) (uint64, error) {
	var text string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&text); err != nil {
		return 0, explain("ask for the end of the log", err)
	}
	at, err := pglogrepl.ParseLSN(text)
	return uint64(at), err
}

func openPgCleanup(ctx context.Context, cfg Config, place func(context.Context, *pgx.Conn) (uint64, error)) (_ *pgCleanup, err error) {
	c := &pgCleanup{cfg: *cfg.Cleanup, place: place, table: quoteTable(cfg.Postgres.Table), id: pgx.Identifier{cfg.Columns.ID}.Sanitize()}
	if c.conn, err = connect(ctx, *cfg.Postgres); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.idType, err = typeOf(ctx, c.conn, cfg.Postgres.Table, cfg.Columns.ID); err != nil {
		return nil, err
	}
	if _, err := c.conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", c.cfg.LockTimeout.D().Milliseconds())); err != nil {
		return nil, explain("set lock_timeout", err)
	}
	return c, nil
}

// typeOf is the name of a column's type.
func typeOf(ctx context.Context, conn *pgx.Conn, table, column string) (name string, err error) {
	err = conn.QueryRow(ctx, "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2 AND NOT attisdropped", quoteTable(table), column).Scan(&name)
	return name, explain(fmt.Sprintf("look at the column %q of the outbox", column), err)
}

func (c *pgCleanup) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
}

// look implements cleanTable.
func (c *pgCleanup) look(ctx context.Context) (ids []string, at uint64, err error) {
	where := ""
	if c.cfg.Mode == "mark" {
		where = " WHERE " + pgx.Identifier{c.cfg.Column}.Sanitize() + " IS NULL"
	}
	rows, err := c.conn.Query(ctx, fmt.Sprintf("SELECT o.%s::text FROM %s AS o%s ORDER BY o.%s LIMIT %d", c.id, c.table, where, c.id, c.cfg.Batch))
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, 0, explain("look for rows to clean up", err)
	}
	if len(ids) == 0 {
		return nil, 0, nil
	}
	at, err = c.place(ctx, c.conn)
	return ids, at, err
}

// clean implements cleanTable.
func (c *pgCleanup) clean(ctx context.Context, ids []string) (int, error) {
	mine := fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s = ANY($1::text[]::%s[]) FOR UPDATE SKIP LOCKED)", c.id, c.id, c.table, c.id, c.idType)
	statement := "DELETE FROM " + c.table + " WHERE " + mine
	if c.cfg.Mode == "mark" {
		statement = "UPDATE " + c.table + " SET " + pgx.Identifier{c.cfg.Column}.Sanitize() + " = now() WHERE " + mine
	}
	tag, err := c.conn.Exec(ctx, statement, ids)
	if isCode(err, "55P03") { // The table is locked: later.
		return 0, nil
	}
	if err != nil {
		return 0, explain("clean up relayed rows", err)
	}
	return int(tag.RowsAffected()), nil
}
