package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"frazil/dataflow"

	"github.com/jackc/pgx/v5"
)

// pgOutside is what a source of PostgreSQL needs there.
type pgOutside struct {
	cfg  Config
	pg   PostgresConfig
	conn *pgx.Conn
	// role that the source connects as; version of the server, as 150004.
	role    string
	version int
}

// Outside implements dataflow.Outsider.
func (s *pgSource) Outside(ctx context.Context) (dataflow.Outside, error) {
	return openPgOutside(ctx, s.cfg)
}

func openPgOutside(ctx context.Context, cfg Config) (*pgOutside, error) {
	conn, err := connect(ctx, *cfg.Postgres)
	if err != nil {
		return nil, err
	}
	o := &pgOutside{cfg: cfg, pg: *cfg.Postgres, conn: conn}
	if err := conn.QueryRow(ctx, "SELECT current_user::text, current_setting('server_version_num')::int").Scan(&o.role, &o.version); err != nil {
		_ = o.Close()
		return nil, explain("ask for the role", err)
	}
	return o, nil
}

// Close implements dataflow.Outside.
func (o *pgOutside) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	return o.conn.Close(ctx)
}

// Do implements dataflow.Outside.
func (o *pgOutside) Do(ctx context.Context, statement string) error {
	_, err := o.conn.Exec(ctx, statement)
	return explain("run "+statement, err)
}

// Things implements dataflow.Outside.
func (o *pgOutside) Things(ctx context.Context) ([]dataflow.Thing, error) {
	looks := []func(context.Context) (dataflow.Thing, error){o.table, o.cleanup}
	if o.pg.Table == "" {
		looks = nil
	}
	if o.pg.Capture == captureLog {
		looks = append(looks, o.level, o.replication, o.publication, o.slot)
	} else {
		looks = append(looks, o.transaction)
	}
	var out []dataflow.Thing
	for _, look := range looks {
		t, err := look(ctx)
		if err != nil {
			return nil, err
		}
		if t.Name != "" {
			out = append(out, t)
		}
	}
	return out, nil
}

func (o *pgOutside) me() string { return pgx.Identifier{o.role}.Sanitize() }

// table looks at the outbox, its columns, and whether it may be read.
func (o *pgOutside) table(ctx context.Context) (dataflow.Thing, error) {
	t := dataflow.Thing{Name: "table " + o.pg.Table}
	var there, readable *bool
	schema, name, _ := strings.Cut(o.pg.Table, ".")
	err := o.conn.QueryRow(ctx, `SELECT true, has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname = $2`, schema, name).Scan(&there, &readable)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		t.Wrong, t.Manual, t.Detail = true, true, "there is no such table; the application makes it, for example by"
		t.Fix = []string{"CREATE TABLE " + quoteTable(o.pg.Table) + " (" + strings.Join(o.columns(), ", ") + ")"}
		return t, nil
	case err != nil:
		return t, explain("look for the outbox", err)
	case !*readable:
		t.Wrong, t.Manual, t.Detail = true, true, "role "+o.role+" may not read it"
		t.Fix = []string{"GRANT USAGE ON SCHEMA " + pgx.Identifier{schema}.Sanitize() + " TO " + o.me(), "GRANT SELECT ON " + quoteTable(o.pg.Table) + " TO " + o.me()}
		return t, nil
	}
	columns, err := columnsOf(ctx, o.conn, o.pg.Table)
	if err != nil {
		return t, err
	}
	shape, err := newShape(o.cfg, nil)
	if err != nil {
		return t, err
	}
	for _, f := range shape.fields {
		if _, ok := columns[f.column]; !ok {
			t.Wrong, t.Manual, t.Detail = true, true, missingColumn(o.pg.Table, f.column).Error()
		}
	}
	return t, nil
}

