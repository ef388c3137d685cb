package http

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// certificates are read again when their files change.
type certificates struct {
	cert, key, ca string
	log           *slog.Logger

	mu    sync.Mutex
	stamp string
	cfg   *tls.Config
}

func loadCertificates(c TLS, dir string, log *slog.Logger) (*certificates, error) {
	at := func(p string) string {
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	out := &certificates{cert: at(c.Cert), key: at(c.Key), ca: at(c.ClientCA), log: log}
	var err error
	out.stamp = out.state()
	out.cfg, err = out.read()
	return out, err
}

// state tells versions of the files apart.
func (c *certificates) state() string {
	out := ""
	for _, p := range []string{c.cert, c.key, c.ca} {
		if p == "" {
			continue
		}
		if i, err := os.Stat(p); err == nil {
			out += fmt.Sprintf("%s %d %s;", p, i.Size(), i.ModTime().Format(time.RFC3339Nano))
		}
	}
	return out
}

func (c *certificates) read() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, fmt.Errorf("tls: read the certificate: %w", err)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if c.ca == "" {
		return cfg, nil
	}
	pem, err := os.ReadFile(c.ca)
	if err != nil {
		return nil, fmt.Errorf("tls: read client_ca: %w", err)
	}
	cfg.ClientCAs, cfg.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: client_ca %s: expected certificates as PEM, got none", c.ca)
	}
	return cfg, nil
}

// config asks for each connection what the files say now. Files that cannot be
// read are not used: those before them stay.
func (c *certificates) config() *tls.Config {
	out := c.cfg.Clone()
	out.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		stamp := c.state()
		if stamp == c.stamp {
			return c.cfg, nil
		}
		c.stamp = stamp
		cfg, err := c.read()
		if err != nil {
			c.log.Error("the new certificate is not used", "error", err)
			return c.cfg, nil
		}
		c.cfg = cfg
		c.log.Info("the certificate was read again", "file", c.cert)
		return c.cfg, nil
	}
	return out
}
