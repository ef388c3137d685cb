package network

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// weather is what happens to the packets of one way. The zero value is a fine day.
type weather struct {
	// delay of each packet.
	delay time.Duration
	// loss and early are shares of packets: those that are lost, and those that
	// are not delayed and so overtake others.
	loss, early float64
	// cut loses all.
	cut bool
}

// Ways of a packet.
const (
	up   = iota // to the server
	down        // from it
)

// link carries the packets between a namespace and the host.
type link struct {
	ns *namespace

	mu  sync.Mutex
	rng *rand.Rand
	// sky is the weather by port of the server, by way.
	sky map[uint16]*[2]weather
	// watch looks for a text in a packet to a server.
	watch []*watch
	// Packets that were carried, and what happened to others.
	carried, lost, cut, overtook int64
	wait                         [2]*pending
	closed                       bool
	work                         sync.WaitGroup
}

// watch calls then, once, when the n-th packet comes that begins with text.
type watch struct {
	port uint16
	text []byte
	n    int
	then func()
	seen chan struct{}
}

// newLink begins to carry packets, by chances that seed repeats.
func newLink(t *testing.T, seed uint64) *link {
	t.Helper()
	l := &link{ns: newNamespace(t), rng: rand.New(rand.NewPCG(seed, 0)), sky: map[uint16]*[2]weather{}}
	ends := [2]*os.File{up: l.ns.host, down: l.ns.device}
	for way, to := range ends {
		l.wait[way] = &pending{to: to, more: make(chan struct{}, 1)}
		l.work.Go(l.wait[way].send)
		l.work.Go(func() { l.carry(ends[1-way], way) })
	}
	t.Cleanup(func() {
		for way, end := range ends {
			end.Close() // Ends the reading.
			l.wait[way].close()
		}
		l.work.Wait()
	})
	return l
}

// port is the one of a HOST:PORT or a http://HOST:PORT.
func port(t *testing.T, addr string) uint16 {
	t.Helper()
	_, text, err := net.SplitHostPort(addr[max(0, 1+lastSlash(addr)):])
	n, atoi := strconv.ParseUint(text, 10, 16)
	if err := errors.Join(err, atoi); err != nil {
		t.Fatalf("the port of %s: %v", addr, err)
	}
	return uint16(n)
}

func lastSlash(s string) int { return bytes.LastIndexByte([]byte(s), '/') }

// set sets the weather between the program and a server.
func (l *link) set(server uint16, toServer, fromServer weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(server, toServer, fromServer)
}

// put is set for those who hold the lock.
func (l *link) put(server uint16, toServer, fromServer weather) {
	l.sky[server] = &[2]weather{up: toServer, down: fromServer}
}

// when calls then at the n-th packet to the server that begins with text, before the
// packet goes on. then holds the lock. The channel is closed afterwards.
func (l *link) when(server uint16, text string, n int, then func()) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &watch{server, []byte(text), n, then, make(chan struct{})}
	l.watch = append(l.watch, w)
	return w.seen
}

// count returns what happened so far.
func (l *link) count() (carried, lost, cut, overtook int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.carried, l.lost, l.cut, l.overtook
}

// carry reads the packets of one way.
func (l *link) carry(from *os.File, way int) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			continue // A device that goes down says so; it is closed next.
		}
		if at, ok := l.judge(buf[:n], way, time.Now()); ok {
			l.wait[way].add(bytes.Clone(buf[:n]), at)
		}
	}
}

// judge says when a packet goes on, or that it does not.
func (l *link) judge(packet []byte, way int, now time.Time) (time.Time, bool) {
	server, payload, ok := parse(packet, way)
	if !ok {
		return now, false // No TCP over IPv4: nobody needs it.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if way == up {
		l.look(server, payload)
	}
	w := weather{}
	if s := l.sky[server]; s != nil {
		w = s[way]
	}
	switch {
	case w.cut:
		l.cut++
		return now, false
	case w.loss > 0 && l.rng.Float64() < w.loss:
		l.lost++
		return now, false
	}
	l.carried++
	if w.early > 0 && l.rng.Float64() < w.early {
		l.overtook++
		return now, true
	}
	return now.Add(w.delay), true
}

func (l *link) look(server uint16, payload []byte) {
	for _, w := range l.watch {
		if w.n > 0 && w.port == server && bytes.HasPrefix(payload, w.text) {
			if w.n--; w.n == 0 {
				w.then()
				close(w.seen)
			}
		}
	}
}

// parse reads the server's port and the bytes that TCP carries.
func parse(packet []byte, way int) (server uint16, payload []byte, ok bool) {
	if len(packet) < 20 || packet[0]>>4 != 4 || packet[9] != 6 {
		return 0, nil, false
	}
	tcp := packet[min(len(packet), int(packet[0]&15)*4):]
	if len(tcp) < 20 {
		return 0, nil, false
	}
	// The destination port is the server's on the way up.
	server = binary.BigEndian.Uint16(tcp[2*(1-way):])
	return server, tcp[min(len(tcp), int(tcp[12]>>4)*4):], true
}

// pending are packets of one way that wait for their time.
type pending struct {
	to   *os.File
	more chan struct{}

	mu     sync.Mutex
	queue  queue
	number uint64
	closed bool
}

type packet struct {
	at     time.Time
	number uint64
	bytes  []byte
}

type queue []packet

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].number < q[j].number
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(packet)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (p *pending) add(b []byte, at time.Time) {
	p.mu.Lock()
	p.number++
	heap.Push(&p.queue, packet{at, p.number, b})
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *pending) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// send writes each packet at its time.
func (p *pending) send() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return
		}
		wait := time.Hour
		var due []byte
		if len(p.queue) > 0 {
			if wait = time.Until(p.queue[0].at); wait <= 0 {
				due = heap.Pop(&p.queue).(packet).bytes
			}
		}
		p.mu.Unlock()
		if due != nil {
			_, _ = p.to.Write(due) // A packet that finds no room is lost, as packets are.
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.more:
		}
	}
}
