package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"frazil/dataflow"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// plugin is the output of the slot.
const plugin = "pgoutput"

// checkServer fails if the server cannot do what is asked of it.
func checkServer(ctx context.Context, conn *pgx.Conn) error {
	var level string
	var replica bool
	if err := conn.QueryRow(ctx, "SELECT current_setting('wal_level'), pg_is_in_recovery()").Scan(&level, &replica); err != nil {
		return explain("ask for wal_level", err)
	}
	if replica {
		return dataflow.Permanentf("the server is a replica, whose log is not read here: read the primary, or write capture: poll")
	}
	if level != "logical" {
		return dataflow.Permanentf("wal_level is %s, and replication needs logical: ALTER SYSTEM SET wal_level = logical, and restart the server", level)
	}
	return nil
}

// quoteTable makes an identifier of SCHEMA.TABLE.
func quoteTable(table string) string {
	schema, name, _ := strings.Cut(table, ".")
	return pgx.Identifier{schema, name}.Sanitize()
}

// ensurePublication makes the publication, or checks that the outbox is in it.
func ensurePublication(ctx context.Context, conn *pgx.Conn, cfg PostgresConfig) error {
	missing, statement, err := lookPublication(ctx, conn, cfg)
	switch {
	case err != nil || missing == "":
		return err
	case !strings.HasPrefix(statement, "CREATE"):
		return dataflow.Permanentf("%s: %s", missing, statement)
	case !cfg.Create:
		return dataflow.Permanentf("%s, and create is off: run %s", missing, statement)
	}
	if _, err := conn.Exec(ctx, statement); err != nil && !isCode(err, "42710") {
		return explain("run "+statement, err)
	}
	return nil
}

// lookPublication says what is missing, "" if nothing is, and the statement that mends it.
func lookPublication(ctx context.Context, conn *pgx.Conn, cfg PostgresConfig) (missing, statement string, err error) {
	name := pgx.Identifier{cfg.Publication}.Sanitize()
	var there, all, inserts bool
	err = conn.QueryRow(ctx, "SELECT true, puballtables, pubinsert FROM pg_publication WHERE pubname = $1", cfg.Publication).Scan(&there, &all, &inserts)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && cfg.Table == "":
		return "publication " + cfg.Publication + " is not there", "CREATE PUBLICATION " + name + " WITH (publish = 'insert')", nil
	case errors.Is(err, pgx.ErrNoRows):
		return "publication " + cfg.Publication + " is not there", "CREATE PUBLICATION " + name + " FOR TABLE " + quoteTable(cfg.Table) + " WITH (publish = 'insert', publish_via_partition_root = true)", nil
	case err != nil:
		return "", "", explain("look for the publication", err)
	case !inserts:
		return "publication " + cfg.Publication + " does not publish inserts", "ALTER PUBLICATION " + name + " SET (publish = 'insert')", nil
	case all || cfg.Table == "":
		return "", "", nil
	}
	schema, table, _ := strings.Cut(cfg.Table, ".")
	var has bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_publication_tables WHERE pubname = $1 AND schemaname = $2 AND tablename = $3)", cfg.Publication, schema, table).Scan(&has); err != nil {
		return "", "", explain("look into the publication", err)
	}
	if !has {
		return "table " + cfg.Table + " is not in publication " + cfg.Publication, "ALTER PUBLICATION " + name + " ADD TABLE " + quoteTable(cfg.Table), nil
	}
	return "", "", nil
}

// slot is how a replication slot stands.
type slot struct {
	active    bool
	plugin    string
	confirmed pglogrepl.LSN
	// status of the log that it needs: reserved, extended, unreserved, lost.
	status string
	// retained are the bytes of the log that the server keeps for it; left those that may
	// be written before it is given up (max_slot_wal_keep_size), -1: any number.
	retained, left int64
}

// findSlot returns nil if there is none.
func findSlot(ctx context.Context, conn *pgx.Conn, name string) (*slot, error) {
	var s slot
	var confirmed, status *string
	err := conn.QueryRow(ctx, `SELECT active, coalesce(plugin, ''), confirmed_flush_lsn::text, wal_status,
		coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::int8, coalesce(safe_wal_size, -1)::int8 FROM pg_replication_slots WHERE slot_name = $1`, name).
		Scan(&s.active, &s.plugin, &confirmed, &status, &s.retained, &s.left)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, explain("look for the replication slot", err)
	}
	if status != nil {
		s.status = *status
	}
	if confirmed != nil {
		if s.confirmed, err = pglogrepl.ParseLSN(*confirmed); err != nil {
			return nil, fmt.Errorf("position of the replication slot: %w", err)
		}
	}
	if s.plugin != plugin {
		return nil, dataflow.Permanentf("replication slot %s has the plugin %q, expected %s: it is somebody else's; name another one with slot", name, s.plugin, plugin)
	}
	return &s, nil
}

// checkSlot fails unless the log from the position at on can be had from the slot.
func checkSlot(name string, s *slot, at pglogrepl.LSN) error {
	const afresh = "what was written since may be missing. To go on: drop the slot if it is there, and start with start: snapshot and another state directory; rows that are still in the outbox come again"
	switch {
	case s == nil:
		return dataflow.Permanentf("%w: replication slot %s is gone (dropped, or the database was restored or failed over to a server without it), and the log was read up to %s: %s", dataflow.ErrGap, name, at, afresh)
	case s.status == "lost":
		return dataflow.Permanentf("%w: replication slot %s has lost log that it needed (max_slot_wal_keep_size): %s", dataflow.ErrGap, name, afresh)
	case s.confirmed > at:
		return dataflow.Permanentf("%w: replication slot %s was confirmed up to %s by somebody else, and the log was read up to %s: %s", dataflow.ErrGap, name, s.confirmed, at, afresh)
	}
	return nil
}

// prepared opens a connection to a server that can do what is asked of it, with the
// outbox in the publication, and looks for the slot; nil: there is none.
func prepared(ctx context.Context, cfg PostgresConfig) (*pgx.Conn, *slot, error) {
	conn, err := connect(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	var there *slot
	err = errors.Join(checkServer(ctx, conn), ensurePublication(ctx, conn, cfg))
	if err == nil {
		there, err = findSlot(ctx, conn, cfg.Slot)
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, nil, err
	}
	return conn, there, nil
}

// createSlot makes the slot; snapshot is the name of the one that belongs to it, valid
// as long as conn does nothing else.
func createSlot(ctx context.Context, conn *pgconn.PgConn, name string) (at pglogrepl.LSN, snapshot string, err error) {
	r, err := pglogrepl.CreateReplicationSlot(ctx, conn, name, plugin, pglogrepl.CreateReplicationSlotOptions{SnapshotAction: "EXPORT_SNAPSHOT"})
	if err != nil {
		return 0, "", explain("make the replication slot "+name, err)
	}
	at, err = pglogrepl.ParseLSN(r.ConsistentPoint)
	return at, r.SnapshotName, err
}

// dropSlot removes the slot; it is nothing if there is none.
func dropSlot(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", name)
	if err != nil && !isCode(err, "42704") {
		return explain("drop the replication slot "+name, err)
	}
	return nil
}

func isCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}
