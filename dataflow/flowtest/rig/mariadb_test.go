package rig

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"os"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func mariaOpen(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func mariaExec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestMariaDBKeepsItsDataOverStopAndKill(t *testing.T) {
	m := NewMariaDB(t, "max_connections = 31")
	mariaExec(t, mariaOpen(t, m.DSN("")), "CREATE DATABASE d", "CREATE TABLE d.t (n int)")
	for i, end := range []func(){m.Stop, m.Kill} {
		db := mariaOpen(t, m.DSN("d"))
		mariaExec(t, db, "INSERT INTO t VALUES (1)")
		open, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := open.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err != nil {
			t.Fatal(err)
		}
		end()
		if err := mariaOpen(t, m.DSN("d")).PingContext(t.Context()); err == nil {
			t.Fatal("an ended server answers")
		}
		if err := m.Config("max_connections = 32"); err != nil {
			t.Fatal(err)
		}
		if err := m.Start(); err != nil {
			t.Fatal(err)
		}
		var rows, connections int
		var format, zone string
		if err := mariaOpen(t, m.DSN("d")).QueryRowContext(t.Context(), "SELECT (SELECT sum(n) FROM t), @@max_connections, @@binlog_format, @@time_zone").
			Scan(&rows, &connections, &format, &zone); err != nil {
			t.Fatal(err)
		}
		if rows != i+1 || connections != 32 || format != "ROW" || zone != "+00:00" {
			t.Fatalf("%d rows, want %d; max_connections %d; binlog_format %s; time zone %s", rows, i+1, connections, format, zone)
		}
	}
	if err := m.Start(); err == nil {
		t.Error("a running server was started again")
	}
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(m.CA); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in", m.CA, err)
	}
	c, err := mysql.ParseDSN(m.DSN("d"))
	if err != nil {
		t.Fatal(err)
	}
	c.TLS = &tls.Config{RootCAs: roots, ServerName: "localhost"}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	var name, cipher string
	if err := db.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher); err != nil || cipher == "" {
		t.Errorf("over TLS: cipher %q, %v", cipher, err)
	}
}

// A test leaves no database behind.
func TestADatabaseOfATestGoesWithIt(t *testing.T) {
	server := os.Getenv("FRAZIL_TEST_MARIADB")
	if server == "" {
		server = NewMariaDB(t).DSN("")
		t.Setenv("FRAZIL_TEST_MARIADB", server)
	}
	var name string
	t.Run("its test", func(t *testing.T) {
		own := MariaDB(t)
		c, err := mysql.ParseDSN(own)
		if err != nil {
			t.Fatal(err)
		}
		name = c.DBName
		mariaExec(t, mariaOpen(t, own), "CREATE TABLE t (n int)")
	})
	var left int
	if err := mariaOpen(t, server).QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.schemata WHERE schema_name = ?", name).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("the database %s is left", name)
	}
}
