package rig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// login asks a broker for its topics.
func login(t *testing.T, address string, conf *tls.Config, mechanism sasl.Mechanism) error {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(address), kgo.RequestRetries(0)}
	if conf != nil {
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return client.Ping(t.Context())
}

func TestASecureBrokerLetsInWhoMayEnter(t *testing.T) {
	b := NewSecureBroker(t)
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(b.CA); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal("no certificate in", b.CA, err)
	}
	cert, err := tls.LoadX509KeyPair(b.Cert, b.Key)
	if err != nil {
		t.Fatal(err)
	}
	trusts, shows := &tls.Config{RootCAs: roots}, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}
	mechanisms := func(password string) map[string]sasl.Mechanism {
		s := scram.Auth{User: b.User, Pass: password}
		return map[string]sasl.Mechanism{"SCRAM-SHA-256": s.AsSha256Mechanism(), "SCRAM-SHA-512": s.AsSha512Mechanism(), "PLAIN": plain.Auth{User: b.User, Pass: password}.AsMechanism()}
	}
	for i, end := range []func(){func() {}, b.Kill} {
		if end(); i > 0 {
			if err := b.Start(); err != nil {
				t.Fatal(err)
			}
		}
		for name, m := range mechanisms(b.Password) {
			if err := login(t, b.TLSAddr, trusts, m); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, m := range mechanisms("wrong") {
		if err := login(t, b.TLSAddr, shows, m); !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s with a wrong password: %v", name, err)
		}
	}
	if err := login(t, b.TLSAddr, shows, mechanisms(b.Password)["PLAIN"]); err != nil {
		t.Error("with a certificate beside the password:", err)
	}
	var unknown x509.UnknownAuthorityError
	if err := login(t, b.TLSAddr, &tls.Config{}, mechanisms(b.Password)["PLAIN"]); !errors.As(err, &unknown) {
		t.Error("without trust:", err)
	}
	if err := login(t, b.CertAddr, shows, nil); err != nil {
		t.Error("with a certificate:", err)
	}
	if err := login(t, b.CertAddr, trusts, nil); err == nil {
		t.Error("came in without a certificate")
	}
	if err := login(t, b.Addr, nil, nil); err != nil {
		t.Error(err)
	}
}
