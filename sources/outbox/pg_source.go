package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
)

// pgSource reads an outbox by logical replication. Poll's goroutine owns all that
// stands before mu.
type pgSource struct {
	cfg   Config
	pg    PostgresConfig
	env   *dataflow.Env
	shape *shape
	rows  *rows

	assigned bool
	pos      position
	until    *position
	told     bool // nothing new since it was told that the end is reached
	// beat is when the position last moved without rows.
	beat time.Time
	snap *snapshot
	// failed: rows of a snapshot were given that cannot be read again.
	failed error
	vals   []value
	all    []value

	// Of the stream: the chunk at hand, and how far it was read.
	chunk     *chunk
	at, begin int
	relations map[uint32]*relation
	// tx is the transaction under way; open: there is one.
	tx   transaction
	open bool

	// polling is held by Poll, and by Close when no Poll runs any more.
	polling sync.Mutex
	// acked is how far the targets hold all, wanted where the clean-up waits for them
	// to be.
	acked, wanted atomic.Uint64
	// cleaning: the clean-up runs; watching: the slot is looked at.
	cleaning, watching bool
	// kept is what the server keeps for the slot; nil: not known yet.
	kept atomic.Pointer[dataflow.Retained]
	work sync.WaitGroup
	// mu guards what Close and Ack use.
	mu     sync.Mutex
	stream *stream
	closed bool
	life   context.Context
	cancel context.CancelFunc
}

// newPgSource takes over r.
func newPgSource(env *dataflow.Env, cfg Config, shape *shape, r *rows) *pgSource {
	s := &pgSource{cfg: cfg, pg: *cfg.Postgres, env: env, shape: shape, rows: r, relations: map[uint32]*relation{}, vals: make([]value, len(shape.fields))}
	s.life, s.cancel = context.WithCancel(context.Background())
	return s
}

// Discover implements dataflow.Discoverer.
func (s *pgSource) Discover(context.Context) ([]dataflow.Split, error) {
	return []dataflow.Split{logSplit}, nil
}

// Start implements dataflow.Starter. With start: latest it makes the slot: from then on
// the server keeps what comes.
func (s *pgSource) Start(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	if s.cfg.Start == "snapshot" {
		return s.Begin(ctx, splits)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, there, err := prepared(ctx, s.pg)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	at := position{streaming: true}
	switch {
	case there != nil:
		at.lsn = there.confirmed
	case !s.pg.Create:
		return nil, dataflow.Permanentf("replication slot %s is not there, and create is off: SELECT pg_create_logical_replication_slot('%s', 'pgoutput')", s.pg.Slot, s.pg.Slot)
	default:
		var lsn string
		if err := conn.QueryRow(ctx, "SELECT lsn::text FROM pg_create_logical_replication_slot($1, $2)", s.pg.Slot, plugin).Scan(&lsn); err != nil {
			return nil, explain("make the replication slot "+s.pg.Slot, err)
		}
		if at.lsn, err = pglogrepl.ParseLSN(lsn); err != nil {
			return nil, err
		}
	}
	return map[dataflow.Split]dataflow.Position{logSplit: at.encode()}, nil
}

// Begin implements dataflow.Starter.
func (s *pgSource) Begin(context.Context, []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return map[dataflow.Split]dataflow.Position{logSplit: position{}.encode()}, nil
}

// Ends implements dataflow.Ender: what is committed now.
func (s *pgSource) Ends(ctx context.Context, _ []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := connect(ctx, s.pg)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	var text string
	if err := conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&text); err != nil {
		return nil, explain("ask for the end of the log", err)
	}
	at := position{streaming: true}
	if at.lsn, err = pglogrepl.ParseLSN(text); err != nil {
		return nil, err
	}
	return map[dataflow.Split]dataflow.Position{logSplit: at.encode()}, nil
}

// Assign implements dataflow.Source.
func (s *pgSource) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	for _, at := range splits {
		if at.Split != logSplit {
			return otherSplit(at.Split)
		}
		pos := position{}
		if at.From != nil {
			var err error
			if pos, err = parsePosition(at.From); err != nil {
				return dataflow.Permanent(err)
			}
		}
		s.until = nil
		if at.Until != nil {
			until, err := parsePosition(at.Until)
			if err != nil {
				return dataflow.Permanent(err)
			}
			s.until = &until
		}
		if !s.assigned || pos != s.pos {
			s.drop()
		}
		s.assigned, s.pos, s.told = true, pos, false
	}
	return nil
}

// Unassign implements dataflow.Source.
func (s *pgSource) Unassign(context.Context, []dataflow.Split) error {
	s.drop()
	s.assigned = false
	return nil
}

// drop ends the connections; what was read ahead is read again.
func (s *pgSource) drop() {
	if s.snap != nil {
		s.snap.close()
		s.snap = nil
	}
	s.mu.Lock()
	st := s.stream
	s.stream = nil
	s.mu.Unlock()
	if st != nil {
		st.close()
	}
	s.chunk, s.at, s.begin, s.open = nil, 0, 0, false
	clear(s.relations)
}

