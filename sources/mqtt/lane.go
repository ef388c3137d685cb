package mqtt

import (
	"errors"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/ingest"
)

// lane takes the messages of one link to the stream, in their order, and
// acknowledges them when they are durable.
//
// Three goroutines: the link's network loop puts messages in (put) and waits for
// nothing; feed submits them; settle waits until they are durable and acknowledges
// them.
type lane struct {
	srv     *server
	client  string                // id of the session
	topics  dataflow.TopicDecoder // nil: a payload is one row
	learner learner               // nil: topics learns nothing
	births  *births
	asked   map[string]time.Time // when a topic was asked last
	inflater

	wake    chan struct{}
	pending chan *batch
	stop    chan struct{} // closed: nothing more is submitted
	ended   sync.WaitGroup

	mu struct {
		sync.Mutex
		list []message
		qos0 int64 // bytes of messages of qos 0 in list
		// keys are those of messages of qos 2 that are not released.
		keys map[uint16]string
	}
}

const (
	// batchMessages and batchBytes bound what is submitted at once.
	batchMessages = 2048
	batchBytes    = 1 << 20
	// qos0Bytes bounds the messages of qos 0 that wait; more are dropped.
	qos0Bytes = 8 << 20
	// messageBytes is about what a message costs beside its payload.
	messageBytes = 200
	// retryEvery is how long a refused request waits before it is tried again.
	retryEvery = 200 * time.Millisecond
)

// newLane starts a lane; topics is nil where a payload is one row.
func newLane(srv *server, client string, topics dataflow.TopicDecoder, learnt *births) *lane {
	l := &lane{srv: srv, client: client, topics: topics, births: learnt, wake: make(chan struct{}, 1), pending: make(chan *batch, 64), stop: make(chan struct{})}
	l.inflater = inflater{how: srv.cfg.Compression, limit: int(srv.cfg.MaxPayload)}
	l.learner, _ = topics.(learner)
	l.asked = map[string]time.Time{}
	l.mu.keys = map[uint16]string{}
	l.ended.Add(2)
	go l.feed()
	go l.settle()
	return l
}