// columns are those of a table that fits the config.
func (o *pgOutside) columns() (out []string) {
	c := o.cfg.Columns
	for _, x := range [][2]string{{c.ID, "bigserial PRIMARY KEY"}, {c.AggregateType, "text NOT NULL"}, {c.AggregateID, "text NOT NULL"}, {c.Type, "text NOT NULL"},
		{c.Payload, map[string]string{"json": "jsonb", "text": "text", "bytes": "bytea"}[o.cfg.Payload]}, {c.Headers, "jsonb"}, {c.CreatedAt, "timestamptz NOT NULL DEFAULT clock_timestamp()"},
		{c.Transaction, "xid8 NOT NULL DEFAULT pg_current_xact_id()"}} {
		if x[0] != "" {
			out = append(out, pgx.Identifier{x[0]}.Sanitize()+" "+x[1])
		}
	}
	for _, name := range c.Additional {
		out = append(out, pgx.Identifier{name}.Sanitize()+" text")
	}
	return out
}

// cleanup looks at the right to clean up.
func (o *pgOutside) cleanup(ctx context.Context) (dataflow.Thing, error) {
	c := o.cfg.Cleanup
	if c == nil {
		return dataflow.Thing{}, nil
	}
	if c.Mode == modePartitions {
		return o.owner(ctx)
	}
	right := map[string]string{"delete": "DELETE", "mark": "UPDATE"}[c.Mode]
	t := dataflow.Thing{Name: "right " + right + " on " + o.pg.Table}
	// FOR UPDATE, by which rows that are locked are left out, needs UPDATE as well.
	var has *bool
	if err := o.conn.QueryRow(ctx, "SELECT has_table_privilege(to_regclass($1), $2) AND has_table_privilege(to_regclass($1), 'UPDATE')", quoteTable(o.pg.Table), right).Scan(&has); err != nil {
		return t, explain("ask for rights", err)
	}
	if has == nil || !*has {
		t.Wrong, t.Manual, t.Detail = true, true, "role "+o.role+" may not clean up"
		rights := right
		if right == "DELETE" {
			rights = "DELETE, UPDATE"
		}
		t.Fix = []string{"GRANT " + rights + " ON " + quoteTable(o.pg.Table) + " TO " + o.me()}
	}
	return t, nil
}

// owner looks whether partitions may be dropped.
func (o *pgOutside) owner(ctx context.Context) (dataflow.Thing, error) {
	t := dataflow.Thing{Name: "owner of " + o.pg.Table}
	var owner, parted *bool
	err := o.conn.QueryRow(ctx, `SELECT pg_has_role(c.relowner, 'USAGE'), EXISTS (SELECT 1 FROM pg_partitioned_table p WHERE p.partrelid = c.oid AND p.partstrat = 'r' AND p.partnatts = 1)
		FROM pg_class c WHERE c.oid = to_regclass($1)`, quoteTable(o.pg.Table)).Scan(&owner, &parted)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return dataflow.Thing{}, nil // It was said that there is no table.
	case err != nil:
		return t, explain("look at the owner of the outbox", err)
	case !*parted:
		t.Wrong, t.Manual, t.Detail = true, true, "the table is not PARTITION BY RANGE of one column: there are no partitions to drop"
	case !*owner:
		t.Wrong, t.Manual, t.Detail = true, true, "role "+o.role+" may not drop partitions: the table and its partitions must belong to it, or to a role that it is a member of"
		t.Fix = []string{"ALTER TABLE " + quoteTable(o.pg.Table) + " OWNER TO " + o.me()}
	}
	return t, nil
}

// level looks whether the server writes what replication needs.
func (o *pgOutside) level(ctx context.Context) (dataflow.Thing, error) {
	t := dataflow.Thing{Name: "wal_level"}
	err := checkServer(ctx, o.conn)
	if errors.Is(err, dataflow.ErrPermanent) {
		t.Wrong, t.Manual, t.Detail, t.Fix = true, true, err.Error(), []string{"ALTER SYSTEM SET wal_level = logical"}
		return t, nil
	}
	return t, err
}

// replication looks at the right to replicate.
func (o *pgOutside) replication(ctx context.Context) (dataflow.Thing, error) {
	t := dataflow.Thing{Name: "right REPLICATION of role " + o.role}
	var has bool
	if err := o.conn.QueryRow(ctx, "SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user").Scan(&has); err != nil {
		return t, explain("ask for rights", err)
	}
	if !has {
		t.Wrong, t.Manual, t.Fix = true, true, []string{"ALTER ROLE " + o.me() + " REPLICATION"}
		t.Detail = "role " + o.role + " may not replicate. Where that cannot be had, capture: poll needs nothing but SELECT"
	}
	return t, nil
}

