package outbox

import (
	"context"
	"strings"

	"frazil/dataflow"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// snapshot reads the rows that are there, in the snapshot of a new slot. It cannot be
// read twice: all of it is one epoch.
type snapshot struct {
	conn *pgx.Conn
	rows pgx.Rows
	// slot is the replication connection, which holds the snapshot and follows the log
	// from at on when the rows are read.
	slot *pgconn.PgConn
	at   pglogrepl.LSN
	// types of the columns that are read.
	oids []uint32
}

// beginSnapshot makes the slot anew, in the place of old, and opens its snapshot on conn,
// which it takes over.
func beginSnapshot(ctx context.Context, conn *pgx.Conn, old *slot, cfg PostgresConfig, s *shape) (_ *snapshot, err error) {
	out := &snapshot{conn: conn}
	defer func() {
		if err != nil {
			out.close()
		}
	}()
	if old != nil && !cfg.Create {
		return nil, dataflow.Permanentf("replication slot %s is there, and the rows that were there before it are to be read: a slot has that snapshot only when it is made. Drop it and set create: true, or write start: latest", cfg.Slot)
	}
	// One that is there is of a snapshot that did not come to its end: nothing of it
	// was committed.
	if err := dropSlot(ctx, conn, cfg.Slot); err != nil {
		return nil, err
	}
	if out.slot, err = connectReplication(ctx, cfg); err != nil {
		return nil, err
	}
	var name string
	if out.at, name, err = createSlot(ctx, out.slot, cfg.Slot); err != nil {
		return nil, err
	}
	if cfg.Table == "" {
		return out, nil // Messages leave nothing behind.
	}
	for _, statement := range []string{
		"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
		"SET TRANSACTION SNAPSHOT '" + strings.ReplaceAll(name, "'", "''") + "'",
		"SET LOCAL datestyle = ISO", "SET LOCAL timezone = UTC", "SET LOCAL bytea_output = hex",
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return nil, explain("open the snapshot of the outbox", err)
		}
	}
	columns, err := columnsOf(ctx, conn, cfg.Table)
	if err != nil {
		return nil, err
	}
	query, oids, err := selectOf(cfg, s, columns)
	if err != nil {
		return nil, err
	}
	out.oids = oids
	// The simple protocol gives text, as the log does.
	out.rows, err = conn.Query(ctx, query, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		return nil, explain("read the outbox", err)
	}
	return out, nil
}

// columnsOf are the columns of a table, with their types.
func columnsOf(ctx context.Context, conn *pgx.Conn, table string) (map[string]uint32, error) {
	rows, err := conn.Query(ctx, "SELECT attname, atttypid::int8 FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped", quoteTable(table))
	if err != nil {
		return nil, explain("look at the columns of the outbox", err)
	}
	defer rows.Close()
	out := map[string]uint32{}
	for rows.Next() {
		var name string
		var oid int64
		if err := rows.Scan(&name, &oid); err != nil {
			return nil, explain("look at the columns of the outbox", err)
		}
		out[name] = uint32(oid)
	}
	return out, explain("look at the columns of the outbox", rows.Err())
}

// selectOf is the query of the rows of shape.fields, in the order of the ids.
func selectOf(cfg PostgresConfig, s *shape, columns map[string]uint32) (string, []uint32, error) {
	var names []string
	var oids []uint32
	for _, f := range s.fields {
		oid, ok := columns[f.column]
		if !ok {
			return "", nil, missingColumn(cfg.Table, f.column)
		}
		names = append(names, pgx.Identifier{"o", f.column}.Sanitize()+"::text")
		oids = append(oids, oid)
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM " + quoteTable(cfg.Table) + " AS o ORDER BY " + pgx.Identifier{"o", s.cfg.Columns.ID}.Sanitize(), oids, nil
}

func missingColumn(table, column string) error {
	return dataflow.Permanentf("table %s has no column %q: name the ones it has under columns, or write \"\" for one that is not needed", table, column)
}

// next reads one row into vals; false: there is none left.
func (n *snapshot) next(vals []value) (bool, error) {
	if n.rows == nil {
		return false, nil
	}
	if !n.rows.Next() {
		return false, explain("read the outbox", n.rows.Err())
	}
	for i, text := range n.rows.RawValues() {
		oid := n.oids[i]
		vals[i] = value{text: text, valid: text != nil, json: oid == oidJSON || oid == oidJSONB, bytes: oid == oidBytea}
	}
	return true, nil
}

// end closes the snapshot and leaves the replication connection to the caller.
func (n *snapshot) end() *pgconn.PgConn {
	slot := n.slot
	n.slot = nil
	n.close()
	return slot
}

func (n *snapshot) close() {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	if n.rows != nil {
		n.rows.Close()
	}
	_ = n.conn.Close(ctx)
	if n.slot != nil {
		_ = n.slot.Close(ctx)
	}
}
