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
	t.Parallel()
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

// A server that goes away is waited for, at whatever moment it goes.
func TestPollOfAServerThatGoesAway(t *testing.T) {
	polls := func(t *testing.T, w *world, kill func()) {
		t.Helper()
		w.open()
		w.await(20)
		w.open()
		stop := make(chan bool)
		go func() {
			defer close(stop)
			kill()
		}()
		for {
			p, err := w.src.Poll(t.Context(), dataflow.PollLimit{Rows: 1, Bytes: 1 << 20, WaitMicros: 1000})
			p.Release()
			if err != nil {
				if !errors.Is(err, dataflow.ErrUnavailable) {
					t.Errorf("%T %v: not as of a server that comes back", err, err)
				}
				break
			}
		}
		<-stop
		w.open()
		if _, err := w.src.Poll(t.Context(), dataflow.PollLimit{Rows: 1, WaitMicros: 1000}); !errors.Is(err, dataflow.ErrUnavailable) {
			t.Errorf("%v: not as of a server that comes back", err)
		}
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		server := rig.NewPostgres(t)
		w := newWorldAt(t, server.URL("postgres"), tableText)
		w.polled()
		w.exec(strings.Replace(insert, "VALUES ('order', $1, $2, '{\"a\": 1}')", "SELECT 'order', 'a', 'b', '{}' FROM generate_series(1, 20)", 1))
		polls(t, w, server.Kill)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		server := rig.NewMariaDB(t)
		w := newMyWorldAt(t, server.DSN(""), "CREATE DATABASE shop", strings.Replace(myTable, "outbox", "shop.outbox", 1),
			"INSERT INTO shop.outbox (type) VALUES ('b')"+strings.Repeat(", ('b')", 19))
		w.cfg.MySQL.URL = myURL(t, server.DSN("shop"), "root")
		polls(t, w.world, server.Kill)
	})
}
