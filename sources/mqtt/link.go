package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"
)

// link is one connection to the broker that comes back by itself. What both
// versions of the protocol have in common stands here: when to try again, what the
// session is worth, what is wrong.
type link struct {
	srv    *server
	lane   *lane
	url    *url.URL
	tls    *tls.Config
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	client client

	mu struct {
		sync.Mutex
		up bool
		// since is when it went up or down last.
		since time.Time
		err   error // why it is down
		// short counts connections and tries in a row that did not last.
		short int
		// taken counts how often another client took the session, in a row; flaps the
		// connections in a row that the broker ended soon and without a reason.
		taken    int
		flaps    int
		lostAt   time.Time // when the session was lost last
		refusals []string  // filters that were refused or got a lower qos
		ups      int
	}
}

// client is an MQTT client of one version.
type client interface {
	// start connects, and again whenever the connection is gone; it returns at once.
	start()
	// publish sends a message on the connection that is up.
	publish(ctx context.Context, topic string, payload []byte, qos byte, retain bool) error
	// close leaves the broker and waits for the end of all goroutines.
	close(ctx context.Context)
}

func newLink(s *server, l *lane, i int, t *tls.Config) *link {
	u, _ := brokerURL(s.cfg.Broker) // It was checked.
	k := &link{srv: s, lane: l, url: u, tls: t, log: s.log}
	if s.cfg.Connections > 1 {
		k.log = k.log.With("connection", i)
	}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.mu.since = s.now()
	if s.cfg.Version == version3 {
		k.client = &client3{link: k}
	} else {
		k.client = newClient5(k)
	}
	return k
}

func (k *link) start() { k.client.start() }

// leaveWithin bounds saying goodbye to a broker.
const leaveWithin = 2 * time.Second

func (k *link) close() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWithin)
	defer cancel()
	if st := k.srv.status(); st != nil && k.isUp() {
		if err := k.client.publish(ctx, st.Topic, []byte(st.Offline), byte(st.QoS), st.Retain); err != nil {
			k.log.Warn("publish the offline status", "topic", st.Topic, "error", err)
		}
	}
	k.cancel()
	k.client.close(ctx)
}

// status is nil where none is published.
func (s *server) status() *StatusConfig {
	if s.env.Preview {
		return nil
	}
	return s.cfg.Status
}

func (k *link) isUp() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.up
}

// wentUp notes a connection and says what of the session is known. present: the
// broker has one.
func (k *link) wentUp(present bool) {
	known, had := k.srv.sessions.get(k.srv.cfg.Broker, k.lane.client)
	lost := had && known.QoS > 0 && k.srv.persistent() && !present
	k.mu.Lock()
	k.mu.up, k.mu.since, k.mu.err = true, k.srv.now(), nil
	again := k.mu.ups > 0
	k.mu.ups++
	if lost {
		k.mu.lostAt = k.mu.since
	}
	k.mu.Unlock()
	if again {
		k.srv.counts.add("reconnects", 1)
	}
	if lost {
		k.srv.counts.add("sessions_lost", 1)
		k.log.Error("the broker no longer has the session of this source: what was published since it was lost, and was not yet delivered, is gone. It expired (session_expiry), the broker was reset, or someone began anew with the client id",
			"broker", k.srv.cfg.Broker, "client_id", k.lane.client)
		return
	}
	k.log.Info("connected to the broker", "broker", k.srv.cfg.Broker, "client_id", k.lane.client, "session_present", present)
}

// wentDown notes the end of a connection. taken: another client has the session.
func (k *link) wentDown(err error, taken bool) {
	now := k.srv.now()
	k.mu.Lock()
	lasted := k.mu.up && now.Sub(k.mu.since) > lasting
	// One that has lasted as long as the keep-alive may have ended for want of pings,
	// as where the machine has no time for them.
	flapped := k.mu.up && now.Sub(k.mu.since) < k.srv.cfg.KeepAlive.D()
	switch {
	case lasted:
		k.mu.short, k.mu.flaps = 0, 0
		if now.Sub(k.mu.since) > maxTaken {
			k.mu.taken = 0
		}
	case flapped:
		k.mu.short++
		k.mu.flaps++
	case k.mu.up:
		k.mu.short++
		k.mu.flaps = 0
	default: // It was not reached at all: nobody else has the session.
		k.mu.short++
		k.mu.flaps = 0
	}
	// Some brokers do not say that another client has the session: both then throw
	// each other out.
	taken = taken || k.mu.flaps >= maxFlaps
	if taken {
		k.mu.taken++
	}
	if k.mu.up || k.mu.err == nil {
		k.mu.since = now
	}
	first := k.mu.up || k.mu.err == nil || err.Error() != k.mu.err.Error()
	k.mu.up, k.mu.err = false, err
	k.mu.Unlock()
	switch {
	case taken:
		k.srv.counts.add("sessions_taken_over", 1)
		k.log.Error("another client has connected with the client id of this source and taken its session over: each id is for one client. Is the pipeline running twice?", "client_id", k.lane.client)
	case first && k.ctx.Err() == nil:
		k.log.Warn("not connected to the broker, trying again", "broker", k.srv.cfg.Broker, "error", err)
	}
}

