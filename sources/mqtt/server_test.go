package mqtt

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/codec"
	"frazil/dataflow/component"
)

// Every qos of a publisher, and what came while the source was away.
func TestMessagesOfEveryQoSBecomeRows(t *testing.T) {
	versions(t, func(t *testing.T, version string) {
		b := newBench(t)
		b.cfg.Version, b.cfg.QoS = version, 2
		b.cfg.Topics = []string{"t/{x}"}
		b.cfg.Metadata = Metadata{QoS: "q", Retained: "r", Redelivered: "d"}
		b.open()
		for q := range 3 {
			b.pub("t/a", fmt.Sprint("m", q), "-q", fmt.Sprint(q))
		}
		b.awaitRows(`{"line":"m0","x":"a","q":0,"r":false,"d":false}`, `{"line":"m1","x":"a","q":1,"r":false,"d":false}`, `{"line":"m2","x":"a","q":2,"r":false,"d":false}`)
		b.close()
		for q := 1; q < 3; q++ {
			b.pub("t/b", fmt.Sprint("away", q), "-q", fmt.Sprint(q))
		}
		b.open()
		b.await("what came meanwhile", func() bool { return len(b.rows) >= 5 })
		if got := b.rows[3:]; len(got) != 2 || !strings.Contains(got[0], "away1") || !strings.Contains(got[1], "away2") {
			t.Errorf("rows %q", b.rows)
		}
		if n := b.count("sessions_lost"); n != 0 {
			t.Errorf("%d sessions lost", n)
		}
	})
}

func TestPropertiesBecomeColumns(t *testing.T) {
	b := newBench(t)
	b.cfg.Metadata = Metadata{UserProperties: "u", ContentType: "ct", Expiry: "e", ResponseTopic: "rt", CorrelationData: "cd"}
	b.open()
	b.pub("t/a", "m", "-V", "mqttv5", "-q", "1", "-D", "publish", "user-property", "k", "v1", "-D", "publish", "user-property", "k", "v2",
		"-D", "publish", "content-type", "text/plain", "-D", "publish", "message-expiry-interval", "100",
		"-D", "publish", "response-topic", "back", "-D", "publish", "correlation-data", "xyz")
	b.pub("t/a", "n", "-q", "1")
	b.await("rows", func() bool { return len(b.rows) == 2 })
	want := `{"line":"m","u":[{"key":"k","value":"v1"},{"key":"k","value":"v2"}],"ct":"text/plain","e":100,"rt":"back","cd":"78797a"}`
	if got := strings.Replace(b.rows[0], `"e":99`, `"e":100`, 1); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := b.rows[1]; got != `{"line":"n","u":[],"ct":null,"e":null,"rt":null,"cd":null}` {
		t.Errorf("got %s", got)
	}
}

// Retained messages by policy; an empty payload is no record.
func TestRetained(t *testing.T) {
	versions(t, func(t *testing.T, version string) {
		for policy, want := range map[string][2]int{retainedSkip: {0, 0}, retainedFirst: {1, 1}, retainedKeep: {1, 2}} {
			b := newBench(t)
			b.cfg.Version, b.cfg.Retained = version, policy
			b.pub("t/kept", "old", "-r", "-q", "1")
			for i, n := range want {
				b.open()
				b.pub("t/new", fmt.Sprint("new", i), "-q", "1")
				b.await("the new message", func() bool { return slices.Contains(b.rows, fmt.Sprintf(`{"line":"new%d"}`, i)) })
				// The source reads from the log's beginning: the rows of both times.
				if got := len(slices.DeleteFunc(slices.Clone(b.rows), func(s string) bool { return s != `{"line":"old"}` })); got != n {
					t.Errorf("%s: %d retained rows after connection %d, want %d: %q", policy, got, i, n, b.rows)
				}
				if policy == retainedSkip && i == 0 && b.count("retained_skipped") != 1 {
					t.Errorf("%d retained messages were skipped, want 1", b.count("retained_skipped"))
				}
				b.close()
			}
		}
	})
}

