package ingest

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Spec says what rows a stream has.
type Spec struct {
	// Decoded is the schema of the decode block.
	Decoded *arrow.Schema
	// Meta are the metadata columns behind it.
	Meta []arrow.Field
}

// Schema is that of the rows: the decoded columns, then the metadata.
func (s Spec) Schema() *arrow.Schema {
	return arrow.NewSchema(append(append([]arrow.Field{}, s.Decoded.Fields()...), s.Meta...), nil)
}

// Split is the only split of a push stream.
const Split dataflow.Split = "0"

// Stream is one push stream. Submit and Stats are safe for concurrent use; one
// Source at a time reads it. It outlives the attempts of a run: make it in a
// source's Serve.
type Stream struct {
	cfg    Config
	spec   Spec
	schema *arrow.Schema
	log    *wal.Log
	logger *slog.Logger
	now    func() time.Time
	dec    dataflow.Decoder
	meta   []array.Builder
	types  schemas
	id     uint64

	groups chan *group
	ended  sync.WaitGroup

	mu struct {
		sync.Mutex
		queue  []*Request
		bytes  int64 // of payloads in queue
		wake   chan struct{}
		closed bool
		broken error
		keys   map[string]*keyed
		// waiting holds requests of ack: commit that are durable.
		waiting []waiting
		acked   uint64
	}
	recent recent
	stats  counters
}

// waiting is a request that is answered when everything up to last is committed.
type waiting struct {
	last uint64
	done func()
}

// Open opens the stream of env's step and recovers what its log holds.
func Open(env *dataflow.Env, cfg Config, spec Spec) (*Stream, error) {
	dir := filepath.Join(env.WALDir, env.Step)
	s := &Stream{
		cfg: cfg, spec: spec, schema: spec.Schema(), logger: env.Log, now: env.Now, groups: make(chan *group, 1),
		types: schemas{dir: dir, known: map[uint64][]byte{}},
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.mu.wake, s.mu.keys = make(chan struct{}, 1), map[string]*keyed{}
	s.recent.init(max(env.Memory/2, 1<<20))
	var err error
	if s.dec, err = env.NewDecoder(); err != nil {
		return nil, err
	}
	for _, f := range spec.Meta {
		s.meta = append(s.meta, array.NewBuilder(memory.DefaultAllocator, f.Type))
	}
	if s.log, err = wal.Open(dir, wal.Options{Log: s.logger, SegmentBytes: segmentBytes(cfg)}); err != nil {
		if errors.Is(err, wal.ErrCorrupt) {
			err = dataflow.Permanent(fmt.Errorf("%w; nothing was changed. \"frazil wal\" shows what is there", err))
		}
		return nil, err
	}
	if s.id, err = s.types.keep(s.schema); err == nil {
		err = s.restoreKeys()
	}
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	s.mu.acked = s.log.Backlog().Acked
	s.recent.next = s.log.Next()
	s.ended.Add(2)
	go s.gather()
	go s.commit()
	return s, nil
}

// segmentBytes lets a commit make room well before the high-water mark.
func segmentBytes(cfg Config) int64 {
	return min(max(int64(cfg.Buffer.Bytes)/8, 1<<20), 16<<20)
}

// Submit hands a request over and returns at once. An error refuses it: Done is
// not called then. A *BusyError says that trying again later may help.
func (s *Stream) Submit(r *Request) error {
	if err := s.busy(); err != nil {
		s.refused(err)
		return err
	}
	size := int64(0)
	for _, p := range r.Records {
		size += int64(len(p))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.broken != nil:
		return s.mu.broken
	case s.mu.closed:
		return ErrClosed
	case s.mu.bytes > queueBytes:
		s.stats.refuse("queue", 1)
		return &BusyError{Reason: "queue", RetryAfter: retryAfter, Detail: "more requests wait than can be written"}
	}
	s.mu.queue = append(s.mu.queue, r)
	s.mu.bytes += size
	select {
	case s.mu.wake <- struct{}{}:
	default:
	}
	return nil
}

const (
	// queueBytes bounds the payloads that wait to be decoded.
	queueBytes = 32 << 20
	retryAfter = time.Second
)

// busy says why nothing is taken now.
func (s *Stream) busy() error {
	b, limit := s.log.Backlog(), s.cfg.Buffer
	refuse := func(reason, format string, args ...any) error {
		return &BusyError{Reason: reason, RetryAfter: retryAfter, Detail: fmt.Sprintf(format, args...)}
	}
	switch {
	case b.Bytes >= int64(limit.Bytes):
		return refuse("bytes", "%d bytes are accepted and not committed, the limit is %s (buffer.bytes)", b.Bytes, limit.Bytes)
	case limit.Rows > 0 && b.Rows >= limit.Rows:
		return refuse("rows", "%d rows are accepted and not committed, the limit is %d (buffer.rows)", b.Rows, limit.Rows)
	}
	if limit.Age > 0 && b.Oldest > 0 {
		if age := s.now().Sub(time.UnixMicro(b.Oldest)); age > limit.Age.D() {
			return refuse("age", "records have waited %s for a commit, the limit is %s (buffer.age)", age.Round(time.Second), limit.Age)
		}
	}
	return nil
}

// take waits for requests and takes some of those that wait; nil: the stream is
// closed and nothing waits.
func (s *Stream) take() []*Request {
	for {
		s.mu.Lock()
		n, size := 0, int64(0)
		for n < len(s.mu.queue) && n < groupRows && size < groupBytes {
			for _, p := range s.mu.queue[n].Records {
				size += int64(len(p))
			}
			n++
		}
		if n > 0 {
			out := s.mu.queue[:n:n]
			if s.mu.queue = s.mu.queue[n:]; len(s.mu.queue) == 0 {
				s.mu.queue = nil
			}
			s.mu.bytes -= size
			s.mu.Unlock()
			return out
		}
		closed := s.mu.closed
		s.mu.Unlock()
		if closed {
			return nil
		}
		<-s.mu.wake
	}
}

// Bounds of what is written with one sync.
const (
	groupRows  = 8192
	groupBytes = 2 << 20
)

// fail answers requests with err.
func fail(rs []*Request, err error) {
	for _, r := range rs {
		r.Done(Result{}, err)
	}
}

// acknowledge notes that everything below upTo is committed.
func (s *Stream) acknowledge(upTo uint64) error {
	s.mu.Lock()
	s.mu.acked = max(s.mu.acked, upTo)
	n := 0
	for n < len(s.mu.waiting) && s.mu.waiting[n].last < upTo {
		n++
	}
	ready := s.mu.waiting[:n:n]
	s.mu.waiting = s.mu.waiting[n:]
	s.mu.Unlock()
	for _, w := range ready {
		w.done()
	}
	return s.log.Truncate(upTo)
}

// Close stops taking requests, writes and answers those that wait, and closes
// the log.
func (s *Stream) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	waiting := s.mu.waiting
	s.mu.waiting = nil
	select {
	case s.mu.wake <- struct{}{}:
	default:
	}
	s.mu.Unlock()
	s.ended.Wait()
	_ = waiting // Durable, not committed: their producers get no answer.
	s.recent.close()
	for _, a := range s.dec.Flush() {
		a.Release()
	}
	for _, b := range s.meta {
		b.Release()
	}
	return s.log.Close()
}

func (s *Stream) refused(err error) {
	var busy *BusyError
	if errors.As(err, &busy) {
		s.stats.refuse(busy.Reason, 1)
	}
}
