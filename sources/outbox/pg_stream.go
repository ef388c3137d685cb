package outbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"frazil/dataflow"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

const (
	// chunkBytes is when a chunk is handed on although more is at hand; chunks wait
	// in a queue of chunkQueue.
	chunkBytes = 1 << 20
	chunkQueue = 8
	// gather is how long a chunk waits for more once nothing is at hand: the server sends
	// each row by itself, and to wake up for each costs more than the row. Meanwhile
	// fewer than gatherBytes wake nobody. atOnce bounds a look at what is at hand.
	gather      = 5 * time.Millisecond
	gatherBytes = 128 << 10
	atOnce      = 100 * time.Microsecond
	// feedbackEvery is how often the server hears of us; it ends the connection
	// after wal_sender_timeout, a minute by default.
	feedbackEvery = 5 * time.Second
)

// chunk are messages as they came, one behind the other in buf.
type chunk struct {
	buf  []byte
	ends []int
	// walEnd is how far the server has come when it had nothing more; 0: it had.
	walEnd pglogrepl.LSN
	// gathered: it has waited for more; whole: nothing more was at hand then.
	gathered, whole bool
}

// stream is the replication connection. One goroutine owns it.
type stream struct {
	conn   *pgconn.PgConn
	reads  *tap
	raw    syscall.RawConn
	chunks chan *chunk
	free   sync.Pool
	// acked is what the server may forget.
	acked atomic.Uint64
	// nudge asks for a report to the server at once.
	nudge chan struct{}
	// waits says whether it matters how far the server is.
	waits func() bool
	// expired: the read deadline has passed.
	expired bool
	// done is closed with err when the connection has ended.
	done   chan struct{}
	err    error
	cancel context.CancelFunc
}

// follow starts the slot at a position and reads on in a goroutine of its own.
func follow(ctx context.Context, cfg PostgresConfig, conn *pgconn.PgConn, at pglogrepl.LSN, waits func() bool) (*stream, error) {
	args := []string{"proto_version '1'", "publication_names '" + cfg.Publication + "'"}
	if cfg.Messages != "" {
		args = append(args, "messages 'true'")
	}
	if err := pglogrepl.StartReplication(ctx, conn, cfg.Slot, at, pglogrepl.StartReplicationOptions{PluginArgs: args}); err != nil {
		return nil, explain("read the replication slot "+cfg.Slot, err)
	}
	s := &stream{conn: conn, reads: conn.CustomData()[tapKey].(*tap), raw: rawConn(conn.Conn()), waits: waits, chunks: make(chan *chunk, chunkQueue), nudge: make(chan struct{}, 1), done: make(chan struct{})}
	s.free.New = func() any { return &chunk{} }
	s.acked.Store(uint64(at))
	ctx, s.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(s.done)
		s.err = dataflow.Guarded(func() error { return s.run(ctx) })
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	return s, nil
}

// close ends the goroutine and the connection.
func (s *stream) close() {
	s.cancel()
	<-s.done
}

// ack lets the server forget what is before at.
func (s *stream) ack(at pglogrepl.LSN) {
	for {
		old := s.acked.Load()
		if uint64(at) <= old {
			return
		}
		if s.acked.CompareAndSwap(old, uint64(at)) {
			break
		}
	}
	s.wake()
}

// wake asks for a report at once.
func (s *stream) wake() {
	select {
	case s.nudge <- struct{}{}:
	default:
	}
}

// report tells the server what it may forget. All three positions are set: a library
// or server that fills in others would confirm what is not durable.
func (s *stream) report(ctx context.Context) error {
	at := pglogrepl.LSN(s.acked.Load())
	return pglogrepl.SendStandbyStatusUpdate(ctx, s.conn, pglogrepl.StandbyStatusUpdate{WALWritePosition: at, WALFlushPosition: at, WALApplyPosition: at, ClientTime: time.Now(), ReplyRequested: s.waits()})
}

