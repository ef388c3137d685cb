package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgPartitions drops partitions by range of PostgreSQL. One is taken if its range is past
// and what was in it when it was looked at is committed in every target. Then, in one
// transaction, a lock keeps writers out, of whom one may have been open until then; if the
// rows are still the same, none can be missing, and the partition is dropped.
type pgPartitions struct {
	*pgCleanup
	full Config
	// past is when it was first seen of a partition by numbers that these are past.
	past map[string]time.Time
	wait patience
}

// pgBound is the upper bound of a partition.
type pgBound struct{ name, upper string }

// look implements cleanTable.
func (c *pgPartitions) look(ctx context.Context) (ids []string, at uint64, err error) {
	now := time.Now() // A time that is measured, not a date.
	if now.Before(c.wait.until) {
		return nil, 0, nil
	}
	bounds, key, kind, err := c.bounds(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, b := range bounds {
		past, err := c.isPast(ctx, b, key, kind, now)
		if err != nil {
			return nil, 0, err
		}
		if !past {
			continue
		}
		rows, err := c.fingerprint(ctx, c.conn, b.name)
		if err != nil {
			return nil, 0, err
		}
		ids = append(ids, partition{b.name, rows}.String())
	}
	if len(ids) == 0 {
		return nil, 0, nil
	}
	at, err = c.place(ctx, c.conn)
	return ids, at, err
}

// bounds are the partitions that have an upper one, with the key of the table and its type.
func (c *pgPartitions) bounds(ctx context.Context) (out []pgBound, key, kind string, err error) {
	err = c.conn.QueryRow(ctx, `SELECT quote_ident(a.attname), format_type(a.atttypid, NULL) FROM pg_partitioned_table p JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
		WHERE p.partrelid = $1::regclass AND p.partstrat = 'r' AND p.partnatts = 1`, c.table).Scan(&key, &kind)
	if err != nil {
		return nil, "", "", explain("look for the key of the partitions (the table must be PARTITION BY RANGE of one column)", err)
	}
	rows, err := c.conn.Query(ctx, `SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), coalesce(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \((.*)\)$'), '')
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE i.inhparent = $1::regclass AND c.relkind = 'r' ORDER BY 1`, c.table)
	if err != nil {
		return nil, "", "", explain("look for partitions", err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (b pgBound, err error) { return b, r.Scan(&b.name, &b.upper) })
	for _, b := range all {
		if b.upper != "" && b.upper != "MAXVALUE" {
			b.upper = strings.ReplaceAll(strings.Trim(b.upper, "'"), "''", "'")
			out = append(out, b)
		}
	}
	return out, key, kind, explain("look for partitions", err)
}

// isPast says whether the range of a partition is past for long enough: by the server's
// clock, or, of numbers, since rows were seen behind it.
func (c *pgPartitions) isPast(ctx context.Context, b pgBound, key, kind string, now time.Time) (past bool, err error) {
	after := c.cfg.After.D()
	switch kind {
	case "date", "timestamp without time zone", "timestamp with time zone":
		err = c.conn.QueryRow(ctx, "SELECT $1::text::"+kind+" + make_interval(secs => $2::float8) <= now()", b.upper, after.Seconds()).Scan(&past)
		return past, explain("look whether the partition "+b.name+" is past", err)
	}
	if c.past[b.name].IsZero() {
		if err = c.conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM "+c.table+" WHERE "+key+" >= $1::text::"+kind+")", b.upper).Scan(&past); err != nil {
			return false, explain("look whether the partition "+b.name+" is past", err)
		}
		if !past {
			return false, nil
		}
		c.past[b.name] = now
	}
	return now.Sub(c.past[b.name]) >= after, nil
}

// fingerprint tells whether rows came or went.
func (c *pgPartitions) fingerprint(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, name string) (out string, err error) {
	err = q.QueryRow(ctx, "SELECT count(*)::text || ' ' || coalesce(sum(hashtextextended("+c.id+"::text, 0)::numeric), 0)::text FROM "+name).Scan(&out)
	return out, explain("look at the rows of "+name, err)
}

// clean implements cleanTable.
func (c *pgPartitions) clean(ctx context.Context, ids []string) (int, error) {
	for _, id := range ids {
		err := c.drop(ctx, parsePartition(id))
		if isCode(err, "55P03") || isCode(err, "40P01") { // In use: later.
			c.wait.failed(time.Now())
			return 0, nil
		}
		if err != nil {
			return 0, explain("drop a partition of relayed rows (who does must own the table)", err)
		}
		c.wait.worked()
	}
	return 0, nil
}

func (c *pgPartitions) drop(ctx context.Context, p partition) error {
	tx, err := c.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, "LOCK TABLE "+p.name+" IN SHARE MODE"); err != nil {
		return err
	}
	rows, err := c.fingerprint(ctx, tx, p.name)
	if err != nil || rows != p.rows {
		return err // Rows came: it is looked at again.
	}
	if _, err := tx.Exec(ctx, "DROP TABLE "+p.name); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	delete(c.past, p.name)
	return nil
}
