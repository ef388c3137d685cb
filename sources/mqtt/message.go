package mqtt

import (
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
)

// message is what the broker sent.
type message struct {
	topic    string
	payload  []byte
	props    *properties // nil: none
	received time.Time
	via      wire
	ack      func() // of version 3.1.1
	id       uint16
	qos      byte
	retained bool
	// dup: the broker has sent it before.
	dup bool
}

// properties are those of a message of version 5.
type properties struct {
	user          [][2]string
	contentType   string
	responseTopic string
	correlation   []byte
	expiry        *uint32
}

// wire is one connection to the broker, from its start to its end.
type wire interface {
	// acknowledge sends what says that we have the messages, in their order; on a
	// connection that is gone it does nothing.
	acknowledge(ms []message)
	// replaced says that the connection is gone, and the broker sends its messages
	// that were not acknowledged once more on another one.
	replaced() bool
}

// key names a message of qos 2 until the broker has released its identifier: the
// same message sent again has the same.
func (m *message) key(client string) string {
	h := xxhash.New()
	_, _ = h.WriteString(m.topic) // A hash does not fail.
	_, _ = h.Write([]byte{0})
	_, _ = h.Write(m.payload)
	if m.props != nil {
		_, _ = fmt.Fprint(h, m.props.user, m.props.contentType, m.props.responseTopic, m.props.correlation)
	}
	return fmt.Sprintf("mqtt/%s/%d/%016x", client, m.id, h.Sum64())
}
