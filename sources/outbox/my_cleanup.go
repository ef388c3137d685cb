package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// myCleanup deletes or marks rows of MySQL or MariaDB.
type myCleanup struct {
	cfg   Config
	place func() uint64
	db    *sql.DB
	conn  *sql.Conn
	// table and id as identifiers; integer: the id is one.
	table, id string
	integer   bool
	// lock is how rows are locked.
	lock string
}

// openMyCleanTable connects to what is cleaned up as the config says.
func openMyCleanTable(ctx context.Context, dir string, cfg Config, place func() uint64) (cleanTable, error) {
	c, maria, err := openMyCleanup(ctx, dir, cfg, place)
	if err != nil {
		return nil, err
	}
	if cfg.Cleanup.Mode == modePartitions {
		return &myPartitions{myCleanup: c, maria: maria, past: map[string]time.Time{}}, nil
	}
	return c, nil
}

func openMyCleanup(ctx context.Context, dir string, cfg Config, place func() uint64) (_ *myCleanup, maria bool, err error) {
	c := &myCleanup{cfg: cfg, place: place, table: quoteMy(cfg.MySQL.Table), id: quoteMy(cfg.Columns.ID), lock: " FOR UPDATE"}
	settings, err := mySettings(*cfg.MySQL, dir)
	if err != nil {
		return nil, false, err
	}
	// Which locks no gap, into which the application could want to insert.
	if c.db, c.conn, err = myConnect(ctx, settings, "READ COMMITTED"); err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	server, err := describeMy(ctx, c.conn, cfg)
	if err != nil {
		return nil, false, err
	}
	c.integer = strings.HasSuffix(server.columns[cfg.Columns.ID], "int")
	if server.skips {
		c.lock += " SKIP LOCKED"
	}
	// The server knows whole seconds.
	seconds := max(1, int(cfg.Cleanup.LockTimeout.D().Round(time.Second)/time.Second))
	_, err = c.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION lock_wait_timeout = %d, SESSION innodb_lock_wait_timeout = %d", seconds, seconds))
	return c, server.maria, explainMy("set lock_wait_timeout", err)
}

func (c *myCleanup) close() {
	_ = c.db.Close()
	_ = c.conn.Close()
}

// look implements cleanTable.
func (c *myCleanup) look(ctx context.Context) (ids []string, at uint64, err error) {
	where := ""
	if c.cfg.Cleanup.Mode == "mark" {
		where = " WHERE " + quoteMy(c.cfg.Cleanup.Column) + " IS NULL"
	}
	ids, err = c.strings(ctx, c.conn, fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT %d", c.id, c.table, where, quoteMy(c.cfg.sequence()), c.cfg.Cleanup.Batch))
	return ids, c.place(), explainMy("look for rows to clean up", err)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func (c *myCleanup) strings(ctx context.Context, q querier, query string, args ...any) (out []string, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id sql.RawBytes
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		out = append(out, string(id))
	}
	return out, rows.Err()
}

// these is a condition for the ids, and its arguments.
func (c *myCleanup) these(ids []string) (string, []any) {
	args := make([]any, len(ids))
	for i, id := range ids {
		if n, err := strconv.ParseInt(id, 10, 64); c.integer && err == nil {
			args[i] = n
			continue
		}
		args[i] = []byte(id)
	}
	return c.id + " IN (?" + strings.Repeat(",?", len(ids)-1) + ")", args
}

// clean implements cleanTable.
func (c *myCleanup) clean(ctx context.Context, ids []string) (int, error) {
	n, err := c.cleanIn(ctx, ids)
	var my *mysql.MySQLError
	if errors.As(err, &my) && (my.Number == 1205 || my.Number == 1213) { // Locked: later.
		return 0, nil
	}
	return n, explainMy("clean up relayed rows", err)
}

func (c *myCleanup) cleanIn(ctx context.Context, ids []string) (int, error) {
	tx, err := c.conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	where, args := c.these(ids)
	free, err := c.strings(ctx, tx, "SELECT "+c.id+" FROM "+c.table+" WHERE "+where+c.lock, args...)
	if err != nil || len(free) == 0 {
		return 0, err
	}
	where, args = c.these(free)
	statement := "DELETE FROM " + c.table + " WHERE " + where
	if c.cfg.Cleanup.Mode == "mark" {
		statement = "UPDATE " + c.table + " SET " + quoteMy(c.cfg.Cleanup.Column) + " = now() WHERE " + where
	}
	if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
		return 0, err
	}
	return len(free), tx.Commit()
}
