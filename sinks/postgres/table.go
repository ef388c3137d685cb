package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5"
)

// column of a table, as the database describes it. Of a domain, the type behind it.
type column struct {
	name string
	// declared is the type as people write it, with its bounds; base without.
	declared, base string
	oid            uint32
	mod            int32
	kind           string // pg_type.typname: int8, numeric, _text
	labels         []string
	element        uint32 // of an array
	elementKind    string
	notNull, filled,
	generated, always bool
	inserts, updates, selects bool
}

// table is the target as it is now.
type table struct {
	oid     uint32
	columns []column
	unique  [][]string // the columns of unique indexes that upserts may use, sorted
	deletes bool       // the role may
	temp    bool
	role    string
}

func (t *table) column(name string) *column {
	for i := range t.columns {
		if t.columns[i].name == name {
			return &t.columns[i]
		}
	}
	return nil
}

const tableQuery = `
SELECT c.oid::int8, c.relkind::text, has_table_privilege(c.oid, 'DELETE'), has_database_privilege(current_database(), 'TEMP'), current_user::text
FROM pg_class c WHERE c.oid = to_regclass($1)`

const columnsQuery = `
WITH RECURSIVE col AS (
	SELECT a.attnum, a.attname, a.attnotnull AS nn, a.atthasdef, a.attidentity, a.attgenerated,
		a.atttypid AS declared, a.atttypmod AS dmod, a.atttypid AS oid, a.atttypmod AS mod
	FROM pg_attribute a WHERE a.attrelid = $1::oid AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL
	SELECT c.attnum, c.attname, c.nn OR t.typnotnull, c.atthasdef OR t.typdefault IS NOT NULL, c.attidentity, c.attgenerated,
		c.declared, c.dmod, t.typbasetype, t.typtypmod
	FROM col c JOIN pg_type t ON t.oid = c.oid WHERE t.typtype = 'd'
)
SELECT col.attname::text, format_type(col.declared, col.dmod), format_type(col.oid, -1), col.oid::int8, col.mod, t.typname::text,
	coalesce((SELECT array_agg(l.enumlabel::text) FROM pg_enum l WHERE l.enumtypid = col.oid), '{}'),
	CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END::int8, coalesce(e.typname::text, ''),
	col.nn, col.atthasdef OR col.attidentity <> '', col.attgenerated <> '', col.attidentity = 'a',
	has_column_privilege($1::oid, col.attnum, 'INSERT'), has_column_privilege($1::oid, col.attnum, 'UPDATE'), has_column_privilege($1::oid, col.attnum, 'SELECT')
FROM col JOIN pg_type t ON t.oid = col.oid LEFT JOIN pg_type e ON e.oid = t.typelem
WHERE t.typtype <> 'd' ORDER BY col.attnum`

const uniqueQuery = `
SELECT array_agg(a.attname::text ORDER BY a.attname COLLATE "C")
FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY k(n, o)
	JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n
WHERE i.indrelid = $1::oid AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND k.o <= i.indnkeyatts
GROUP BY i.indexrelid`

// look reads how the table is; nil: it is not there.
func look(ctx context.Context, conn *pgx.Conn, name string) (*table, error) {
	t := &table{}
	var oid int64
	var kind string
	err := conn.QueryRow(ctx, tableQuery, quote(name)).Scan(&oid, &kind, &t.deletes, &t.temp, &t.role)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(fmt.Sprintf("look for table %s", name), err)
	}
	if t.oid = uint32(oid); kind != "r" && kind != "p" {
		return nil, dataflow.Permanentf("%s is no table (relkind %s): rows are written to tables only", name, kind)
	}
	rows, err := conn.Query(ctx, columnsQuery, oid)
	if err == nil {
		t.columns, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (c column, err error) {
			var oid, element int64
			err = r.Scan(&c.name, &c.declared, &c.base, &oid, &c.mod, &c.kind, &c.labels, &element, &c.elementKind,
				&c.notNull, &c.filled, &c.generated, &c.always, &c.inserts, &c.updates, &c.selects)
			c.oid, c.element = uint32(oid), uint32(element)
			return c, err
		})
	}
	if err != nil {
		return nil, explain(fmt.Sprintf("read the columns of table %s", name), err)
	}
	rows, err = conn.Query(ctx, uniqueQuery, oid)
	if err == nil {
		t.unique, err = pgx.CollectRows(rows, pgx.RowTo[[]string])
	}
	return t, explain(fmt.Sprintf("read the indexes of table %s", name), err)
}

// open looks for the table and makes it where the config says so.
func open(ctx context.Context, conn *pgx.Conn, cfg Config, s shape) (*table, error) {
	for try := 1; ; try++ {
		t, err := look(ctx, conn, cfg.Table)
		if t != nil || err != nil {
			return t, err
		}
		text := createTable(cfg.Table, s)
		if !cfg.CreateTable || try == 3 {
			return nil, dataflow.Permanentf("table %s is not there: set create_table: true, or make it:\n%s", cfg.Table, text)
		}
		if err := create(ctx, conn, text); err != nil {
			return nil, err
		}
	}
}

// create makes a table; another process may be faster.
func create(ctx context.Context, conn *pgx.Conn, text string) error {
	_, err := conn.Exec(ctx, text)
	switch code(err) {
	case "23505", "42P07", "42710": // its row in the catalog, its name, its type
		return nil
	case "42501":
		return dataflow.Permanentf("make a table: %w; let an owner run it, or grant the right (GRANT CREATE ON SCHEMA name TO role):\n%s", err, text)
	}
	return explain("make a table", err)
}

// createTable is the statement that makes the table for rows of a shape.
func createTable(name string, s shape) string {
	var lines []string
	for _, f := range dataflow.UserFields(s.in.Schema) {
		line := quoteColumn(f.Name) + " " + typeFor(f.Type)
		if !f.Nullable || slices.Contains(s.key, f.Name) {
			line += " NOT NULL"
		}
		lines = append(lines, line)
	}
	if s.upsert {
		lines = append(lines, "PRIMARY KEY ("+columnList("", s.key)+")")
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (\n\t%s\n)", quote(name), strings.Join(lines, ",\n\t"))
}

// typeFor is the type of a column that is made for t.
func typeFor(t arrow.DataType) string {
	switch t := t.(type) {
	case *arrow.Decimal128Type:
		return fmt.Sprintf("numeric(%d,%d)", t.Precision, t.Scale)
	case *arrow.ListType:
		if elem, ok := plainTypes[dataflow.TypeName(t.Elem())]; ok && elem != "jsonb" {
			return elem + "[]"
		}
		return "jsonb"
	}
	if name, ok := plainTypes[dataflow.TypeName(t)]; ok {
		return name
	}
	return "jsonb"
}

var plainTypes = map[string]string{
	"bool": "boolean", "int32": "integer", "int64": "bigint", "float32": "real", "float64": "double precision", "string": "text",
	"binary": "bytea", "date": "date", "time": "time", "timestamp": "timestamp", "timestamptz": "timestamptz", "uuid": "uuid", "json": "jsonb",
}
