package outbox

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
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	dialLimit = 10 * time.Second
	// askTimeout bounds one question to the server.
	askTimeout = 30 * time.Second
)

// connect opens a connection for questions.
func connect(ctx context.Context, cfg PostgresConfig) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, dataflow.Permanentf("url of the outbox: expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, and this cannot be read") // err has the password in it.
	}
	c.ConnectTimeout = dialLimit
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // Poolers keep no prepared statements.
	c.RuntimeParams["application_name"] = "frazil " + cfg.Slot
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, explain("connect to the database of the outbox", err)
	}
	return conn, nil
}

// connectReplication opens a connection that speaks the replication protocol.
func connectReplication(ctx context.Context, cfg PostgresConfig) (*pgconn.PgConn, error) {
	c, err := pgconn.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, dataflow.Permanentf("url of the outbox: expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, and this cannot be read")
	}
	c.ConnectTimeout = dialLimit
	c.RuntimeParams["replication"] = "database"
	c.RuntimeParams["application_name"] = "frazil " + cfg.Slot
	// The text of values must not depend on the server's settings.
	c.RuntimeParams["datestyle"], c.RuntimeParams["timezone"], c.RuntimeParams["bytea_output"] = "ISO", "UTC", "hex"
	var reads *tap // of the last address that was tried
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		reads = &tap{r: r}
		return pgproto3.NewFrontend(reads, w)
	}
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return nil, explain("connect for replication to the database of the outbox", err)
	}
	conn.CustomData()[tapKey] = reads
	return conn, nil
}

// tap notes of a connection whether its last read left more to read.
type tap struct {
	r io.Reader
	// more: it filled all that there was room for.
	more bool
}

// tapKey is where a connection for replication has its tap.
const tapKey = "tap"

// Read implements io.Reader.
func (t *tap) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.more = n == len(p)
	return n, err
}

// advice says what to do about an error of the server.
var advice = []struct {
	code, text string // text: in the message; "" any
	permanent  bool
	advice     string
}{
	{"55000", "wal_level", true, "logical replication is off: ALTER SYSTEM SET wal_level = logical, and restart the server"},
	{"55000", "can no longer get changes", true, "the slot was invalidated, the server has removed log that it needed (max_slot_wal_keep_size): what was written since is not in it. Drop the slot and start afresh with start: snapshot and another state directory, and look for what is missing"},
	{"55006", "", false, "another process reads the slot: is the pipeline running twice"},
	{"53400", "", true, "the server has no slot left: drop one that nobody uses (SELECT * FROM pg_replication_slots), or raise max_replication_slots"},
	{"53300", "", false, "the server has no connection left: raise max_connections or max_wal_senders"},
	{"42501", "", true, "the role lacks a right: ALTER ROLE name REPLICATION, GRANT SELECT ON the table; to make a publication it must own the table, or an owner runs the statement"},
	{"25006", "", true, "the server is a replica: the clean-up needs the primary"},
	{"40001", "", false, "a replica gave up the query for changes that it has to replay: it is asked again; max_standby_streaming_delay or hot_standby_feedback spare that"},
	{"28P01", "", true, "the password is wrong"},
	{"28000", "", true, "the server refuses the role or the host: see pg_hba.conf; replication connections to a database need a line of their own for that database"},
	{"3D000", "", true, "there is no such database"},
	{"42P01", "", true, "there is no such table"},
}

// explain adds to an error of the server what to do, and says whether time heals it.
func explain(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		for _, a := range advice {
			if pg.Code == a.code && strings.Contains(pg.Message, a.text) {
				err = fmt.Errorf("%w; %s", err, a.advice)
				if a.permanent {
					return dataflow.Permanent(err)
				}
				return dataflow.Unavailable(err)
			}
		}
		if pg.Code < "57" || pg.Code >= "59" { // 57P01 and the like: the server stops.
			return err
		}
	}
	if cut(err) || pg != nil || pgconn.SafeToRetry(err) {
		return dataflow.Unavailable(err)
	}
	var connecting *pgconn.ConnectError
	if errors.As(err, &connecting) {
		return dataflow.Unavailable(err)
	}
	return err
}

// cut says whether err is that of a connection that has ended.
func cut(err error) bool {
	var op net.Error
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
