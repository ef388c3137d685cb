package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/leak"
	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a database with an outbox of the conventional layout, and a source of it.
type world struct {
	t     *testing.T
	url   string
	conn  *pgx.Conn
	cfg   Config
	alloc *memory.CheckedAllocator

	src dataflow.Source
	pos dataflow.Position
	// rows are those of all batches, as JSON; bad are reasons.
	rows, bad []string
	kept      [2]int // how many of them are before pos
	decoder   func() (dataflow.Decoder, error)
	now       func() time.Time
}

const tableText = `CREATE TABLE outbox (id bigserial PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)`

func newWorld(t *testing.T, table string) *world {
	t.Helper()
	return newWorldAt(t, rig.Postgres(t), table)
}

func newWorldAt(t *testing.T, url, table string) *world {
	t.Helper()
	w := bareWorld(t)
	w.url, w.cfg.Postgres = url, &PostgresConfig{}
	w.cfg.Postgres.SetDefaults()
	w.cfg.Postgres.URL, w.cfg.Postgres.Table, w.cfg.Postgres.Slot = component.Secret(w.url), "public.outbox", fmt.Sprintf("frazil_%d_%d", os.Getpid(), rand.Uint32())
	w.conn = w.connect()
	if table != "" {
		w.exec(table)
	}
	return w
}

// bareWorld has no database yet.
func bareWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Now, cfg: DefaultConfig(), alloc: memory.NewCheckedAllocator(memory.NewGoAllocator())}
	t.Cleanup(func() {
		w.close()
		w.alloc.AssertSize(t, 0)
	})
	return w
}

func (w *world) connect() *pgx.Conn {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url)
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.conn.Exec(w.t.Context(), sql, args...)
	must(w.t, err)
}

func (w *world) env() *dataflow.Env {
	return &dataflow.Env{Pipeline: "p", Step: "in", Tasks: 1, Now: w.now, NewDecoder: w.decoder, Alloc: w.alloc, Log: slog.New(slog.DiscardHandler), Splits: &dataflow.SplitTable{}}
}

// open starts a source where the one before stood, as a process does.
func (w *world) open() {
	w.t.Helper()
	w.rows, w.bad = w.rows[:w.kept[0]], w.bad[:w.kept[1]]
	must(w.t, w.tryOpen(nil))
}

func (w *world) tryOpen(until dataflow.Position) error {
	w.t.Helper()
	w.close()
	s, err := newSource(w.t.Context(), w.env(), w.cfg)
	must(w.t, err)
	w.src = s
	if w.pos == nil {
		at, err := s.(dataflow.Starter).Start(w.t.Context(), []dataflow.Split{w.split()})
		if err != nil {
			return err
		}
		w.pos = at[w.split()]
	}
	return s.Assign(w.t.Context(), []dataflow.SplitAt{{Split: w.split(), From: w.pos, Until: until}})
}

func (w *world) split() dataflow.Split {
	if w.cfg.MySQL != nil || w.cfg.Postgres.Capture == capturePoll {
		return pollSplit
	}
	return logSplit
}

func (w *world) close() {
	if w.src != nil {
		must(w.t, w.src.Close())
		w.src = nil
	}
}

// poll takes one batch; what it holds counts at once, as if it were committed, unless a
// snapshot is under way.
func (w *world) poll() (dataflow.Polled, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	p, err := w.src.Poll(ctx, dataflow.PollLimit{Rows: 7, Bytes: 1 << 20, WaitMicros: 20_000})
	if errors.Is(err, dataflow.ErrUnavailable) {
		return dataflow.Polled{}, nil // The server has not noticed yet that the last reader has gone.
	}
	if err != nil {
		return p, err
	}
	defer p.Release()
	if p.Batch != nil {
		for i := range int(p.Batch.NumRows()) {
			w.rows = append(w.rows, string(dataflow.RowJSON(p.Batch, i)))
		}
	}
	if p.Bad != nil {
		for i := range int(p.Bad.NumRows()) {
			w.bad = append(w.bad, p.Bad.Column(0).ValueStr(i))
		}
	}
	if p.Split != "" && !p.Open {
		w.pos, w.kept = p.Next, [2]int{len(w.rows), len(w.bad)}
	}
	return p, nil
}

// await polls until there are n rows, and looks that no more come with them.
func (w *world) await(n int) {
	w.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for len(w.rows)+len(w.bad) < n {
		_, err := w.poll()
		must(w.t, err)
		if time.Now().After(deadline) {
			w.t.Fatalf("%d rows and %d bad ones in two minutes, want %d: %v", len(w.rows), len(w.bad), n, w.rows)
		}
	}
	if len(w.rows)+len(w.bad) > n {
		w.t.Fatalf("%d rows and %d bad ones, want %d: %v", len(w.rows), len(w.bad), n, w.rows)
	}
}

func (w *world) want(rows ...string) {
	w.t.Helper()
	w.await(len(rows))
	if !slices.Equal(w.rows, rows) {
		w.t.Errorf("got\n%s\nwant\n%s", strings.Join(w.rows, "\n"), strings.Join(rows, "\n"))
	}
}

func row(id int, aggregate, typ, payload string) string {
	return fmt.Sprintf(`{"id":"%d","aggregate_type":"order","aggregate_id":%q,"type":%q,"payload":%s}`, id, aggregate, typ, payload)
}

const insert = `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', $1, $2, '{"a": 1}')`

