package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
)

// dialect is a kind of database that a shop may have.
type dialect struct {
	connect func(ctx context.Context, dsn string) (session, error)
	// schema of the shop. journal repeats what is written to the outbox, in the same
	// transactions, and stays when the outbox is cleaned up.
	schema []string
	// next and read take an order's next number: of the order's id.
	next, read string
	// event writes an event of the order's id and the payload, and gives its id; journal
	// writes that, the order's id and the number.
	event, journal string
}

// session is a connection.
type session interface {
	exec(ctx context.Context, statement string, args ...any) error
	// one reads a row of one column.
	one(ctx context.Context, into any, query string, args ...any) error
	// all reads events.
	all(ctx context.Context, query string) ([]event, error)
	close()
}

type pgSession struct{ *pgx.Conn }

func (s pgSession) exec(ctx context.Context, statement string, args ...any) error {
	_, err := s.Exec(ctx, statement, args...)
	return err
}

func (s pgSession) one(ctx context.Context, into any, query string, args ...any) error {
	return s.QueryRow(ctx, query, args...).Scan(into)
}

func (s pgSession) all(ctx context.Context, query string) ([]event, error) {
	rows, err := s.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (e event, err error) {
		return e, r.Scan(&e.id, &e.order, &e.seq)
	})
}

func (s pgSession) close() { _ = s.Close(context.Background()) }

type mySession struct {
	*sql.Conn
	db *sql.DB
}

func (s mySession) exec(ctx context.Context, statement string, args ...any) error {
	_, err := s.ExecContext(ctx, statement, args...)
	return err
}

func (s mySession) one(ctx context.Context, into any, query string, args ...any) error {
	return s.QueryRowContext(ctx, query, args...).Scan(into)
}

func (s mySession) all(ctx context.Context, query string) (out []event, err error) {
	rows, err := s.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.id, &e.order, &e.seq); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

func (s mySession) close() { _, _ = s.Conn.Close(), s.db.Close() }

var postgres = dialect{
	connect: func(ctx context.Context, dsn string) (session, error) {
		conn, err := pgx.Connect(ctx, dsn)
		return pgSession{conn}, err
	},
	schema: []string{
		`CREATE TABLE orders (id text PRIMARY KEY, seq int NOT NULL DEFAULT 0)`,
		`CREATE TABLE outbox (id bigserial PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb NOT NULL,
			tx xid8 NOT NULL DEFAULT pg_current_xact_id())`,
		`CREATE INDEX ON outbox (tx)`,
		`CREATE TABLE journal (id bigint PRIMARY KEY, aggregateid text NOT NULL, seq int NOT NULL)`,
	},
	next:    `UPDATE orders SET seq = seq + 1 WHERE id = $1`,
	read:    `SELECT seq FROM orders WHERE id = $1`,
	event:   `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', $1, 'changed', $2) RETURNING id`,
	journal: `INSERT INTO journal VALUES ($1, $2, $3)`,
}

var mariadb = dialect{
	connect: func(ctx context.Context, dsn string) (session, error) {
		db, err := sql.Open("mysql", dsn)
		if err != nil {
			return nil, err
		}
		conn, err := db.Conn(ctx)
		if err != nil {
			db.Close()
			return nil, err
		}
		return mySession{conn, db}, nil
	},
	schema: []string{
		`CREATE TABLE orders (id varchar(20) PRIMARY KEY, seq int NOT NULL DEFAULT 0)`,
		`CREATE TABLE outbox (id bigint AUTO_INCREMENT PRIMARY KEY, aggregatetype varchar(20) NOT NULL, aggregateid varchar(20) NOT NULL, type varchar(20) NOT NULL, payload json NOT NULL)`,
		`CREATE TABLE journal (id bigint PRIMARY KEY, aggregateid varchar(20) NOT NULL, seq int NOT NULL)`,
	},
	next:    `UPDATE orders SET seq = seq + 1 WHERE id = ?`,
	read:    `SELECT seq FROM orders WHERE id = ?`,
	event:   `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', ?, 'changed', ?) RETURNING id`,
	journal: `INSERT INTO journal VALUES (?, ?, ?)`,
}

// shop writes until it is stopped, through restarts of its database.
type shop struct {
	dialect
	t    *testing.T
	dsn  string
	stop chan struct{}
	all  sync.WaitGroup
}

