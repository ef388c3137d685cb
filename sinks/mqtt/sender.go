package mqtt

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/spool"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
)

// sender publishes the messages of commits. One goroutine uses it.
type sender struct {
	env         *dataflow.Env
	cfg         Config
	url         *url.URL
	tls         *tls.Config // nil: none
	clientID    string
	contentType string
	conn        *connection // nil: there is none
}

func newSender(env *dataflow.Env, cfg Config) (*sender, error) {
	s := &sender{env: env, cfg: cfg, clientID: cfg.ClientID, contentType: cfg.ContentType}
	var err error
	if s.url, err = brokerURL(cfg.Broker); err != nil {
		return nil, dataflow.Permanent(err)
	}
	if s.url.Scheme == "mqtts" {
		if s.tls, err = cfg.TLS.Config(env.Dir); err != nil {
			return nil, dataflow.Permanent(err)
		}
	}
	if s.clientID == "" {
		s.clientID = "frazil-" + env.Pipeline + "-" + env.Step
	}
	if s.contentType == "" && cfg.Payload == "" {
		s.contentType = "application/json"
	}
	return s, nil
}

// Close implements spool.Sender.
func (s *sender) Close() error {
	s.drop()
	return nil
}

func (s *sender) drop() {
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// waiter is a message that is under way.
type waiter struct {
	n      int64
	answer chan packets.ControlPacket
	row    []byte
}

// Send implements spool.Sender.
func (s *sender) Send(ctx context.Context, d *spool.Delivery) error {
	if s.conn != nil && !s.conn.up() {
		s.drop()
	}
	if s.conn == nil {
		conn, err := s.connect(ctx)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	err := s.send(ctx, d)
	if err != nil {
		s.drop() // With all that is under way.
	}
	return err
}

func (s *sender) send(ctx context.Context, d *spool.Delivery) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	under := make(chan waiter, s.cfg.InFlight)
	collected := make(chan error, 1)
	go func() {
		err := dataflow.Guarded(func() error { return s.collect(ctx, d, under) })
		if err != nil {
			cancel(err)
		}
		for range under { // What is left is published again.
		}
		collected <- err
	}()
	first := d.Done(0)
	err := d.Each(func(n int64, row []byte) error {
		if n < first {
			return nil
		}
		return s.publish(ctx, d, n, row, under)
	})
	if err == nil && s.cfg.QoS == 0 {
		err = s.flush(ctx)
	}
	if err != nil {
		cancel(err) // What is under way is given up.
	}
	close(under)
	if failed := <-collected; failed != nil && (err == nil || errors.Is(err, context.Canceled)) {
		err = failed
	}
	return err
}

// publish sends one message and notes that its answer is awaited.
func (s *sender) publish(ctx context.Context, d *spool.Delivery, n int64, row []byte, under chan<- waiter) error {
	p, err := s.message(row)
	if err != nil {
		return err
	}
	w := waiter{n: n, answer: make(chan packets.ControlPacket, 1), row: row}
	if max := s.conn.maxPacket; max > 0 {
		if size := len(row) + packetOverhead; size > max {
			w.answer <- packets.ControlPacket{FixedHeader: packets.FixedHeader{Type: packets.PUBACK}, Content: &packets.Puback{ReasonCode: tooLarge}}
			return s.await(ctx, w, under)
		}
	}
	s.conn.session.next = w.answer
	_, err = s.conn.client.PublishWithOptions(ctx, p, paho.PublishOptions{Method: paho.PublishMethod_AsyncSend})
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, paho.ErrInvalidArguments):
		return dataflow.Permanent(fmt.Errorf("publish to topic %q: %w", p.Topic, err))
	case err != nil:
		return unavailable(s.conn.why(err), fmt.Sprintf("publish to topic %q", p.Topic))
	case s.cfg.QoS == 0:
		w.answer <- packets.ControlPacket{FixedHeader: packets.FixedHeader{Type: packets.PUBACK}, Content: &packets.Puback{}}
	}
	return s.await(ctx, w, under)
}

