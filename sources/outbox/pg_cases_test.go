package outbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/rig"

	"github.com/jackc/pglogrepl"
)

// pollUntil polls until ok.
func (w *world) pollUntil(what string, ok func(p dataflow.Polled) bool) {
	w.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		p, err := w.poll()
		must(w.t, err)
		if ok(p) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: not in two minutes", what)
		}
	}
}

func (w *world) ack() {
	w.t.Helper()
	must(w.t, w.src.(dataflow.Acker).Ack(w.t.Context(), 1, map[dataflow.Split]dataflow.Position{w.split(): w.pos}))
}

// confirmed is how far the server may forget.
func (w *world) confirmed() pglogrepl.LSN {
	w.t.Helper()
	s, err := findSlot(w.t.Context(), w.conn, w.cfg.Postgres.Slot)
	must(w.t, err)
	return s.confirmed
}

func TestMessagesAreAnOutboxWithoutATable(t *testing.T) {
	w := newWorld(t, "")
	w.cfg.Postgres.Table, w.cfg.Postgres.Messages = "", "shop"
	w.open()
	w.await(0)
	w.poll()
	emit := func(transactional, prefix, text string) {
		w.exec("SELECT pg_logical_emit_message(" + transactional + ", '" + prefix + "', '" + text + "')")
	}
	emit("true", "shop", `{"id": 7, "aggregatetype": "order", "aggregateid": "a", "type": "made", "payload": {"n": [1]}}`)
	emit("true", "other", `{"id": 8}`)
	emit("false", "shop", `{"id": 9}`)
	emit("true", "shop", `no json`)
	w.exec("BEGIN")
	emit("true", "shop", `{"id": "x"}`)
	w.exec("ROLLBACK")
	emit("true", "shop", `{"id": "b", "payload": "text"}`)
	w.await(3)
	if got, want := strings.Join(w.rows, "\n"), `{"id":"7","aggregate_type":"order","aggregate_id":"a","type":"made","payload":{"n": [1]}}
{"id":"b","aggregate_type":null,"aggregate_id":null,"type":null,"payload":"text"}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Join(w.bad, " ") != "null_id" {
		t.Errorf("bad: %v", w.bad)
	}
}

// The columns by other names, of other types, and those that a decode block makes.
func TestColumns(t *testing.T) {
	w := newWorld(t, `CREATE TABLE outbox (uid uuid, kind varchar(20), body bytea, meta json, made timestamptz, more int)`)
	w.cfg.Columns = Columns{ID: "uid", Type: "kind", Payload: "body", Headers: "meta", CreatedAt: "made"}
	w.cfg.Payload = "bytes"
	const one = `INSERT INTO outbox VALUES ('0188c0de-0000-7000-8000-000000000001', 'k', '\x00ff', '{"trace": "t"}', '2026-03-01 10:00:00.5+02', 1)`
	w.exec(one)
	w.open()
	w.await(1)
	w.exec(one)
	w.exec(`INSERT INTO outbox (kind, body) VALUES ('without an id', '\x01')`)
	w.await(3)
	want := `{"id":"0188c0de-0000-7000-8000-000000000001","type":"k","payload":"00ff","headers":{"trace": "t"},"created_at":"2026-03-01T08:00:00.500000Z"}`
	for _, got := range w.rows {
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	if strings.Join(w.bad, " ") != "null_id" {
		t.Errorf("bad: %v", w.bad)
	}
}

func TestAPayloadIsDecoded(t *testing.T) {
	w := newWorld(t, tableText)
	w.cfg.Metadata = Metadata{LSN: "lsn", Transaction: "xid", CommitTime: "at"}
	w.decoder = func() (dataflow.Decoder, error) {
		return codec.NewJSON(codec.JSONConfig{Schema: component.NamedTypes{{Name: "a", Type: "int64"}}, Required: []string{"a"}}, w.alloc)
	}
	w.exec(insert, "a", "1")
	w.open()
	w.await(1)
	w.exec(`INSERT INTO outbox (payload) VALUES ('{"a": "text"}')`)
	w.exec(`INSERT INTO outbox (payload) VALUES (null)`)
	w.await(3)
	if got, want := w.rows[0], `{"id":"1","aggregate_type":"order","aggregate_id":"a","type":"1","a":1,"lsn":null,"xid":null,"at":null}`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := strings.Join(w.bad, " "); got != "mistyped null_payload" {
		t.Errorf("bad: %v", w.bad)
	}
}

// Nothing is confirmed that was not acknowledged, although much more was read; and where
// only other tables are written, the slot moves on.
func TestTheSlotIsConfirmedAsFarAsAcknowledged(t *testing.T) {
	w := newWorld(t, tableText)
	w.exec("CREATE TABLE other (n int)")
	now := time.Now()
	w.now = func() time.Time { now = now.Add(time.Second); return now } // Ten Polls are a beat.
	w.open()
	w.pollUntil("the log", func(dataflow.Polled) bool { return string(w.pos) != "0/" })
	w.exec(insert, "a", "1")
	w.await(1)
	w.ack()
	first, err := parsePosition(w.pos)
	must(t, err)
	w.pollUntil("the report", func(dataflow.Polled) bool { return w.confirmed() >= first.lsn })
	w.exec(insert, "a", "2")
	w.await(2)
	before := w.confirmed()
	second, err := parsePosition(w.pos)
	must(t, err)
	w.exec("INSERT INTO other SELECT generate_series(1, 20000)")
	w.pollUntil("the position moves without rows", func(dataflow.Polled) bool {
		p, err := parsePosition(w.pos)
		must(t, err)
		return p.lsn > second.lsn+100_000
	})
	if got := w.confirmed(); got != before || got >= second.lsn {
		t.Errorf("confirmed up to %s, before it was %s, and row 2 is committed at %s", got, before, second.lsn)
	}
	w.ack()
	w.pollUntil("the report", func(dataflow.Polled) bool { return w.confirmed() > second.lsn+100_000 })
	if len(w.rows) != 2 {
		t.Errorf("%v", w.rows)
	}
}

func TestReadingUpToAnEnd(t *testing.T) {
	w := newWorld(t, tableText)
	w.exec(insert, "a", "1")
	w.open()
	w.await(1)
	w.exec(insert, "a", "2")
	ends, err := w.src.(dataflow.Ender).Ends(t.Context(), []dataflow.Split{logSplit})
	must(t, err)
	w.exec(insert, "a", "3")
	must(t, w.tryOpen(ends[logSplit]))
	w.pollUntil("the end", func(p dataflow.Polled) bool { return p.AtUntil })
	if len(w.rows) != 2 {
		t.Errorf("%v", w.rows)
	}
	must(t, w.src.Assign(t.Context(), []dataflow.SplitAt{{Split: logSplit, From: w.pos}}))
	w.await(3)
}

// release closes the source, and waits until the server has noticed.
func (w *world) release() {
	w.t.Helper()
	w.close()
	for deadline := time.Now().Add(time.Minute); ; {
		s, err := findSlot(w.t.Context(), w.conn, w.cfg.Postgres.Slot)
		must(w.t, err)
		if !s.active {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal("the slot is active a minute after its reader has gone")
		}
	}
}

// A slot that cannot give what comes next stops the pipeline, and says what to do.
func TestASlotThatIsGoneOrMovedIsAGap(t *testing.T) {
	w := newWorld(t, tableText)
	w.exec(insert, "a", "1")
	w.open()
	w.await(1)
	refused := func(want string) {
		t.Helper()
		w.open()
		_, err := w.poll()
		if !errors.Is(err, dataflow.ErrGap) || !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w.release()
	w.exec(insert, "a", "2")
	w.exec("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", w.cfg.Postgres.Slot)
	refused("by somebody else")
	w.release()
	w.exec("SELECT pg_drop_replication_slot($1)", w.cfg.Postgres.Slot)
	refused("is gone (dropped, or the database was restored or failed over")
}

func TestWhatTheDatabaseLacksIsSaid(t *testing.T) {
	w := newWorld(t, tableText)
	said := func(want string) {
		t.Helper()
		w.pos = nil
		err := w.tryOpen(nil)
		if err == nil {
			_, err = w.poll()
		}
		if err == nil || !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	w.cfg.Columns.Type = "kind"
	said(`table public.outbox has no column "kind": name the ones it has under columns`)
	w.cfg.Columns.Type = "type"
	w.cfg.Postgres.Table, w.cfg.Postgres.Publication = "public.nowhere", "of_nowhere"
	said("there is no such table")
	w.cfg.Postgres.Table = "public.outbox"
	w.cfg.Postgres.Create = false
	w.cfg.Postgres.Publication = "not_there"
	said(`publication not_there is not there, and create is off: run CREATE PUBLICATION "not_there" FOR TABLE "public"."outbox"`)
	w.exec("CREATE PUBLICATION empty_one")
	w.cfg.Postgres.Publication = "empty_one"
	said(`table public.outbox is not in publication empty_one: ALTER PUBLICATION "empty_one" ADD TABLE "public"."outbox"`)
	w.cfg.Postgres.Publication, w.cfg.Postgres.Create = "of_outbox", true
	w.cfg.Postgres.URL = component.Secret(w.url[:strings.LastIndex(w.url, "/")] + "/nowhere")
	said("there is no such database")
}

func TestAServerWithoutLogicalReplicationIsRefused(t *testing.T) {
	db := rig.NewPostgres(t, "wal_level = replica")
	w := newWorldAt(t, db.URL("postgres"), tableText)
	w.open()
	_, err := w.poll()
	if want := "wal_level is replica, and replication needs logical: ALTER SYSTEM SET wal_level = logical, and restart the server"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// A barrier calls a Poll off. The connection stays: another one would read the log again
// from what is confirmed.
func TestAPollThatIsCalledOffLeavesTheConnection(t *testing.T) {
	w := newWorld(t, tableText)
	w.open()
	w.exec(insert, "a", "1")
	w.await(1)
	reader := func() (pid int) {
		must(t, w.conn.QueryRow(t.Context(), "SELECT active_pid FROM pg_replication_slots WHERE slot_name = $1", w.cfg.Postgres.Slot).Scan(&pid))
		return pid
	}
	w.pollUntil("the log", func(dataflow.Polled) bool { return string(w.pos) != "0/" })
	before := reader()
	off, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		p, err := w.src.Poll(off, dataflow.PollLimit{Rows: 7, Bytes: 1 << 20, WaitMicros: 20_000})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		p.Release()
	}
	w.exec(insert, "a", "2")
	w.await(2)
	if after := reader(); after != before {
		t.Errorf("the slot is read by process %d, before the Poll that was called off by %d", after, before)
	}
}
