package rig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// SecureBroker is a Kafka broker with listeners of three kinds. Its Addr asks for
// nothing, for what a test does beside.
type SecureBroker struct {
	*Broker

	// TLSAddr is HOST:PORT of a listener with TLS that asks for User and Password, by
	// SCRAM-SHA-256, SCRAM-SHA-512 or PLAIN. It takes a client certificate, and does
	// without.
	TLSAddr        string
	User, Password string
	// CertAddr is HOST:PORT of a listener with TLS that knows clients by their
	// certificate, and refuses those who have none.
	CertAddr string
	// CA, Cert and Key are files in PEM: whom to trust, and a client's own.
	CA, Cert, Key string
}

// Its certificates are good for 127.0.0.1 and localhost.
const secureProperties = `listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s,SASL_SSL://%[3]s,SSL://%[4]s
advertised.listeners=PLAINTEXT://%[1]s,SASL_SSL://%[3]s,SSL://%[4]s
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%[5]s="%[6]s";
ssl.keystore.type=PEM
ssl.keystore.location=keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location=ca.pem
listener.name.sasl_ssl.ssl.client.auth=requested
listener.name.ssl.ssl.client.auth=required
`

// NewSecureBroker starts a broker with its data in a folder of the test; it ends with
// the test.
func NewSecureBroker(t testing.TB) *SecureBroker {
	t.Helper()
	if _, err := installed("kafka", "lib"); err != nil {
		missing(t, "Kafka broker", "run ./test/install")
	}
	b, err := newSecureBroker(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Kill)
	ctx, cancel := context.WithTimeout(t.Context(), readyWithin)
	defer cancel()
	if err := b.addUser(ctx); err != nil {
		t.Fatalf("make the user of the broker at %s: %v", b.Addr, err)
	}
	return b
}

func newSecureBroker(dir string) (*SecureBroker, error) {
	if err := certificates(dir); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	// Kafka wants the server's key and certificate in one file.
	key, err := os.ReadFile(filepath.Join(dir, "server.key"))
	if err != nil {
		return nil, err
	}
	cert, err := os.ReadFile(filepath.Join(dir, "server.pem"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "keystore.pem"), append(key, cert...), 0o600); err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	b := &SecureBroker{
		TLSAddr: addr(ports[0]), CertAddr: addr(ports[1]), User: "frazil", Password: "very-secret",
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "client.pem"), Key: filepath.Join(dir, "client.key"),
	}
	b.Broker, err = layBroker(dir, func(address, controller string) string {
		return fmt.Sprintf(secureProperties, address, controller, b.TLSAddr, b.CertAddr, b.User, b.Password)
	})
	if err != nil {
		return nil, err
	}
	return b, b.Start()
}

// addUser makes the user known to SCRAM; PLAIN has it from the configuration.
func (b *SecureBroker) addUser(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} { // One request names a user once.
		up := kadm.UpsertSCRAM{User: b.User, Mechanism: m, Iterations: 4096, Password: b.Password}
		altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{up})
		if err := errors.Join(err, altered.Error()); err != nil {
			return err
		}
	}
	return b.knowsUser(ctx)
}

// knowsUser waits until both mechanisms let the user in: a broker hears of it a moment
// after its controller.
func (b *SecureBroker) knowsUser(ctx context.Context) error {
	text, err := os.ReadFile(b.CA)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	user := scram.Auth{User: b.User, Pass: b.Password}
	for _, m := range []sasl.Mechanism{user.AsSha256Mechanism(), user.AsSha512Mechanism()} {
		client, err := kgo.NewClient(kgo.SeedBrokers(b.TLSAddr), kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(m))
		if err != nil {
			return err
		}
		defer client.Close()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for err = client.Ping(ctx); err != nil; err = client.Ping(ctx) {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return err
			}
		}
	}
	return nil
}
