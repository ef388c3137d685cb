package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/rig"

	"github.com/go-sql-driver/mysql"
)

// myWorld is a database of MariaDB with an outbox, and a source of it.
type myWorld struct {
	*world
	dsn string
	db  *sql.DB
}

const myTable = `CREATE TABLE outbox (id bigint AUTO_INCREMENT PRIMARY KEY, aggregatetype varchar(20), aggregateid varchar(20), type varchar(20), payload json)`

const myInsert = `INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', ?, ?, '{"a": 1}')`

// newMyWorld lets the test run beside others.
func newMyWorld(t *testing.T, statements ...string) *myWorld {
	t.Helper()
	t.Parallel()
	return newMyWorldAt(t, rig.MariaDB(t), statements...)
}

func newMyWorldAt(t *testing.T, dsn string, statements ...string) *myWorld {
	t.Helper()
	w := &myWorld{world: bareWorld(t), dsn: dsn}
	var err error
	w.db, err = sql.Open("mysql", dsn)
	must(t, err)
	t.Cleanup(func() { w.db.Close() })
	for _, s := range statements {
		w.do(s)
	}
	w.cfg.MySQL = &MySQLConfig{}
	w.cfg.MySQL.SetDefaults()
	w.cfg.MySQL.URL, w.cfg.MySQL.Table, w.cfg.MySQL.PollEvery = myURL(t, dsn, "root"), "outbox", component.Duration(time.Millisecond)
	return w
}

// myURL is the URL of what the driver is given as dsn.
func myURL(t *testing.T, dsn, user string) component.Secret {
	t.Helper()
	c, err := mysql.ParseDSN(dsn)
	must(t, err)
	return component.Secret("mysql://" + user + "@" + c.Addr + "/" + c.DBName)
}

func (w *myWorld) do(statement string, args ...any) {
	w.t.Helper()
	_, err := w.db.ExecContext(w.t.Context(), statement, args...)
	must(w.t, err)
}

func (w *myWorld) begin(events ...string) *sql.Tx {
	w.t.Helper()
	tx, err := w.db.BeginTx(w.t.Context(), nil)
	must(w.t, err)
	w.t.Cleanup(func() { tx.Rollback() })
	for _, e := range events {
		_, err := tx.ExecContext(w.t.Context(), myInsert, e[:1], e)
		must(w.t, err)
	}
	return tx
}

// settled polls until nothing is remembered of gaps, but for those of open transactions.
func (w *myWorld) settled(gaps ...uint64) {
	w.t.Helper()
	w.pollUntil("the gaps are given up", func(dataflow.Polled) bool {
		unread := w.src.(*poller).pos.unread
		return slices.Equal(unread[:len(unread)-1], spansOf(gaps))
	})
}

// C07, with a process that begins anew before each poll.
func TestMariaDBC07(t *testing.T) {
	w := newMyWorld(t, myTable)
	late := w.begin("g1")
	must(t, w.begin("h1").Commit())
	w.polls(1)
	must(t, w.begin("i1").Rollback())
	must(t, w.begin("h2").Commit())
	w.polls(1)
	w.open()
	w.settled(1) // Id 3 is none any more, and id 1 may come.
	must(t, late.Commit())
	w.polls(1)
	w.want(row(2, "h", "h1", `{"a": 1}`), row(4, "h", "h2", `{"a": 1}`), row(1, "g", "g1", `{"a": 1}`))
	w.settled()
}

// A statement that was given ids and has not inserted their rows yet is waited for,
// although no transaction holds a row with them.
func TestMariaDBIdsThatAreGivenBeforeTheRowIsThere(t *testing.T) {
	w := newMyWorld(t, `CREATE TABLE kinds (name varchar(20) PRIMARY KEY)`, `INSERT INTO kinds VALUES ('a'), ('b')`,
		`CREATE TABLE outbox (id bigint AUTO_INCREMENT PRIMARY KEY, aggregatetype varchar(20), aggregateid varchar(20), type varchar(20), payload json, FOREIGN KEY (type) REFERENCES kinds (name))`)
	w.open()
	w.pollUntil("the first round", func(p dataflow.Polled) bool { return p.Split != "" })
	// The second row waits for who has locked its kind; three ids are given.
	lock := w.begin()
	_, err := lock.Exec(`SELECT name FROM kinds WHERE name = 'b' FOR UPDATE`)
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := w.db.Exec(`INSERT INTO outbox (type, payload) VALUES ('a', '{}'), ('b', '{}'), ('a', '{}')`)
		done <- err
	}()
	dirty, err := w.db.Conn(t.Context())
	must(t, err)
	defer dirty.Close()
	_, err = dirty.ExecContext(t.Context(), "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
	must(t, err)
	w.pollUntil("the statement has inserted its first row", func(dataflow.Polled) bool {
		var n int
		must(t, dirty.QueryRowContext(t.Context(), "SELECT count(*) FROM outbox").Scan(&n))
		return n > 0
	})
	w.do(`INSERT INTO outbox (type, payload) VALUES ('a', '{}')`)
	w.await(1)
	for range 100 { // More than one trial, if it were not for the statement.
		_, err := w.poll()
		must(t, err)
	}
	if unread := w.src.(*poller).pos.unread; !unread.has(2) || !unread.has(3) {
		t.Errorf("unread: %s: the ids 2 and 3 are given up before their rows are there", unread)
	}
	must(t, lock.Commit())
	must(t, <-done)
	w.await(4)
	w.settled()
}