// publication looks at the publication.
func (o *pgOutside) publication(ctx context.Context) (dataflow.Thing, error) {
	t := dataflow.Thing{Name: "publication " + o.pg.Publication, Drop: []string{"DROP PUBLICATION " + pgx.Identifier{o.pg.Publication}.Sanitize()}}
	missing, fix, err := lookPublication(ctx, o.conn, o.pg)
	if err != nil || missing == "" {
		return t, err
	}
	t.Wrong, t.Detail, t.Fix = true, missing, []string{fix}
	if strings.HasPrefix(fix, "CREATE") {
		t.Drop = nil
	}
	return t, nil
}

// slot looks at the replication slot.
func (o *pgOutside) slot(ctx context.Context) (dataflow.Thing, error) {
	name := o.pg.Slot
	t := dataflow.Thing{Name: "replication slot " + name}
	drop := []string{"SELECT pg_drop_replication_slot('" + name + "')"}
	s, err := findSlot(ctx, o.conn, name)
	switch {
	case errors.Is(err, dataflow.ErrPermanent):
		t.Wrong, t.Manual, t.Detail = true, true, err.Error()
		return t, nil
	case err != nil:
		return t, err
	case s == nil && o.cfg.Start == "snapshot":
		t.Detail = "it is made when the pipeline first starts, with the snapshot of the rows that are there"
		if !o.pg.Create {
			t.Wrong, t.Manual, t.Detail = true, true, t.Detail+": set create: true, or start: latest"
		}
		return t, nil
	case s == nil:
		t.Wrong, t.Detail = true, "it is not there"
		t.Fix = []string{"SELECT pg_create_logical_replication_slot('" + name + "', '" + plugin + "')"}
		if o.version >= 170000 {
			t.Fix[0] = "SELECT pg_create_logical_replication_slot('" + name + "', '" + plugin + "', failover => true)"
		}
		return t, nil
	case s.status == "lost":
		t.Wrong, t.Manual, t.Drop, t.Fix = true, true, drop, drop
		t.Detail = "the server has removed log that it needed (max_slot_wal_keep_size): what was written since is not in it. Drop it and start with another state directory; rows that are still in the outbox come again"
		return t, nil
	}
	t.Drop = drop
	t.Detail = fmt.Sprintf("confirmed up to %s, %d bytes of the log are kept for it", s.confirmed, s.retained)
	if s.active {
		t.Detail += ", in use"
	}
	return t, nil
}

// transaction looks at the column by which polls are cheap.
func (o *pgOutside) transaction(ctx context.Context) (dataflow.Thing, error) {
	c := o.cfg.Columns.Transaction
	if c == "" {
		return dataflow.Thing{Name: "transaction", Detail: "rows are told by xmin: each poll reads the whole table, which a clean-up keeps small; columns: {transaction: COLUMN} with an index does not"}, nil
	}
	t := dataflow.Thing{Name: "column " + c}
	columns, err := columnsOf(ctx, o.conn, o.pg.Table)
	if isCode(err, "42P01") || isCode(err, "3F000") {
		return dataflow.Thing{}, nil // It was said that there is no table.
	}
	if err != nil {
		return t, err
	}
	if oid := columns[c]; oid != oidXID8 && oid != oidInt8 {
		t.Wrong, t.Manual, t.Detail = true, true, "it is no column of type xid8 or bigint"
		t.Fix = []string{"ALTER TABLE " + quoteTable(o.pg.Table) + " ADD " + pgx.Identifier{c}.Sanitize() + " xid8 NOT NULL DEFAULT pg_current_xact_id()",
			"CREATE INDEX CONCURRENTLY ON " + quoteTable(o.pg.Table) + " (" + pgx.Identifier{c}.Sanitize() + ")"}
	}
	return t, nil
}