func TestEmptyPayloadsAreNoRecords(t *testing.T) {
	b := newBench(t)
	b.open()
	b.broker.Pub(t, nil, "-t", "t/a", "-q", "1", "-r")
	b.pub("t/a", "m", "-q", "1")
	b.awaitRows(`{"line":"m"}`)
	if n := b.count("empty_skipped"); n != 1 {
		t.Errorf("%d were skipped, want 1", n)
	}
}

func TestTLSWithClientCertificateAndPassword(t *testing.T) {
	versions(t, func(t *testing.T, version string) {
		b := newBench(t)
		b.cfg.Version, b.cfg.Broker = version, "mqtts://"+b.broker.TLSAddr
		b.cfg.TLS = component.ClientTLS{CA: b.broker.CA, Cert: b.broker.Cert, Key: b.broker.Key}
		b.cfg.User, b.cfg.Password = b.broker.User, component.Secret(b.broker.Password)
		b.open()
		b.pub("t/a", "m", "-q", "1")
		b.awaitRows(`{"line":"m"}`)
		b.close()
		// A wrong password is told, without the password, and tried again.
		b.cfg.Password = "wrong-canary"
		srv, err := serve(b.env(), b.cfg)
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); !strings.Contains(b.log.String(), "not connected to the broker"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("nothing is said of the wrong password")
			}
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if strings.Contains(b.log.String(), "canary") || strings.Contains(b.log.String(), b.broker.Password) {
			t.Error("the log holds a password")
		}
	})
	b := newBench(t)
	b.cfg.Broker = "mqtts://" + b.broker.TLSAddr
	b.cfg.TLS.CA = "nowhere.pem"
	if _, err := serve(b.env(), b.cfg); err == nil || !strings.Contains(err.Error(), "nowhere.pem") {
		t.Errorf("got %v", err)
	}
}

// A shared subscription: each message comes once, to one of the connections.
func TestSharedSubscription(t *testing.T) {
	b := newBench(t)
	b.cfg.Share, b.cfg.Connections = "g", 3
	b.open()
	var want []string
	for i := range 30 {
		b.pub("t/a", fmt.Sprintf("m%02d", i), "-q", "1")
		want = append(want, fmt.Sprintf(`{"line":"m%02d"}`, i))
	}
	b.await("rows", func() bool { return len(b.rows) >= len(want) })
	slices.Sort(b.rows)
	if !slices.Equal(b.rows, want) {
		t.Errorf("rows %q", b.rows)
	}
}

// Another client with the same id is reported, and not fought.
func TestATakeoverIsToldAndNotFought(t *testing.T) {
	b := newBench(t)
	b.open()
	other := newBench(t)
	other.broker, other.cfg.Broker = b.broker, b.cfg.Broker
	other.open()
	b.await("the takeover", func() bool { return b.count("sessions_taken_over") == 1 })
	if got := b.srv.StreamStats().Trouble; len(got) != 1 || !strings.Contains(got[0], "another client uses the client id") {
		t.Errorf("trouble %q", got)
	}
	if d := b.srv.links[0].delay(); d != minTaken {
		t.Errorf("the next try is after %s, want %s", d, minTaken)
	}
	other.pub("t/a", "m", "-q", "1")
	other.awaitRows(`{"line":"m"}`)
}

// A broker that grants less, or nothing.
func TestWhatTheBrokerDoesNotGrantIsTold(t *testing.T) {
	b := newBench(t)
	b.cfg.Topics = []string{"t/a", "t/b"}
	b.open()
	b.srv.links[0].subscribed([]byte{0, 0x87})
	if got := b.srv.StreamStats().Trouble; len(got) != 2 || !strings.Contains(got[0], "granted qos 0") || !strings.Contains(got[1], "refused the filter \"t/b\" (reason 0x87)") {
		t.Errorf("trouble %q", got)
	}
}

