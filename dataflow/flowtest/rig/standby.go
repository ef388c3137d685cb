package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Standby starts a server that follows p, which must run, and answers queries. It ends
// with the test.
func (p *PostgresServer) Standby(t testing.TB) *PostgresServer {
	t.Helper()
	s, err := p.standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

func (p *PostgresServer) standby() (*PostgresServer, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "frazil-postgres-")
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{Addr: addr(ports[0]), CA: p.CA, programs: p.programs, dir: dir, as: p.as, ready: "database system is ready to accept read-only connections"}
	err = s.follow(p, ports[0])
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		s.end()
		return nil, fmt.Errorf("make a standby of PostgreSQL at %s: %w", p.Addr, err)
	}
	return s, nil
}

// follow copies the data of p and sets it up to follow.
func (p *PostgresServer) follow(from *PostgresServer, port int) error {
	if err := p.handOver(p.dir); err != nil {
		return err
	}
	host, fromPort, err := net.SplitHostPort(from.Addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	program, err := p.program("pg_basebackup")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-D", p.data(), "-h", host, "-p", fromPort, "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = p.dir, &syscall.SysProcAttr{Credential: p.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	return p.Config("port = " + strconv.Itoa(port))
}

// program finds one that belongs to the server's version, beside the others or where they
// really are.
func (p *PostgresServer) program(name string) (string, error) {
	path := filepath.Join(p.programs, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	real, err := filepath.EvalSymlinks(filepath.Join(p.programs, "initdb"))
	if err != nil {
		return "", err
	}
	path = filepath.Join(filepath.Dir(real), name)
	_, err = os.Stat(path)
	return path, err
}
