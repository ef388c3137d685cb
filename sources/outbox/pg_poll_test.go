package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// polled reads by queries, without a pause between them.
func (w *world) polled() {
	w.cfg.Postgres.Capture, w.cfg.Postgres.PollEvery = capturePoll, component.Duration(time.Millisecond)
}

// column adds a column with the transaction to the table.
func (w *world) column() {
	w.exec("ALTER TABLE outbox ADD tx xid8 NOT NULL DEFAULT pg_current_xact_id(); CREATE INDEX ON outbox (tx)")
	w.cfg.Columns.Transaction = "tx"
}

// polls runs whole rounds, and begins anew before each of them.
func (w *world) polls(rounds int) {
	w.t.Helper()
	for range rounds {
		w.open()
		w.pollUntil("a whole round", func(p dataflow.Polled) bool { return p.Split != "" && !p.Open && !w.at().part })
	}
}

func (w *world) at() pollPosition {
	w.t.Helper()
	p, err := parsePollPosition(w.pos)
	must(w.t, err)
	return p
}

func pollModes(t *testing.T, table string, test func(t *testing.T, w *world)) {
	for name, set := range map[string]func(*world){"xmin": func(w *world) {}, "column": func(w *world) { w.column() }} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, table)
			w.polled()
			set(w)
			test(t, w)
		})
	}
}

// C07, with a process that begins anew before each poll.
func TestPollC07(t *testing.T) {
	pollModes(t, tableText, func(t *testing.T, w *world) {
		a, b, c := w.connect(), w.connect(), w.connect()
		late := begin(t, a, "g1")
		must(t, begin(t, b, "h1").Commit(t.Context()))
		w.polls(1)
		must(t, begin(t, c, "i1").Rollback(t.Context()))
		must(t, begin(t, b, "h2").Commit(t.Context()))
		w.polls(1)
		must(t, late.Commit(t.Context()))
		w.polls(1)
		w.want(row(2, "h", "h1", `{"a": 1}`), row(4, "h", "h2", `{"a": 1}`), row(1, "g", "g1", `{"a": 1}`))
		w.polls(1)
		// Nothing is remembered of the number that was rolled back.
		if at := w.at(); len(at.unread) != 1 {
			t.Errorf("unread: %s", at.unread)
		}
	})
}

// A prepared transaction is open, although no connection has it.
func TestPollWithAPreparedTransaction(t *testing.T) {
	pollModes(t, tableText, func(t *testing.T, w *world) {
		name := fmt.Sprintf("p%d", rand.Uint32())
		for _, s := range []string{"BEGIN", "INSERT INTO outbox (type) VALUES ('prepared')", "PREPARE TRANSACTION '" + name + "'"} {
			w.exec(s)
		}
		w.exec(insert, "a", "1")
		w.polls(2)
		w.await(1)
		w.exec("COMMIT PREPARED '" + name + "'")
		w.polls(1)
		w.types([]string{"1", "prepared"})
	})
}

func begin(t *testing.T, c *pgx.Conn, events ...string) pgx.Tx {
	t.Helper()
	tx, err := c.Begin(t.Context())
	must(t, err)
	for _, e := range events {
		_, err := tx.Exec(t.Context(), insert, e[:1], e)
		must(t, err)
	}
	return tx
}

// A transaction that is open for long, with savepoints that were released, rolled back and
// are open, holds up nobody, loses nothing, and does not make positions grow.
func TestPollWithALongTransaction(t *testing.T) {
	pollModes(t, tableText, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.polls(1)
		long := begin(t, w.connect(), "l1")
		must(t, savepoint(ctx, long, "l2", true))
		must(t, savepoint(ctx, long, "l3", false))
		want := []string{"l1", "l2", "l4"}
		most := 0
		for i := range 300 {
			w.exec(insert, "s", fmt.Sprintf("s%d", i))
			w.exec(`CREATE TEMP TABLE IF NOT EXISTS busy (n int); INSERT INTO busy VALUES (1)`) // Other transactions.
			want = append(want, fmt.Sprintf("s%d", i))
			if i == 150 {
				must(t, savepoint(ctx, long, "l4", true))
			}
			if i%3 == 0 {
				w.polls(1)
			}
			most = max(most, len(w.pos))
		}
		w.await(300)
		if most > 1000 {
			t.Errorf("a position had %d bytes", most)
		}
		must(t, long.Commit(ctx))
		w.await(303)
		w.types(want)
		w.polls(2)
		if len(w.rows) != 303 {
			t.Errorf("%d rows, want 303", len(w.rows))
		}
	})
}