// Poll implements dataflow.Source.
func (s *pgSource) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	s.polling.Lock()
	defer s.polling.Unlock()
	if err := s.life.Err(); err != nil {
		return dataflow.Polled{}, fmt.Errorf("outbox source %q is closed", s.env.Step)
	}
	wait := time.NewTimer(time.Duration(limit.WaitMicros) * time.Microsecond)
	defer wait.Stop()
	if !s.assigned || s.atUntil() && s.told {
		select {
		case <-ctx.Done():
			return dataflow.Polled{}, ctx.Err()
		case <-s.life.Done():
			return dataflow.Polled{}, fmt.Errorf("outbox source %q is closed", s.env.Step)
		case <-wait.C:
			return dataflow.Polled{}, nil
		}
	}
	if s.failed != nil {
		return dataflow.Polled{}, s.failed
	}
	snapshot := !s.pos.streaming && s.pos.seq > 0
	p, err := s.poll(ctx, limit, wait.C)
	// A Poll that was called off leaves the stream: to read the log again from what is
	// confirmed, for every barrier, costs more with every row since.
	if err != nil && !(s.pos.streaming && ctx.Err() != nil && errors.Is(err, ctx.Err())) {
		s.drop()
		if snapshot {
			s.failed = err
		}
	}
	return p, err
}

// atUntil says whether all that is to be read is read.
func (s *pgSource) atUntil() bool {
	return s.until != nil && s.pos.streaming && s.pos.lsn >= s.until.lsn
}

func (s *pgSource) poll(ctx context.Context, limit dataflow.PollLimit, wait <-chan time.Time) (dataflow.Polled, error) {
	if !s.pos.streaming {
		return s.pollSnapshot(ctx, limit)
	}
	st, err := s.streaming(ctx)
	if err != nil {
		return dataflow.Polled{}, err
	}
	moved := s.pos
	for {
		for s.chunk == nil {
			if s.rows.count() > 0 || s.rows.badCount > 0 || s.atUntil() {
				select {
				case s.chunk = <-st.chunks:
				default:
					return s.polled(true), nil
				}
				break
			}
			select {
			case s.chunk = <-st.chunks:
			case <-st.done:
				return dataflow.Polled{}, st.err
			case <-ctx.Done():
				if s.pos != moved {
					return s.polled(true), nil
				}
				return dataflow.Polled{}, ctx.Err()
			case <-wait:
				if s.pos != moved || !s.told {
					return s.polled(true), nil
				}
				return dataflow.Polled{}, nil
			}
		}
		full, err := s.read(limit)
		if err != nil {
			return dataflow.Polled{}, err
		}
		if full || s.atUntil() {
			return s.polled(false), nil
		}
		if s.at == len(s.chunk.ends) {
			s.alive(s.chunk.walEnd)
			st.free.Put(s.chunk)
			s.chunk, s.at, s.begin = nil, 0, 0
		}
	}
}

// beatEvery is how often the position moves where nothing of interest happens: each
// move is an epoch.
const beatEvery = 10 * time.Second

// alive moves the position to where the server has come without anything for us.
func (s *pgSource) alive(walEnd pglogrepl.LSN) {
	now := s.env.Now()
	if s.open || walEnd <= s.pos.lsn {
		return
	}
	waiting := s.pos.lsn < pglogrepl.LSN(s.wanted.Load())
	if s.until == nil && !waiting && now.Sub(s.beat) < beatEvery {
		return
	}
	s.pos.lsn, s.pos.row, s.beat = walEnd, 0, now
}

// polled makes the batch of what was read.
func (s *pgSource) polled(caughtUp bool) dataflow.Polled {
	p := dataflow.Polled{Split: logSplit, Next: s.pos.encode(), CaughtUp: caughtUp && s.rows.count() == 0, AtUntil: s.atUntil()}
	s.told = p.CaughtUp || p.AtUntil
	p.Batch, p.Bad = s.rows.flush()
	return p
}

