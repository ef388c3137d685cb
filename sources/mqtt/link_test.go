package mqtt

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// A session that another client takes again and again is left to it for a while,
// also where the broker does not say so; one whose pings come too late, as on a
// machine without time, is not taken for that.
func TestConnectionsThatEndForWantOfPingsAreNoTakeover(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	connections := func(each time.Duration) *link {
		s := &server{cfg: Config{KeepAlive: component.Duration(time.Second)}, env: &dataflow.Env{Now: func() time.Time { return now }}, log: slog.New(slog.DiscardHandler), sessions: &sessions{}}
		k := &link{srv: s, lane: &lane{client: "c"}, log: s.log, ctx: t.Context()}
		for range 2 * maxFlaps {
			k.wentUp(true)
			now = now.Add(each)
			k.wentDown(io.EOF, false)
		}
		return k
	}
	if k := connections(1100 * time.Millisecond); k.srv.counts.all()["sessions_taken_over"] != 0 || k.delay() > maxDelay {
		t.Errorf("late pings: %v, next try in %s", k.srv.counts.all(), k.delay())
	}
	if k := connections(10 * time.Millisecond); k.srv.counts.all()["sessions_taken_over"] == 0 || k.delay() < minTaken {
		t.Errorf("thrown out at once: %v, next try in %s", k.srv.counts.all(), k.delay())
	}
}
