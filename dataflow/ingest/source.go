package ingest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// source reads a stream for the engine.
type source struct {
	s      *Stream
	env    *dataflow.Env
	schema *arrow.Schema
	bad    *dataflow.BadRows
	closed chan struct{}
	once   sync.Once
	// mu is held while entries are taken or dropped: Close may overlap with Poll.
	mu sync.Mutex

	assigned, paused, told bool
	pos, until             uint64 // until 0: none
	cursor                 *wal.Cursor
	// held is what was taken and not returned whole.
	held    entry
	hasHeld bool
	// extraBase are the extra fields that sources before this one told.
	extraBase map[string]int64
}

// Source returns a reader of the stream for one task. Closing it leaves the
// stream open.
func (s *Stream) Source(env *dataflow.Env) dataflow.Source {
	fields := append(append([]arrow.Field{}, s.schema.Fields()...),
		arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64},
		arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64, Nullable: true})
	return &source{s: s, env: env, schema: arrow.NewSchema(fields, nil), bad: dataflow.NewBadRows(env), closed: make(chan struct{}), extraBase: s.extra.base()}
}

// position is a sequence number in 20 digits: its bytes compare in stream order.
func position(seq uint64) dataflow.Position { return dataflow.Position(fmt.Sprintf("%020d", seq)) }

func parsePosition(p dataflow.Position) (uint64, error) {
	n, err := strconv.ParseUint(string(p), 10, 63)
	if err != nil || len(p) != 20 || n == 0 {
		return 0, dataflow.Permanentf("position %q: expected a sequence number in 20 digits", p)
	}
	return n, nil
}

// Assign implements dataflow.Source.
func (r *source) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	for _, at := range splits {
		if at.Split != Split {
			return dataflow.Permanentf("split %q is unknown: the stream has the split %s", at.Split, Split)
		}
		pos, until, err := r.s.log.First(), uint64(0), error(nil)
		if at.From != nil {
			if pos, err = parsePosition(at.From); err != nil {
				return err
			}
		}
		if at.Until != nil {
			if until, err = parsePosition(at.Until); err != nil {
				return err
			}
		}
		if read := max(pos, until); read > r.s.log.Next() {
			return dataflow.Permanentf("%w: the write-ahead log ends with record %d, and record %d was read from it before: its directory was removed or replaced. Put it back, or start anew with another state directory and other tables",
				dataflow.ErrGap, r.s.log.Next()-1, read-1)
		}
		if first := r.s.log.First(); pos < first {
			return dataflow.Permanentf("%w: the records %d to %d were committed and removed from the write-ahead log; the state that they made is needed to go on", dataflow.ErrGap, pos, first-1)
		}
		r.drop()
		r.pos, r.until, r.assigned, r.paused, r.told = pos, until, true, false, false
	}
	return nil
}

// Unassign implements dataflow.Source.
func (r *source) Unassign(_ context.Context, splits []dataflow.Split) error {
	r.drop()
	r.assigned = false
	return nil
}

// drop forgets what was read ahead.
func (r *source) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hasHeld {
		r.held.release()
		r.held, r.hasHeld = entry{}, false
	}
	if r.cursor != nil {
		r.cursor.Close()
		r.cursor = nil
	}
}

// Pause implements dataflow.Pauser.
func (r *source) Pause(...dataflow.Split) { r.paused = true }

// Resume implements dataflow.Pauser.
func (r *source) Resume(...dataflow.Split) { r.paused, r.told = false, false }

// Poll implements dataflow.Source.
func (r *source) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	var timeout <-chan time.Time
	for {
		select {
		case <-r.closed:
			return dataflow.Polled{}, ErrClosed
		default:
		}
		if err := ctx.Err(); err != nil {
			return dataflow.Polled{}, err
		}
		if err := r.s.err(); err != nil {
			return dataflow.Polled{}, err
		}
		var wake <-chan struct{}
		if r.assigned && !r.paused {
			p, w, err := r.pollOpen(limit)
			if err != nil || p.Split != "" {
				return p, err
			}
			wake = w
		}
		if timeout == nil {
			if limit.WaitMicros <= 0 {
				return dataflow.Polled{}, nil
			}
			t := time.NewTimer(time.Duration(limit.WaitMicros) * time.Microsecond)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-wake:
		case <-timeout:
			return dataflow.Polled{}, nil
		case <-ctx.Done():
		case <-r.closed:
		}
	}
}

