package outbox

import (
	"errors"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/rig"
)

// A replica is polled like the primary: its transactions become visible in the order of
// their commits, and which are open it knows as well. Behind what was read it is waited for.
func TestPollOfAReplica(t *testing.T) {
	primary := rig.NewPostgres(t)
	w := newWorldAt(t, primary.URL("postgres"), tableText)
	w.polled()
	standby := primary.Standby(t)
	w.cfg.Postgres.URL = component.Secret(standby.URL("postgres"))
	w.exec(insert, "a", "1")
	w.open()
	w.await(1)
	long := begin(t, w.connect(), "l2")
	must(t, savepoint(t.Context(), long, "l3", true))
	w.exec(insert, "a", "4")
	w.await(2)
	for range 40 { // Until the numbers of those that are over are asked for.
		w.exec(insert, "a", "5")
		w.polls(1)
	}
	w.open()
	w.await(42)
	if n := len(w.pos); n > 200 {
		t.Errorf("a position of %d bytes: %s", n, w.pos)
	}
	must(t, long.Commit(t.Context()))
	w.open()
	w.await(44)
	w.polls(2)
	if len(w.rows) != 44 {
		t.Errorf("%d rows, want 44", len(w.rows))
	}
	w.pos = pollPosition{seq: 1, round: 1, unread: spans{{1 << 40, forever}}}.encode()
	w.open()
	_, err := w.src.Poll(t.Context(), dataflow.PollLimit{Rows: 7, WaitMicros: 1})
	if !errors.Is(err, dataflow.ErrUnavailable) || !strings.Contains(err.Error(), "it is waited for") {
		t.Error(err)
	}
	// A replica cannot be cleaned up, nor read by its log.
	w.pos, w.cfg.Postgres.Capture = nil, captureLog
	w.open()
	if _, err := w.src.Poll(t.Context(), dataflow.PollLimit{Rows: 7, WaitMicros: 1}); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "the server is a replica") {
		t.Error(err)
	}
}
