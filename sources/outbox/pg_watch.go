package outbox

import (
	"context"
	"fmt"
	"time"

	"frazil/dataflow"

	"github.com/jackc/pgx/v5"
)

// watchEvery is how often it is asked what the server keeps for the slot.
const watchEvery = 10 * time.Second

// watch asks, on a connection of its own, until ctx ends.
func (s *pgSource) watch(ctx context.Context) {
	var conn *pgx.Conn
	for ctx.Err() == nil {
		if err := s.look(ctx, &conn); err != nil && ctx.Err() == nil {
			s.env.Log.Warn("it cannot be asked what the server keeps for the slot; it is tried again", "slot", s.pg.Slot, "error", err)
		}
		wait(ctx, watchEvery)
	}
	if conn != nil {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}
}

func (s *pgSource) look(ctx context.Context, conn **pgx.Conn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if *conn == nil {
		if *conn, err = connect(ctx, s.pg); err != nil {
			*conn = nil
			return err
		}
	}
	there, err := findSlot(ctx, *conn, s.pg.Slot)
	if err != nil {
		_ = (*conn).Close(ctx)
		*conn = nil
		return err
	}
	if there != nil { // Else Poll says so.
		s.kept.Store(there.kept(s.pg))
	}
	return nil
}

// kept is what the server keeps for the slot, with an alarm where that is too much.
func (s *slot) kept(cfg PostgresConfig) *dataflow.Retained {
	out := &dataflow.Retained{Bytes: s.retained}
	const why = "is a target slow, or a transaction open for long? Only what is committed in every target is confirmed"
	switch {
	case s.status == "unreserved" || s.left >= 0 && s.left < s.retained/10:
		out.Alarm = fmt.Sprintf("the server keeps %d bytes of its log for the slot %s and gives them up soon (max_slot_wal_keep_size, wal_status %s): %s", s.retained, cfg.Slot, s.status, why)
	case cfg.RetainedAlert > 0 && s.retained > int64(cfg.RetainedAlert):
		out.Alarm = fmt.Sprintf("the server keeps %d bytes of its log for the slot %s: %s", s.retained, cfg.Slot, why)
	}
	return out
}

// Retained implements dataflow.Retainer.
func (s *pgSource) Retained() (dataflow.Retained, bool) {
	if k := s.kept.Load(); k != nil {
		return *k, true
	}
	return dataflow.Retained{}, false
}
