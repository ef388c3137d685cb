package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/ingest"
)

// server is what one source step has open during a run.
type server struct {
	cfg       Config
	env       *dataflow.Env
	log       *slog.Logger
	stream    *ingest.Stream
	filters   []string // as the broker gets them
	patterns  []pattern
	appenders []appender
	sessions  *sessions
	lanes     []*lane
	links     []*link
	counts    counts
	asking    sync.WaitGroup
	closing   chan struct{}
}

// counts are named counters, safe for concurrent use.
type counts struct {
	mu sync.Mutex
	n  map[string]int64
}

func (c *counts) add(name string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int64{}
	}
	c.n[name] += n
}

func (c *counts) all() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

func serve(env *dataflow.Env, cfg Config) (*server, error) {
	subs, patterns, problems := check(env.Step, cfg)
	if len(problems) > 0 {
		return nil, problems
	}
	if env.NewDecoder == nil {
		return nil, dataflow.Permanentf("mqtt source %q: no decoder", env.Step)
	}
	s := &server{cfg: cfg, env: env, log: env.Log, patterns: patterns, closing: make(chan struct{})}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	cols := columnsOf(cfg, patterns)
	s.appenders = appenders(cols, s.patterns)
	for _, p := range subs {
		f := p.filter()
		if cfg.Share != "" && !env.Preview {
			f = "$share/" + cfg.Share + "/" + f
		}
		s.filters = append(s.filters, f)
	}
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, fmt.Errorf("make the decoder of %q: %w", env.Step, err)
	}
	tls, err := tlsConfig(env.Dir, cfg)
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	if s.stream, err = ingest.Open(env, cfg.Config, ingest.Spec{Decoded: dec.Schema(), Meta: fieldsOf(cols)}); err != nil {
		return nil, err
	}
	dir := filepath.Join(env.WALDir, env.Step)
	if s.sessions, err = openSessions(dir); err != nil {
		return nil, errors.Join(err, s.stream.Close())
	}
	if err := s.connect(dir, dec, tls); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	for _, k := range s.links {
		k.start()
	}
	return s, nil
}

// connect makes lanes and links.
func (s *server) connect(dir string, dec dataflow.Decoder, tls *tls.Config) error {
	var learnt *births
	topics, _ := dec.(dataflow.TopicDecoder)
	if topics != nil {
		var err error
		if learnt, err = openBirths(dir, func(topic string, payload []byte) { topics.AppendTopic(topic, payload) }); err != nil {
			return fmt.Errorf("read the births that were kept: %w", err)
		}
		for _, c := range topics.Flush() {
			c.Release()
		}
		if l, ok := topics.(learner); ok { // What it noticed was noticed before.
			l.Counts()
			l.Asks(0)
		}
	}
	for i := range s.cfg.Connections {
		l := newLane(s, s.clientID(i), topics, learnt)
		s.lanes = append(s.lanes, l)
		s.links = append(s.links, newLink(s, l, i, tls))
	}
	return nil
}

// ask publishes a message, off the caller's goroutine, at most once.
func (s *server) ask(topic string, payload []byte) {
	s.asking.Go(func() {
		ctx, cancel := context.WithTimeout(s.links[0].ctx, dialWithin)
		defer cancel()
		if err := s.links[0].client.publish(ctx, topic, payload, 0, false); err != nil && ctx.Err() == nil {
			s.log.Warn("ask for births", "topic", topic, "error", err)
		}
	})
}

// clientID is that of connection i. A preview has one of its own, so that it takes
// no session away.
func (s *server) clientID(i int) string {
	switch id := s.cfg.ClientID; {
	case s.env.Preview || id == "":
		return fmt.Sprintf("frazil-%016x", rand.Uint64())
	case s.cfg.Connections > 1:
		return fmt.Sprintf("%s-%d", id, i)
	default:
		return id
	}
}

// persistent says whether the broker shall keep a session.
func (s *server) persistent() bool { return s.cfg.QoS > 0 && !s.env.Preview }

// qos is what is asked for. What a preview takes is not acknowledged to anyone, so
// it asks for nothing that would have to be.
func (s *server) qos() byte {
	if s.env.Preview {
		return 0
	}
	return byte(s.cfg.QoS)
}

// StreamStats implements dataflow.Streamer.
func (s *server) StreamStats() dataflow.StreamStats {
	out := s.stream.StreamStats()
	out.Counts = s.counts.all()
	now := s.now()
	for _, k := range s.links {
		out.Trouble = append(out.Trouble, k.trouble(now)...)
	}
	slices.Sort(out.Trouble)
	return out
}

func (s *server) now() time.Time {
	if s.env.Now != nil {
		return s.env.Now()
	}
	return time.Now()
}

// settleWithin bounds the wait for the acknowledgement of what is being synced.
const settleWithin = 3 * time.Second

// Close acknowledges what is durable, leaves the broker and closes the stream. The
// sessions stay.
func (s *server) Close() error {
	for _, l := range s.lanes {
		close(l.stop)
	}
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		for _, l := range s.lanes {
			l.ended.Wait()
		}
	}()
	t := time.NewTimer(settleWithin)
	defer t.Stop()
	select {
	case <-settled:
	case <-t.C:
	}
	close(s.closing)
	var wg sync.WaitGroup
	for _, k := range s.links {
		wg.Go(k.close)
	}
	wg.Wait()
	s.asking.Wait()
	err := s.stream.Close()
	<-settled
	for _, l := range s.lanes {
		l.inflater.close()
		err = errors.Join(err, l.births.close())
	}
	return err
}

var _ dataflow.Streamer = (*server)(nil)
