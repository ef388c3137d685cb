package http

import (
	"crypto/tls"
	"net"
	nethttp "net/http"
	"sync"
	"sync/atomic"
)

// limited is a listener of at most max connections. A new one beyond that closes
// the one that has been idle longest; if none is idle, it waits.
type limited struct {
	net.Listener
	max int
	// turn counts ends of requests.
	turn atomic.Int64

	mu     sync.Mutex
	free   *sync.Cond
	open   map[*conn]bool
	closed bool
}

// conn is one connection of a limited listener.
type conn struct {
	net.Conn
	of *limited
	// idle is greater the later the last request ended; 0: one is under way.
	idle atomic.Int64
	once sync.Once
}

func newLimited(ln net.Listener, max int) *limited {
	l := &limited{Listener: ln, max: max, open: map[*conn]bool{}}
	l.free = sync.NewCond(&l.mu)
	return l
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	out := &conn{Conn: c, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) >= l.max && !l.closed {
		if old := l.idlest(); old != nil {
			l.mu.Unlock()
			_ = old.Close() // It is gone either way.
			l.mu.Lock()
			continue
		}
		l.free.Wait()
	}
	l.open[out] = true
	return out, nil
}

func (l *limited) idlest() *conn {
	var best *conn
	for c := range l.open {
		if at := c.idle.Load(); at > 0 && (best == nil || at < best.idle.Load()) {
			best = c
		}
	}
	return best
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.mu.Lock()
	l.closed = true
	l.free.Broadcast()
	l.mu.Unlock()
	return l.Listener.Close()
}

// state follows which connections are idle.
func (l *limited) state(c net.Conn, s nethttp.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	x, ok := c.(*conn)
	if !ok {
		return
	}
	if s != nethttp.StateIdle {
		x.idle.Store(0)
		return
	}
	x.idle.Store(l.turn.Add(1))
	l.mu.Lock()
	if len(l.open) >= l.max {
		l.free.Broadcast()
	}
	l.mu.Unlock()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.open, c)
		c.of.free.Broadcast()
		c.of.mu.Unlock()
	})
	return c.Conn.Close()
}
