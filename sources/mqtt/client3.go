package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	paho3 "github.com/eclipse/paho.mqtt.golang"
	packets3 "github.com/eclipse/paho.mqtt.golang/packets"
)

// client3 is a client of version 3.1.1. The library connects once; when to try
// again is decided here, as for version 5.
type client3 struct {
	*link
	work sync.WaitGroup
	last *wire3

	mu     sync.Mutex
	client paho3.Client // nil: not connected
}

// wire3 is one connection.
type wire3 struct {
	dead atomic.Bool
	next atomic.Bool
}

func (w *wire3) replaced() bool { return w.next.Load() }

// acknowledge implements wire.
func (w *wire3) acknowledge(ms []message) {
	for i := range ms {
		if ms[i].qos > 0 && !w.dead.Load() {
			ms[i].ack()
		}
	}
}

func (c *client3) start() { c.work.Go(c.run) }

func (c *client3) run() {
	for {
		select {
		case <-time.After(c.delay()):
		case <-c.ctx.Done():
		}
		if c.ctx.Err() != nil {
			return
		}
		if err := c.connection(); err != nil && c.ctx.Err() == nil {
			c.wentDown(err, false)
		}
	}
}

// connection lives from one connection to its end, and says why it ended.
func (c *client3) connection() error {
	w := &wire3{}
	lost := make(chan error, 1)
	// begun is closed when it is known what the session is worth.
	begun := make(chan struct{})
	o := c.options(w, lost, begun)
	cl := paho3.NewClient(o)
	token := cl.Connect().(*paho3.ConnectToken)
	<-token.Done()
	if err := token.Error(); err != nil {
		close(begun)
		return err
	}
	present := token.SessionPresent()
	if c.last != nil && present {
		c.last.next.Store(true)
	}
	c.last = w
	c.lane.begin(present)
	close(begun)
	c.mu.Lock()
	c.client = cl
	c.mu.Unlock()
	c.wentUp(present)
	ctx, cancel := context.WithCancel(c.ctx)
	err := c.subscribe(ctx, cl, present)
	if err == nil {
		c.announce(ctx)
		select {
		case err = <-lost:
		case <-c.ctx.Done():
			err = c.ctx.Err()
		}
	}
	cancel()
	c.mu.Lock()
	c.client = nil
	c.mu.Unlock()
	cl.Disconnect(uint(leaveWithin / time.Millisecond / 4))
	w.dead.Store(true)
	return err
}

func (c *client3) options(w *wire3, lost chan<- error, begun <-chan struct{}) *paho3.ClientOptions {
	cfg := c.srv.cfg
	u := *c.url
	switch u.Scheme { // The library knows fewer names.
	case "mqtt":
		u.Scheme = "tcp"
	case "mqtts", "tls":
		u.Scheme = "ssl"
	}
	o := paho3.NewClientOptions().AddBroker(u.String()).SetClientID(c.lane.client).SetProtocolVersion(4).
		SetCleanSession(!c.srv.persistent()).SetAutoReconnect(false).SetConnectRetry(false).SetOrderMatters(true).
		SetAutoAckDisabled(true).SetConnectTimeout(dialWithin).SetKeepAlive(cfg.KeepAlive.D()).SetPingTimeout(cfg.KeepAlive.D()).
		SetUsername(cfg.User).SetPassword(cfg.Password.Reveal()).SetStore(&store3{lane: c.lane})
	if c.tls != nil {
		o.SetTLSConfig(c.tls)
	}
	if st := c.srv.status(); st != nil {
		o.SetWill(st.Topic, st.Offline, byte(st.QoS), st.Retain)
	}
	o.SetConnectionLostHandler(func(_ paho3.Client, err error) {
		w.dead.Store(true)
		lost <- fmt.Errorf("%w (a broker of version 3.1.1 does not say why; another client with the same id is one cause)", err)
	})
	o.SetDefaultPublishHandler(func(_ paho3.Client, m paho3.Message) {
		<-begun
		c.lane.put(message{
			topic: m.Topic(), payload: m.Payload(), received: c.srv.now(), via: w, id: m.MessageID(),
			qos: m.Qos(), retained: m.Retained(), dup: m.Duplicate(), ack: m.Ack,
		})
	})
	return o
}

// subscribe asks again only where it must: each subscription brings the retained
// messages once more.
func (c *client3) subscribe(ctx context.Context, cl paho3.Client, present bool) error {
	if old := c.outdated(present); len(old) > 0 {
		if err := wait3(ctx, cl.Unsubscribe(old...)); err != nil {
			c.log.Warn("unsubscribe from what the file no longer names", "filters", old, "error", err)
		}
	}
	if present && c.asKnown() && c.srv.cfg.Retained != retainedKeep {
		c.srv.counts.add("subscribed", 1)
		return nil
	}
	filters := map[string]byte{}
	for _, f := range c.srv.filters {
		filters[f] = c.srv.qos()
	}
	token := cl.SubscribeMultiple(filters, nil)
	err := wait3(ctx, token)
	var codes []byte
	for _, f := range c.srv.filters {
		code, ok := token.(*paho3.SubscribeToken).Result()[f]
		if !ok {
			return errors.Join(errors.New("the broker did not answer the subscription"), err)
		}
		codes = append(codes, code)
	}
	c.subscribed(codes)
	return nil
}

func wait3(ctx context.Context, t paho3.Token) error {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	select {
	case <-t.Done():
		return t.Error()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *client3) publish(ctx context.Context, topic string, payload []byte, qos byte, retain bool) error {
	c.mu.Lock()
	cl := c.client
	c.mu.Unlock()
	if cl == nil {
		return errNotConnected
	}
	return wait3(ctx, cl.Publish(topic, qos, retain, payload))
}

func (c *client3) close(context.Context) { c.work.Wait() }

// store3 is where the library keeps packets. What comes from the broker is the
// lane's; a packet with its identifier is dropped when it is completed, which is how
// we learn of the release of messages of qos 2. What we send is kept until it is
// answered.
type store3 struct {
	lane *lane
	mu   sync.Mutex
	out  map[string]packets3.ControlPacket
}

func inbound(key string) bool { return strings.HasPrefix(key, "i.") }

// Open implements paho3.Store.
func (s *store3) Open() {}

// Close implements paho3.Store.
func (s *store3) Close() {}

// Put implements paho3.Store.
func (s *store3) Put(key string, p packets3.ControlPacket) {
	if inbound(key) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		s.out = map[string]packets3.ControlPacket{}
	}
	s.out[key] = p
}

// Get implements paho3.Store.
func (s *store3) Get(key string) packets3.ControlPacket {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out[key]
}

// All implements paho3.Store.
func (s *store3) All() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for key := range s.out {
		out = append(out, key)
	}
	return out
}

// Del implements paho3.Store.
func (s *store3) Del(key string) {
	if !inbound(key) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.out, key)
		return
	}
	if id, err := strconv.ParseUint(key[2:], 10, 16); err == nil {
		s.lane.released(uint16(id))
	}
}

// Reset implements paho3.Store.
func (s *store3) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = nil
}

var _ paho3.Store = (*store3)(nil)
