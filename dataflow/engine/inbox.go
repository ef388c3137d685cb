package engine

import (
	"context"
	"errors"
	"sync"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// errStopped ends a task whose run is over.
var errStopped = errors.New("the run is over")

type messageKind uint8

const (
	msgBatch messageKind = iota
	msgWatermark
	msgBarrier
	msgEnd
	// msgAsk is no event of the stream: a question that the task's goroutine
	// answers between two of them.
	msgAsk
)

// message is what travels on an edge.
type message struct {
	kind  messageKind
	port  int
	batch arrow.RecordBatch // owned by the message
	bytes int64
	wm    dataflow.Time
	bar   barrier
	ask   func()
}

// barrier cuts the stream. Unmute names sinks that stop being muted behind it.
type barrier struct {
	epoch  dataflow.Epoch
	unmute []string
}

// inbox is the one queue of a task: an edge per sender, bounded in bytes and
// rows per edge (D3). Any number of senders, one receiver. An edge that has
// delivered a barrier is not read until all have (I2).
type inbox struct {
	mu       sync.Mutex
	recv     *sync.Cond
	send     *sync.Cond
	edges    []*inEdge
	next     int
	asks     []func()
	stopped  bool
	held     bool // nothing but questions is taken
	maxBytes int64
	maxRows  int64
}

type inEdge struct {
	q       []message
	head    int
	bytes   int64
	rows    int64
	blocked bool
}

func newInbox(maxBytes, maxRows int64) *inbox {
	in := &inbox{maxBytes: maxBytes, maxRows: maxRows}
	in.recv, in.send = sync.NewCond(&in.mu), sync.NewCond(&in.mu)
	return in
}

// addEdge is called while the graph is built, before anything runs.
func (in *inbox) addEdge() int {
	in.edges = append(in.edges, &inEdge{})
	return len(in.edges) - 1
}

// stop wakes everybody; put and take return errStopped from then on.
func (in *inbox) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopped = true
	for _, e := range in.edges {
		for _, m := range e.q[e.head:] {
			if m.batch != nil {
				m.batch.Release()
			}
		}
		e.q, e.head = nil, 0
	}
	in.asks = nil
	in.recv.Broadcast()
	in.send.Broadcast()
}

// put hands m over. It blocks while the edge is full; a batch is always taken
// by an empty edge, control messages always.
func (in *inbox) put(edge int, m message) error {
	e := in.edges[edge]
	var rows int64
	in.mu.Lock()
	defer in.mu.Unlock()
	if m.kind == msgBatch {
		rows, m.bytes = m.batch.NumRows(), dataflow.BatchBytes(m.batch)
		for !in.stopped && e.rows > 0 && (e.bytes+m.bytes > in.maxBytes || e.rows+rows > in.maxRows) {
			in.send.Wait()
		}
	}
	if in.stopped {
		if m.batch != nil {
			m.batch.Release()
		}
		return errStopped
	}
	if e.head > 0 && e.head == len(e.q) {
		e.q, e.head = e.q[:0], 0
	}
	// Only the newest watermark behind the last batch matters.
	if n := len(e.q); m.kind == msgWatermark && n > e.head && e.q[n-1].kind == msgWatermark {
		e.q[n-1] = m
	} else {
		e.q = append(e.q, m)
	}
	e.bytes += m.bytes
	e.rows += rows
	in.recv.Signal()
	return nil
}

// ask has the task's goroutine call f between two messages, before whatever
// waits. f is not called if the run ends first: then ask or the run's end says so.
func (in *inbox) ask(f func()) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped {
		return errStopped
	}
	in.asks = append(in.asks, f)
	in.recv.Signal()
	return nil
}

// take waits for the next message of an edge that may be read, or a question.
func (in *inbox) take() (edge int, m message, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for {
		if in.stopped {
			return 0, message{}, errStopped
		}
		if len(in.asks) > 0 {
			ask := in.asks[0]
			in.asks = in.asks[1:]
			return 0, message{kind: msgAsk, ask: ask}, nil
		}
		if in.held {
			in.recv.Wait()
			continue
		}
		for i := range in.edges {
			k := (in.next + i) % len(in.edges)
			e := in.edges[k]
			if e.blocked || e.head == len(e.q) {
				continue
			}
			m := e.q[e.head]
			e.q[e.head] = message{}
			if e.head++; e.head == len(e.q) {
				e.q, e.head = e.q[:0], 0
			}
			if m.kind == msgBatch {
				e.bytes -= m.bytes
				e.rows -= m.batch.NumRows()
				in.send.Broadcast()
			}
			in.next = (k + 1) % len(in.edges)
			return k, m, nil
		}
		in.recv.Wait()
	}
}

// hold keeps everything but questions from being taken until release, if must
// says so; what makes must change comes before release.
func (in *inbox) hold(must func() bool) {
	in.mu.Lock()
	in.held = must()
	in.mu.Unlock()
}

func (in *inbox) release() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.held {
		in.held = false
		in.recv.Broadcast()
	}
}

// block keeps the edge from being read until unblock.
func (in *inbox) block(edge int) {
	in.mu.Lock()
	in.edges[edge].blocked = true
	in.mu.Unlock()
}

func (in *inbox) unblock() {
	in.mu.Lock()
	for _, e := range in.edges {
		e.blocked = false
	}
	in.mu.Unlock()
}

// size reports what waits, for metrics.
func (in *inbox) size() (bytes, rows int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range in.edges {
		bytes += e.bytes
		rows += e.rows
	}
	return bytes, rows
}

// merger tracks the edges of one task: the least watermark over the edges that
// have not ended and the alignment of barriers. There is no idle edge: an idle
// task of a source goes on sending its source's watermark, because a receiver
// that left an edge out could close a window before rows that are on their way
// on that edge say so by their own stamps.
type merger struct {
	wms     []dataflow.Time
	done    []bool
	barred  []bool
	current dataflow.Time
}

func newMerger(n int) *merger {
	m := &merger{wms: make([]dataflow.Time, n), done: make([]bool, n), barred: make([]bool, n), current: dataflow.MinTime}
	for i := range m.wms {
		m.wms[i] = dataflow.MinTime
	}
	return m
}

// watermark notes an edge's watermark and says whether the task's rises (I5).
func (m *merger) watermark(edge int, wm dataflow.Time) (dataflow.Time, bool) {
	m.wms[edge] = max(m.wms[edge], wm)
	least := dataflow.MaxTime
	for i, w := range m.wms {
		if !m.done[i] {
			least = min(least, w)
		}
	}
	if least <= m.current {
		return m.current, false
	}
	m.current = least
	return least, true
}

// barrier notes one edge's barrier and says whether all have brought it.
func (m *merger) barrier(edge int) bool {
	m.barred[edge] = true
	for i := range m.barred {
		if !m.barred[i] && !m.done[i] {
			return false
		}
	}
	clear(m.barred)
	return true
}

// end notes that an edge has ended and says whether all have.
func (m *merger) end(edge int) bool {
	m.done[edge] = true
	for _, d := range m.done {
		if !d {
			return false
		}
	}
	return true
}

// stage is the next piece of a chain: a fused operator or the way into another
// task's inbox. All calls come from the task's goroutine.
type stage interface {
	// process borrows b.
	process(ctx context.Context, b arrow.RecordBatch) error
	watermark(ctx context.Context, wm dataflow.Time) error
	barrier(ctx context.Context, b barrier) error
	end(ctx context.Context) error
}
