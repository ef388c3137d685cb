package mqtt

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"frazil/dataflow"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session"
	"github.com/eclipse/paho.golang/paho/session/state"
)

const (
	dialWithin = 10 * time.Second
	// answerWithin bounds how long the broker may take for one answer.
	answerWithin = 30 * time.Second
	leaveWithin  = 2 * time.Second
)

// connection is one that is up, or was.
type connection struct {
	client  *paho.Client
	session *acks
	// maxPacket is the broker's limit; 0: it has none.
	maxPacket int

	mu    sync.Mutex
	cause error // why it ended
	known chan struct{}
}

// acks is a session that tells us of each acknowledgement: the library only waits for
// one at a time, or for none. One goroutine publishes.
type acks struct {
	session.SessionManager
	// next is where the answer to the next PUBLISH goes.
	next chan<- packets.ControlPacket
}

// AddToSession implements session.SessionManager.
func (s *acks) AddToSession(ctx context.Context, p session.Packet, answer chan<- packets.ControlPacket) error {
	if p.Type() == packets.PUBLISH {
		answer = s.next
	}
	return s.SessionManager.AddToSession(ctx, p, answer)
}

// connect opens a connection, with a session of its own: what was under way on the one
// before is published again.
func (s *sender) connect(ctx context.Context) (*connection, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, unavailable(err, "connect to the broker")
	}
	c := &connection{session: &acks{SessionManager: state.NewInMemory()}, known: make(chan struct{})}
	c.client = paho.NewClient(paho.ClientConfig{
		ClientID: s.clientID, Conn: conn, Session: c.session, PacketTimeout: answerWithin,
		OnClientError: c.failed,
		OnServerDisconnect: func(d *paho.Disconnect) {
			c.failed(fmt.Errorf("the broker ended the connection: %s", reasonText(d.ReasonCode)))
		},
	})
	inFlight := uint16(s.cfg.InFlight)
	cp := &paho.Connect{
		ClientID: s.clientID, CleanStart: true, KeepAlive: uint16(s.cfg.KeepAlive.D() / time.Second),
		Username: s.cfg.User, UsernameFlag: s.cfg.User != "", Password: []byte(s.cfg.Password.Reveal()), PasswordFlag: s.cfg.Password != "",
		Properties: &paho.ConnectProperties{ReceiveMaximum: &inFlight},
	}
	ack, err := c.client.Connect(ctx, cp)
	if err != nil {
		if ack != nil {
			err = fmt.Errorf("the broker refuses the connection: %s (%w)", reasonText(ack.ReasonCode), err)
			if refusals[ack.ReasonCode] {
				return nil, dataflow.Permanent(err)
			}
		}
		return nil, unavailable(err, "connect to the broker")
	}
	if p := ack.Properties; p != nil && p.MaximumPacketSize != nil {
		c.maxPacket = int(*p.MaximumPacketSize)
	}
	return c, nil
}

// refusals of a connection that no retry heals.
var refusals = map[byte]bool{0x84: true, 0x85: true, 0x86: true, 0x87: true, 0x8a: true, 0x8c: true}

// unavailable marks a failure of the broker or the way to it.
func unavailable(err error, what string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return dataflow.Unavailable(fmt.Errorf("%s: %w", what, err))
}

func (s *sender) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	var conn net.Conn
	var err error
	if s.tls != nil {
		conn, err = (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.url.Host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", s.url.Host)
	}
	if err != nil {
		return nil, err
	}
	return packets.NewThreadSafeConn(&bufferedConn{conn, bufio.NewReaderSize(conn, 64<<10)}), nil
}

// bufferedConn reads with a buffer: the client reads packets in small pieces.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

// Read implements net.Conn.
func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// failed notes why the connection ends.
func (c *connection) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause == nil {
		c.cause = err
		close(c.known)
	}
}

// why is the cause of the end, which the library tells soon after it, or err.
func (c *connection) why(err error) error {
	t := time.NewTimer(time.Second)
	defer t.Stop()
	select {
	case <-c.known:
	case <-t.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return err
}

// up says whether the connection stands, as far as is known.
func (c *connection) up() bool {
	select {
	case <-c.client.Done():
		return false
	default:
		return true
	}
}

// close leaves the broker. Who waits for an answer gets an empty one.
func (c *connection) close() {
	if c.up() {
		_ = c.client.Disconnect(&paho.Disconnect{}) // The broker sees the end in any case.
	}
	_ = c.session.Close() // It never fails.
}
