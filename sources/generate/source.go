package generate

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

func init() {
	component.RegisterSource(component.Source[Config]{
		Name:    "generate",
		Summary: "Makes up records: a simulated fleet of devices, numbered rows, or the events of Nexmark.",
		Doc: `Delivery: the same configuration gives the same records in every run, and reading goes on exactly where it
stopped. Every split ends by itself after its share of the records; a counter without count and a nexmark with events 0
never end.

Order: by arrival along a split. The clock is simulated, starts at start and is also the arrival time that max_ahead
compares with. rate slows the source down and changes no record.

fleet sends JSON objects {"device", "site", "seq", "ts" (milliseconds), "temp", "humidity", "status"}; decode them
with {json: {schema: {device: string, site: string, seq: int64, ts: timestamptz(ms), temp: float64, humidity: float64,
status: string}}}. counter gives the columns n int64, split int32, ts timestamptz, key string, value float64.

nexmark gives the bids, the auctions or the people of the Nexmark benchmark, in its proportions and sizes and with its
hot keys: int64 numbers, strings, and times in timestamptz of whole milliseconds. Two sources with the same seed and
different only are two views of one stream: a bid's auction is an id that the auctions have. A bid may come before its
auction.

Memory: one batch, and some 100 bytes per device.`,
		Default: func() Config { return Config{} },
		Plan:    plan,
		New: func(_ context.Context, env *dataflow.Env, cfg Config) (dataflow.Source, error) {
			return newSource(env, cfg)
		},
	})
}

func plan(in component.SourceIn, cfg Config) (component.SourcePlan, error) {
	out := component.SourcePlan{Bounded: true, Arrived: true, Pauses: true}
	var p component.Problems
	switch {
	case cfg.kinds() != 1:
		return out, component.Badf("", "expected exactly one of fleet: {...}, counter: {...} and nexmark: {...}")
	case cfg.Fleet != nil:
		p = cfg.Fleet.check()
		if in.Decoded == nil {
			p = append(p, component.Problem{Path: "fleet", Msg: "the fleet sends JSON: add to the source decode: {json: {schema: " +
				"{device: string, site: string, seq: int64, ts: timestamptz(ms), temp: float64, humidity: float64, status: string}}}"})
		}
		out.Schema, out.Tasks = in.Decoded, cfg.Fleet.Splits
	case cfg.Nexmark != nil:
		p = cfg.Nexmark.check()
		if in.Decoded != nil {
			p = append(p, component.Problem{Path: "nexmark", Msg: "nexmark gives typed columns: remove decode from the source"})
		}
		if len(p) == 0 {
			out.Schema, out.Tasks, out.Bounded = cfg.Nexmark.schema(), cfg.Nexmark.Splits, cfg.Nexmark.Events > 0
		}
	default:
		p = cfg.Counter.check()
		if in.Decoded != nil {
			p = append(p, component.Problem{Path: "counter", Msg: "the counter gives typed columns: remove decode from the source"})
		}
		out.Schema, out.Tasks, out.Bounded = counterSchema, cfg.Counter.Splits, cfg.Counter.Count > 0
	}
	if len(p) > 0 {
		return component.SourcePlan{}, p
	}
	return out, nil
}

// kinds is how many blocks are given.
func (c Config) kinds() (n int) {
	for _, given := range []bool{c.Fleet != nil, c.Counter != nil, c.Nexmark != nil} {
		if given {
			n++
		}
	}
	return n
}

// source reads the splits of a stream, always the one that stands earliest in
// simulated time, so that no split runs ahead of the others.
type source struct {
	now    func() time.Time
	rate   int64 // per second and over all splits; 0: no limit
	closed chan struct{}
	once   sync.Once
	// stream makes the records. Its batch and close are called under mu; the
	// rest of it never changes.
	stream stream

	mu struct {
		sync.Mutex
		readers map[dataflow.Split]*reader
		order   []*reader // the same, by split
	}
}

// reader is an assigned split.
type reader struct {
	name  dataflow.Split
	split int
	next  int64
	until int64 // -1: none
	end   int64
	// since and base are where pacing began.
	since time.Time
	base  int64
	// rested: it said that it stands at its until or end, and has no more to say.
	rested bool
	// paused: it gives nothing until it is resumed.
	paused bool
}

