package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"frazil/dataflow"

	"github.com/go-sql-driver/mysql"
)

// Outside implements dataflow.Outsider.
func (s *poller) Outside(ctx context.Context) (dataflow.Outside, error) {
	if s.cfg.MySQL == nil {
		return openPgOutside(ctx, s.cfg)
	}
	settings, err := mySettings(*s.cfg.MySQL, s.env.Dir)
	if err != nil {
		return nil, err
	}
	db, conn, err := myConnect(ctx, settings, "READ COMMITTED")
	if err != nil {
		return nil, err
	}
	return &myOutside{cfg: s.cfg, db: db, conn: conn, settings: settings}, nil
}

// myOutside is what a source of MySQL or MariaDB needs there.
type myOutside struct {
	cfg      Config
	settings *mysql.Config
	db       *sql.DB
	conn     *sql.Conn
}

// Close implements dataflow.Outside.
func (o *myOutside) Close() error { return errors.Join(o.conn.Close(), o.db.Close()) }

// Do implements dataflow.Outside.
func (o *myOutside) Do(ctx context.Context, statement string) error {
	_, err := o.conn.ExecContext(ctx, statement)
	return explainMy("run "+statement, err)
}

// Things implements dataflow.Outside.
func (o *myOutside) Things(ctx context.Context) ([]dataflow.Thing, error) {
	var me string
	if err := o.conn.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&me); err != nil {
		return nil, explainMy("ask for the user", err)
	}
	name, host, _ := strings.Cut(me, "@")
	me = "'" + name + "'@'" + host + "'"
	table := dataflow.Thing{Name: "table " + o.cfg.MySQL.Table}
	server, err := describeMy(ctx, o.conn, o.cfg)
	switch {
	case errors.Is(err, dataflow.ErrPermanent):
		table.Wrong, table.Manual, table.Detail = true, true, err.Error()
	case err != nil:
		return nil, err
	default:
		shape, err := newShape(o.cfg, nil)
		if err != nil {
			return nil, err
		}
		for _, f := range shape.fields {
			if server.columns[f.column] == "" {
				table.Wrong, table.Manual, table.Detail = true, true, missingColumn(o.cfg.MySQL.Table, f.column).Error()
			}
		}
	}
	process := dataflow.Thing{Name: "right PROCESS of " + me}
	var n int64
	if err := o.conn.QueryRowContext(ctx, "SELECT count(*) FROM information_schema.innodb_trx").Scan(&n); err != nil {
		if err = explainMy("look whether all statements can be seen", err); !errors.Is(err, dataflow.ErrPermanent) {
			return nil, err
		}
		process.Wrong, process.Manual, process.Fix = true, true, []string{"GRANT PROCESS ON *.* TO " + me}
		process.Detail = "it is by the list of statements that ids which no row will have are told from those of rows that come late"
	}
	out := []dataflow.Thing{table, process}
	if c := o.cfg.Cleanup; c != nil && !table.Wrong && c.Mode != modePartitions {
		t, err := o.cleanup(ctx, me)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// cleanup looks at the right to clean up: by a statement that finds no row.
func (o *myOutside) cleanup(ctx context.Context, me string) (dataflow.Thing, error) {
	table, id := quoteMy(o.cfg.MySQL.Table), quoteMy(o.cfg.Columns.ID)
	right, statement := "DELETE", "DELETE FROM "+table+" WHERE FALSE"
	if o.cfg.Cleanup.Mode == "mark" {
		right, statement = "UPDATE", "UPDATE "+table+" SET "+quoteMy(o.cfg.Cleanup.Column)+" = now() WHERE FALSE"
	}
	t := dataflow.Thing{Name: fmt.Sprintf("right %s on %s", right, o.cfg.MySQL.Table)}
	_, err := o.conn.ExecContext(ctx, statement)
	if err == nil {
		var rows *sql.Rows
		if rows, err = o.conn.QueryContext(ctx, "SELECT "+id+" FROM "+table+" WHERE FALSE FOR UPDATE"); err == nil {
			err = rows.Close()
		}
	}
	if err = explainMy("look for rights", err); err != nil {
		if !errors.Is(err, dataflow.ErrPermanent) {
			return t, err
		}
		t.Wrong, t.Manual, t.Detail = true, true, err.Error()
		t.Fix = []string{"GRANT " + right + " ON " + quoteMy(o.settings.DBName) + "." + table + " TO " + me}
	}
	return t, nil
}
