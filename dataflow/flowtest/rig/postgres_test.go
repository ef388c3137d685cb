package rig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

func postgresConn(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func postgresExec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestPostgresKeepsItsDataOverStopAndKill(t *testing.T) {
	p := NewPostgres(t, "work_mem = 5MB")
	postgresExec(t, postgresConn(t, p.URL("postgres")), "CREATE TABLE t (n int)",
		"SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
	for i, end := range []func(){p.Stop, p.Kill} {
		conn := postgresConn(t, p.URL("postgres"))
		postgresExec(t, conn, "INSERT INTO t VALUES (1)", "BEGIN", "INSERT INTO t VALUES (2)")
		end()
		if err := conn.Ping(t.Context()); err == nil {
			t.Fatal("an ended server answers")
		}
		if err := p.Config("work_mem = 6MB"); err != nil {
			t.Fatal(err)
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		var rows, slots int
		var setting, level string
		q := "SELECT (SELECT sum(n) FROM t), (SELECT count(*) FROM pg_replication_slots), current_setting('work_mem'), current_setting('wal_level')"
		if err := postgresConn(t, p.URL("postgres")).QueryRow(t.Context(), q).Scan(&rows, &slots, &setting, &level); err != nil {
			t.Fatal(err)
		}
		if rows != i+1 || slots != 1 || setting != "6MB" || level != "logical" {
			t.Fatalf("%d rows, want %d; %d slots; work_mem %s; wal_level %s", rows, i+1, slots, setting, level)
		}
	}
	if err := p.Start(); err == nil {
		t.Error("a running server was started again")
	}
}

func TestPostgresAsksForPasswordsAndSpeaksTLS(t *testing.T) {
	p := NewPostgres(t)
	postgresExec(t, postgresConn(t, p.URL("postgres")), "CREATE ROLE by_password", "CREATE ROLE u LOGIN REPLICATION PASSWORD 'right' IN ROLE by_password")
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(p.CA); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in", p.CA, err)
	}
	for password, want := range map[string]string{"right": "", "wrong": "28P01"} {
		conf, err := pgx.ParseConfig(p.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		conf.User, conf.Password, conf.TLSConfig = "u", password, &tls.Config{RootCAs: roots, ServerName: "localhost"}
		conn, err := pgx.ConnectConfig(t.Context(), conf)
		if err == nil {
			postgresExec(t, conn, "SELECT 1")
			conn.Close(t.Context())
		}
		refused := &pgconn.PgError{}
		if errors.As(err, &refused); refused.Code != want || want == "" && err != nil {
			t.Errorf("password %s: %v, want the code %q", password, err, want)
		}
	}
}

// A test leaves nothing behind: no database, no slot, no connection.
func TestADatabaseOfATestGoesWithItsSlots(t *testing.T) {
	server := os.Getenv("FRAZIL_TEST_POSTGRES")
	if server == "" {
		server = NewPostgres(t).URL("postgres")
		t.Setenv("FRAZIL_TEST_POSTGRES", server)
	}
	var own *url.URL
	t.Run("its test", func(inner *testing.T) {
		var err error
		if own, err = url.Parse(Postgres(inner)); err != nil {
			inner.Fatal(err)
		}
		slot := own.Path[1:] + "_slot"
		postgresExec(inner, postgresConn(inner, own.String()), "CREATE TABLE t (n int)", "CREATE PUBLICATION p FOR TABLE t",
			"SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput')")
		// Somebody still reads it when its test has ended.
		reader, err := pgconn.Connect(inner.Context(), own.String()+"&replication=database")
		if err != nil {
			inner.Fatal(err)
		}
		t.Cleanup(func() { reader.Close(context.Background()) })
		reader.Frontend().SendQuery(&pgproto3.Query{String: "START_REPLICATION SLOT " + slot + " LOGICAL 0/0 (proto_version '1', publication_names 'p')"})
		if err := reader.Frontend().Flush(); err != nil {
			inner.Fatal(err)
		}
		if m, err := reader.ReceiveMessage(inner.Context()); err != nil {
			inner.Fatal(err)
		} else if _, ok := m.(*pgproto3.CopyBothResponse); !ok {
			inner.Fatalf("the slot was answered by %T", m)
		}
	})
	var left int
	q := "SELECT (SELECT count(*) FROM pg_database WHERE datname = $1) + (SELECT count(*) FROM pg_replication_slots WHERE database = $1)"
	if err := postgresConn(t, server).QueryRow(t.Context(), q, own.Path[1:]).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("%d databases and slots are left", left)
	}
}