func openShop(t *testing.T, d dialect, dsn string) *shop {
	t.Helper()
	s := &shop{dialect: d, t: t, dsn: dsn, stop: make(chan struct{})}
	s.with(func(c session) error {
		statements := d.schema
		for n := range 20 {
			statements = append(statements, fmt.Sprintf("INSERT INTO orders (id) VALUES ('order-%d')", n))
		}
		for _, statement := range statements {
			if err := c.exec(t.Context(), statement); err != nil {
				return err
			}
		}
		return nil
	})
	return s
}

// with lends a connection to f.
func (s *shop) with(f func(session) error) {
	s.t.Helper()
	c, err := s.connect(s.t.Context(), s.dsn)
	must(s.t, err)
	defer c.close()
	must(s.t, f(c))
}

// work begins with some sessions.
func (s *shop) work(seed uint64, sessions int) {
	for n := range sessions {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		s.all.Go(func() { s.session(rng) })
	}
}

// close waits for the sessions to end.
func (s *shop) close() {
	close(s.stop)
	s.all.Wait()
}

func (s *shop) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// session runs transactions; a connection that was lost is made anew. Whether the
// transaction that was under way is committed the journal tells.
func (s *shop) session(rng *rand.Rand) {
	ctx := context.Background()
	for !s.stopped() {
		c, err := s.connect(ctx, s.dsn)
		if err != nil {
			s.pause(50 * time.Millisecond)
			continue
		}
		for !s.stopped() {
			if err := s.transaction(ctx, c, rng); err != nil {
				break
			}
			s.pause(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
		c.close()
	}
}

func (s *shop) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.stop:
	}
}

// transaction writes events of some orders.
func (s *shop) transaction(ctx context.Context, c session, rng *rand.Rand) error {
	if err := c.exec(ctx, "BEGIN"); err != nil {
		return err
	}
	ids := rng.Perm(20)[:1+rng.IntN(3)]
	slices.Sort(ids) // Locks in one order.
	for _, n := range ids {
		if err := s.part(ctx, c, rng, fmt.Sprint("order-", n)); err != nil {
			return err // The connection is given up, and the transaction with it.
		}
		switch n := rng.IntN(200); {
		case n == 0:
			s.pause(3 * time.Second) // Very long.
		case n < 20:
			s.pause(time.Duration(rng.IntN(300)) * time.Millisecond) // A long one.
		}
	}
	if rng.IntN(5) == 0 {
		return c.exec(ctx, "ROLLBACK")
	}
	return c.exec(ctx, "COMMIT")
}

// last writes one event more, when the sessions have ended.
func (s *shop) last() {
	s.t.Helper()
	s.with(func(c session) error {
		ctx := s.t.Context()
		if err := c.exec(ctx, "BEGIN"); err != nil {
			return err
		}
		if err := s.write(ctx, c, "order-0"); err != nil {
			return err
		}
		return c.exec(ctx, "COMMIT")
	})
}

// part changes an order and writes events about it, in a savepoint.
func (s *shop) part(ctx context.Context, c session, rng *rand.Rand, order string) error {
	if err := c.exec(ctx, "SAVEPOINT part"); err != nil {
		return err
	}
	for range 1 + rng.IntN(4) {
		if err := s.write(ctx, c, order); err != nil {
			return err
		}
	}
	if rng.IntN(5) == 0 {
		return c.exec(ctx, "ROLLBACK TO SAVEPOINT part")
	}
	return c.exec(ctx, "RELEASE SAVEPOINT part")
}

// write changes an order, and writes an event about it.
func (s *shop) write(ctx context.Context, c session, order string) error {
	var seq, id int64
	if err := c.exec(ctx, s.next, order); err != nil {
		return err
	}
	if err := c.one(ctx, &seq, s.read, order); err != nil {
		return err
	}
	if err := c.one(ctx, &id, s.event, order, fmt.Sprintf(`{"order": %q, "seq": %d}`, order, seq)); err != nil {
		return err
	}
	return c.exec(ctx, s.journal, id, order, seq)
}

// event is one that was committed.
type event struct {
	id    int64
	order string
	seq   int
}

// events are all that are committed, by order in their order.
func (s *shop) events() (out []event) {
	s.t.Helper()
	s.with(func(c session) (err error) {
		out, err = c.all(s.t.Context(), "SELECT id, aggregateid, seq FROM journal")
		return err
	})
	slices.SortFunc(out, func(a, b event) int { return cmp.Or(strings.Compare(a.order, b.order), a.seq-b.seq) })
	return out
}

// left counts the rows that are in the outbox.
func (s *shop) left() (n int) {
	s.t.Helper()
	s.with(func(c session) error { return c.one(s.t.Context(), &n, "SELECT count(*) FROM outbox") })
	return n
}