const (
	// lasting is what a connection must last not to count as a failed try.
	lasting  = 30 * time.Second
	maxFlaps = 5
	minDelay = 100 * time.Millisecond
	maxDelay = 15 * time.Second
	// A session that another client took is not fought over.
	minTaken = time.Minute
	maxTaken = 10 * time.Minute
)

// delay is how long to wait before the next try to connect.
func (k *link) delay() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.mu.taken > 0:
		return min(minTaken<<min(k.mu.taken-1, 8), maxTaken)
	case k.mu.short == 0:
		return 0
	}
	d := min(minDelay<<min(k.mu.short-1, 10), maxDelay)
	return d/2 + rand.N(d/2+1)
}

// subscribed notes what the broker answered: per filter the granted qos, or a code
// of refusal from 0x80.
func (k *link) subscribed(codes []byte) {
	var out []string
	for i, f := range k.srv.filters {
		switch {
		case i >= len(codes):
		case codes[i] >= 0x80:
			out = append(out, fmt.Sprintf("the broker refused the filter %q (reason 0x%02x)", f, codes[i]))
		case codes[i] < k.srv.qos():
			out = append(out, fmt.Sprintf("the broker granted qos %d for the filter %q, and %d was asked for", codes[i], f, k.srv.qos()))
		}
	}
	k.mu.Lock()
	k.mu.refusals = out
	k.mu.Unlock()
	k.srv.counts.add("subscribed", 1)
	for _, text := range out {
		k.log.Error(text)
	}
	if len(out) > 0 || !k.srv.persistent() {
		return
	}
	x := subscription{Broker: k.srv.cfg.Broker, Filters: k.srv.filters, QoS: k.srv.cfg.QoS}
	if known, ok := k.srv.sessions.get(x.Broker, k.lane.client); ok && known.QoS == x.QoS && slices.Equal(known.Filters, x.Filters) {
		return
	}
	if err := k.srv.sessions.put(k.lane.client, x); err != nil {
		k.log.Warn("note the session", "error", err)
	}
}

// outdated are filters of the session that the file no longer names.
func (k *link) outdated(present bool) []string {
	known, ok := k.srv.sessions.get(k.srv.cfg.Broker, k.lane.client)
	if !ok || !present {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(known.Filters), func(f string) bool { return slices.Contains(k.srv.filters, f) })
}

// asKnown says whether the session has the subscriptions that the file asks for.
func (k *link) asKnown() bool {
	known, ok := k.srv.sessions.get(k.srv.cfg.Broker, k.lane.client)
	return ok && known.QoS == k.srv.cfg.QoS && slices.Equal(known.Filters, k.srv.filters)
}

const (
	// unsettled is how long a connection may be away without being called trouble.
	unsettled = 5 * time.Second
	// lostShown is how long health tells that a session was lost.
	lostShown = 10 * time.Minute
)

// trouble says what is wrong, in words.
func (k *link) trouble(now time.Time) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := slices.Clone(k.mu.refusals)
	if away := now.Sub(k.mu.since); !k.mu.up && (k.mu.taken > 0 || away > unsettled) {
		why := "no answer yet"
		if k.mu.err != nil {
			why = k.mu.err.Error()
		}
		if k.mu.taken > 0 {
			why = "another client uses the client id and took the session over"
		}
		out = append(out, fmt.Sprintf("client %s is not connected to %s for %s: %s", k.lane.client, k.srv.cfg.Broker, away.Round(time.Second), why))
	}
	if !k.mu.lostAt.IsZero() && now.Sub(k.mu.lostAt) < lostShown {
		out = append(out, fmt.Sprintf("the session of client %s was lost at %s: what was not delivered by then is gone", k.lane.client, k.mu.lostAt.UTC().Format(time.RFC3339)))
	}
	return out
}

// announce publishes that the source is there.
func (k *link) announce(ctx context.Context) {
	st := k.srv.status()
	if st == nil {
		return
	}
	if err := k.client.publish(ctx, st.Topic, []byte(st.Online), byte(st.QoS), st.Retain); err != nil && ctx.Err() == nil {
		k.log.Warn("publish the online status", "topic", st.Topic, "error", err)
	}
}

// tlsConfig is nil for a broker without TLS.
func tlsConfig(dir string, cfg Config) (*tls.Config, error) {
	u, err := brokerURL(cfg.Broker)
	if err != nil || !secure(u) {
		return nil, err
	}
	out, err := cfg.TLS.Config(dir)
	if err == nil && out.ServerName == "" {
		out.ServerName = u.Hostname()
	}
	return out, err
}

var errNotConnected = errors.New("not connected")