// A transaction that is open for long, with savepoints, holds its own ids and no others.
func TestMariaDBWithALongTransaction(t *testing.T) {
	w := newMyWorld(t, myTable)
	w.polls(1)
	long := w.begin("l1") // id 1
	for _, s := range []string{"SAVEPOINT a", myInsert, "ROLLBACK TO a", "SAVEPOINT b", myInsert, "RELEASE SAVEPOINT b"} {
		var args []any
		if s == myInsert {
			args = []any{"l", "l"} // ids 2 and 3
		}
		_, err := long.Exec(s, args...)
		must(t, err)
	}
	for i := range 50 {
		w.do(myInsert, "s", fmt.Sprint(i))
		must(t, w.begin("r1", "r2").Rollback())
		if i%10 == 0 {
			w.polls(1)
		}
	}
	w.open()
	w.await(50)
	w.settled(1, 3)
	w.open()
	w.settled(1, 3)
	must(t, long.Commit())
	w.await(52)
	w.settled()
}

// With too many gaps that may get a row, nothing new is read, and it is said who holds them;
// when that has ended, reading goes on.
func TestMariaDBTooManyGaps(t *testing.T) {
	w := newMyWorld(t, myTable)
	w.open()
	w.pollUntil("the first round", func(p dataflow.Polled) bool { return p.Split != "" })
	w.src.(*poller).table.(*myPoll).most = 5
	long := w.begin()
	for range 10 {
		_, err := long.Exec(myInsert, "l", "l")
		must(t, err)
		w.do(myInsert, "s", "s")
	}
	w.await(10)
	trouble := func() string { return strings.Join(w.src.(dataflow.Troubled).Trouble(), "") }
	w.pollUntil("it is said", func(dataflow.Polled) bool {
		return strings.Contains(trouble(), "10 ranges of ids of table outbox have no row and may get one") && strings.Contains(trouble(), "the oldest transaction is that of connection ")
	})
	w.do(myInsert, "s", "s")
	for range 30 {
		w.poll()
	}
	if len(w.rows) != 10 {
		t.Errorf("%d rows, want 10", len(w.rows))
	}
	must(t, long.Commit())
	w.await(21)
	w.settled()
	if trouble() != "" {
		t.Error(trouble())
	}
}

// Sessions write at random; see the test of the same name of PostgreSQL.
func TestMariaDBEachCommittedRowComesOnceInTheOrderOfItsAggregate(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := newMyWorld(t, myTable, `CREATE TABLE aggregates (id int PRIMARY KEY, seq int NOT NULL)`, `INSERT INTO aggregates SELECT seq - 1, 0 FROM seq_1_to_5`)
	var writers sync.WaitGroup
	var mu sync.Mutex
	committed := 0
	for n := range 4 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 40 {
				rows, err := myWrite(w.db, rng)
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
		_, err := w.poll()
		must(t, err)
		if rng.IntN(10) == 0 {
			w.open()
		}
	}
	w.await(committed)
	w.inOrder()
	w.settled()
}