// Rows that are there come first, then those of the log, without a gap or a double; a
// transaction that is open while the slot is made comes when it is committed.
func TestSnapshotAndLogMeet(t *testing.T) {
	w := newWorld(t, tableText)
	w.exec(insert, "a", "1")
	w.exec(insert, "a", "2")
	other := w.connect()
	tx, err := other.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), insert, "b", "open")
	must(t, err)
	opened := make(chan error, 1)
	w.open()
	go func() {
		// The slot waits for transactions that are open.
		w.exec("SELECT pg_sleep(0.3)")
		opened <- tx.Commit(context.Background())
	}()
	w.await(3)
	must(t, <-opened)
	w.exec(insert, "a", "3")
	w.want(row(1, "a", "1", `{"a": 1}`), row(2, "a", "2", `{"a": 1}`), row(3, "b", "open", `{"a": 1}`), row(4, "a", "3", `{"a": 1}`))
	w.open()
	w.exec(insert, "a", "4")
	w.await(5)
}

// C07: ids are given before they are committed, and some never are.
func TestOutOfOrderCommitsAndRollbacks(t *testing.T) {
	w := newWorld(t, tableText)
	w.open()
	w.await(0)
	a, b := w.connect(), w.connect()
	begin := func(c *pgx.Conn, statements ...string) pgx.Tx {
		tx, err := c.Begin(t.Context())
		must(t, err)
		for _, s := range statements {
			_, err := tx.Exec(t.Context(), insert, s[:1], s)
			must(t, err)
		}
		return tx
	}
	w.poll()
	late := begin(a, "g1")
	must(t, begin(b, "h1").Commit(t.Context()))
	w.await(1)
	must(t, begin(b, "i1").Rollback(t.Context()))
	must(t, begin(b, "h2").Commit(t.Context()))
	w.open()
	w.await(2)
	must(t, late.Commit(t.Context()))
	w.open()
	w.want(row(2, "h", "h1", `{"a": 1}`), row(4, "h", "h2", `{"a": 1}`), row(1, "g", "g1", `{"a": 1}`))
}

// Sessions write at random, with savepoints, rollbacks and long transactions; the source
// is ended and begun again at random, also in the middle of a transaction. Each
// committed row comes once, in the order of its aggregate.
func TestEachCommittedRowComesOnceInTheOrderOfItsAggregate(t *testing.T) {
	for name, set := range map[string]func(*world){
		"log":                func(*world) {},
		"poll by xmin":       func(w *world) { w.polled() },
		"poll by the column": func(w *world) { w.polled(); w.column() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tableText)
			set(w)
			eachRowOnce(t, w)
		})
	}
}

func eachRowOnce(t *testing.T, w *world) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w.exec(`CREATE TABLE aggregates (id text PRIMARY KEY, seq int NOT NULL)`)
	for i := range 5 {
		w.exec(`INSERT INTO aggregates VALUES ($1, 0)`, fmt.Sprint(i))
	}
	var writers sync.WaitGroup
	var mu sync.Mutex
	committed := 0
	for n := range 4 {
		conn := w.connect()
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 40 {
				rows, err := write(conn, rng)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				committed += rows
				mu.Unlock()
			}
		})
	}
	done := make(chan bool)
	go func() {
		writers.Wait()
		close(done)
	}()
	rng := rand.New(rand.NewPCG(seed, 99))
	w.open()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if _, err := w.poll(); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(10) == 0 && string(w.pos) != "0/" {
			if rng.IntN(2) == 0 {
				must(t, w.src.(dataflow.Acker).Ack(t.Context(), 1, map[dataflow.Split]dataflow.Position{w.split(): w.pos}))
			}
			w.open()
		}
	}
	w.await(committed)
	w.inOrder()
}

// inOrder looks that the events of each aggregate are there without a gap and in order.
func (w *world) inOrder() {
	w.t.Helper()
	last := map[string]int{}
	for _, text := range w.rows {
		var r struct {
			AggregateID string `json:"aggregate_id"`
			Payload     struct{ Seq int }
		}
		must(w.t, json.Unmarshal([]byte(text), &r))
		if r.Payload.Seq != last[r.AggregateID]+1 {
			w.t.Fatalf("aggregate %s: event %d comes behind %d", r.AggregateID, r.Payload.Seq, last[r.AggregateID])
		}
		last[r.AggregateID]++
	}
}

// write writes events of some aggregates and returns how many were committed.
func write(conn *pgx.Conn, rng *rand.Rand) (int, error) {
	ctx := context.Background()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback(ctx)
	rows := 0
	ids := rng.Perm(5)[:1+rng.IntN(3)]
	slices.Sort(ids) // Locks in one order.
	for _, id := range ids {
		part, err := tx.Begin(ctx) // A savepoint.
		if err != nil {
			return 0, err
		}
		n := 1 + rng.IntN(3)
		for range n {
			if _, err := part.Exec(ctx, `WITH a AS (UPDATE aggregates SET seq = seq + 1 WHERE id = $1 RETURNING seq)
				INSERT INTO outbox (aggregatetype, aggregateid, type, payload) SELECT 'thing', $1, 'changed', jsonb_build_object('seq', seq) FROM a`, fmt.Sprint(id)); err != nil {
				return 0, err
			}
		}
		if rng.IntN(4) == 0 {
			err = part.Rollback(ctx)
		} else {
			rows += n
			err = part.Commit(ctx)
		}
		if err != nil {
			return 0, err
		}
	}
	if rng.IntN(4) == 0 {
		return 0, tx.Rollback(ctx)
	}
	return rows, tx.Commit(ctx)
}
