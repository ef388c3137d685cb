package outbox

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// left are the ids in the outbox.
func (w *world) left() (out []int) {
	w.t.Helper()
	rows, err := w.conn.Query(w.t.Context(), "SELECT id FROM outbox ORDER BY id")
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

func (w *world) cleanup(mode, column string) {
	c := &Cleanup{}
	c.SetDefaults()
	c.Mode, c.Column, c.Every, c.Batch = mode, column, component.Duration(10*time.Millisecond), 3
	w.cfg.Cleanup = c
}

// Rows leave when the targets hold them, and not before; one that is locked leaves later.
func TestRelayedRowsAreDeleted(t *testing.T) {
	w := newWorld(t, tableText)
	w.cleanup("delete", "")
	for i := range 4 {
		w.exec(insert, "a", fmt.Sprint(i))
	}
	w.open()
	w.await(4)
	w.pollUntil("the log", func(dataflow.Polled) bool { return string(w.pos) != "0/" })
	before := w.pos
	for i := range 4 {
		w.exec(insert, "b", fmt.Sprint(i))
	}
	w.await(8)
	w.pollUntil("the clean-up waits", func(dataflow.Polled) bool { return w.src.(*pgSource).waits() })
	// What is acknowledged is before all rows of the log.
	must(t, w.src.(dataflow.Acker).Ack(t.Context(), 1, map[dataflow.Split]dataflow.Position{logSplit: before}))
	for range 20 {
		w.poll()
	}
	if got := w.left(); !slices.Contains(got, 8) || !slices.Contains(got, 5) {
		t.Errorf("left %v: rows 5 to 8 are not acknowledged", got)
	}
	other := w.connect()
	tx, err := other.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM outbox WHERE id = 8 FOR UPDATE")
	must(t, err)
	w.pollUntil("all but the one that is locked", func(dataflow.Polled) bool {
		w.ack()
		return slices.Equal(w.left(), []int{8})
	})
	must(t, tx.Commit(context.Background()))
	w.pollUntil("the last one", func(dataflow.Polled) bool {
		w.ack()
		return len(w.left()) == 0
	})
	// Another process finds rows that were relayed and not cleaned up.
	w.close()
	w.cfg.Cleanup = nil
	w.exec(insert, "c", "1")
	w.open()
	w.await(9)
	w.ack()
	w.close()
	if got := w.left(); !slices.Equal(got, []int{9}) {
		t.Fatalf("left %v", got)
	}
	w.cleanup("delete", "")
	w.open()
	w.pollUntil("what another process has relayed", func(dataflow.Polled) bool {
		w.ack()
		return len(w.left()) == 0
	})
	if len(w.rows) != 9 {
		t.Errorf("%d rows, want 9", len(w.rows))
	}
}

func TestRelayedRowsAreMarked(t *testing.T) {
	w := newWorld(t, tableText+"; ALTER TABLE outbox ADD processed_at timestamptz")
	w.cleanup("mark", "processed_at")
	w.exec(insert, "a", "1")
	w.open()
	w.await(1)
	w.exec(insert, "a", "2")
	w.await(2)
	w.pollUntil("both are marked", func(dataflow.Polled) bool {
		if string(w.pos) != "0/" {
			w.ack()
		}
		var n int
		must(t, w.conn.QueryRow(t.Context(), "SELECT count(*) FROM outbox WHERE processed_at IS NOT NULL").Scan(&n))
		return n == 2
	})
	w.open()
	for range 20 {
		w.poll()
	}
	if len(w.rows) != 2 {
		t.Errorf("rows that are marked came again: %v", w.rows)
	}
}
