package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/go-sql-driver/mysql"
)

// myPartitions drops partitions by range of MySQL or MariaDB; see pgPartitions. Here the
// lock is of the whole table, and bounded, as is the look at the rows under it.
type myPartitions struct {
	*myCleanup
	maria bool
	past  map[string]time.Time
	wait  patience
}

// tries is how often a lock is asked for without waiting before it is waited for.
const tries = 20

type myBound struct{ name, method, expression, upper string }

// look implements cleanTable.
func (c *myPartitions) look(ctx context.Context) (ids []string, at uint64, err error) {
	now := time.Now() // A time that is measured, not a date.
	if now.Before(c.wait.until) {
		return nil, 0, nil
	}
	bounds, err := c.bounds(ctx)
	if err != nil {
		return nil, 0, err
	}
	// One always stays: a table cannot be without.
	for _, b := range bounds[:max(len(bounds)-1, 0)] {
		past, err := c.isPast(ctx, b, now)
		if err != nil {
			return nil, 0, err
		}
		if !past {
			break // The next ones are later.
		}
		rows, err := c.fingerprint(ctx, b.name, "")
		if err != nil {
			return nil, 0, explainMy("look at the rows of the partition "+b.name, err)
		}
		ids = append(ids, partition{b.name, rows}.String())
	}
	return ids, c.place(), nil
}

func (c *myPartitions) bounds(ctx context.Context) (out []myBound, err error) {
	rows, err := c.conn.QueryContext(ctx, `SELECT partition_name, partition_method, partition_expression, partition_description FROM information_schema.partitions
		WHERE table_schema = DATABASE() AND table_name = ? AND partition_name IS NOT NULL ORDER BY partition_ordinal_position`, c.cfg.MySQL.Table)
	if err != nil {
		return nil, explainMy("look for partitions", err)
	}
	defer rows.Close()
	for rows.Next() {
		var b myBound
		if err := rows.Scan(&b.name, &b.method, &b.expression, &b.upper); err != nil {
			return nil, explainMy("look for partitions", err)
		}
		if !strings.HasPrefix(b.method, "RANGE") {
			return nil, dataflow.Permanentf("table %s has partitions by %s: only those by RANGE can be past", c.cfg.MySQL.Table, b.method)
		}
		out = append(out, b)
	}
	return out, explainMy("look for partitions", rows.Err())
}

// isPast says whether the range of a partition is past for long enough: by the server's
// clock in UTC, or, of numbers, since rows were seen behind it.
func (c *myPartitions) isPast(ctx context.Context, b myBound, now time.Time) (past bool, err error) {
	if b.upper == "MAXVALUE" {
		return false, nil
	}
	seconds := int(c.cfg.Cleanup.After.D() / time.Second)
	expression := strings.ToLower(b.expression)
	query := ""
	switch {
	case strings.HasPrefix(expression, "unix_timestamp("):
		query = fmt.Sprintf("SELECT %s + %d <= unix_timestamp()", b.upper, seconds)
	case strings.HasPrefix(expression, "to_days("):
		query = fmt.Sprintf("SELECT %s <= to_days(now() - INTERVAL %d SECOND)", b.upper, seconds)
	case strings.HasPrefix(b.upper, "'"):
		query = fmt.Sprintf("SELECT CAST(%s AS datetime(6)) + INTERVAL %d SECOND <= now(6)", b.upper, seconds)
	}
	if query != "" {
		err = c.conn.QueryRowContext(ctx, query).Scan(&past)
		return past, explainMy("look whether the partition "+b.name+" is past", err)
	}
	if c.past[b.name].IsZero() {
		if err = c.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT EXISTS (SELECT 1 FROM %s WHERE %s >= %s)", c.table, b.expression, b.upper)).Scan(&past); err != nil || !past {
			return false, explainMy("look whether the partition "+b.name+" is past", err)
		}
		c.past[b.name] = now
	}
	return now.Sub(c.past[b.name]) >= c.cfg.Cleanup.After.D(), nil
}

// fingerprint tells whether rows came or went; before stands in front of the query.
func (c *myPartitions) fingerprint(ctx context.Context, name, before string) (out string, err error) {
	err = c.conn.QueryRowContext(ctx, fmt.Sprintf("%sSELECT concat(count(*), ' ', coalesce(sum(crc32(%s)), 0), ' ', coalesce(bit_xor(crc32(concat('x', %s))), 0)) FROM %s PARTITION (%s)",
		before, c.id, c.id, c.table, quoteMy(name))).Scan(&out)
	return out, err
}

// clean implements cleanTable.
func (c *myPartitions) clean(ctx context.Context, ids []string) (int, error) {
	for _, id := range ids {
		err := c.drop(ctx, parsePartition(id))
		var my *mysql.MySQLError
		// Locked, killed while counting: later.
		if errors.As(err, &my) && (my.Number == 1205 || my.Number == 1213 || my.Number == 1969 || my.Number == 3024) {
			c.wait.failed(time.Now())
			return 0, nil
		}
		if err != nil {
			return 0, explainMy("drop a partition of relayed rows (it needs the rights LOCK TABLES, ALTER and DROP)", err)
		}
		c.wait.worked()
	}
	return 0, nil
}

func (c *myPartitions) drop(ctx context.Context, p partition) (err error) {
	if err := c.lockTable(ctx); err != nil {
		return err
	}
	defer func() {
		_, unlock := c.conn.ExecContext(ctx, "UNLOCK TABLES")
		err = errors.Join(err, unlock)
	}()
	// Nobody writes while this is counted, so it is bounded.
	before := "SET STATEMENT max_statement_time = 1 FOR "
	if !c.maria {
		before = ""
	}
	rows, err := c.fingerprint(ctx, p.name, before)
	if err != nil || rows != p.rows {
		return err // Rows came: it is looked at again.
	}
	if _, err := c.conn.ExecContext(ctx, "ALTER TABLE "+c.table+" DROP PARTITION "+quoteMy(p.name)); err != nil {
		return err
	}
	delete(c.past, p.name)
	return nil
}

// lockTable keeps everybody out. At first it does not wait, and then nobody waits for it.
func (c *myPartitions) lockTable(ctx context.Context) (err error) {
	statement := "LOCK TABLES " + c.table + " WRITE"
	for range tries {
		if !c.maria {
			break
		}
		_, err = c.conn.ExecContext(ctx, statement+" NOWAIT")
		var my *mysql.MySQLError
		if !errors.As(err, &my) || my.Number != 1205 {
			return err
		}
		wait(ctx, 10*time.Millisecond)
	}
	_, err = c.conn.ExecContext(ctx, statement)
	return err
}
