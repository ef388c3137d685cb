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

// Stream is one push stream. Submit, Forget and StreamStats are safe for
// concurrent use; one Source at a time reads it. It outlives the attempts of a
// run: make it in a source's Serve.
type Stream struct {
	cfg     Config
	schema  *arrow.Schema
	log     *wal.Log
	keys    *wal.Keys
	logger  *slog.Logger
	now     func() time.Time
	preview bool
	// queueBytes bounds the payloads that wait to be decoded.
	queueBytes int64
	types      schemas
	id         uint64
	// late holds the schemas of the frames that were found, and where their last one
	// ends.
	late map[uint64]uint64

	// dec, meta and width, the bytes of a row in the log, belong to gather.
	dec        dataflow.Decoder
	newDecoder func() (dataflow.Decoder, error)
	meta       []array.Builder
	metaFields []arrow.Field
	width      int64
	extra      extras
	// down, full and reserved belong to commit. down: the log must be opened anew;
	// full: the last append found no room.
	down, full, reserved bool

	groups chan *group
	ended  sync.WaitGroup // gather and commit
	saving chan bool
	saved  sync.WaitGroup

	mu struct {
		sync.Mutex
		queue []*Request
		bytes int64 // of payloads in queue
		wake  chan struct{}
		// closed: nothing is taken any more. ended: nobody will be told of a commit.
		closed, ended bool
		// broken ends the stream for good, trouble is being tried again.
		broken, trouble error
		inflight        map[wal.Key]*keyed
		windows         map[wal.Key]*window
		// waiting holds requests of ack: commit that are durable.
		waiting []waiting
		acked   uint64
	}
	recent recent
	traces traces
	stats  counters
}

