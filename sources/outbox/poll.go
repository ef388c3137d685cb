package outbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"
)

// pollTable is a table that is read in rounds: what can be seen and was not read, in the
// order of the keys. One goroutine uses it.
type pollTable interface {
	// begin opens a round for what p does not have.
	begin(ctx context.Context, p pollPosition) error
	// next reads one row into vals; false: the round has no more.
	next(vals []value) (bool, error)
	// reached is p behind the rows that next gave; whole: next gave all. ok is false where
	// no position says that, in the middle of a round.
	reached(p pollPosition, whole bool) (next pollPosition, ok bool)
	// latest is the position behind all that can be seen now.
	latest(ctx context.Context) (pollPosition, error)
	// trouble is what keeps a round from reading on, in words; "" if nothing does.
	trouble() string
	// close ends the connection.
	close()
}

// poller reads an outbox by queries. What one round reads is no transaction of the
// source: positions stand also between its rows, where they can be told.
type poller struct {
	cfg   Config
	env   *dataflow.Env
	shape *shape
	rows  *rows
	table pollTable
	every time.Duration
	// clean is what becomes of relayed rows; nil: nothing.
	clean *cleaner

	// polling guards what follows: Poll holds it, and Close when no Poll runs any more.
	polling  sync.Mutex
	assigned bool
	pos      pollPosition
	until    bool
	ended    bool
	told     bool // that the end is reached
	vals     []value
	// reading: a round is open, which gave rows or not; the server was asked for so long.
	reading, given bool
	asking         time.Duration
	next           time.Time // when the next round begins
	beat           time.Time // when a position was last told
	toldRound      uint64    // the round of that position

	// begun counts rounds that have begun; acked is the round up to which the targets
	// hold all, wanted the one that the clean-up waits for.
	begun, acked, wanted atomic.Uint64

	// held is what the table says of its trouble; nil: it has none.
	held atomic.Pointer[string]

	life   context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	// mu guards what Close uses.
	mu               sync.Mutex
	closed, cleaning bool
}

// newPoller takes over table and r.
func newPoller(env *dataflow.Env, cfg Config, s *shape, r *rows, table pollTable, every time.Duration) *poller {
	p := &poller{cfg: cfg, env: env, shape: s, rows: r, table: table, every: every, vals: make([]value, len(s.fields))}
	p.life, p.cancel = context.WithCancel(context.Background())
	return p
}

// cleanBy cleans up, if the config says so, what open connects to.
func (s *poller) cleanBy(open func(ctx context.Context) (cleanTable, error)) {
	if s.cfg.Cleanup != nil {
		s.clean = &cleaner{cfg: *s.cfg.Cleanup, env: s.env, open: open, acked: &s.acked, wanted: &s.wanted, nudge: func() {}}
	}
}

// Discover implements dataflow.Discoverer.
func (s *poller) Discover(context.Context) ([]dataflow.Split, error) {
	return []dataflow.Split{pollSplit}, nil
}

// Start implements dataflow.Starter. With start: latest all rows that can be seen count as
// read.
func (s *poller) Start(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	if s.cfg.Start == "snapshot" {
		return s.Begin(ctx, splits)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s.polling.Lock()
	defer s.polling.Unlock()
	p, err := s.table.latest(ctx)
	if err != nil {
		return nil, err
	}
	return map[dataflow.Split]dataflow.Position{pollSplit: p.encode()}, nil
}

// Begin implements dataflow.Starter.
func (s *poller) Begin(context.Context, []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return map[dataflow.Split]dataflow.Position{pollSplit: newPollPosition().encode()}, nil
}

// Ends implements dataflow.Ender: what can be seen in a round that has not begun.
func (s *poller) Ends(context.Context, []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return map[dataflow.Split]dataflow.Position{pollSplit: dataflow.Position(pollEnd)}, nil
}

// Assign implements dataflow.Source.
func (s *poller) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	s.polling.Lock()
	defer s.polling.Unlock()
	for _, at := range splits {
		if at.Split != pollSplit {
			return otherSplit(at.Split)
		}
		pos := newPollPosition()
		if at.From != nil {
			var err error
			if pos, err = parsePollPosition(at.From); err != nil {
				return dataflow.Permanent(err)
			}
		}
		s.table.close()
		s.pos, s.reading, s.until = pos, false, at.Until != nil
		s.assigned, s.told, s.ended, s.next = true, false, false, time.Time{}
		s.begun.Store(pos.round)
	}
	return s.startCleaning()
}

// otherSplit is what is said of a split of the other way to read an outbox.
func otherSplit(s dataflow.Split) error {
	return dataflow.Permanentf("split %q is unknown: an outbox that is polled has the split %s, and one that is read by replication %s. A source goes on in the way it began; to change it, give it another name: rows that are still in the outbox come again then", s, pollSplit, logSplit)
}

// startCleaning begins the clean-up, once.
func (s *poller) startCleaning() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("outbox source %q is closed", s.env.Step)
	}
	if s.clean != nil && !s.cleaning && !s.env.Preview {
		s.cleaning = true
		s.work.Go(func() { s.clean.run(s.life) })
	}
	return nil
}

// Unassign implements dataflow.Source.
func (s *poller) Unassign(context.Context, []dataflow.Split) error {
	s.polling.Lock()
	defer s.polling.Unlock()
	s.table.close()
	s.assigned, s.reading = false, false
	return nil
}