func (s *sender) await(ctx context.Context, w waiter, under chan<- waiter) error {
	select {
	case under <- w:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// packetOverhead is what a packet has at most beside what is spooled and the content
// type.
const packetOverhead = 64

// message makes the packet of a spooled row.
func (s *sender) message(row []byte) (*paho.Publish, error) {
	if len(row) == 0 {
		return nil, spool.ErrRow
	}
	topic, rest, err := spool.CutPart(row[1:])
	if err != nil {
		return nil, err
	}
	all, payload, err := spool.CutPart(rest)
	if err != nil {
		return nil, err
	}
	p := &paho.Publish{Topic: string(topic), Payload: payload, QoS: byte(s.cfg.QoS), Retain: row[0] == 1, Properties: &paho.PublishProperties{ContentType: s.contentType}}
	if e := s.cfg.Expiry.D(); e > 0 {
		seconds := uint32(e / time.Second)
		p.Properties.MessageExpiry = &seconds
	}
	for len(all) > 0 {
		var name, value []byte
		if name, all, err = spool.CutPart(all); err == nil {
			value, all, err = spool.CutPart(all)
		}
		if err != nil {
			return nil, err
		}
		p.Properties.User.Add(string(name), string(value))
	}
	return p, nil
}

// collect takes the answers in the order of the messages.
func (s *sender) collect(ctx context.Context, d *spool.Delivery, under <-chan waiter) error {
	for w := range under {
		var answer packets.ControlPacket
		select {
		case answer = <-w.answer:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.conn.client.Done():
			select {
			case answer = <-w.answer: // It came before the end.
			default:
				return unavailable(s.conn.why(errors.New("the connection was lost")), "wait for an acknowledgement")
			}
		}
		if err := s.settle(d, w, answer); err != nil {
			return err
		}
		d.Delivered(0, w.n+1)
	}
	return nil
}

// Reasons of the broker.
const (
	notAuthorized = 0x87
	invalidTopic  = 0x90
	tooLarge      = 0x95
	invalidFormat = 0x99
)

var reasonNames = map[byte]string{
	0x80: "unspecified error", 0x83: "an error of its implementation", 0x84: "it does not speak version 5", 0x85: "the client id is not valid",
	0x86: "the user or the password is wrong", notAuthorized: "not authorized", 0x88: "it is not available", 0x89: "it is busy", 0x8a: "banned",
	0x8b: "it shuts down", 0x8c: "the login method is not right", 0x8e: "another client has the same client_id", invalidTopic: "the topic is not valid",
	tooLarge: "the message is too large", 0x97: "a quota is exceeded", invalidFormat: "the payload's format is not valid",
}

func reasonText(code byte) string {
	if name := reasonNames[code]; name != "" {
		return fmt.Sprintf("%s (reason 0x%02x)", name, code)
	}
	return fmt.Sprintf("reason 0x%02x", code)
}

// settle decides by the answer to a message.
func (s *sender) settle(d *spool.Delivery, w waiter, answer packets.ControlPacket) error {
	var code byte
	text := ""
	switch a := answer.Content.(type) {
	case *packets.Puback:
		code = a.ReasonCode
		if a.Properties != nil {
			text = a.Properties.ReasonString
		}
	case *packets.Pubrec:
		code = a.ReasonCode
		if a.Properties != nil {
			text = a.Properties.ReasonString
		}
	case *packets.Pubcomp:
		code = a.ReasonCode
	default:
		return unavailable(s.conn.why(errors.New("the connection was lost")), "wait for an acknowledgement")
	}
	if code < 0x80 {
		return nil
	}
	p, err := s.message(w.row)
	if err != nil {
		return err
	}
	detail := reasonText(code)
	if text != "" {
		detail += ": " + text
	}
	switch code {
	case notAuthorized:
		return dataflow.Permanentf("the broker does not allow to publish to topic %q: give the user that right (of mosquitto: acl_file, topic write ...), or let it go elsewhere", p.Topic)
	case invalidTopic, tooLarge, invalidFormat:
		r := spool.Refusal{Row: w.n, Reason: map[byte]string{invalidTopic: "invalid_topic", tooLarge: "too_large", invalidFormat: "invalid_payload"}[code], Detail: detail, To: p.Topic}
		r.SetPayload(p.Payload)
		return d.Refuse(r)
	}
	return dataflow.Unavailable(fmt.Errorf("publish to topic %q: the broker refuses: %s", p.Topic, detail))
}

// flush waits until the broker has read all that was sent: it answers in order.
func (s *sender) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	ack, err := s.conn.client.Unsubscribe(ctx, &paho.Unsubscribe{Topics: []string{"frazil/flush"}})
	if ack != nil {
		return nil // Whatever it says of a subscription that never was.
	}
	if err != nil {
		return unavailable(s.conn.why(err), "wait for the broker")
	}
	return nil
}
