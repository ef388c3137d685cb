package component

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
)

// ClientTLS says whom a client trusts and who it is. Paths are relative to the pipeline
// file.
type ClientTLS struct {
	// CA is a file of certificates in PEM that the server's must come from. Default:
	// those of the machine.
	CA string `yaml:"ca"`
	// Cert is the file of our own certificate in PEM. Default: none.
	Cert string `yaml:"cert"`
	// Key is the file of its private key in PEM. Default: none.
	Key string `yaml:"key"`
	// ServerName is the name that the server's certificate must have. Default: the
	// host that is connected to.
	ServerName string `yaml:"server_name"`
}

// Config reads the files, relative to dir. ServerName is "" unless it is set.
func (c ClientTLS) Config(dir string) (*tls.Config, error) {
	out := &tls.Config{ServerName: c.ServerName, MinVersion: tls.VersionTLS12}
	at := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	if c.CA != "" {
		pem, err := os.ReadFile(at(c.CA))
		if err != nil {
			return nil, fmt.Errorf("read tls.ca: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca %s holds no certificate in PEM", c.CA)
		}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(at(c.Cert), at(c.Key))
		if err != nil {
			return nil, fmt.Errorf("read tls.cert and tls.key: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Check finds what is wrong with the settings by themselves; path is where they stand.
func (c ClientTLS) Check(path string) Problems {
	if (c.Cert == "") != (c.Key == "") {
		return Problems{{Path: path, Msg: "cert and key belong together: write both or none"}}
	}
	return nil
}
