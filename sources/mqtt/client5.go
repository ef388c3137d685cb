package mqtt

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
)

// client5 is a client of version 5.
type client5 struct {
	*link
	session *session5
	// manager is set by start, or by a connection that is up before start returns.
	manager atomic.Pointer[autopaho.ConnectionManager]
	// gone ends what belongs to the connection that is up.
	gone  atomic.Pointer[context.CancelFunc]
	work  sync.WaitGroup
	cause atomic.Pointer[error] // why the connection ends
	taken atomic.Bool
}

func newClient5(k *link) *client5 {
	c := &client5{link: k}
	c.session = &session5{lane: k.lane, ended: func(reason byte) {
		err := fmt.Errorf("the broker ended the connection (reason 0x%02x)", reason)
		c.cause.Store(&err)
		c.taken.Store(reason == packets.DisconnectSessionTakenOver)
	}}
	return c
}

const dialWithin = 10 * time.Second

func (c *client5) start() {
	cfg := c.srv.cfg
	o := autopaho.ClientConfig{
		ServerUrls:                    []*url.URL{c.url},
		TlsCfg:                        c.tls,
		KeepAlive:                     uint16(cfg.KeepAlive.D() / time.Second),
		CleanStartOnInitialConnection: !c.srv.persistent(),
		ConnectTimeout:                dialWithin,
		ReconnectBackoff:              func(int) time.Duration { return c.delay() },
		OnConnectionUp:                c.up,
		OnConnectionDown:              c.down,
		OnConnectError:                func(err error) { c.wentDown(err, false) },
		ConnectUsername:               cfg.User,
		ConnectPassword:               []byte(cfg.Password.Reveal()),
		ConnectPacketBuilder:          c.connect,
	}
	if c.srv.persistent() {
		o.SessionExpiryInterval = uint32(cfg.SessionExpiry.D() / time.Second)
	}
	if c.url.Scheme != "ws" && c.url.Scheme != "wss" {
		o.AttemptConnection = c.dial
	}
	if st := c.srv.status(); st != nil {
		o.WillMessage = &paho.WillMessage{Topic: st.Topic, Payload: []byte(st.Offline), QoS: byte(st.QoS), Retain: st.Retain}
	}
	o.ClientConfig = paho.ClientConfig{
		ClientID: c.lane.client, Session: c.session,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			c.session.receive(p.Packet.Packet())
			return true, nil
		}},
		OnClientError: func(err error) { c.cause.CompareAndSwap(nil, &err) },
	}
	m, err := autopaho.NewConnection(c.ctx, o)
	if err != nil {
		c.wentDown(err, false) // Only for want of an address, and there is one.
		return
	}
	c.manager.Store(m)
}

// connect completes the packet that opens a connection.
func (c *client5) connect(p *paho.Connect, _ *url.URL) (*paho.Connect, error) {
	if p.Properties == nil {
		p.Properties = &paho.ConnectProperties{}
	}
	n := uint16(c.srv.cfg.ReceiveMaximum)
	p.Properties.ReceiveMaximum = &n
	return p, nil
}

// up subscribes, off the client's goroutine.
func (c *client5) up(m *autopaho.ConnectionManager, ack *paho.Connack) {
	c.manager.Store(m)
	c.wentUp(ack.SessionPresent)
	ctx, cancel := context.WithCancel(c.ctx)
	c.gone.Store(&cancel)
	c.work.Go(func() {
		for !c.subscribe(ctx, ack.SessionPresent) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return
			}
		}
		c.announce(ctx)
	})
}

func (c *client5) subscribe(ctx context.Context, present bool) bool {
	if old := c.outdated(present); len(old) > 0 {
		if _, err := c.manager.Load().Unsubscribe(ctx, &paho.Unsubscribe{Topics: old}); err != nil {
			c.log.Warn("unsubscribe from what the file no longer names", "filters", old, "error", err)
		}
	}
	req := &paho.Subscribe{}
	for _, f := range c.srv.filters {
		o := paho.SubscribeOptions{Topic: f, QoS: c.srv.qos(), RetainHandling: 1}
		if c.srv.cfg.Retained == retainedKeep {
			o.RetainHandling = 0
		}
		req.Subscriptions = append(req.Subscriptions, o)
	}
	ack, err := c.manager.Load().Subscribe(ctx, req)
	if ack != nil && len(ack.Reasons) > 0 {
		c.subscribed(ack.Reasons)
		return true
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("subscribe", "error", err)
	}
	return err == nil
}

// down says whether to connect again.
func (c *client5) down() bool {
	if cancel := c.gone.Swap(nil); cancel != nil {
		(*cancel)()
	}
	err := errors.New("the connection was lost")
	if p := c.cause.Swap(nil); p != nil {
		err = *p
	}
	c.wentDown(err, c.taken.Swap(false))
	return true
}

func (c *client5) publish(ctx context.Context, topic string, payload []byte, qos byte, retain bool) error {
	m := c.manager.Load()
	if m == nil {
		return errNotConnected
	}
	_, err := m.Publish(ctx, &paho.Publish{Topic: topic, Payload: payload, QoS: qos, Retain: retain})
	return err
}

func (c *client5) close(ctx context.Context) {
	if m := c.manager.Load(); m != nil {
		if err := m.Disconnect(ctx); err != nil {
			c.log.Warn("leave the broker", "error", err)
		}
	}
	if cancel := c.gone.Swap(nil); cancel != nil {
		(*cancel)()
	}
	c.work.Wait()
}

// dial connects, and reads with a buffer: the client reads packets in small pieces.
func (c *client5) dial(ctx context.Context, _ autopaho.ClientConfig, u *url.URL) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	var conn net.Conn
	var err error
	if c.tls != nil {
		conn, err = (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", u.Host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	}
	if err != nil {
		return nil, err
	}
	return packets.NewThreadSafeConn(&bufferedConn{conn, bufio.NewReaderSize(conn, 64<<10)}), nil
}

type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
