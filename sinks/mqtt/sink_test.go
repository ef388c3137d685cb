package mqtt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

func TestEachPartOfAMessageComesFromItsExpression(t *testing.T) {
	p := newPlace(t)
	p.subscribe()
	p.cfg.Topic, p.cfg.Payload, p.cfg.Retain, p.cfg.QoS = "plants/{plant}/alarms", "raw", "hot", 2
	p.cfg.UserProperties = component.NamedExprs{{Name: "id", Expr: "id"}, {Name: "none", Expr: "nullif(id, 1)"}}
	p.cfg.ContentType, p.cfg.Expiry = "application/x", component.Duration(time.Hour)
	c, bad := p.stage(alarms, 1, `[
		{"id": 1, "plant": "north", "hot": true, "raw": "AAEC"}, {"id": 2, "plant": "a/b", "hot": false, "raw": null}, {"id": 3, "plant": null, "hot": null, "raw": null},
		{"id": 4, "plant": "#", "hot": null, "raw": null}]`)
	same(t, "bad rows", bad, []string{
		"invalid_topic: plant is null, and the topic is made of it",
		`invalid_topic: topic "plants/#/alarms": the characters + and # are for those who subscribe, and U+0000 for nobody`,
	})
	must(t, p.committer().Commit(t.Context(), c))
	same(t, "messages", p.messages(), []string{"plants/north/alarms \x00\x01\x02", "plants/a/b/alarms "})
	m := p.take()[0]
	if got := fmt.Sprint(m.Properties.User); got != "[{id 1}]" || m.Properties.ContentType != "application/x" || m.Properties.MessageExpiry == nil || *m.Properties.MessageExpiry > 3600 || m.QoS != 2 {
		t.Errorf("%+v %+v", m, m.Properties)
	}
	// What is retained comes to those who subscribe later, and nothing else.
	late := &place{t: t, broker: p.broker}
	late.subscribe()
	same(t, "retained", late.messages(), []string{"plants/north/alarms \x00\x01\x02"})
}

// numbers are rows of alarms.
func numbers(from, to int) string {
	var rows []string
	for i := from; i < to; i++ {
		rows = append(rows, fmt.Sprintf(`{"id": %d, "plant": "p%d", "hot": null, "raw": null}`, i, i%10))
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func TestMessagesComeInOrder(t *testing.T) {
	p := newPlace(t)
	p.subscribe()
	p.cfg.Payload, p.cfg.InFlight = "id", 50
	k := p.committer()
	var want []string
	for qos := range 3 {
		p.cfg.QoS = qos
		k = p.committer()
		c, _ := p.stage(alarms, qos+1, numbers(qos*1000, qos*1000+1000))
		must(t, k.Commit(t.Context(), c))
		for i := range 1000 {
			want = append(want, fmt.Sprint("t ", qos*1000+i))
		}
	}
	same(t, "messages", p.messages(), want)
}

// The broker is stopped in the middle, and comes back: nothing is lost, and what was
// acknowledged long before is not sent again.
func TestABrokerThatGoesAndComesBack(t *testing.T) {
	p := newPlace(t)
	p.cfg.Payload, p.cfg.InFlight = "id", 5
	c, _ := p.stage(alarms, 1, numbers(0, 2000))
	k := p.committer()
	p.broker.Stop()
	if err := k.Commit(t.Context(), c); !errors.Is(err, dataflow.ErrUnavailable) {
		t.Fatalf("a broker that is away: %v", err)
	}
	must(t, p.broker.Start())
	p.subscribe()
	n := 0
	p.env.Now = func() time.Time { // Called for each message that is acknowledged.
		if n++; n == 1000 {
			p.broker.Stop()
		}
		return time.Now()
	}
	if err := k.Commit(t.Context(), c); !errors.Is(err, dataflow.ErrUnavailable) {
		t.Fatalf("a broker that goes: %v", err)
	}
	must(t, p.broker.Start())
	before := map[string]bool{}
	for _, m := range p.take() {
		before[string(m.Payload)] = true
	}
	p.subscribe()
	must(t, p.committer().Commit(t.Context(), c))
	again := 0
	for _, m := range p.messages() {
		if id := strings.TrimPrefix(m, "t "); before[id] {
			again++
		} else {
			before[id] = true
		}
	}
	for i := range 2000 {
		if !before[fmt.Sprint(i)] {
			t.Errorf("%d did not come", i)
		}
	}
	if again > 20 || len(before) != 2000 {
		t.Errorf("%d messages came again, and %d in all", again, len(before))
	}
}

func TestMessagesThatAreTooLargeAreRefused(t *testing.T) {
	p := newPlace(t, "max_packet_size 1000")
	p.subscribe()
	p.cfg.Payload = "repeat('x', cast(id as int32))"
	c, bad := p.stage(alarms, 1, `[{"id": 10, "plant": "", "hot": null, "raw": null}, {"id": 5000, "plant": "", "hot": null, "raw": null}, {"id": 3, "plant": "", "hot": null, "raw": null}]`)
	same(t, "bad rows", bad, nil)
	must(t, p.committer().Commit(t.Context(), c))
	same(t, "messages", p.messages(), []string{"t " + strings.Repeat("x", 10), "t xxx"})
	same(t, "refused", p.refused(), []string{"1 too_large the message is too large (reason 0x95) t"})
}

func TestWhatTheBrokerDoesNotAllowEndsThePipeline(t *testing.T) {
	acl := filepath.Join(t.TempDir(), "acl")
	must(t, os.WriteFile(acl, []byte("user frazil\ntopic write open/#\n"), 0o600))
	p := newPlace(t, "acl_file "+acl) // Of the listener with TLS.
	p.login()
	p.cfg.Topic, p.cfg.Payload = "{plant}", "id"
	c, _ := p.stage(alarms, 1, `[{"id": 1, "plant": "open/a", "hot": null, "raw": null}, {"id": 1, "plant": "closed/a", "hot": null, "raw": null}]`)
	// The broker answers and closes the connection, with which the answer may be lost:
	// one of the next tries gets it.
	err := p.committer().Commit(t.Context(), c)
	for tries := 0; errors.Is(err, dataflow.ErrUnavailable) && tries < 50; tries++ {
		err = p.committer().Commit(t.Context(), c)
	}
	if !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), `does not allow to publish to topic "closed/a"`) {
		t.Errorf("%v", err)
	}
}