// myWrite is write for MariaDB.
func myWrite(db *sql.DB, rng *rand.Rand) (int, error) {
	ctx := context.Background()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	rows := 0
	ids := rng.Perm(5)[:1+rng.IntN(3)]
	slices.Sort(ids) // Locks in one order.
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, "SAVEPOINT part"); err != nil {
			return 0, err
		}
		n := 1 + rng.IntN(3)
		for range n {
			if _, err := tx.ExecContext(ctx, "UPDATE aggregates SET seq = seq + 1 WHERE id = ?", id); err != nil {
				return 0, err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO outbox (aggregatetype, aggregateid, type, payload)
				SELECT 'thing', id, 'changed', json_object('seq', seq) FROM aggregates WHERE id = ?`, id); err != nil {
				return 0, err
			}
		}
		end := "RELEASE SAVEPOINT part"
		if rng.IntN(4) == 0 {
			end = "ROLLBACK TO part"
		} else {
			rows += n
		}
		if _, err := tx.ExecContext(ctx, end); err != nil {
			return 0, err
		}
	}
	if rng.IntN(4) == 0 {
		return 0, tx.Rollback()
	}
	return rows, tx.Commit()
}

// Numbers that begin anew count as read: that is said.
func TestMariaDBNumbersThatBeginAnewAreAGap(t *testing.T) {
	w := newMyWorld(t, myTable)
	for range 3 {
		w.do(myInsert, "a", "1")
	}
	w.open()
	w.await(3)
	w.do("TRUNCATE outbox")
	w.do(myInsert, "a", "1")
	var err error
	for range 50 {
		if _, err = w.poll(); err != nil {
			break
		}
	}
	if !errors.Is(err, dataflow.ErrGap) || !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "the next number of table outbox is 2, and rows up to 3 were read before") {
		t.Error(err)
	}
}

// A server that is killed goes on with its numbers, also of an empty table.
func TestMariaDBServerRestart(t *testing.T) {
	t.Parallel()
	server := rig.NewMariaDB(t)
	w := newMyWorldAt(t, server.DSN(""), "CREATE DATABASE shop")
	w.dsn = server.DSN("shop")
	w.db.Close()
	var err error
	w.db, err = sql.Open("mysql", w.dsn)
	must(t, err)
	t.Cleanup(func() { w.db.Close() })
	w.cfg.MySQL.URL = myURL(t, w.dsn, "root")
	w.do(myTable)
	w.do(myInsert, "a", "1")
	w.do(myInsert, "a", "2")
	open := w.begin("a3")
	w.open()
	w.await(2)
	w.do("DELETE FROM outbox WHERE id IN (1, 2)")
	w.close()
	server.Kill()
	must(t, server.Start())
	open.Rollback()
	w.do(myInsert, "a", "4")
	w.polls(1)
	w.open()
	w.await(3)
	w.settled()
	server.Kill()
	must(t, server.Start())
	w.do(myInsert, "a", "5")
	w.open()
	w.await(4)
	var types []string
	for _, text := range w.rows {
		var r struct{ Type string }
		must(t, json.Unmarshal([]byte(text), &r))
		types = append(types, r.Type)
	}
	if !slices.Equal(types, []string{"1", "2", "4", "5"}) {
		t.Errorf("%v", types)
	}
}

func TestMariaDBColumnsAndStart(t *testing.T) {
	w := newMyWorld(t, `CREATE TABLE outbox (uid uuid, seq bigint unsigned AUTO_INCREMENT UNIQUE, kind varchar(20), body blob, meta json, made datetime(3))`)
	w.cfg.Columns = Columns{ID: "uid", Sequence: "seq", Type: "kind", Payload: "body", Headers: "meta", CreatedAt: "made"}
	w.cfg.Payload, w.cfg.Start = "bytes", "latest"
	const one = `INSERT INTO outbox (uid, kind, body, meta, made) VALUES ('0188c0de-0000-7000-8000-000000000001', 'k', x'00ff', '{"trace": "t"}', '2026-03-01 08:00:00.5')`
	w.do(one)
	w.open()
	w.do(one)
	w.do(`INSERT INTO outbox (kind, body) VALUES ('without an id', x'01')`)
	w.await(2)
	want := `{"id":"0188c0de-0000-7000-8000-000000000001","type":"k","payload":"00ff","headers":{"trace": "t"},"created_at":"2026-03-01T08:00:00.500000Z"}`
	if len(w.rows) != 1 || w.rows[0] != want || strings.Join(w.bad, " ") != "null_id" {
		t.Errorf("got %v, bad %v, want %s", w.rows, w.bad, want)
	}
}

func (w *myWorld) leftIDs() (out []int) {
	w.t.Helper()
	rows, err := w.db.Query("SELECT id FROM outbox ORDER BY id")
	must(w.t, err)
	defer rows.Close()
	for rows.Next() {
		var id int
		must(w.t, rows.Scan(&id))
		out = append(out, id)
	}
	must(w.t, rows.Err())
	return out
}

func TestMariaDBRelayedRowsAreCleanedUp(t *testing.T) {
	w := newMyWorld(t, myTable)
	w.cleanup("delete", "")
	for i := range 4 {
		w.do(myInsert, "a", fmt.Sprint(i))
	}
	w.open()
	w.await(4)
	before := w.pos
	for i := range 4 {
		w.do(myInsert, "b", fmt.Sprint(i))
	}
	w.await(8)
	w.polls(5)
	must(t, w.src.(dataflow.Acker).Ack(t.Context(), 1, map[dataflow.Split]dataflow.Position{pollSplit: before}))
	for range 50 {
		w.poll()
	}
	if got := w.leftIDs(); len(got) != 8 {
		t.Errorf("left %v: rows 5 to 8 are not acknowledged", got)
	}
	open, tx := w.begin("c1"), w.begin()
	_, err := tx.Exec("SELECT 1 FROM outbox WHERE id = 8 FOR UPDATE")
	must(t, err)
	w.pollUntil("all but the one that is locked", func(dataflow.Polled) bool {
		w.ack()
		return slices.Equal(w.leftIDs(), []int{8})
	})
	must(t, tx.Commit())
	must(t, open.Commit())
	w.pollUntil("the last ones", func(dataflow.Polled) bool {
		w.ack()
		return len(w.leftIDs()) == 0
	})
	if len(w.rows) != 9 {
		t.Errorf("%d rows, want 9: %v", len(w.rows), w.rows)
	}
}

func TestMariaDBRelayedRowsAreMarked(t *testing.T) {
	w := newMyWorld(t, myTable, "ALTER TABLE outbox ADD processed_at datetime")
	w.cleanup("mark", "processed_at")
	w.do(myInsert, "a", "1")
	w.open()
	w.await(1)
	w.do(myInsert, "a", "2")
	w.pollUntil("both are marked", func(dataflow.Polled) bool {
		w.ack()
		var n int
		must(t, w.db.QueryRow("SELECT count(*) FROM outbox WHERE processed_at IS NOT NULL").Scan(&n))
		return n == 2
	})
	w.polls(3)
	if len(w.rows) != 2 {
		t.Errorf("rows that are marked came again: %v", w.rows)
	}
}

func TestWhatMariaDBLacksIsSaid(t *testing.T) {
	w := newMyWorld(t, myTable, "CREATE TABLE plain (id bigint PRIMARY KEY, payload json)", "CREATE TABLE old (id bigint AUTO_INCREMENT PRIMARY KEY, payload json) ENGINE = MyISAM")
	said := func(want string) {
		t.Helper()
		w.pos = nil
		w.open()
		_, err := w.poll()
		if err == nil || !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w.cfg.Columns.Type = "kind"
	said(`table outbox has no column "kind": name the ones it has under columns`)
	w.cfg.Columns.Type = "type"
	w.cfg.MySQL.Table = "nowhere"
	said("table nowhere: there is no such table, or the user may not read it")
	w.cfg.MySQL.Table = "plain"
	said("table plain has no column with AUTO_INCREMENT, by which rows are found that are committed late: ALTER TABLE `plain` ADD seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE")
	w.cfg.MySQL.Table = "old"
	said("table old is of the engine \"MyISAM\", and an outbox needs transactions: ALTER TABLE `old` ENGINE = InnoDB")
	w.cfg.MySQL.Table, w.cfg.Columns.Sequence = "outbox", "type"
	said(`column "type" of outbox has no AUTO_INCREMENT: write columns: {sequence: id}`)
	w.cfg.Columns.Sequence = ""
	user := fmt.Sprintf("u%d", rand.Uint32())
	w.do("CREATE USER " + user + "@'%'")
	t.Cleanup(func() { w.db.Exec("DROP USER " + user + "@'%'") })
	w.do("GRANT SELECT ON outbox TO " + user + "@'%'")
	w.cfg.MySQL.URL = myURL(t, w.dsn, user)
	said("the user lacks a right: GRANT PROCESS ON *.*")
	// With it, nothing else is needed.
	w.do("GRANT PROCESS ON *.* TO " + user + "@'%'")
	w.do(myInsert, "a", "1")
	w.pos = nil
	w.open()
	w.await(1)
	w.cfg.MySQL.URL = "mysql://x/y?z"
	said("expected mysql://USER:PASSWORD@HOST:PORT/DATABASE")
}