func newSource(env *dataflow.Env, cfg Config) (*source, error) {
	s := &source{now: env.Now, closed: make(chan struct{})}
	if s.now == nil {
		s.now = time.Now
	}
	s.mu.readers = map[dataflow.Split]*reader{}
	switch {
	case cfg.Fleet != nil:
		fleet, err := NewFleet(*cfg.Fleet)
		if err != nil {
			return nil, err
		}
		st, err := newFleetStream(fleet, env)
		if err != nil {
			return nil, err
		}
		s.stream, s.rate = st, cfg.Fleet.Rate
	case cfg.Counter != nil:
		st, err := newCounterStream(*cfg.Counter, alloc(env))
		if err != nil {
			return nil, err
		}
		s.stream, s.rate = st, cfg.Counter.Rate
	case cfg.Nexmark != nil:
		st, err := newNexmarkStream(*cfg.Nexmark, alloc(env))
		if err != nil {
			return nil, err
		}
		// Events of all kinds are paced, of which this many become rows.
		s.stream, s.rate = st, cfg.Nexmark.Rate*st.kind.each/nexEpoch
		if cfg.Nexmark.Rate > 0 {
			s.rate = max(s.rate, 1)
		}
	default:
		return nil, errors.New("generate: no kind of records is configured")
	}
	return s, nil
}

// Assign implements dataflow.Source.
func (s *source) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range splits {
		n, err := s.number(at.Split)
		if err != nil {
			return err
		}
		r := &reader{name: at.Split, split: n, until: -1, end: s.stream.length(n), since: s.now()}
		if at.From != nil {
			if r.next, err = parsePosition(at.From); err != nil {
				return err
			}
		}
		if at.Until != nil {
			if r.until, err = parsePosition(at.Until); err != nil {
				return err
			}
			if r.until < r.next {
				return fmt.Errorf("split %s: until %s lies before from %s", at.Split, at.Until, at.From)
			}
		}
		if r.next > r.end {
			return dataflow.Permanentf("split %s: position %s lies behind its end %s: the source was configured with more records",
				at.Split, at.From, position(r.end))
		}
		r.base = r.next
		s.mu.readers[at.Split] = r
	}
	s.sort()
	return nil
}

// number parses a split's name.
func (s *source) number(split dataflow.Split) (int, error) {
	n, err := strconv.Atoi(string(split))
	if err != nil || n < 0 || n >= s.stream.splits() || splitName(n) != split {
		return 0, dataflow.Permanentf("split %q is unknown: the source has splits 0 to %d", split, s.stream.splits()-1)
	}
	return n, nil
}

// sort keeps the readers in the order of their splits, so that ties are always
// decided alike.
func (s *source) sort() {
	s.mu.order = s.mu.order[:0]
	for n := range s.stream.splits() {
		if r := s.mu.readers[splitName(n)]; r != nil {
			s.mu.order = append(s.mu.order, r)
		}
	}
}

// Unassign implements dataflow.Source.
func (s *source) Unassign(_ context.Context, splits []dataflow.Split) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, split := range splits {
		delete(s.mu.readers, split)
	}
	s.sort()
	return nil
}

// Pause implements dataflow.Pauser.
func (s *source) Pause(splits ...dataflow.Split) { s.setPaused(splits, true) }

// Resume implements dataflow.Pauser.
func (s *source) Resume(splits ...dataflow.Split) { s.setPaused(splits, false) }

func (s *source) setPaused(splits []dataflow.Split, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, split := range splits {
		if r := s.mu.readers[split]; r != nil {
			r.paused = paused
		}
	}
}

var errClosed = errors.New("generate: source is closed")

// Poll implements dataflow.Source.
func (s *source) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	most := time.Duration(limit.WaitMicros) * time.Microsecond
	for waited := false; ; waited = true {
		if err := ctx.Err(); err != nil {
			return dataflow.Polled{}, err
		}
		p, due, err := s.poll(limit)
		if err != nil || p.Split != "" || waited || most <= 0 {
			return p, err
		}
		t := time.NewTimer(min(due, most))
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-s.closed:
		}
		t.Stop()
	}
}

// poll takes a batch of the split that stands earliest, or says how long none
// will have one.
func (s *source) poll(limit dataflow.PollLimit) (dataflow.Polled, time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return dataflow.Polled{}, 0, errClosed
	default:
	}
	wait := time.Duration(1<<63 - 1)
	var pick *reader
	var pickAt dataflow.Time
	var pickTo int64
	for _, r := range s.mu.order {
		if r.rested || r.paused {
			continue
		}
		if r.next == r.stop() {
			return r.rest(), 0, nil
		}
		to, due := s.due(r)
		if to <= r.next {
			wait = min(wait, due)
			continue
		}
		if at := s.stream.arrived(r.split, r.next); pick == nil || at < pickAt {
			pick, pickAt, pickTo = r, at, to
		}
	}
	if pick == nil {
		return dataflow.Polled{}, wait, nil
	}
	return s.read(pick, pickTo, limit), 0, nil
}