func savepoint(ctx context.Context, tx pgx.Tx, event string, keep bool) error {
	part, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := part.Exec(ctx, insert, event[:1], event); err != nil {
		return err
	}
	if keep {
		return part.Commit(ctx)
	}
	return part.Rollback(ctx)
}

// types compares the types of the events, in any order.
func (w *world) types(want []string) {
	w.t.Helper()
	var got []string
	for _, text := range w.rows {
		var r struct{ Type string }
		must(w.t, json.Unmarshal([]byte(text), &r))
		got = append(got, r.Type)
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		w.t.Errorf("got %v, want %v", got, want)
	}
}

// A process that ends in the middle of a round goes on there, whatever was committed in
// between: in front of what it has read and behind, with keys that are there twice.
func TestPollGoesOnInTheMiddleOfARound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	pollModes(t, strings.Replace(tableText, "type text", "type text, place int", 1), func(t *testing.T, w *world) {
		w.cfg.Columns.Sequence = "place"
		const one = `INSERT INTO outbox (aggregatetype, aggregateid, type, payload, place) VALUES ('order', 'a', $1, '{}', $2)`
		var want []string
		add := func(tx execer, n int) {
			for range n {
				e := fmt.Sprintf("e%d", len(want))
				_, err := tx.Exec(t.Context(), one, e, rng.IntN(60))
				must(t, err)
				want = append(want, e)
			}
		}
		add(w.conn, 100)
		open, parts := begin(t, w.connect()), 0
		add(open, 3)
		for range 40 {
			w.open()
			for range 1 + rng.IntN(3) {
				_, err := w.poll()
				must(t, err)
				if w.at().part {
					parts++
				}
			}
			switch rng.IntN(4) {
			case 0:
				add(w.conn, 1+rng.IntN(30))
			case 1:
				must(t, open.Commit(t.Context()))
				open = begin(t, w.connect())
				add(open, 1+rng.IntN(5))
			}
		}
		must(t, open.Commit(t.Context()))
		w.open()
		w.await(len(want))
		w.types(want)
		if parts == 0 {
			t.Error("no position was in the middle of a round")
		}
	})
}

type execer interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}

func TestPollNeedsNothingButSelect(t *testing.T) {
	w := newWorld(t, tableText)
	w.polled()
	name := fmt.Sprintf("reader_%d", rand.Uint32())
	w.exec("CREATE ROLE " + name + " LOGIN; GRANT SELECT ON outbox TO " + name)
	t.Cleanup(func() {
		_, err := w.conn.Exec(context.Background(), "DROP OWNED BY "+name+"; DROP ROLE "+name)
		must(t, err)
	})
	w.cfg.Postgres.URL = component.Secret(strings.Replace(w.url, "//postgres@", "//"+name+"@", 1))
	w.exec(insert, "a", "1")
	w.polls(1)
	long := begin(t, w.connect(), "b2")
	w.exec(insert, "a", "3")
	w.polls(1)
	must(t, long.Commit(t.Context()))
	w.want(row(1, "a", "1", `{"a": 1}`), row(3, "a", "3", `{"a": 1}`), row(2, "b", "b2", `{"a": 1}`))
}

