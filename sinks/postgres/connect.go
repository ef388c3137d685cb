package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	dialLimit = 10 * time.Second
	// endLimit bounds what is said to the server when a connection is given up.
	endLimit = 5 * time.Second
)

// connect opens a connection to the database.
func connect(ctx context.Context, env *dataflow.Env, cfg Config) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, dataflow.Permanentf("url: expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, and this cannot be read")
	}
	c.ConnectTimeout = dialLimit
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // Poolers keep no prepared statements.
	c.RuntimeParams["application_name"] = "frazil " + env.Pipeline + "/" + env.Step
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, explain("connect to the database", err)
	}
	return conn, nil
}

func closeConn(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), endLimit)
	defer cancel()
	return conn.Close(ctx)
}

// code is the SQLSTATE of an error of the server; "" if it is another error.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// refusals are codes by which the table refuses a row, and our reason for it.
var refusals = []struct{ code, reason string }{
	{"23502", "null_value"}, {"23503", "foreign_key"}, {"23505", "not_unique"}, {"23514", "check_failed"}, {"23P01", "excluded"},
	{"23", "constraint"}, {"22", "invalid_value"}, {"44", "check_failed"}, {"P0001", "raised"}, {"54000", "too_large"},
}

// refusal is the reason why the table refuses a row; "" if err says something else.
func refusal(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return ""
	}
	for _, r := range refusals {
		if strings.HasPrefix(pg.Code, r.code) {
			return r.reason
		}
	}
	if pg.Code == "42501" && strings.Contains(pg.Message, "row-level security") {
		return "row_level_security"
	}
	return ""
}

// passing are errors of the server that another try may not meet.
func passing(c string) bool {
	switch c {
	case "40001", "40P01", "55P03", "25P03", "40003":
		return true
	}
	return false
}

// advice says what to do about an error of the server that no retry heals.
var advice = map[string]string{
	"21000": "two keys that differ by their type are one to the table (a nondeterministic collation): such a column cannot be of the key",
	"28P01": "the password is wrong",
	"28000": "the server refuses the role or the host: see its pg_hba.conf",
	"3D000": "there is no such database",
	"42501": "the role lacks a right: an owner grants it",
	"42P01": "there is no such table",
	"42703": "the table was changed: see what it has now, and start again",
	"42804": "the table was changed: see what it has now, and start again",
	"42P10": "mode upsert needs a unique index of exactly the key's columns",
	"3F000": "there is no such schema: CREATE SCHEMA makes it",
}

// explain adds to an error what to do, and says whether time heals it.
func explain(what string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	err = fmt.Errorf("%s: %w", what, err)
	if c := code(err); c != "" {
		if a := advice[c]; a != "" {
			return dataflow.Permanent(fmt.Errorf("%w; %s", err, a))
		}
		if strings.HasPrefix(c, "42") || strings.HasPrefix(c, "0A") || refusal(err) != "" {
			return dataflow.Permanent(err)
		}
		return dataflow.Unavailable(err) // It stops, is full, is only read, gave up a transaction.
	}
	var op net.Error
	var connecting *pgconn.ConnectError
	if errors.As(err, &op) || errors.As(err, &connecting) || pgconn.SafeToRetry(err) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) {
		return dataflow.Unavailable(err)
	}
	return err
}

// quote writes a name of a table, with its schema if it has one, for SQL.
func quote(name string) string {
	return pgx.Identifier(strings.SplitN(name, ".", 2)).Sanitize()
}

// quoteColumn writes the name of a column for SQL.
func quoteColumn(name string) string { return pgx.Identifier{name}.Sanitize() }

// columnList writes names with commas, each behind prefix.
func columnList(prefix string, names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + quoteColumn(n)
	}
	return strings.Join(out, ", ")
}
