package mqtt

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho/log"
	"github.com/eclipse/paho.golang/paho/session"
)

// session5 is the session of a client of version 5, instead of the library's own:
// acknowledgements are written when they are due,
// many at once and bound to the connection that brought the messages, and what the
// broker says of qos 2 reaches the stream, which remembers it over a kill.
type session5 struct {
	lane *lane
	// ended is called with the reason that the broker gives for the end of a
	// connection, before the client notices it.
	ended func(reason byte)

	mu struct {
		sync.Mutex
		wire *wire5 // nil: no connection
		last *wire5
		// waiting are answers to what we sent, by identifier.
		waiting map[uint16]chan<- packets.ControlPacket
		id      uint16
	}
}

// wire5 is one connection.
type wire5 struct {
	w    io.Writer
	dead atomic.Bool
	next atomic.Bool // another one has taken over its messages
}

func (w *wire5) replaced() bool { return w.next.Load() }

// acknowledge implements wire. Identifiers go out in one write: PUBACK for qos 1,
// PUBREC for qos 2.
func (w *wire5) acknowledge(ms []message) {
	if w.dead.Load() {
		return
	}
	out := make([]byte, 0, 4*len(ms))
	for i := range ms {
		if m := &ms[i]; m.qos > 0 {
			typ := byte(packets.PUBACK)
			if m.qos == 2 {
				typ = packets.PUBREC
			}
			out = append(out, typ<<4, 2, byte(m.id>>8), byte(m.id))
		}
	}
	if len(out) == 0 {
		return
	}
	if l, ok := w.w.(sync.Locker); ok {
		l.Lock()
		defer l.Unlock()
	}
	if _, err := w.w.Write(out); err != nil {
		w.dead.Store(true) // The reader notices, and the broker sends them again.
	}
}

// ConAckReceived implements session.SessionManager.
func (s *session5) ConAckReceived(w io.Writer, _ *packets.Connect, ack *packets.Connack) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.last != nil && ack.SessionPresent {
		s.mu.last.next.Store(true)
	}
	s.mu.wire = &wire5{w: w}
	s.mu.last = s.mu.wire
	s.mu.waiting = map[uint16]chan<- packets.ControlPacket{}
	s.lane.begin(ack.SessionPresent)
	return nil
}

// ConnectionLost implements session.SessionManager.
func (s *session5) ConnectionLost(d *packets.Disconnect) error {
	if d != nil {
		s.ended(d.ReasonCode)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.wire == nil {
		return nil
	}
	s.mu.wire.dead.Store(true)
	s.mu.wire = nil
	for _, c := range s.mu.waiting {
		c <- packets.ControlPacket{} // It says that there is no answer.
	}
	s.mu.waiting = nil
	return nil
}

// AddToSession implements session.SessionManager: what we send gets an identifier.
// It is not sent again on another connection.
func (s *session5) AddToSession(_ context.Context, p session.Packet, answer chan<- packets.ControlPacket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.wire == nil {
		return session.ErrNoConnection
	}
	if len(s.mu.waiting) >= 1000 {
		return session.ErrPacketIdentifiersExhausted
	}
	for {
		s.mu.id++
		if s.mu.id != 0 && s.mu.waiting[s.mu.id] == nil {
			break
		}
	}
	s.mu.waiting[s.mu.id] = answer
	p.SetIdentifier(s.mu.id)
	return nil
}

// PacketReceived implements session.SessionManager.
func (s *session5) PacketReceived(p *packets.ControlPacket, messages chan<- *packets.Publish) error {
	switch c := p.Content.(type) {
	case *packets.Publish:
		messages <- c // The way of those of qos 0, so that all keep their order.
		return nil
	case *packets.Pubrel:
		s.lane.released(c.PacketID)
		return s.send(&packets.Pubcomp{PacketID: c.PacketID})
	case *packets.Pubrec:
		if c.ReasonCode < 0x80 {
			return s.send(&packets.Pubrel{PacketID: c.PacketID})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.mu.waiting[p.PacketID()]; c != nil {
		delete(s.mu.waiting, p.PacketID())
		c <- *p
	}
	return nil
}

func (s *session5) send(p interface {
	WriteTo(io.Writer) (int64, error)
}) error {
	s.mu.Lock()
	w := s.mu.wire
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	_, err := p.WriteTo(w.w)
	return err
}

// receive puts a message into the lane.
func (s *session5) receive(p *packets.Publish) {
	s.mu.Lock()
	w := s.mu.last // The connection may be gone by now.
	s.mu.Unlock()
	m := message{
		topic: p.Topic, payload: p.Payload, received: s.lane.srv.now(), via: w,
		id: p.PacketID, qos: p.QoS, retained: p.Retain, dup: p.Duplicate,
	}
	if x := p.Properties; x != nil {
		m.props = &properties{contentType: x.ContentType, responseTopic: x.ResponseTopic, correlation: x.CorrelationData, expiry: x.MessageExpiry}
		for _, u := range x.User {
			m.props.user = append(m.props.user, [2]string{u.Key, u.Value})
		}
	}
	s.lane.put(m)
}

// Ack implements session.SessionManager. The client calls it when it has handed a
// message over; acknowledgements are the lane's.
func (s *session5) Ack(*packets.Publish) error { return nil }

// Close implements session.SessionManager.
func (s *session5) Close() error { return nil }

// SetErrorLogger implements session.SessionManager.
func (s *session5) SetErrorLogger(log.Logger) {}

// SetDebugLogger implements session.SessionManager.
func (s *session5) SetDebugLogger(log.Logger) {}

var _ session.SessionManager = (*session5)(nil)