func (s *stream) run(ctx context.Context) error {
	c := s.free.Get().(*chunk)
	reported := time.Now()
	for {
		if len(s.nudge) > 0 || time.Since(reported) >= feedbackEvery {
			select {
			case <-s.nudge:
			default:
			}
			if err := s.report(ctx); err != nil {
				return explain("report to the server of the outbox", err)
			}
			reported = time.Now()
		}
		switch {
		case c.full() || c.whole:
			next, err := s.hand(ctx, c)
			if err != nil {
				return err
			}
			if next != nil {
				c = next
			}
		case c.empty() || s.conn.Frontend().ReadBufferLen() > 0:
			if err := s.receive(ctx, c, receiveWait); err != nil {
				return err
			}
		default:
			if err := s.gather(ctx, c); err != nil {
				return err
			}
		}
	}
}

// gather adds to c what is at hand, or comes soon.
func (s *stream) gather(ctx context.Context, c *chunk) error {
	switch {
	case s.reads.more:
	case c.gathered || len(c.ends) == 0:
		c.whole = true
		return nil
	default:
		s.lowWater(gatherBytes)
		time.Sleep(gather)
		s.lowWater(1)
		c.gathered = true
	}
	err := s.receive(ctx, c, atOnce)
	c.whole = s.expired
	return err
}

// lowWater says from how many bytes on the socket wakes its reader. Without it Go's
// poller wakes up for every row, whoever waits for it.
func (s *stream) lowWater(bytes int) {
	if s.raw != nil {
		setLowWater(s.raw, bytes)
	}
}

// rawConn is the socket below a connection, nil if that cannot be had.
func rawConn(c net.Conn) syscall.RawConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // TLS
		c = t.NetConn()
	}
	if s, ok := c.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

func (c *chunk) empty() bool { return len(c.ends) == 0 && c.walEnd == 0 }
func (c *chunk) full() bool  { return len(c.buf) >= chunkBytes }

// hand gives c to the reader and returns a new one; nil when it is time to report, and
// the reader has not taken it.
func (s *stream) hand(ctx context.Context, c *chunk) (*chunk, error) {
	t := time.NewTimer(feedbackEvery / 2)
	defer t.Stop()
	select {
	case s.chunks <- c:
		next := s.free.Get().(*chunk)
		*next = chunk{buf: next.buf[:0], ends: next.ends[:0]}
		return next, nil
	case <-t.C:
		return nil, s.report(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// receiveWait bounds one wait for the server, so that what is acknowledged is soon
// reported.
const receiveWait = 100 * time.Millisecond

// receive appends one message to c, or waits for a time. It reads by the connection's
// deadline: a context for each message costs more than the message.
func (s *stream) receive(ctx context.Context, c *chunk, wait time.Duration) error {
	if s.expired || s.conn.Frontend().ReadBufferLen() == 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.conn.Conn().SetReadDeadline(time.Now().Add(wait)); err != nil {
			return explain("read the log of the outbox", err)
		}
		s.expired = false
	}
	msg, err := s.conn.Frontend().Receive()
	if err != nil {
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			s.expired = true
			return nil
		}
		return dataflow.Unavailable(fmt.Errorf("read the log of the outbox: %w", err))
	}
	switch msg := msg.(type) {
	case *pgproto3.CopyData:
		return s.data(ctx, msg.Data, c)
	case *pgproto3.ErrorResponse:
		return explain("read the log of the outbox", pgconn.ErrorResponseToPgError(msg))
	case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		return nil
	}
	return dataflow.Unavailable(fmt.Errorf("read the log of the outbox: the server ended the stream with a %T", msg))
}

func (s *stream) data(ctx context.Context, b []byte, c *chunk) error {
	switch b[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		k, err := pglogrepl.ParsePrimaryKeepaliveMessage(b[1:])
		if err != nil {
			return fmt.Errorf("read a keep-alive of the server: %w", err)
		}
		c.walEnd = k.ServerWALEnd
		if k.ReplyRequested {
			return s.report(ctx)
		}
	case pglogrepl.XLogDataByteID:
		x, err := pglogrepl.ParseXLogData(b[1:])
		if err != nil {
			return fmt.Errorf("read a message of the log: %w", err)
		}
		c.walEnd = 0
		c.buf = append(c.buf, x.WALData...)
		c.ends = append(c.ends, len(c.buf))
	}
	return nil
}
