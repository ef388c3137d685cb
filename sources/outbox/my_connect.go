package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"frazil/dataflow"

	"github.com/go-sql-driver/mysql"
)

// mySettings makes the driver's settings of the config; dir is the folder of the pipeline
// file.
func mySettings(cfg MySQLConfig, dir string) (*mysql.Config, error) {
	bad := dataflow.Permanentf("url of the outbox: expected mysql://USER:PASSWORD@HOST:PORT/DATABASE, and this cannot be read") // The url has the password in it.
	u, err := url.Parse(cfg.URL.Reveal())
	if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" || u.Host == "" || u.User == nil || len(u.Path) < 2 || u.RawQuery != "" {
		return nil, bad
	}
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.Passwd, _ = u.User.Password()
	if u.Port() == "" {
		c.Addr = net.JoinHostPort(u.Hostname(), "3306")
	}
	c.Timeout = dialLimit
	// Statements are text, and so are values.
	c.InterpolateParams = true
	// A reader that has to wait for its targets is not thrown out.
	c.Params = map[string]string{"time_zone": "'+00:00'", "net_write_timeout": "86400", "autocommit": "1"}
	c.Logger = &mysql.NopLogger{}
	if cfg.TLS != nil {
		if c.TLS, err = cfg.TLS.Config(dir); err != nil {
			return nil, dataflow.Permanent(err)
		}
		if c.TLS.ServerName == "" {
			c.TLS.ServerName = u.Hostname()
		}
	}
	return c, nil
}

// myConnect opens a connection with the isolation level.
func myConnect(ctx context.Context, settings *mysql.Config, isolation string) (*sql.DB, *sql.Conn, error) {
	connector, err := mysql.NewConnector(settings)
	if err != nil {
		return nil, nil, dataflow.Permanent(fmt.Errorf("settings of the outbox: %w", err))
	}
	db := sql.OpenDB(connector)
	conn, err := db.Conn(ctx)
	if err == nil {
		_, err = conn.ExecContext(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL "+isolation)
	}
	if err != nil {
		_ = db.Close()
		return nil, nil, explainMy("connect to the database of the outbox", err)
	}
	return db, conn, nil
}

// quoteMy makes an identifier.
func quoteMy(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// myAdvice says what to do about an error of the server. Its numbers are those of MySQL
// and MariaDB.
var myAdvice = map[uint16]struct {
	permanent bool
	advice    string
}{
	1045: {true, "the user or the password is wrong, or not allowed from this host"},
	1044: {true, "the user may not use the database: GRANT SELECT ON it"},
	1049: {true, "there is no such database"},
	1142: {true, "the user lacks a right on the table: GRANT SELECT, and for the clean-up DELETE or UPDATE"},
	1143: {true, "the user lacks a right on a column of the table"},
	1227: {true, "the user lacks a right: GRANT PROCESS ON *.*, by which it is seen whether statements that were given numbers are still under way"},
	1146: {true, "there is no such table"},
	1040: {false, "the server has no connection left: raise max_connections"},
	1205: {false, ""}, 1213: {false, ""}, 1317: {false, ""}, 1053: {false, ""}, 1927: {false, ""}, 1290: {false, ""},
}

// explainMy adds to an error of the server what to do, and says whether time heals it.
func explainMy(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		a, known := myAdvice[my.Number]
		if !known {
			return err
		}
		if a.advice != "" {
			err = fmt.Errorf("%w; %s", err, a.advice)
		}
		if a.permanent {
			return dataflow.Permanent(err)
		}
		return dataflow.Unavailable(err)
	}
	if cut(err) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sql.ErrConnDone) {
		return dataflow.Unavailable(err)
	}
	return err
}

// myServer is what matters of the server and the table.
type myServer struct {
	maria bool
	// skips: it knows SKIP LOCKED.
	skips bool
	// columns of the table, by name, with their types.
	columns map[string]string
}