// Poll implements dataflow.Source: rows of a round, which it begins when it is time.
func (s *poller) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	s.polling.Lock()
	defer s.polling.Unlock()
	if s.life.Err() != nil {
		return dataflow.Polled{}, s.isClosed()
	}
	if due, err := s.wait(ctx, time.Duration(limit.WaitMicros)*time.Microsecond); !due || err != nil {
		return dataflow.Polled{}, err
	}
	p, err := s.poll(limit)
	if err != nil {
		s.table.close()
		if s.life.Err() != nil {
			return dataflow.Polled{}, s.isClosed()
		}
	}
	return p, err
}

// maxPause bounds the pause between rounds that cost much; poll_every may be more.
const maxPause = 5 * time.Second

func (s *poller) isClosed() error { return fmt.Errorf("outbox source %q is closed", s.env.Step) }

// wait says whether a round is to be read, or to be begun; it waits for that at most
// patience.
func (s *poller) wait(ctx context.Context, patience time.Duration) (bool, error) {
	if s.reading && s.assigned {
		return true, nil
	}
	idle := !s.assigned || s.ended
	if pause := s.next.Sub(s.env.Now()); idle || pause > 0 {
		if !idle {
			patience = min(patience, pause)
		}
		t := time.NewTimer(patience)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-s.life.Done():
			return false, s.isClosed()
		case <-t.C:
		}
	}
	return !idle && !s.env.Now().Before(s.next), nil
}

func (s *poller) poll(limit dataflow.PollLimit) (dataflow.Polled, error) {
	if !s.reading {
		began := s.env.Now()
		s.begun.Store(s.pos.round + 1)
		// The queries of a round outlive this Poll.
		if err := s.table.begin(s.life, s.pos); err != nil {
			return dataflow.Polled{}, err
		}
		s.held.Store(nil)
		if text := s.table.trouble(); text != "" {
			s.held.Store(&text)
		}
		s.reading, s.given, s.asking = true, false, s.env.Now().Sub(began)
	}
	for s.rows.count() < max(limit.Rows, 1) && s.rows.bytes() < max(limit.Bytes, 1) && s.rows.badCount < 8192 {
		ok, err := s.table.next(s.vals)
		if err != nil {
			return dataflow.Polled{}, err
		}
		if !ok {
			return s.endRound(), nil
		}
		s.pos.seq++
		s.given = true
		s.rows.add(s.vals, origin{seq: s.pos.seq})
	}
	at, ok := s.table.reached(s.pos, false)
	if !ok {
		at = s.pos // It is not taken: no barrier comes before the next one.
	}
	return s.tell(at, !ok, false), nil
}

// endRound tells of the last rows of a round. Without rows it tells of what changed only
// now and then: each position that is new is an epoch.
func (s *poller) endRound() dataflow.Polled {
	s.pos, _ = s.table.reached(s.pos, true)
	s.pos.round++
	s.reading = false
	now := s.env.Now()
	// A database that is slow to answer is not asked all the time.
	s.next = now.Add(max(s.every, min(4*s.asking, maxPause)))
	s.ended = s.until
	waited := s.wanted.Load() > s.toldRound && s.pos.round >= s.wanted.Load()
	if !s.given && s.told && !s.ended && !waited && now.Sub(s.beat) < beatEvery {
		return dataflow.Polled{}
	}
	return s.tell(s.pos, false, true)
}

func (s *poller) tell(at pollPosition, open, whole bool) dataflow.Polled {
	p := dataflow.Polled{Split: pollSplit, Next: at.encode(), Open: open, AtUntil: s.ended}
	p.CaughtUp = whole && !s.given
	s.told, s.beat, s.toldRound = p.CaughtUp, s.env.Now(), at.round
	p.Batch, p.Bad = s.rows.flush()
	return p
}

// place is a round all of which begins after now; cleaner.place.
func (s *poller) place() uint64 { return s.begun.Load() + 1 }

// Ack implements dataflow.Acker: the clean-up may go on. There is nothing to tell the
// database.
func (s *poller) Ack(_ context.Context, _ dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	text, ok := upTo[pollSplit]
	if !ok || string(text) == pollEnd {
		return nil
	}
	p, err := parsePollPosition(text)
	if err != nil {
		return err
	}
	s.acked.Store(max(s.acked.Load(), p.round)) // Only the coordinator writes it.
	return nil
}

// Trouble implements dataflow.Troubled.
func (s *poller) Trouble() []string {
	if text := s.held.Load(); text != nil {
		return []string{*text}
	}
	return nil
}

// Locate implements dataflow.Locator.
func (s *poller) Locate(_ dataflow.Split, seq int64) string { return locate(seq) }

// Close implements dataflow.Source.
func (s *poller) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	s.cancel()
	s.work.Wait()
	s.polling.Lock()
	defer s.polling.Unlock()
	s.table.close()
	s.rows.release()
	return nil
}

var (
	_ dataflow.Source     = (*poller)(nil)
	_ dataflow.Discoverer = (*poller)(nil)
	_ dataflow.Starter    = (*poller)(nil)
	_ dataflow.Ender      = (*poller)(nil)
	_ dataflow.Acker      = (*poller)(nil)
	_ dataflow.Locator    = (*poller)(nil)
	_ dataflow.Troubled   = (*poller)(nil)
	_ dataflow.Outsider   = (*poller)(nil)
)
