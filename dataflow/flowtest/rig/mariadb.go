package rig

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MariaDB returns a database of the test's own, as go-sql-driver/mysql is given
// it, of a user who may do all; it is dropped at the end. The server may serve other
// tests too: they share its users, its binary log and its variables. NewMariaDB has
// none of that.
func MariaDB(t testing.TB) string {
	t.Helper()
	server := os.Getenv("FRAZIL_TEST_MARIADB")
	if server == "" {
		server = NewMariaDB(t).DSN("")
	}
	own, err := mysql.ParseDSN(server)
	if err != nil {
		t.Fatalf("FRAZIL_TEST_MARIADB: %v", err)
	}
	own.DBName = ownName()
	if err := mariaDo(t.Context(), server, "CREATE DATABASE "+own.DBName); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mariaDo(context.Background(), server, "DROP DATABASE "+own.DBName); err != nil {
			t.Error(err)
		}
	})
	return own.FormatDSN()
}

func mariaDo(ctx context.Context, server, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	db, err := sql.Open("mysql", server)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// MariaDBServer is a MariaDB server of one test's own. Its methods are called from
// one goroutine.
type MariaDBServer struct {
	// Addr is HOST:PORT, the same after each Start. root needs no password; TLS is there
	// for who asks for it.
	Addr string
	// CA is a file in PEM: whom a client that uses TLS trusts.
	CA string

	dir     string
	starts  int
	process *process
}

// NewMariaDB starts a server with its data in a folder of its own; it ends with the
// test. extra are further lines of its configuration.
func NewMariaDB(t testing.TB, extra ...string) *MariaDBServer {
	t.Helper()
	for _, program := range []string{"mariadbd", "mariadb-install-db"} {
		if _, err := debian(program); err != nil {
			missing(t, "MariaDB", "run ./test/install, or install the Debian packages mariadb-server-core and mariadb-client-core")
		}
	}
	m, err := newMariaDB(extra)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.end)
	return m
}

// Commits are written but not synced: servers are killed here, machines are not.
const mariaConf = `[mariadbd]
datadir = %[2]s/data
port = %[1]s
bind-address = 127.0.0.1
socket = %[2]s/socket
pid-file = %[2]s/pid
ssl-ca = %[2]s/ca.pem
ssl-cert = %[2]s/server.pem
ssl-key = %[2]s/server.key
server-id = 1001
log-bin = binlog
binlog_format = ROW
binlog_row_image = FULL
binlog_row_metadata = FULL
sync_binlog = 0
gtid_strict_mode = 1
innodb_buffer_pool_size = 64M
innodb_log_file_size = 16M
innodb_flush_log_at_trx_commit = 2
character-set-server = utf8mb4
default-time-zone = +00:00
`

func newMariaDB(extra []string) (*MariaDBServer, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	// Not in a folder of the test: the path of the socket must be short.
	dir, err := os.MkdirTemp("", "frazil-mariadb-")
	if err != nil {
		return nil, err
	}
	m := &MariaDBServer{Addr: addr(ports[0]), CA: filepath.Join(dir, "ca.pem"), dir: dir}
	conf := fmt.Sprintf(mariaConf, strconv.Itoa(ports[0]), dir)
	if os.Getuid() == 0 { // It would refuse.
		conf += "user = root\n"
	}
	if err := m.create(conf + strings.Join(extra, "\n") + "\n"); err != nil {
		return nil, fmt.Errorf("make a MariaDB server in %s: %w", dir, err)
	}
	if err := m.Start(); err != nil {
		m.end()
		return nil, err
	}
	return m, nil
}

// create lays the data folder.
func (m *MariaDBServer) create(conf string) error {
	if err := certificates(m.dir); err != nil {
		return err
	}
	if err := os.WriteFile(m.conf(), []byte(conf), 0o600); err != nil {
		return err
	}
	program, err := debian("mariadb-install-db")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	// Without the binary log, in which the making of the server is of no interest.
	cmd := exec.CommandContext(ctx, program, "--defaults-file="+m.conf(), "--skip-log-bin", "--auth-root-authentication-method=normal", "--skip-test-db")
	cmd.Dir = m.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	return nil
}

func (m *MariaDBServer) conf() string { return filepath.Join(m.dir, "my.cnf") }

// Config appends lines to the configuration, which hold from the next Start on. Of a
// setting that is there twice, the last counts.
func (m *MariaDBServer) Config(lines ...string) error { return appendLines(m.conf(), lines) }

// DSN names a database of the server, for root and without TLS; none if it is empty.
func (m *MariaDBServer) DSN(database string) string {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", m.Addr, database
	return c.FormatDSN()
}

// Start starts the server again on the data it has, and returns when it serves: after
// Kill, when it has recovered.
func (m *MariaDBServer) Start() error {
	if m.process != nil {
		return fmt.Errorf("MariaDB at %s runs already", m.Addr)
	}
	program, err := debian("mariadbd")
	if err != nil {
		return err
	}
	m.starts++
	run, err := launch("MariaDB", m.dir, filepath.Join(m.dir, "log."+strconv.Itoa(m.starts)), program, "--defaults-file="+m.conf())
	if err != nil {
		return err
	}
	m.process = run
	if err := run.wait(run.logs("ready for connections")); err != nil {
		m.Kill()
		return err
	}
	return nil
}

// Stop ends the server in good order (SIGTERM). Its data stays.
func (m *MariaDBServer) Stop() {
	if m.process != nil {
		m.process.stop()
		m.process = nil
	}
}

// Kill ends the server at once (SIGKILL). Its data stays, as after a crash.
func (m *MariaDBServer) Kill() {
	if m.process != nil {
		m.process.kill()
		m.process = nil
	}
}

// end is for when nobody needs the server any more, nor its data.
func (m *MariaDBServer) end() {
	m.Kill()
	_ = os.RemoveAll(m.dir)
}