// describeMy looks at server and table, and fails unless the outbox can be read there.
func describeMy(ctx context.Context, conn *sql.Conn, cfg Config) (*myServer, error) {
	s := &myServer{columns: map[string]string{}}
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return nil, explainMy("ask for the version", err)
	}
	s.maria = strings.Contains(version, "MariaDB")
	major, minor := versionOf(version)
	s.skips = s.maria && (major > 10 || major == 10 && minor >= 6) || !s.maria && major >= 8
	if !s.maria && major >= 8 {
		// Else the number that is given next is a day old.
		if _, err := conn.ExecContext(ctx, "SET SESSION information_schema_stats_expiry = 0"); err != nil {
			return nil, explainMy("set information_schema_stats_expiry", err)
		}
	}
	if err := aloneMy(ctx, conn); err != nil {
		return nil, err
	}
	table := cfg.MySQL.Table
	var engine sql.NullString
	err := conn.QueryRowContext(ctx, "SELECT engine FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", table).Scan(&engine)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, dataflow.Permanentf("table %s: there is no such table, or the user may not read it: GRANT SELECT ON it", table)
	case err != nil:
		return nil, explainMy("look for the outbox", err)
	case !strings.EqualFold(engine.String, "InnoDB"):
		return nil, dataflow.Permanentf("table %s is of the engine %q, and an outbox needs transactions: ALTER TABLE %s ENGINE = InnoDB", table, engine.String, quoteMy(table))
	}
	return s, s.describe(ctx, conn, cfg)
}

func versionOf(text string) (major, minor int) {
	part := strings.SplitN(text, ".", 3)
	major, _ = strconv.Atoi(part[0])
	if len(part) > 1 {
		minor, _ = strconv.Atoi(part[1])
	}
	return major, minor
}

// aloneMy fails where rows are written elsewhere: only the server on which a transaction
// runs knows that it is open.
func aloneMy(ctx context.Context, conn *sql.Conn) error {
	const only = "that an id was given to a transaction that is open is known only where it runs"
	rows, err := conn.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE variable_name IN ('read_only', 'wsrep_on')")
	if err != nil {
		return explainMy("ask for variables of the server", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return explainMy("ask for variables of the server", err)
		}
		switch {
		case !strings.EqualFold(value, "ON"):
		case name == "read_only":
			return dataflow.Permanentf("the server is read_only, as replicas are: %s; read the primary", only)
		default:
			return dataflow.Permanentf("the server is one of a cluster that all may write to (wsrep_on): %s", only)
		}
	}
	return explainMy("ask for variables of the server", rows.Err())
}

// describe finds the columns.
func (s *myServer) describe(ctx context.Context, conn *sql.Conn, cfg Config) error {
	rows, err := conn.QueryContext(ctx, "SELECT column_name, data_type, extra FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?", cfg.MySQL.Table)
	if err != nil {
		return explainMy("look at the columns of the outbox", err)
	}
	defer rows.Close()
	counted := ""
	for rows.Next() {
		var name, kind, extra string
		if err := rows.Scan(&name, &kind, &extra); err != nil {
			return explainMy("look at the columns of the outbox", err)
		}
		s.columns[name] = strings.ToLower(kind)
		if strings.Contains(strings.ToLower(extra), "auto_increment") {
			counted = name
		}
	}
	if err := rows.Err(); err != nil {
		return explainMy("look at the columns of the outbox", err)
	}
	switch seq := cfg.sequence(); {
	case s.columns[seq] == "":
		return missingColumn(cfg.MySQL.Table, seq)
	case counted == "":
		return dataflow.Permanentf("table %s has no column with AUTO_INCREMENT, by which rows are found that are committed late: ALTER TABLE %s ADD seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE, and write columns: {sequence: seq}", cfg.MySQL.Table, quoteMy(cfg.MySQL.Table))
	case counted != seq:
		return dataflow.Permanentf("column %q of %s has no AUTO_INCREMENT: write columns: {sequence: %s}", seq, cfg.MySQL.Table, counted)
	}
	return nil
}
