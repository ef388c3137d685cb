package kafka

import (
	"errors"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/brokers"
	"frazil/dataflow/component"
	servers "frazil/dataflow/flowtest/rig"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Brokers with TLS and logins are read by each mechanism, and a refusal is said at once.
func TestTLSAndLogins(t *testing.T) {
	b := servers.NewSecureBroker(t)
	r := brokerRig(t, []string{b.Addr})
	topic := r.fresh(1, nil)
	r.put(r.newClient(), topic, 0, "one", "two")
	login := func(mechanism, password string) *brokers.SASL {
		return &brokers.SASL{Mechanism: mechanism, User: b.User, Password: component.Secret(password)}
	}
	tls := &component.ClientTLS{CA: b.CA}
	for name, c := range map[string]struct {
		addr    string
		tls     *component.ClientTLS
		sasl    *brokers.SASL
		refused string
	}{
		"SCRAM-SHA-256":  {addr: b.TLSAddr, tls: tls, sasl: login("SCRAM-SHA-256", b.Password)},
		"SCRAM-SHA-512":  {addr: b.TLSAddr, tls: tls, sasl: login("SCRAM-SHA-512", b.Password)},
		"PLAIN":          {addr: b.TLSAddr, tls: tls, sasl: login("PLAIN", b.Password)},
		"a certificate":  {addr: b.CertAddr, tls: &component.ClientTLS{CA: b.CA, Cert: b.Cert, Key: b.Key}},
		"wrong password": {addr: b.TLSAddr, tls: tls, sasl: login("SCRAM-SHA-512", "wrong"), refused: "SASL_AUTHENTICATION_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			r := brokerRig(t, []string{b.Addr})
			cfg := r.config(topic)
			cfg.Brokers, cfg.TLS, cfg.SASL = []string{c.addr}, c.tls, c.sasl
			s := r.source(cfg)
			splits, err := s.Discover(t.Context())
			if c.refused != "" {
				if !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v, want %s", err, c.refused)
				}
				return
			}
			if err != nil || len(splits) != 1 {
				t.Fatal(splits, err)
			}
			want(t, "rows", r.bounded(s)[splits[0]].rows, []string{"0=one", "1=two"})
		})
	}
}

// Topics by a pattern: those that exist, and those that are made later; names must match
// as a whole.
func TestTopicsByAPattern(t *testing.T) {
	r := realRig(t)
	base := r.fresh(1, nil)
	for _, suffix := range []string{"-a", "-b", "-bb", "-other"} {
		r.create(base+suffix, 1, nil)
	}
	cfg := r.config(base)
	cfg.TopicPattern = base + "-(a|b)"
	s := r.source(cfg)
	discovered := func(want ...string) {
		t.Helper()
		// A broker knows of a topic a moment after it was made.
		for deadline := time.Now().Add(time.Minute); ; {
			splits, err := s.Discover(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, sp := range splits {
				got = append(got, strings.TrimPrefix(string(sp), base))
			}
			if strings.Join(got, " ") == strings.Join(want, " ") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("found %v, want %v", got, want)
			}
		}
	}
	discovered("-a/0", "-b/0", "/0")
	cfg.TopicPattern = base + "-.+"
	s = r.source(cfg)
	discovered("-a/0", "-b/0", "-bb/0", "-other/0", "/0")
	r.create(base+"-new", 2, nil)
	discovered("-a/0", "-b/0", "-bb/0", "-new/0", "-new/1", "-other/0", "/0")
}

// The start is at the first record whose timestamp is not before the time; where there is
// none, at the end.
func TestStartAtATime(t *testing.T) {
	r := realRig(t)
	topic := r.fresh(3, nil)
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	c := r.newClient()
	for i := range 6 {
		for part := range int32(2) {
			// Partition 1 ends before the time.
			stamp := at.Add(time.Duration(i-3)*time.Minute - time.Duration(part)*time.Hour)
			r.putRecord(c, &kgo.Record{Topic: topic, Partition: part, Timestamp: stamp, Value: []byte{byte('a' + i)}})
		}
	}
	cfg := r.config(topic)
	cfg.Start = "2026-03-01T11:00:00+01:00"
	s := r.source(cfg)
	splits, err := s.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	starts, err := s.Start(t.Context(), splits)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{3, 6, 0} {
		p, err := parsePosition(starts[splits[i]])
		if err != nil || p.offset != want {
			t.Errorf("%s begins at %d, want %d (%v)", splits[i], p.offset, want, err)
		}
	}
}
