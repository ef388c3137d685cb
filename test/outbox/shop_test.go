package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// schema of the shop. journal repeats what is written to the outbox, in the same
// transactions, and stays when the outbox is cleaned up.
const schema = `
CREATE TABLE orders (id text PRIMARY KEY, seq int NOT NULL DEFAULT 0);
CREATE TABLE outbox (id bigserial PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb NOT NULL);
CREATE TABLE journal (id bigint PRIMARY KEY, aggregateid text NOT NULL, seq int NOT NULL);
INSERT INTO orders SELECT 'order-' || n FROM generate_series(0, 19) n;
`

// shop writes until it is stopped, through restarts of its database.
type shop struct {
	t    *testing.T
	url  string
	stop chan struct{}
	all  sync.WaitGroup
}

func openShop(t *testing.T, url string) *shop {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), schema)
	must(t, err)
	return &shop{t: t, url: url, stop: make(chan struct{})}
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
		conn, err := pgx.Connect(ctx, s.url)
		if err != nil {
			s.pause(50 * time.Millisecond)
			continue
		}
		for !s.stopped() {
			if err := s.transaction(ctx, conn, rng); err != nil {
				break
			}
			s.pause(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
		conn.Close(ctx)
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
func (s *shop) transaction(ctx context.Context, conn *pgx.Conn, rng *rand.Rand) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	ids := rng.Perm(20)[:1+rng.IntN(3)]
	slices.Sort(ids) // Locks in one order.
	for _, id := range ids {
		part, err := tx.Begin(ctx) // A savepoint.
		if err != nil {
			return err
		}
		for range 1 + rng.IntN(4) {
			if _, err := part.Exec(ctx, `WITH o AS (UPDATE orders SET seq = seq + 1 WHERE id = $1 RETURNING id, seq),
				e AS (INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
					SELECT 'order', id, 'changed', jsonb_build_object('order', id, 'seq', seq) FROM o RETURNING id, aggregateid, payload)
				INSERT INTO journal SELECT id, aggregateid, (payload->>'seq')::int FROM e`, fmt.Sprint("order-", id)); err != nil {
				return err
			}
		}
		if rng.IntN(5) == 0 {
			err = part.Rollback(ctx)
		} else {
			err = part.Commit(ctx)
		}
		if err != nil {
			return err
		}
		if rng.IntN(10) == 0 {
			s.pause(time.Duration(rng.IntN(300)) * time.Millisecond) // A long one.
		}
	}
	if rng.IntN(5) == 0 {
		return tx.Rollback(ctx)
	}
	return tx.Commit(ctx)
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
	conn, err := pgx.Connect(s.t.Context(), s.url)
	must(s.t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(s.t.Context(), "SELECT id, aggregateid, seq FROM journal ORDER BY aggregateid, seq")
	must(s.t, err)
	out, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (e event, err error) {
		return e, r.Scan(&e.id, &e.order, &e.seq)
	})
	must(s.t, err)
	return out
}

// left counts the rows that are in the outbox.
func (s *shop) left() (n int) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	must(s.t, err)
	defer conn.Close(context.Background())
	must(s.t, conn.QueryRow(s.t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
	return n
}