// What is read by the number of a transaction must not be read of a server on which it is
// given again.
func TestPollOfAServerThatWentBackIsAGap(t *testing.T) {
	w := newWorld(t, tableText)
	w.polled()
	w.pos = pollPosition{seq: 1, round: 1, unread: spans{{1 << 40, forever}}}.encode()
	w.open()
	_, err := w.poll()
	if !errors.Is(err, dataflow.ErrGap) || !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "it was restored, or failed over") {
		t.Error(err)
	}
}

// The 32 bits of a row and the number that is given out next make 64.
func TestPollAcrossTheEndOf32Bits(t *testing.T) {
	w := newWorld(t, "")
	for _, x := range [][3]int64{{1 << 32, 1<<32 - 1, 1<<32 - 1}, {1<<32 + 5, 3, 1<<32 + 3}, {1<<32 + 5, 1<<32 - 7, 1<<32 - 7}, {9<<32 + 1, 1 << 31, 8<<32 + 1<<31}, {800, 799, 799}} {
		var got int64
		must(t, w.conn.QueryRow(t.Context(), "SELECT n.top - ((n.top - $2::int8) & 4294967295) FROM (SELECT $1::int8 AS top) n", x[0], x[1]&(1<<32-1)).Scan(&got))
		if got != x[2] {
			t.Errorf("next %d, row %d: %d, want %d", x[0], x[1], got, x[2])
		}
	}
}

func TestPollFromNowOnAndUpToAnEnd(t *testing.T) {
	pollModes(t, tableText, func(t *testing.T, w *world) {
		w.cfg.Start = "latest"
		w.exec(insert, "a", "1")
		open := begin(t, w.connect(), "b2")
		must(t, savepoint(t.Context(), open, "b3", true))
		w.open()
		must(t, open.Commit(t.Context()))
		w.exec(insert, "a", "4")
		w.want(row(2, "b", "b2", `{"a": 1}`), row(3, "b", "b3", `{"a": 1}`), row(4, "a", "4", `{"a": 1}`))
		w.exec(insert, "a", "5")
		ends, err := w.src.(dataflow.Ender).Ends(t.Context(), []dataflow.Split{pollSplit})
		must(t, err)
		must(t, w.tryOpen(ends[pollSplit]))
		w.pollUntil("the end", func(p dataflow.Polled) bool { return p.AtUntil })
		w.exec(insert, "a", "6")
		if p, err := w.poll(); err != nil || p.Split != "" || len(w.rows) != 4 {
			t.Errorf("%v, %v: %v", p, err, w.rows)
		}
		must(t, w.src.Assign(t.Context(), []dataflow.SplitAt{{Split: pollSplit, From: w.pos}}))
		w.await(5)
	})
}

// Types that the text of depends on settings, and a row without an id.
func TestPollColumns(t *testing.T) {
	w := newWorld(t, `CREATE TABLE outbox (uid uuid, kind varchar(20), body bytea, meta json, made timestamptz, plain timestamp)`)
	w.polled()
	w.exec("ALTER DATABASE " + w.url[strings.LastIndex(w.url, "/")+1:strings.Index(w.url, "?")] + " SET timezone = 'Asia/Kolkata'")
	w.cfg.Columns = Columns{ID: "uid", Type: "kind", Payload: "body", Headers: "meta", CreatedAt: "made", AggregateID: "plain"}
	w.cfg.Payload = "bytes"
	w.exec(`INSERT INTO outbox VALUES ('0188c0de-0000-7000-8000-000000000001', 'k', '\x00ff', '{"trace": "t"}', '2026-03-01 10:00:00.5+02', '2026-03-01 10:00:00')`)
	w.exec(`INSERT INTO outbox (kind, body) VALUES ('without an id', '\x01')`)
	w.open()
	w.await(2)
	want := `{"id":"0188c0de-0000-7000-8000-000000000001","aggregate_id":"2026-03-01T10:00:00","type":"k","payload":"00ff","headers":{"trace": "t"},"created_at":"2026-03-01T08:00:00.500000Z"}`
	if len(w.rows) != 1 || w.rows[0] != want || strings.Join(w.bad, " ") != "null_id" {
		t.Errorf("got %v, bad %v, want %s", w.rows, w.bad, want)
	}
}