// Open opens the stream of env's step and recovers what its log holds.
func Open(env *dataflow.Env, cfg Config, spec Spec) (*Stream, error) {
	dir := filepath.Join(env.WALDir, env.Step)
	s := &Stream{
		cfg: cfg, schema: spec.Schema(), logger: env.Log, now: env.Now, preview: env.Preview, groups: make(chan *group, 1), saving: make(chan bool, 1),
		types: schemas{known: map[uint64][]byte{}}, late: map[uint64]uint64{}, width: 128, queueBytes: max(env.Memory/4, 4<<20),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.mu.wake, s.mu.inflight, s.mu.windows = make(chan struct{}, 1), map[wal.Key]*keyed{}, map[wal.Key]*window{}
	s.recent.init(max(env.Memory/2, 1<<20))
	var err error
	s.newDecoder, s.metaFields = env.NewDecoder, spec.Meta
	if s.dec, err = s.newDecoder(); err != nil {
		return nil, err
	}
	if err := s.openLog(dir, env.FS); err != nil {
		return nil, corrupt(err)
	}
	s.newMeta()
	s.mu.acked = s.log.Backlog().Acked
	s.recent.next = s.log.Next()
	s.ended.Add(2)
	s.saved.Add(1)
	go s.gather()
	go s.commit()
	go s.save()
	return s, nil
}

// newMeta makes the builders of the metadata columns.
func (s *Stream) newMeta() {
	s.meta = make([]array.Builder, len(s.metaFields))
	for i, f := range s.metaFields {
		s.meta[i] = array.NewBuilder(memory.DefaultAllocator, f.Type)
	}
}

// openLog opens the keys and the log, and checks that the rows in it fit.
func (s *Stream) openLog(dir string, fs wal.FS) (err error) {
	if s.keys, err = wal.OpenKeys(dir, wal.KeysOptions{FS: fs, Keep: s.cfg.Idempotency.Keep.D(), Max: int(s.cfg.Idempotency.Keys), Now: s.now, Log: s.logger}); err != nil {
		return err
	}
	s.log, err = wal.Open(dir, wal.Options{
		FS: fs, Log: s.logger, SegmentBytes: segmentBytes(s.cfg), Visit: s.restore,
		Retire: func(uint64) error { return s.keys.Save() },
	})
	if err != nil {
		return errors.Join(err, s.keys.Close())
	}
	s.types.files = s.log
	if s.id, err = s.types.keep(s.log, s.schema); err == nil {
		err = s.checkLate()
	}
	if err != nil {
		return errors.Join(err, s.log.Close(), s.keys.Close())
	}
	return nil
}

// checkLate refuses rows that are not committed and do not fit the schema of now.
func (s *Stream) checkLate() error {
	acked := s.log.Backlog().Acked
	for id, next := range s.late {
		if next <= acked || id == s.id {
			continue
		}
		have, err := s.types.schema(id)
		if err != nil {
			return err
		}
		if err := fits(have, s.schema); err != nil {
			return notFitting(err)
		}
	}
	return nil
}

func notFitting(err error) error {
	return dataflow.Permanent(fmt.Errorf("%w: run the pipeline as it was until everything is committed (\"frazil wal\" shows it), then change it", err))
}

// corrupt makes an error of a damaged log one that starting again does not help.
func corrupt(err error) error {
	if errors.Is(err, wal.ErrCorrupt) || errors.Is(err, wal.ErrVersion) {
		return dataflow.Permanent(fmt.Errorf("%w; nothing was changed. \"frazil wal check\" shows what is there", err))
	}
	return err
}

// segmentBytes lets a commit make room well before the high-water mark.
func segmentBytes(cfg Config) int64 {
	return min(max(int64(cfg.Buffer.Bytes)/8, 1<<20), 16<<20)
}

// Submit hands a request over and returns at once. An error refuses it: nothing of
// it was kept, Done is not called, and Batch is still the caller's. A *BusyError
// says that trying again later may help.
func (s *Stream) Submit(r *Request) error {
	if r.Producer != "" && r.Key == "" && r.Sequence == 0 {
		return errors.New("the requests of a producer are numbered from 1")
	}
	if err := s.busy(); err != nil {
		s.refused(err)
		return err
	}
	r.name()
	if r.Trace.IsSampled() {
		r.submitted = s.now()
	}
	r.size = requestBytes
	for _, p := range r.Records {
		r.size += int64(len(p))
	}
	for _, x := range r.Bad {
		r.size += int64(len(x.Raw))
	}
	if r.Batch != nil {
		r.size += dataflow.BatchBytes(r.Batch)
	}
	err := s.enqueue(r)
	if err != nil {
		s.refused(err)
	}
	return err
}

func (s *Stream) enqueue(r *Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return ErrClosed
	case s.mu.broken != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, s.mu.broken)
	case s.mu.trouble != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, s.mu.trouble)
	case s.mu.bytes > s.queueBytes:
		return &BusyError{Reason: "queue", RetryAfter: retryAfter, Detail: "more requests wait than can be written"}
	}
	s.mu.queue = append(s.mu.queue, r)
	s.mu.bytes += r.size
	select {
	case s.mu.wake <- struct{}{}:
	default:
	}
	return nil
}

const (
	// requestBytes is about what a request takes beside its payloads.
	requestBytes = 512
	retryAfter   = time.Second
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
		for n < len(s.mu.queue) && n < groupRequests && size < groupBytes {
			size += s.mu.queue[n].size
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
	groupRequests = 8192
	groupBytes    = 2 << 20
)

// err says why the stream cannot be read.
func (s *Stream) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return ErrClosed
	}
	return s.mu.broken
}

// Close stops taking requests, writes and answers those that wait, and closes the
// log. Producers that wait for a commit are told ErrNotCommitted.
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	select {
	case s.mu.wake <- struct{}{}:
	default:
	}
	s.mu.Unlock()
	s.ended.Wait()
	s.saved.Wait()
	s.mu.Lock()
	s.mu.ended = true
	waiting := s.mu.waiting
	s.mu.waiting = nil
	s.mu.Unlock()
	for _, w := range waiting {
		w.done(ErrNotCommitted)
	}
	s.recent.close()
	for _, a := range s.dec.Flush() {
		a.Release()
	}
	if d, ok := s.dec.(interface{ Release() }); ok {
		d.Release() // What it keeps between batches.
	}
	for _, b := range s.meta {
		b.Release()
	}
	return errors.Join(s.log.Close(), s.keys.Close())
}
