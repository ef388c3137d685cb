package outbox

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"

	"github.com/jackc/pgx/v5"
)

// TestSetup: frazil outbox says what is missing and how it is mended, makes it and removes
// it, and --dry-run changes nothing.
func TestSetup(t *testing.T) {
	program.Long(t)
	db := rig.Postgres(t)
	conn, err := pgx.Connect(t.Context(), db)
	must(t, err)
	defer conn.Close(context.Background())
	const text = `
sources:
  events:
    outbox: {start: latest, postgres: {url: %q, table: public.outbox, slot: %s}, cleanup: {mode: delete}}
sinks:
  out: {from: events, console: {}}
`
	// The slots of a server have one name space.
	slot := "frazil_setup_" + strings.ReplaceAll(db[strings.LastIndex(db, "/")+1:strings.Index(db, "?")], "-", "_")
	p := program.New(t, "setup", fmt.Sprintf(text, db, slot))
	exists := func(query string) (yes bool) {
		must(t, conn.QueryRow(t.Context(), "SELECT EXISTS ("+query+")").Scan(&yes))
		return yes
	}
	made := func() bool {
		return exists("SELECT 1 FROM pg_replication_slots WHERE slot_name = '"+slot+"'") && exists("SELECT 1 FROM pg_publication WHERE pubname = '"+slot+"'")
	}
	check := func(words ...string) {
		t.Helper()
		r := p.Start(nil, "outbox", "check", p.File)
		if code := r.Wait(); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		contains(t, r.Stdout.String()+r.Stderr.String(), words...)
	}
	check("table public.outbox: WRONG, there is no such table", `run CREATE TABLE "public"."outbox" ("id" bigserial PRIMARY KEY`)
	_, err = conn.Exec(t.Context(), "CREATE TABLE outbox (id bigserial PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)")
	must(t, err)
	check(
		"events: table public.outbox: ok", "events: publication "+slot+": WRONG, publication "+slot+" is not there",
		`run CREATE PUBLICATION "`+slot+`" FOR TABLE "public"."outbox" WITH (publish = 'insert', publish_via_partition_root = true);`,
		"run SELECT pg_create_logical_replication_slot('"+slot+"', 'pgoutput'", "2 of 6 things are missing or wrong",
	)
	contains(t, p.Run("outbox", "setup", p.File, "--dry-run"), "would run", "CREATE PUBLICATION", "pg_create_logical_replication_slot")
	if made() {
		t.Error("--dry-run has made something")
	}
	contains(t, p.Run("outbox", "setup", p.File), "publication "+slot+": made", "replication slot "+slot+": made")
	if !made() {
		t.Error("not all is there")
	}
	contains(t, p.Run("outbox", "check", p.File), "replication slot "+slot+": ok, confirmed up to ")
	contains(t, p.Run("outbox", "drop", p.File, "--dry-run"), "would run", "DROP PUBLICATION", "pg_drop_replication_slot")
	if !made() {
		t.Error("--dry-run has dropped something")
	}
	contains(t, p.Run("outbox", "drop", p.File), "dropped")
	if exists("SELECT 1 FROM pg_replication_slots WHERE slot_name = '"+slot+"'") || exists("SELECT 1 FROM pg_publication WHERE pubname = '"+slot+"'") {
		t.Error("something is left")
	}
	p.Fail(2, []string{"outbox needs setup, check or drop, and a pipeline file"}, "outbox", "make", p.File)
}

func contains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in\n%s", w, text)
		}
	}
}