func TestLoginAndTLS(t *testing.T) {
	p := newPlace(t)
	p.subscribe()
	p.login()
	p.cfg.Payload = "id"
	c, _ := p.stage(alarms, 1, numbers(0, 1))
	must(t, p.committer().Commit(t.Context(), c))
	same(t, "messages", p.messages(), []string{"t 0"})
	p.cfg.Password = "wrong"
	c, _ = p.stage(alarms, 2, numbers(1, 2))
	if err := p.committer().Commit(t.Context(), c); !errors.Is(err, dataflow.ErrPermanent) {
		t.Errorf("a wrong password: %v", err)
	}
}

// A process that ends in the middle is followed by one that goes on.
func TestARestartDoesNotRepeatAll(t *testing.T) {
	p := newPlace(t)
	p.subscribe()
	p.cfg.Payload, p.cfg.InFlight = "id", 5
	c, _ := p.stage(alarms, 1, numbers(0, 1000))
	ctx, cancel := context.WithCancel(t.Context())
	n, now := 0, time.Now()
	p.env.Now = func() time.Time {
		if n++; n == 500 {
			cancel()
		}
		now = now.Add(time.Second) // So that each step is noted.
		return now
	}
	if err := p.committer().Commit(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	must(t, p.committer().Commit(t.Context(), c))
	got := p.messages()
	if len(got) < 1000 || len(got) > 1010 {
		t.Errorf("%d messages, want 1000 and those that were under way again", len(got))
	}
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != 1000 {
		t.Errorf("%d different messages", len(got))
	}
}

func TestWhatIsWrongWithAConfigIsSaid(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`broker: expected mqtt://HOST:PORT or mqtts://HOST:PORT`:                                        func(c *Config) { c.Broker = "localhost:1883" },
		`topic: topic "a/+": the characters + and # are for those who subscribe, and U+0000 for nobody`: func(c *Config) { c.Topic = "a/+" },
		`topic: unknown column "nix"`:                           func(c *Config) { c.Topic = "a/{nix}" },
		`qos: 3: expected 0, 1 or 2`:                            func(c *Config) { c.QoS = 3 },
		`retain: expected bool, this expression gives int64`:    func(c *Config) { c.Retain = "id" },
		`expiry: 1.5s: expected whole seconds`:                  func(c *Config) { c.Expiry = component.Duration(1500 * time.Millisecond) },
		`in_flight: 0: expected 1 to 65535`:                     func(c *Config) { c.InFlight = 0 },
		`password: a password needs a user`:                     func(c *Config) { c.Password = "x" },
		`tls: cert and key belong together: write both or none`: func(c *Config) { c.TLS.Cert = "x" },
	} {
		cfg := DefaultConfig()
		cfg.Broker, cfg.Topic = "mqtt://localhost", "t"
		change(&cfg)
		_, err := plan(component.SinkIn{Input: alarms}, cfg)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
