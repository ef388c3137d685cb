package ingest

import (
	"sync"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// entry is a durable group: its good rows and its bad records, by sequence
// number.
type entry struct {
	first, next uint64
	rows        arrow.RecordBatch // nil: none
	bads        []badRecord
	arrived     dataflow.Time
}

func (e *entry) release() {
	if e.rows != nil {
		e.rows.Release()
	}
}

func (e *entry) bytes() int64 {
	n := int64(64)
	if e.rows != nil {
		n += dataflow.BatchBytes(e.rows)
	}
	for _, b := range e.bads {
		n += int64(len(b.raw)) + 64
	}
	return n
}

// recent holds what was written last, so that a reader that keeps up need not
// read it from the log. Safe for concurrent use.
type recent struct {
	limit int64
	mu    sync.Mutex
	list  []entry
	bytes int64
	// next is behind everything durable; wake is closed when it grows.
	next   uint64
	wake   chan struct{}
	closed bool
}

func (r *recent) init(limit int64) { r.limit, r.wake = limit, make(chan struct{}) }

// add takes over e's reference.
func (r *recent) add(e entry) {
	r.mu.Lock()
	r.next = e.next
	if r.closed {
		e.release()
	} else {
		r.list = append(r.list, e)
		r.bytes += e.bytes()
	}
	for r.bytes > r.limit && len(r.list) > 0 {
		r.drop()
	}
	r.mu.Unlock()
	r.poke()
}

// reach says that everything below next is durable, though it was not added.
func (r *recent) reach(next uint64) {
	r.mu.Lock()
	r.next = max(r.next, next)
	r.mu.Unlock()
	r.poke()
}

func (r *recent) drop() {
	r.bytes -= r.list[0].bytes()
	r.list[0].release()
	r.list[0] = entry{}
	if r.list = r.list[1:]; len(r.list) == 0 {
		r.list = nil
	}
}

// poke wakes the reader.
func (r *recent) poke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.wake)
	r.wake = make(chan struct{})
}

// from returns the entry that holds pos, with a reference of its own, and forgets
// those before it. ok is false if it is not here; end says that there is none yet.
func (r *recent) from(pos uint64) (e entry, ok, end bool, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.list) > 0 && r.list[0].next <= pos {
		r.drop()
	}
	if pos >= r.next {
		return e, false, true, r.wake
	}
	if len(r.list) == 0 || r.list[0].first > pos {
		return e, false, false, r.wake
	}
	e = r.list[0]
	if e.rows != nil {
		e.rows.Retain()
	}
	return e, true, false, r.wake
}

func (r *recent) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for len(r.list) > 0 {
		r.drop()
	}
}
