package outbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// Cleanup says what becomes of rows that are committed in every target.
type Cleanup struct {
	// Mode is delete, or mark: column is set to now().
	Mode string `yaml:"mode,required" oneof:"delete,mark"`
	// Column of type timestamptz or timestamp that mark sets; it is null before.
	Column string `yaml:"column"`
	// Every is how long to wait when there was nothing to clean up. Default: 1s.
	Every component.Duration `yaml:"every"`
	// Batch is how many rows one transaction cleans up, 1 to 100000. Default: 1000.
	Batch int `yaml:"batch"`
	// LockTimeout bounds how long a transaction waits for a lock of the table; rows that
	// are locked are left for later. Default: 100ms.
	LockTimeout component.Duration `yaml:"lock_timeout"`
}

// SetDefaults implements component.Defaulter.
func (c *Cleanup) SetDefaults() {
	*c = Cleanup{Every: component.Duration(time.Second), Batch: 1000, LockTimeout: component.Duration(100 * time.Millisecond)}
}

func (c *Cleanup) check(messages bool) (out component.Problems) {
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: "cleanup." + path, Msg: fmt.Sprintf(format, args...)})
	}
	switch {
	case messages:
		bad("mode", "messages leave nothing to clean up: remove cleanup")
	case c.Mode == "mark" && c.Column == "":
		bad("column", "mark needs the name of a column that is set to now()")
	case c.Mode == "delete" && c.Column != "":
		bad("column", "only with mode: mark")
	}
	if c.Every.D() < 10*time.Millisecond {
		bad("every", "%s: expected at least 10ms", c.Every.D())
	}
	if c.Batch < 1 || c.Batch > 100_000 {
		bad("batch", "%d: expected 1 to 100000", c.Batch)
	}
	if c.LockTimeout.D() < time.Millisecond {
		bad("lock_timeout", "%s: expected at least 1ms", c.LockTimeout.D())
	}
	return out
}

// cleaner cleans up what was relayed, on a connection of its own. It needs to remember
// nothing: it takes rows that are there, and then where the log is. What it saw is
// committed before that place; so when the targets hold all that is before it, they hold
// those rows.
type cleaner struct {
	cfg Config
	pg  PostgresConfig
	env *dataflow.Env
	// acked is how far the targets hold all, wanted the place that it waits for; nudge
	// asks the server how far it is.
	acked, wanted *atomic.Uint64
	nudge         func()
	// table and id as identifiers, idType the type of the latter.
	table, id, idType string
	// cleaned counts rows.
	cleaned atomic.Int64
}

// run works until ctx ends. An error is a reason to begin again in a while: rows that are
// not cleaned up cost room, and nothing else.
func (c *cleaner) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.work(ctx); err != nil && ctx.Err() == nil {
			c.env.Log.Warn("relayed rows are not cleaned up; it is tried again", "table", c.pg.Table, "error", err)
			wait(ctx, 10*c.cfg.Cleanup.Every.D())
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (c *cleaner) work(ctx context.Context) error {
	conn, err := connect(ctx, c.pg)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := c.describe(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", c.cfg.Cleanup.LockTimeout.D().Milliseconds())); err != nil {
		return explain("set lock_timeout", err)
	}
	for ctx.Err() == nil {
		ids, at, err := c.look(ctx, conn)
		if err != nil {
			return err
		}
		c.wanted.Store(uint64(at))
		c.nudge()
		for len(ids) > 0 && c.acked.Load() < uint64(at) && ctx.Err() == nil {
			wait(ctx, min(c.cfg.Cleanup.Every.D(), 50*time.Millisecond))
		}
		n := 0
		if len(ids) > 0 && ctx.Err() == nil {
			if n, err = c.clean(ctx, conn, ids); err != nil {
				return err
			}
		}
		if n < c.cfg.Cleanup.Batch {
			wait(ctx, c.cfg.Cleanup.Every.D())
		}
	}
	return nil
}

// describe finds what the statements need.
func (c *cleaner) describe(ctx context.Context, conn *pgx.Conn) error {
	c.table, c.id = quoteTable(c.pg.Table), pgx.Identifier{c.cfg.Columns.ID}.Sanitize()
	err := conn.QueryRow(ctx, "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2 AND NOT attisdropped", c.table, c.cfg.Columns.ID).Scan(&c.idType)
	return explain("look at the id of the outbox", err)
}

// look takes ids of rows that are there, and then a place behind all their commits.
func (c *cleaner) look(ctx context.Context, conn *pgx.Conn) (ids []string, at pglogrepl.LSN, err error) {
	where := ""
	if c.cfg.Cleanup.Mode == "mark" {
		where = " WHERE " + pgx.Identifier{c.cfg.Cleanup.Column}.Sanitize() + " IS NULL"
	}
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT o.%s::text FROM %s AS o%s ORDER BY o.%s LIMIT %d", c.id, c.table, where, c.id, c.cfg.Cleanup.Batch))
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, 0, explain("look for rows to clean up", err)
	}
	if len(ids) == 0 {
		return nil, 0, nil
	}
	var text string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&text); err != nil {
		return nil, 0, explain("ask for the end of the log", err)
	}
	at, err = pglogrepl.ParseLSN(text)
	return ids, at, err
}

// clean deletes or marks rows that nobody has locked, and says how many.
func (c *cleaner) clean(ctx context.Context, conn *pgx.Conn, ids []string) (int, error) {
	mine := fmt.Sprintf("%s IN (SELECT %s FROM %s WHERE %s = ANY($1::text[]::%s[]) FOR UPDATE SKIP LOCKED)", c.id, c.id, c.table, c.id, c.idType)
	statement := "DELETE FROM " + c.table + " WHERE " + mine
	if c.cfg.Cleanup.Mode == "mark" {
		statement = "UPDATE " + c.table + " SET " + pgx.Identifier{c.cfg.Cleanup.Column}.Sanitize() + " = now() WHERE " + mine
	}
	tag, err := conn.Exec(ctx, statement, ids)
	if isCode(err, "55P03") { // The table is locked: later.
		return 0, nil
	}
	if err != nil {
		return 0, explain("clean up relayed rows", err)
	}
	c.cleaned.Add(tag.RowsAffected())
	return int(tag.RowsAffected()), nil
}
