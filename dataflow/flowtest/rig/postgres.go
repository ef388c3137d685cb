package rig

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres returns the URL of a database of the test's own, whose user may do
// all; it is dropped at the end with its replication slots and connections. The
// server may serve other tests too: they share its roles, its log (wal_level is
// logical) and its transaction ids, so that a long transaction of one holds back
// the horizon of all. NewPostgres has none of that.
func Postgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv("FRAZIL_TEST_POSTGRES")
	if server == "" {
		server = NewPostgres(t).URL("postgres")
	}
	name := ownName()
	own, err := url.Parse(server)
	if err != nil {
		t.Fatalf("FRAZIL_TEST_POSTGRES: %v", err)
	}
	own.Path = "/" + name
	ctx, cancel := context.WithTimeout(t.Context(), readyWithin)
	defer cancel()
	if err := postgresDo(ctx, server, "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
		defer cancel()
		if err := dropDatabase(ctx, server, name); err != nil {
			t.Error(err)
		}
	})
	return own.String()
}

func postgresDo(ctx context.Context, server, statement string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// dropDatabase tries until it is gone: whoever holds a slot is ended, and lets go
// of it a moment later.
func dropDatabase(ctx context.Context, server, name string) error {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("drop the database %s: %w", name, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := conn.Exec(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = $1 AND active", name)
		if err == nil {
			_, err = conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = $1", name)
		}
		if err == nil {
			_, err = conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		}
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("drop the database %s: %w", name, err)
		}
		if conn.IsClosed() {
			return fmt.Errorf("drop the database %s: %w", name, err)
		}
	}
}

// PostgresServer is a PostgreSQL server of one test's own. Its methods are called
// from one goroutine.
type PostgresServer struct {
	// Addr is HOST:PORT, the same after each Start. Everyone is trusted, with TLS and
	// without, but for members of the role by_password, if the test makes one: these
	// give their password (SCRAM).
	Addr string
	// CA is a file in PEM: whom a client that uses TLS trusts.
	CA string

	programs, dir string
	as            *syscall.Credential
	starts        int
	process       *process
	// ready is what the log says when it serves; "" is that of a primary.
	ready string
}

// NewPostgres starts a server with its data in a folder of its own; it ends with
// the test. extra are further lines of its configuration.
func NewPostgres(t testing.TB, extra ...string) *PostgresServer {
	t.Helper()
	if _, err := postgresPrograms(); err != nil {
		missing(t, "PostgreSQL", "run ./test/install, or install the Debian package postgresql")
	}
	p, err := newPostgres(extra)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

// postgresPrograms finds the folder of postgres and initdb, which Debian keeps off
// the path; that of the newest version where there are several.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no initdb on the path or in /usr/lib/postgresql")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// Nothing is synced: servers are killed here, machines are not. Shared memory is in
// the data folder, so that a killed server leaves none in the system.
const postgresConf = `
listen_addresses = '127.0.0.1'
port = %[1]s
unix_socket_directories = ''
ssl = on
ssl_ca_file = '%[2]s/ca.pem'
ssl_cert_file = '%[2]s/server.pem'
ssl_key_file = '%[2]s/server.key'
wal_level = logical
max_wal_senders = 20
max_replication_slots = 20
max_prepared_transactions = 10
fsync = off
shared_buffers = 64MB
dynamic_shared_memory_type = mmap
`

const postgresHBA = `host all +by_password all scram-sha-256
host all all all trust
host replication all all trust
`

func newPostgres(extra []string) (*PostgresServer, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	as, err := postgresUser()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	// Not in a folder of the test: others than us may not pass through that.
	dir, err := os.MkdirTemp("", "frazil-postgres-")
	if err != nil {
		return nil, err
	}
	p := &PostgresServer{Addr: addr(ports[0]), CA: filepath.Join(dir, "ca.pem"), programs: programs, dir: dir, as: as}
	if err := p.create(strconv.Itoa(ports[0]), extra); err != nil {
		return nil, fmt.Errorf("make a PostgreSQL server in %s: %w", dir, err)
	}
	if err := p.Start(); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// postgresUser is who runs the server: it refuses to run as root.
func postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// create lays the data folder.
func (p *PostgresServer) create(port string, extra []string) error {
	if err := certificates(p.dir); err != nil {
		return err
	}
	if err := p.handOver(p.dir, "ca.pem", "server.pem", "server.key"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.programs, "initdb"), "-D", p.data(), "-U", "postgres", "--auth=trust", "-E", "UTF8",
		"--locale=C.UTF-8", "--no-sync", "--no-instructions")
	cmd.Dir, cmd.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: p.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(p.data(), "pg_hba.conf"), []byte(postgresHBA), 0o600); err != nil {
		return err
	}
	return p.Config(append([]string{fmt.Sprintf(postgresConf, port, p.dir)}, extra...)...)
}

// handOver gives the folder and files in it to who runs the server.
func (p *PostgresServer) handOver(dir string, files ...string) error {
	if p.as == nil {
		return nil
	}
	for _, f := range append(files, ".") {
		if err := os.Lchown(filepath.Join(dir, f), int(p.as.Uid), int(p.as.Gid)); err != nil {
			return err
		}
	}
	return nil
}

func (p *PostgresServer) data() string { return filepath.Join(p.dir, "data") }

// Config appends lines to postgresql.conf, which hold from the next Start on. Of a
// setting that is there twice, the last counts.
func (p *PostgresServer) Config(lines ...string) error {
	return appendLines(filepath.Join(p.data(), "postgresql.conf"), lines)
}

// URL names a database of the server, for its superuser and without TLS.
func (p *PostgresServer) URL(database string) string {
	return "postgres://postgres@" + p.Addr + "/" + url.PathEscape(database) + "?sslmode=disable"
}

// Start starts the server again on the data it has, and returns when it serves: after
// Kill, when it has recovered.
func (p *PostgresServer) Start() error {
	if p.process != nil {
		return fmt.Errorf("PostgreSQL at %s runs already", p.Addr)
	}
	p.starts++
	// When we die it is told to end at once, not killed: it ends its children, too.
	child := &syscall.SysProcAttr{Credential: p.as, Pdeathsig: syscall.SIGQUIT}
	run, err := launchAs(child, "PostgreSQL", p.dir, filepath.Join(p.dir, "log."+strconv.Itoa(p.starts)), filepath.Join(p.programs, "postgres"), "-D", p.data())
	if err != nil {
		return err
	}
	p.process = run
	ready := p.ready
	if ready == "" {
		ready = "database system is ready to accept connections"
	}
	if err := run.wait(run.logs(ready)); err != nil {
		p.Kill()
		return err
	}
	return nil
}

// Stop ends the server in good order: transactions are rolled back, connections
// closed (a fast shutdown). Its data stays.
func (p *PostgresServer) Stop() {
	if p.process != nil {
		p.process.signal(syscall.SIGINT)
		p.ended()
	}
}

// ended waits for the end of the server, and kills it if that takes long.
func (p *PostgresServer) ended() {
	select {
	case <-p.process.done:
		p.process = nil
	case <-time.After(stopWithin):
		p.Kill()
	}
}

// Kill ends the server and all its children at once (SIGKILL), and returns when they
// are gone. Its data stays, as after a crash.
func (p *PostgresServer) Kill() {
	if p.process == nil {
		return
	}
	// Stopped, it neither starts a child nor buries one: pids stay what they are. The
	// signal is sent, and it stops a moment later.
	pid := p.process.cmd.Process.Pid
	p.process.signal(syscall.SIGSTOP)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(stopWithin); running(pid) && !stopped(pid) && time.Now().Before(limit); {
		<-tick.C
	}
	children := childrenOf(pid)
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	p.process.kill()
	p.process = nil
	// Until they have let go of the shared memory, the next start refuses.
	for limit := time.Now().Add(stopWithin); slices.ContainsFunc(children, running) && time.Now().Before(limit); {
		<-tick.C
	}
}

// end is for when nobody needs the server any more, nor its data.
func (p *PostgresServer) end() {
	if p.process != nil {
		p.process.signal(syscall.SIGQUIT)
		p.ended()
	}
	_ = os.RemoveAll(p.dir)
}
