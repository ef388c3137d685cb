package outbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// things says how all stands, a line each: the name, and what is wrong with the
// statements that mend it.
func (w *world) things() string {
	w.t.Helper()
	w.open()
	o, err := w.src.(dataflow.Outsider).Outside(w.t.Context())
	must(w.t, err)
	defer o.Close()
	list, err := o.Things(w.t.Context())
	must(w.t, err)
	var out []string
	for _, t := range list {
		line := t.Name
		if t.Wrong {
			line += " WRONG " + strings.Join(t.Fix, "; ")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestRightsAreLookedAt(t *testing.T) {
	w := newWorld(t, tableText)
	role := fmt.Sprintf("reader_%d", rand.Uint32())
	w.exec("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() {
		_, err := w.conn.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		must(t, err)
	})
	w.cfg.Postgres.URL = component.Secret(strings.Replace(w.url, "//postgres@", "//"+role+"@", 1))
	w.cleanup("delete", "")
	slot := w.cfg.Postgres.Slot
	w.cfg.Postgres.Publication = slot
	want := `table public.outbox WRONG GRANT USAGE ON SCHEMA "public" TO "ME"; GRANT SELECT ON "public"."outbox" TO "ME"
right DELETE on public.outbox WRONG GRANT DELETE, UPDATE ON "public"."outbox" TO "ME"
wal_level
right REPLICATION of role ME WRONG ALTER ROLE "ME" REPLICATION
publication SLOT WRONG CREATE PUBLICATION "SLOT" FOR TABLE "public"."outbox" WITH (publish = 'insert', publish_via_partition_root = true)
replication slot SLOT`
	want = strings.NewReplacer("ME", role, "SLOT", slot).Replace(want)
	if got := w.things(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	w.exec("GRANT SELECT, DELETE, UPDATE ON outbox TO " + role)
	w.polled()
	w.pos, w.cfg.Columns.Transaction = nil, "tx"
	want = `table public.outbox
right DELETE on public.outbox
column tx WRONG ALTER TABLE "public"."outbox" ADD "tx" xid8 NOT NULL DEFAULT pg_current_xact_id(); CREATE INDEX CONCURRENTLY ON "public"."outbox" ("tx")`
	if got := w.things(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMariaDBRightsAreLookedAt(t *testing.T) {
	w := newMyWorld(t, myTable)
	user := fmt.Sprintf("u%d", rand.Uint32())
	w.do("CREATE USER " + user + "@'%'")
	t.Cleanup(func() { w.db.Exec("DROP USER " + user + "@'%'") })
	w.do("GRANT SELECT ON outbox TO " + user + "@'%'")
	w.cfg.MySQL.URL = myURL(t, w.dsn, user)
	w.cleanup("delete", "")
	got := w.things()
	for _, want := range []string{"table outbox\n", "right PROCESS of '" + user + "'@'%' WRONG GRANT PROCESS ON *.* TO '" + user + "'@'%'\n", "right DELETE on outbox WRONG GRANT DELETE ON `"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	w.do("GRANT DELETE ON outbox TO " + user + "@'%'")
	w.do("GRANT PROCESS ON *.* TO " + user + "@'%'")
	w.pos = nil
	if got := w.things(); strings.Contains(got, "WRONG") {
		t.Error(got)
	}
}

// What the server keeps for the slot is known, and too much of it is said.
func TestWhatTheServerKeepsIsKnown(t *testing.T) {
	w := newWorld(t, tableText)
	w.exec("CREATE TABLE other (n int)")
	w.cfg.Postgres.RetainedAlert = 100_000
	w.open()
	w.pollUntil("the slot is looked at", func(dataflow.Polled) bool {
		r, ok := w.src.(dataflow.Retainer).Retained()
		return ok && r.Bytes > 0 && r.Alarm == ""
	})
	w.exec("INSERT INTO other SELECT generate_series(1, 20000)")
	s, err := findSlot(t.Context(), w.conn, w.cfg.Postgres.Slot)
	must(t, err)
	if k := s.kept(*w.cfg.Postgres); k.Bytes < 100_000 || !strings.Contains(k.Alarm, "bytes of its log for the slot "+w.cfg.Postgres.Slot) {
		t.Errorf("%+v", k)
	}
	s.left, w.cfg.Postgres.RetainedAlert = s.retained/20, 0
	if k := s.kept(*w.cfg.Postgres); !strings.Contains(k.Alarm, "gives them up soon (max_slot_wal_keep_size") {
		t.Errorf("%+v", k)
	}
}