// streaming is the connection, made if there is none.
func (s *pgSource) streaming(ctx context.Context) (*stream, error) {
	s.mu.Lock()
	st := s.stream
	s.mu.Unlock()
	if st != nil {
		return st, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, there, err := prepared(ctx, s.pg)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if there, err = unread(ctx, conn, s.pg.Slot, there); err != nil {
		return nil, err
	}
	if err := checkSlot(s.pg.Slot, there, s.pos.lsn); err != nil {
		return nil, err
	}
	// The server is told the position of the last Ack, which may be before this one.
	repl, err := connectReplication(ctx, s.pg)
	if err != nil {
		return nil, err
	}
	if st, err = follow(ctx, s.pg, repl, there.confirmed, s.waits); err != nil {
		_ = repl.Close(ctx)
		return nil, err
	}
	return st, s.keep(st)
}

// letGo is how long a reader before us may take to let go of the slot: the server notices a
// moment later that a connection has ended.
const letGo = 5 * time.Second

// unread waits until nobody reads the slot. Another instance of the pipeline that does
// moves it: only when that one has ended does it tell where to go on.
func unread(ctx context.Context, conn *pgx.Conn, name string, there *slot) (*slot, error) {
	var err error
	for began := time.Now(); err == nil && there != nil && there.active; there, err = findSlot(ctx, conn, name) {
		if time.Since(began) > letGo {
			return nil, dataflow.Unavailable(fmt.Errorf("another process reads the replication slot %s: is the pipeline running twice? This one takes over when that one has ended", name))
		}
		wait(ctx, 50*time.Millisecond)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return there, err
}

// keep puts the stream where Ack and Close find it.
func (s *pgSource) keep(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		st.close()
		return fmt.Errorf("outbox source %q is closed", s.env.Step)
	}
	s.stream = st
	if s.cfg.Cleanup != nil && !s.cleaning && !s.env.Preview {
		s.cleaning = true
		c := &cleaner{cfg: *s.cfg.Cleanup, env: s.env, acked: &s.acked, wanted: &s.wanted, nudge: s.nudge}
		c.open = func(ctx context.Context) (cleanTable, error) { return openPgCleanTable(ctx, s.cfg, endOfLog) }
		s.work.Go(func() { c.run(s.life) })
	}
	if !s.watching && !s.env.Preview {
		s.watching = true
		s.work.Go(func() { s.watch(s.life) })
	}
	return nil
}

// nudge asks the server how far it is.
func (s *pgSource) nudge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.wake()
	}
}

// waits says whether it matters how far the server is.
func (s *pgSource) waits() bool { return s.wanted.Load() > s.acked.Load() }

// pollSnapshot reads rows that were there before the slot. No barrier comes in between.
func (s *pgSource) pollSnapshot(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	if s.snap == nil {
		opening, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		conn, there, err := prepared(opening, s.pg)
		if err != nil {
			return dataflow.Polled{}, err
		}
		// Its queries outlive this Poll.
		if s.snap, err = beginSnapshot(s.life, conn, there, s.pg, s.shape); err != nil {
			return dataflow.Polled{}, err
		}
	}
	for s.rows.count() < max(limit.Rows, 1) && s.rows.bytes() < max(limit.Bytes, 1) && s.rows.badCount < 8192 {
		ok, err := s.snap.next(s.vals)
		if err != nil {
			return dataflow.Polled{}, err
		}
		if !ok {
			return s.endSnapshot(ctx)
		}
		s.pos.seq++
		s.rows.add(s.vals, origin{seq: s.pos.seq})
	}
	p := s.polled(false)
	p.Open = true
	return p, nil
}

// endSnapshot goes on with the log.
func (s *pgSource) endSnapshot(ctx context.Context) (dataflow.Polled, error) {
	at := s.snap.at
	conn := s.snap.end()
	s.snap = nil
	st, err := follow(ctx, s.pg, conn, at, s.waits)
	if err != nil {
		_ = conn.Close(ctx)
		return dataflow.Polled{}, err
	}
	if err := s.keep(st); err != nil {
		return dataflow.Polled{}, err
	}
	s.pos = position{streaming: true, lsn: at, seq: s.pos.seq}
	return s.polled(false), nil
}

// Ack implements dataflow.Acker: the server may forget what is committed.
func (s *pgSource) Ack(_ context.Context, _ dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	text, ok := upTo[logSplit]
	if !ok {
		return nil
	}
	pos, err := parsePosition(text)
	if err != nil || !pos.streaming {
		return err
	}
	s.acked.Store(max(s.acked.Load(), uint64(pos.lsn))) // Only the coordinator writes it.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.ack(pos.lsn)
	}
	return nil
}

// Locate implements dataflow.Locator.
func (s *pgSource) Locate(_ dataflow.Split, seq int64) string { return locate(seq) }

// Close implements dataflow.Source.
func (s *pgSource) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	st := s.stream
	s.stream = nil
	s.mu.Unlock()
	if again {
		return nil
	}
	s.cancel()
	if st != nil {
		st.close() // ends a Poll that waits
	}
	s.work.Wait()
	s.polling.Lock()
	defer s.polling.Unlock()
	s.drop()
	s.rows.release()
	return nil
}

var (
	_ dataflow.Source     = (*pgSource)(nil)
	_ dataflow.Discoverer = (*pgSource)(nil)
	_ dataflow.Starter    = (*pgSource)(nil)
	_ dataflow.Ender      = (*pgSource)(nil)
	_ dataflow.Acker      = (*pgSource)(nil)
	_ dataflow.Locator    = (*pgSource)(nil)
	_ dataflow.Retainer   = (*pgSource)(nil)
	_ dataflow.Outsider   = (*pgSource)(nil)
)