// Filters that are no longer in the file are unsubscribed.
func TestOldFiltersAreUnsubscribed(t *testing.T) {
	versions(t, func(t *testing.T, version string) {
		b := newBench(t)
		b.cfg.Version, b.cfg.Topics = version, []string{"t/a", "t/b"}
		b.open()
		b.close()
		b.cfg.Topics = []string{"t/b"}
		b.open()
		b.pub("t/a", "no", "-q", "1")
		b.pub("t/b", "yes", "-q", "1")
		b.awaitRows(`{"line":"yes"}`)
	})
}

func TestStatusIsPublished(t *testing.T) {
	b := newBench(t)
	b.cfg.Status = &StatusConfig{}
	b.cfg.Status.SetDefaults()
	b.cfg.Status.Topic = "st"
	b.open()
	b.broker.Await(t, "st", "online")
	b.close()
	b.broker.Await(t, "st", "offline")
}

func TestCompressedPayloads(t *testing.T) {
	b := newBench(t)
	b.cfg.Compression, b.cfg.MaxPayload = compressionAuto, 1000
	b.open()
	b.pub("t/a", string(gzipped(t, []byte("in gzip"))), "-q", "1")
	b.pub("t/a", string(zstded(t, []byte("in zstd"))), "-q", "1")
	b.pub("t/a", "plain", "-q", "1")
	b.pub("t/a", string(zstded(t, make([]byte, 1<<20))), "-q", "1")
	b.await("all", func() bool { return len(b.rows)+len(b.bad) == 4 })
	if want := []string{`{"line":"in gzip"}`, `{"line":"in zstd"}`, `{"line":"plain"}`}; !slices.Equal(b.rows, want) || len(b.bad) != 1 || !strings.Contains(b.bad[0], "too_large") {
		t.Errorf("rows %q, bad %q", b.rows, b.bad)
	}
}

// Births outlast a restart; without one the node is asked.
func TestSparkplugThroughARestart(t *testing.T) {
	text, err := os.ReadFile("../../dataflow/codec/testdata/sparkplug/payloads.txt")
	if err != nil {
		t.Fatal(err)
	}
	payloads := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if parts := strings.Fields(line); parts[0] != "#" {
			raw, err := hex.DecodeString(parts[2])
			if err != nil {
				t.Fatal(err)
			}
			payloads[parts[1]] = string(raw)
		}
	}
	b := newBench(t)
	b.cfg.Topics = []string{"spBv1.0/#"}
	b.decode = codec.Config{Sparkplug: &codec.SparkplugConfig{}}
	b.decode.Sparkplug.SetDefaults()
	b.open()
	const birth, data = "spBv1.0/G1/NBIRTH/N1", "spBv1.0/G1/NDATA/N1"
	b.pub(data, payloads[data], "-q", "1")
	b.await("that the node is asked", func() bool {
		return len(b.bad) == 1 && b.count("rebirths_asked") == 1 && b.count("sparkplug_ignored") == 1
	})
	if len(b.rows) != 0 || len(b.bad) != 1 || !strings.Contains(b.bad[0], "no_birth") {
		t.Fatalf("rows %q, bad %q", b.rows, b.bad)
	}
	b.pub(birth, payloads[birth], "-q", "1")
	b.await("the birth", func() bool { return len(b.rows) == 15 })
	b.close()
	b.open()
	b.pub(data, payloads[data], "-q", "1")
	b.await("the data", func() bool { return len(b.rows) == 20 })
	if got := b.rows[15]; !strings.Contains(got, `"message":"NDATA"`) || !strings.Contains(got, `"metric":"temp","type":"Int32","value_int":-13`) {
		t.Errorf("got %s", got)
	}
	if len(b.bad) != 1 || b.count("rebirths_asked") != 0 {
		t.Errorf("bad %q, asked %d", b.bad, b.count("rebirths_asked"))
	}
}