func TestPolledRowsAreCleanedUp(t *testing.T) {
	pollModes(t, tableText, func(t *testing.T, w *world) {
		w.cleanup("delete", "")
		for i := range 4 {
			w.exec(insert, "a", fmt.Sprint(i))
		}
		w.open()
		w.await(4)
		before := w.pos
		for i := range 4 {
			w.exec(insert, "b", fmt.Sprint(i))
		}
		w.await(8)
		w.polls(5)
		must(t, w.src.(dataflow.Acker).Ack(t.Context(), 1, map[dataflow.Split]dataflow.Position{pollSplit: before}))
		for range 50 {
			w.poll()
		}
		if got := w.left(); len(got) != 8 {
			t.Errorf("left %v: rows 5 to 8 are not acknowledged, and rounds behind the look are none", got)
		}
		open := begin(t, w.connect(), "c1")
		tx := begin(t, w.connect())
		_, err := tx.Exec(t.Context(), "SELECT 1 FROM outbox WHERE id = 8 FOR UPDATE")
		must(t, err)
		w.pollUntil("all but the one that is locked", func(dataflow.Polled) bool {
			w.ack()
			return slices.Equal(w.left(), []int{8})
		})
		must(t, tx.Commit(t.Context()))
		must(t, open.Commit(t.Context()))
		w.pollUntil("the last ones", func(dataflow.Polled) bool {
			w.ack()
			return len(w.left()) == 0
		})
		if len(w.rows) != 9 {
			t.Errorf("%d rows, want 9: %v", len(w.rows), w.rows)
		}
	})
}

func TestPolledRowsAreMarked(t *testing.T) {
	pollModes(t, tableText+"; ALTER TABLE outbox ADD processed_at timestamptz", func(t *testing.T, w *world) {
		w.cleanup("mark", "processed_at")
		w.exec(insert, "a", "1")
		w.open()
		w.await(1)
		w.exec(insert, "a", "2")
		w.pollUntil("both are marked", func(dataflow.Polled) bool {
			w.ack()
			var n int
			must(t, w.conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE processed_at IS NOT NULL").Scan(&n))
			return n == 2
		})
		w.polls(3)
		if len(w.rows) != 2 {
			t.Errorf("rows that are marked came again: %v", w.rows)
		}
	})
}

func TestWhatPollingCannotHaveIsRefused(t *testing.T) {
	w := newWorld(t, tableText)
	w.polled()
	for want, change := range map[string]func(*Config){
		"metadata.lsn: only the database's log tells it": func(c *Config) { c.Metadata.LSN = "lsn" },
		"postgres.messages: messages are in the database's log alone": func(c *Config) {
			pg := *c.Postgres
			pg.Table, pg.Messages = "", "shop"
			c.Postgres = &pg
		},
		"postgres.poll_every: 0s: expected at least 1ms": func(c *Config) { pg := *c.Postgres; pg.PollEvery = 0; c.Postgres = &pg },
		"columns.transaction: only with capture: poll": func(c *Config) {
			pg := *c.Postgres
			pg.Capture, c.Columns.Transaction = captureLog, "tx"
			c.Postgres = &pg
		},
		"which database: write postgres": func(c *Config) { c.Postgres = nil },
	} {
		cfg := w.cfg
		change(&cfg)
		if got := check(cfg.named("p", "in")).Error(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	w.cfg.Columns.Transaction = "type"
	w.open()
	if _, err := w.poll(); err == nil || !strings.Contains(err.Error(), `column "type" of public.outbox: expected xid8 or bigint: ALTER TABLE "public"."outbox" ADD "type" xid8 NOT NULL DEFAULT pg_current_xact_id()`) {
		t.Error(err)
	}
}