// put adds a message. It never waits.
func (l *lane) put(m message) {
	size := int64(len(m.payload)) + messageBytes
	l.mu.Lock()
	if m.qos == 0 {
		if l.mu.qos0+size > qos0Bytes {
			l.mu.Unlock()
			l.srv.counts.add("qos0_dropped", 1)
			return
		}
		l.mu.qos0 += size
	}
	l.mu.list = append(l.mu.list, m)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take waits for messages; nil: the lane ends.
func (l *lane) take() []message {
	for {
		select {
		case <-l.stop:
			return nil
		default:
		}
		l.mu.Lock()
		n, size := 0, 0
		for n < len(l.mu.list) && n < batchMessages && size < batchBytes {
			m := &l.mu.list[n]
			size += len(m.payload)
			if m.qos == 0 {
				l.mu.qos0 -= int64(len(m.payload)) + messageBytes
			}
			n++
		}
		if n > 0 {
			out := l.mu.list[:n:n]
			if l.mu.list = l.mu.list[n:]; len(l.mu.list) == 0 {
				l.mu.list = nil
			}
			l.mu.Unlock()
			return out
		}
		l.mu.Unlock()
		select {
		case <-l.wake:
		case <-l.stop:
			return nil
		}
	}
}

// batch is what is acknowledged together.
type batch struct {
	messages []message
	units    []*unit
}

// unit is one request of a batch.
type unit struct {
	req ingest.Request
	// messages are those of the batch that it holds.
	messages []message
	done     chan struct{}
	err      error
}

func (l *lane) feed() {
	defer l.ended.Done()
	defer close(l.pending)
	for {
		ms := l.take()
		if ms == nil {
			return
		}
		b := l.prepare(ms)
		l.learnt()
		for _, u := range b.units {
			if !l.submit(u) {
				return
			}
		}
		select {
		case l.pending <- b:
		case <-l.stop:
			return
		}
	}
}

// askEvery is how often a topic is asked at most.
const askEvery = 10 * time.Second

// learnt looks at what the decoder has noticed in the last messages.
func (l *lane) learnt() {
	if l.learner == nil {
		return
	}
	if err := l.births.sync(); err != nil {
		l.srv.log.Error("keep births: after a restart they will be asked for", "error", err)
	}
	for name, n := range l.learner.Counts() {
		l.srv.counts.add(name, n)
	}
	now := l.srv.now()
	asks := l.learner.Asks(now.UnixMilli())
	if !l.srv.cfg.Rebirth || l.srv.env.Preview {
		return
	}
	for topic, payload := range asks {
		if now.Sub(l.asked[topic]) < askEvery {
			continue
		}
		l.asked[topic] = now
		l.srv.counts.add("rebirths_asked", 1)
		l.srv.ask(topic, payload)
	}
}

// submit gives u's request to the stream, again and again while that is busy;
// false: the lane ends. A request whose messages come again by themselves is given
// up.
func (l *lane) submit(u *unit) bool {
	u.done, u.err = make(chan struct{}), nil
	r := u.req
	r.Done = func(_ ingest.Result, err error) {
		u.err = err
		close(u.done)
	}
	for {
		if l.lost(u) {
			u.err = errReplaced
			close(u.done)
			return true
		}
		if r.Batch != nil {
			r.Batch.Retain() // The stream releases one.
		}
		err := l.srv.stream.Submit(&r)
		if err == nil {
			return true
		}
		if r.Batch != nil {
			r.Batch.Release()
		}
		if errors.Is(err, ingest.ErrClosed) || !l.pause(retryEvery) {
			return false
		}
	}
}

// errReplaced: the broker sends the messages once more.
var errReplaced = errors.New("the connection was replaced")

// lost says that all messages of u come once more.
func (l *lane) lost(u *unit) bool {
	for i := range u.messages {
		if m := &u.messages[i]; m.qos == 0 || !m.via.replaced() {
			return false
		}
	}
	return true
}

func (l *lane) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.stop:
		return false
	}
}

// settle acknowledges batches in their order.
func (l *lane) settle() {
	defer l.ended.Done()
	for b := range l.pending {
		for _, u := range b.units {
			if !l.durable(u) {
				return
			}
		}
		l.acknowledge(b)
		release(b.units)
	}
}

// durable waits for u; false: the lane ends.
func (l *lane) durable(u *unit) bool {
	for {
		select {
		case <-u.done:
		case <-l.srv.closing:
			return false
		}
		switch {
		case u.err == nil || errors.Is(u.err, errReplaced):
			return true
		case errors.Is(u.err, ingest.ErrClosed):
			return false
		}
		// It was not written: the disk was full, say. The same records once more.
		if !l.pause(retryEvery) || !l.submit(u) {
			return false
		}
	}
}

// acknowledge tells the wires of b's messages, in order.
func (l *lane) acknowledge(b *batch) {
	ms := b.messages
	for i := 0; i < len(ms); {
		j := i + 1
		for j < len(ms) && ms[j].via == ms[i].via {
			j++
		}
		ms[i].via.acknowledge(ms[i:j])
		i = j
	}
}

// released: the broker is done with the identifier of a message of qos 2.
func (l *lane) released(id uint16) {
	l.mu.Lock()
	key := l.mu.keys[id]
	delete(l.mu.keys, id)
	l.mu.Unlock()
	if key != "" {
		l.srv.stream.Forget(key)
	}
}

// begin is called when a connection is up, before its first message.
func (l *lane) begin(present bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if present {
		// What was not submitted comes once more.
		kept := l.mu.list[:0:0]
		for _, m := range l.mu.list {
			if m.qos == 0 || !m.via.replaced() {
				kept = append(kept, m)
			}
		}
		l.mu.list = kept
		return
	}
	for id, key := range l.mu.keys {
		l.srv.stream.Forget(key)
		delete(l.mu.keys, id)
	}
}