// pollOpen polls unless the source is closed, which has dropped all then.
func (r *source) pollOpen(limit dataflow.PollLimit) (dataflow.Polled, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.closed:
		return dataflow.Polled{}, nil, ErrClosed
	default:
		return r.poll(limit)
	}
}

// poll takes what is there, up to the limits, or says by wake when more comes.
func (r *source) poll(limit dataflow.PollLimit) (dataflow.Polled, <-chan struct{}, error) {
	var out output
	for !out.full(limit) && (r.until == 0 || r.pos < r.until) {
		if !r.hasHeld {
			e, ok, wake, err := r.take()
			if err != nil {
				out.release()
				return dataflow.Polled{}, nil, err
			}
			if !ok {
				if out.empty() && r.told {
					return dataflow.Polled{}, wake, nil
				}
				r.told = true
				return r.polled(&out, true)
			}
			r.held, r.hasHeld = e, true
		}
		r.told = false
		r.cut(&out, limit)
	}
	if out.empty() && r.told {
		return dataflow.Polled{}, nil, nil
	}
	r.told = r.until != 0 && r.pos >= r.until
	return r.polled(&out, false)
}

// take returns the entry that holds pos, from memory or from the log.
func (r *source) take() (e entry, ok bool, wake <-chan struct{}, err error) {
	e, ok, end, wake := r.s.recent.from(r.pos)
	if ok || end {
		if r.cursor != nil {
			err = r.cursor.Close()
			r.cursor = nil
		}
		return e, ok, wake, err
	}
	if r.cursor == nil {
		if r.cursor, err = r.s.log.Read(r.pos); err != nil {
			return e, false, nil, err
		}
	}
	f, ok, err := r.cursor.Next()
	if err != nil || !ok {
		return e, false, wake, err
	}
	e, err = r.s.decode(f)
	return e, err == nil, wake, err
}

// decode reads a frame of the log.
func (s *Stream) decode(f wal.Frame) (entry, error) {
	e := entry{first: f.First, next: f.Next(), arrived: dataflow.Time(f.Arrived)}
	if f.Kind == wal.KindLost {
		s.logger.Warn("records of the write-ahead log were given up: they are left out", "first", e.first, "last", e.next-1)
		return e, nil
	}
	body, err := decodeBody(f.Body)
	if err != nil {
		return e, fmt.Errorf("read record %d of the write-ahead log: %w", f.First, err)
	}
	e.bads = body.bads
	if len(body.rows) == 0 {
		return e, e.check()
	}
	b, err := s.types.decodeRows(body.schema, body.rows)
	if err != nil {
		return e, fmt.Errorf("read record %d of the write-ahead log: %w", f.First, err)
	}
	if e.rows, err = fit(b, s.schema); err != nil {
		return e, notFitting(err)
	}
	if err := e.check(); err != nil {
		e.release()
		return e, fmt.Errorf("read record %d of the write-ahead log: %w", f.First, err)
	}
	return e, nil
}

// output is a batch under way.
type output struct {
	parts   []arrow.RecordBatch
	pos     []int64
	arrived []int64
	bads    int
	bytes   int64
}

func (o *output) full(limit dataflow.PollLimit) bool {
	return limit.Rows > 0 && len(o.pos) >= limit.Rows || limit.Bytes > 0 && o.bytes >= int64(limit.Bytes) || o.bads >= 8192
}

func (o *output) empty() bool { return len(o.pos) == 0 && o.bads == 0 }

func (o *output) release() {
	for _, b := range o.parts {
		b.Release()
	}
}