// read takes a batch of r, up to the index to.
func (s *source) read(r *reader, to int64, limit dataflow.PollLimit) dataflow.Polled {
	rows, bytes := int64(limit.Rows), int64(limit.Bytes)
	if rows <= 0 {
		rows = 8192
	}
	if bytes <= 0 {
		bytes = 1 << 30
	}
	paced := to < r.stop()
	p := dataflow.Polled{Split: r.name}
	p.Batch, p.Bad, r.next = s.stream.batch(r.split, r.next, min(to, r.next+rows), bytes)
	if r.next == r.stop() {
		q := r.rest()
		p.Next, p.AtUntil, p.Ended, p.CaughtUp = q.Next, q.AtUntil, q.Ended, q.CaughtUp
		return p
	}
	p.Next = position(r.next)
	p.CaughtUp = paced && r.next == to
	return p
}

// due is the index up to which r may be read now and, if that is where it
// stands, how long until it may go on.
func (s *source) due(r *reader) (int64, time.Duration) {
	if s.rate == 0 {
		return r.stop(), 0
	}
	// Records per second of this split are rate/splits: kept as a fraction.
	splits := uint64(s.stream.splits())
	passed := uint64(max(0, s.now().Sub(r.since)))
	due := r.base + int64(muldiv(passed, uint64(s.rate), uint64(time.Second)*splits))
	if due > r.next {
		return min(due, r.stop()), 0
	}
	next := muldiv(uint64(r.next+1-r.base), uint64(time.Second)*splits, uint64(s.rate)) + 1
	return r.next, time.Duration(next - min(next, passed))
}

// muldiv is a*b/c, at most 1<<62.
func muldiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return 1 << 62
	}
	q, _ := bits.Div64(hi, lo, c)
	return min(q, 1<<62)
}

// stop is the index at which reading stops.
func (r *reader) stop() int64 {
	if r.until >= 0 && r.until < r.end {
		return r.until
	}
	return r.end
}

// rest says, once, that r stands where it stops.
func (r *reader) rest() dataflow.Polled {
	r.rested = true
	return dataflow.Polled{
		Split: r.name, Next: position(r.next), CaughtUp: r.next == r.end,
		AtUntil: r.next == r.until, Ended: r.next == r.end,
	}
}

// Close implements dataflow.Source.
func (s *source) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stream.close()
	})
	return nil
}

// Discover implements dataflow.Discoverer.
func (s *source) Discover(context.Context) ([]dataflow.Split, error) {
	var out []dataflow.Split
	for n := range s.stream.splits() {
		out = append(out, splitName(n))
	}
	return out, nil
}

// Start implements dataflow.Starter.
func (s *source) Start(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.Begin(ctx, splits)
}

// Begin implements dataflow.Starter.
func (s *source) Begin(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.each(splits, func(int) int64 { return 0 })
}

// Ends implements dataflow.Ender.
func (s *source) Ends(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	for n := range s.stream.splits() {
		if s.stream.length(n) == endless {
			return nil, dataflow.Permanentf("generate: the records have no end: set count (events of nexmark), or run without an end")
		}
	}
	return s.each(splits, s.stream.length)
}

// each needs no lock: number and length never change.
func (s *source) each(splits []dataflow.Split, index func(split int) int64) (map[dataflow.Split]dataflow.Position, error) {
	out := make(map[dataflow.Split]dataflow.Position, len(splits))
	for _, split := range splits {
		n, err := s.number(split)
		if err != nil {
			return nil, err
		}
		out[split] = position(index(n))
	}
	return out, nil
}

// Locate implements dataflow.Locator.
func (s *source) Locate(_ dataflow.Split, pos int64) string { return locate(pos) }

func locate(i int64) string { return strconv.FormatInt(i, 10) }

// position is the index of the next record in 20 digits: its bytes compare in
// stream order.
func position(i int64) dataflow.Position { return dataflow.Position(fmt.Sprintf("%020d", i)) }

func parsePosition(p dataflow.Position) (int64, error) {
	i, err := strconv.ParseInt(string(p), 10, 64)
	if err != nil || i < 0 || len(p) != 20 {
		return 0, dataflow.Permanentf("position %q: expected the index of a record in 20 digits", p)
	}
	return i, nil
}

var (
	_ dataflow.Source     = (*source)(nil)
	_ dataflow.Discoverer = (*source)(nil)
	_ dataflow.Starter    = (*source)(nil)
	_ dataflow.Ender      = (*source)(nil)
	_ dataflow.Locator    = (*source)(nil)
	_ dataflow.Pauser     = (*source)(nil)
)
