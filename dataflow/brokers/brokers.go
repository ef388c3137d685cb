// Package brokers is what the Kafka source and the Kafka sink have in common: where the
// brokers are, how they are spoken to, and which of their errors no retry changes.
// Start to read at [Config].
package brokers

import (
	"errors"
	"fmt"
	"net"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Config says where brokers are and who we are to them. It stands inline in a
// component's config.
type Config struct {
	// Brokers to ask first, as host:port. The others are learned from them.
	Brokers []string `yaml:"brokers,required"`
	// TLS makes connections encrypted; tls: {} trusts the authorities of the machine.
	// Default: none.
	TLS *component.ClientTLS `yaml:"tls"`
	// SASL is how to log in. Default: not at all.
	SASL *SASL `yaml:"sasl"`
	// ClientID is what brokers see in their logs and quotas. Default: frazil.
	ClientID string `yaml:"client_id"`
}

// SASL is a login.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism string `yaml:"mechanism,required" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"`
	// User to log in as.
	User string `yaml:"user,required"`
	// Password of the user.
	Password component.Secret `yaml:"password,required"`
}

// Default returns the defaults.
func Default() Config { return Config{ClientID: "frazil"} }

// Check finds what is wrong with the settings by themselves.
func (c Config) Check() component.Problems {
	var out component.Problems
	if len(c.Brokers) == 0 {
		out = append(out, component.Problem{Path: "brokers", Msg: "no broker: write at least one host:port"})
	}
	for i, b := range c.Brokers {
		if _, port, err := net.SplitHostPort(b); err != nil || port == "" {
			out = append(out, component.Problem{Path: fmt.Sprintf("brokers[%d]", i), Msg: fmt.Sprintf("broker %q: expected host:port, as localhost:9092", b)})
		}
	}
	if c.TLS != nil {
		out = append(out, c.TLS.Check("tls")...)
	}
	if c.SASL != nil && c.SASL.Mechanism == "PLAIN" && c.TLS == nil {
		out = append(out, component.Problem{Path: "sasl.mechanism", Msg: "PLAIN sends the password as it is, and the connection is not encrypted: write tls: {} beside sasl, or use SCRAM-SHA-512"})
	}
	return out
}

// Options are the client's settings; files are relative to dir. An error is permanent.
func (c Config) Options(dir string) ([]kgo.Opt, error) {
	out := []kgo.Opt{kgo.SeedBrokers(c.Brokers...), kgo.ClientID(c.ClientID), kgo.DisableClientMetrics()}
	if c.TLS != nil {
		cfg, err := c.TLS.Config(dir)
		if err != nil {
			return nil, dataflow.Permanent(err)
		}
		out = append(out, kgo.DialTLSConfig(cfg))
	}
	if s := c.SASL; s != nil {
		switch user, pass := s.User, s.Password.Reveal(); s.Mechanism {
		case "PLAIN":
			out = append(out, kgo.SASL(plain.Auth{User: user, Pass: pass}.AsMechanism()))
		case "SCRAM-SHA-256":
			out = append(out, kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha256Mechanism()))
		default:
			out = append(out, kgo.SASL(scram.Auth{User: user, Pass: pass}.AsSha512Mechanism()))
		}
	}
	return out, nil
}

// refusals are errors of brokers that no retry changes.
var refusals = []*kerr.Error{
	kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.GroupAuthorizationFailed,
	kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.InvalidTopicException,
}

// IsRefusal says whether err is a refusal of a broker that no retry changes.
func IsRefusal(err error) bool {
	for _, e := range refusals {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// ValidTopic is Kafka's own rule for names.
func ValidTopic(t string) bool {
	if t == "" || t == "." || t == ".." || len(t) > 249 {
		return false
	}
	for i := range len(t) {
		r := t[i]
		if !(r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return true
}