// cut moves what is wanted of held to out.
func (r *source) cut(out *output, limit dataflow.PollLimit) {
	e := &r.held
	stop := e.next
	if r.until != 0 {
		stop = min(stop, r.until)
	}
	good, bad := 0, 0 // index of the row and of the bad record at seq
	for seq := e.first; seq < r.pos; seq++ {
		if bad < len(e.bads) && e.bads[bad].at == seq-e.first {
			bad++
		} else {
			good++
		}
	}
	from := good
	for r.pos < stop && (limit.Rows <= 0 || len(out.pos) < limit.Rows) {
		if bad < len(e.bads) && e.bads[bad].at == r.pos-e.first {
			x := e.bads[bad]
			r.bad.AddRaw(&x.bad, Split, r.Locate(Split, int64(r.pos)), x.raw)
			bad++
			out.bads++
		} else {
			out.pos, out.arrived = append(out.pos, int64(r.pos)), append(out.arrived, int64(e.arrived))
			good++
		}
		r.pos++
	}
	if good > from {
		out.parts = append(out.parts, e.rows.NewSlice(int64(from), int64(good)))
		out.bytes += dataflow.BatchBytes(e.rows) * int64(good-from) / e.rows.NumRows()
	}
	if r.pos >= e.next {
		e.release()
		r.held, r.hasHeld = entry{}, false
	}
}

// polled closes the batch.
func (r *source) polled(out *output, caughtUp bool) (dataflow.Polled, <-chan struct{}, error) {
	defer out.release()
	p := dataflow.Polled{Split: Split, Next: position(r.pos), CaughtUp: caughtUp, AtUntil: r.until != 0 && r.pos >= r.until, Bad: r.bad.Flush()}
	if len(out.parts) == 0 {
		return p, nil, nil
	}
	cols := make([]arrow.Array, 0, r.schema.NumFields())
	defer func() { release(cols) }()
	for i := range r.s.schema.NumFields() {
		one := make([]arrow.Array, len(out.parts))
		for j, b := range out.parts {
			one[j] = b.Column(i)
		}
		if len(one) == 1 {
			one[0].Retain()
			cols = append(cols, one[0])
			continue
		}
		c, err := array.Concatenate(one, memory.DefaultAllocator)
		if err != nil {
			p.Release()
			return dataflow.Polled{}, nil, err
		}
		cols = append(cols, c)
	}
	cols = append(cols, ints(out.pos), ints(out.arrived))
	p.Batch = array.NewRecordBatch(r.schema, cols, int64(len(out.pos)))
	return p, nil, nil
}

func ints(v []int64) arrow.Array {
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(v, nil)
	return b.NewArray()
}

// Ack implements dataflow.Acker: what is committed is truncated.
func (r *source) Ack(_ context.Context, _ dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	p, ok := upTo[Split]
	if !ok {
		return nil
	}
	seq, err := parsePosition(p)
	if err != nil {
		return err
	}
	return r.s.acknowledge(seq)
}

// Discover implements dataflow.Discoverer.
func (r *source) Discover(context.Context) ([]dataflow.Split, error) {
	return []dataflow.Split{Split}, nil
}

// Start implements dataflow.Starter.
func (r *source) Start(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return r.Begin(ctx, splits)
}

// Begin implements dataflow.Starter.
func (r *source) Begin(context.Context, []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return map[dataflow.Split]dataflow.Position{Split: position(r.s.log.First())}, nil
}

// Ends implements dataflow.Ender: what is accepted now.
func (r *source) Ends(context.Context, []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return map[dataflow.Split]dataflow.Position{Split: position(r.s.log.Next())}, nil
}

// Locate implements dataflow.Locator.
func (r *source) Locate(_ dataflow.Split, pos int64) string { return strconv.FormatInt(pos, 10) }

// Close implements dataflow.Source.
func (r *source) Close() error {
	r.once.Do(func() { close(r.closed) })
	r.drop()
	return nil
}

var (
	_ dataflow.Source     = (*source)(nil)
	_ dataflow.Discoverer = (*source)(nil)
	_ dataflow.Starter    = (*source)(nil)
	_ dataflow.Ender      = (*source)(nil)
	_ dataflow.Acker      = (*source)(nil)
	_ dataflow.Locator    = (*source)(nil)
	_ dataflow.Pauser     = (*source)(nil)

	_ dataflow.ExtraCounter = (*source)(nil)
)
