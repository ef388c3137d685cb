package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"

	"github.com/jackc/pgx/v5"
)

// committer writes the spooled rows of a commit in one transaction with the positions.
// One goroutine uses it.
type committer struct {
	env   *dataflow.Env
	cfg   Config
	shape shape
	now   func() time.Time
	conn  *pgx.Conn // nil: there is none
	ready bool      // our tables are there
	// refused is the record's count as last read or written.
	refused atomic.Int64
	// at is called by tests at each step.
	at func(step string)
}

func newCommitter(_ context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Committer, error) {
	s, problems := newShape(in.Input, cfg)
	if problems = append(check(cfg), problems...); len(problems) > 0 {
		return nil, problems
	}
	k := &committer{env: env, cfg: cfg, shape: s, now: env.Now, at: func(string) {}}
	if k.now == nil {
		k.now = time.Now
	}
	return k, nil
}

// Target implements dataflow.Committer.
func (k *committer) Target() dataflow.Target { return target(k.env.Step, k.cfg) }

// Close implements dataflow.Committer.
func (k *committer) Close() error {
	k.drop()
	return nil
}

// drop gives the connection up. The server rolls back what is open there.
func (k *committer) drop() {
	if k.conn != nil {
		_ = closeConn(k.conn) // It may be broken, which is why it is given up.
		k.conn = nil
	}
}

// Committed implements dataflow.Committer.
func (k *committer) Committed(ctx context.Context) (out dataflow.Committed, err error) {
	err = k.persist(ctx, func() error {
		return k.transaction(ctx, func(tx pgx.Tx) (bool, error) {
			held, err := k.lock(ctx, tx)
			if err != nil {
				return false, err
			}
			k.refused.Store(held.Refused)
			out, err = k.clocks(ctx, tx, held)
			return false, err
		})
	})
	return out, err
}

// Refused implements dataflow.Refuser.
func (k *committer) Refused() int64 { return k.refused.Load() }

// Commit implements dataflow.Committer. After an error the transaction may be committed
// or not; the next call looks.
func (k *committer) Commit(ctx context.Context, c dataflow.Commit) error {
	var refused, total int64
	err := k.persist(ctx, func() error {
		return k.transaction(ctx, func(tx pgx.Tx) (keep bool, err error) {
			refused = 0
			held, err := k.lock(ctx, tx)
			if err != nil {
				return false, err
			}
			total = held.Refused
			switch dataflow.DecideCommit(held.Committed(), c) {
			case dataflow.Done:
				return false, nil
			case dataflow.Fenced:
				return false, fmt.Errorf("table %s holds %s, expected %s: %w", k.cfg.PositionsTable, held.Positions, c.From, dataflow.ErrFenced)
			}
			w := &write{committer: k, tx: tx, epoch: c.Epoch}
			if err := w.parts(ctx, c.Parts); err != nil {
				return false, err
			}
			refused, held.Refused = w.refused, held.Refused+w.refused
			total = held.Refused
			return true, k.save(ctx, tx, k.next(held).After(c, k.now()), c.Clock)
		})
	})
	if err != nil {
		return fmt.Errorf("commit %s to table %s: %w", c.Epoch, k.cfg.Table, err)
	}
	k.refused.Store(total)
	if refused > 0 {
		k.env.Log.Warn("the table has refused rows; they are in the table of refused rows, with the reasons", "table", k.cfg.Table, "rows", refused, "refused_table", k.cfg.RefusedTable)
	}
	if err := spool.Sweep(k.env, c.Epoch); err != nil {
		k.env.Log.Warn("committed rows could not be removed from the spool; the next commit tries again", "error", err)
	}
	return nil
}

// next is what a record begins with that is written in the place of held.
func (k *committer) next(held spool.Record) spool.Record {
	if held.ID == "" {
		held.ID = rand.Text()
	}
	return held
}

// Claim implements dataflow.Claimer.
func (k *committer) Claim(ctx context.Context, claim dataflow.Claim) error {
	return k.persist(ctx, func() error {
		return k.transaction(ctx, func(tx pgx.Tx) (bool, error) {
			held, err := k.lock(ctx, tx)
			if err != nil {
				return false, err
			}
			switch dataflow.DecideClaim(held.Claim, claim) {
			case dataflow.Done:
				return false, nil
			case dataflow.Fenced:
				return false, fmt.Errorf("claim %d of table %s: %w", claim.Token, k.cfg.Table, dataflow.ErrFenced)
			}
			return true, k.save(ctx, tx, k.next(held).Claimed(claim, k.now()), nil)
		})
	})
}

const (
	// tries bounds how often a transaction is begun anew at once when the server gave it
	// up for another one, or a connection was lost since the last commit.
	tries = 5
	pause = 20 * time.Millisecond
)

// persist calls f again where another try may do at once.
func (k *committer) persist(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		old := k.conn != nil
		err := f()
		if err == nil || try == tries || !passing(code(err)) && !(old && try == 1 && code(err) == "" && errors.Is(err, dataflow.ErrUnavailable)) {
			return err
		}
		select {
		case <-time.After(time.Duration(try) * pause * time.Duration(1+mathrand.IntN(4)) / 2):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settings of each transaction. A process that is gone must not keep the positions
// locked; rows must be durable when a commit is done; a constraint must be checked
// where it can still be told which row it is.
const settings = `
SET LOCAL lock_timeout = '30s';
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = '60s';
SET LOCAL tcp_keepalives_idle = 30;
SET LOCAL tcp_keepalives_interval = 10;
SET LOCAL tcp_keepalives_count = 3;
SET CONSTRAINTS ALL IMMEDIATE;
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'`

// transaction calls f in one, and commits if f says so.
func (k *committer) transaction(ctx context.Context, f func(tx pgx.Tx) (keep bool, err error)) (err error) {
	defer func() {
		if err != nil {
			k.drop()
		}
	}()
	if k.conn == nil {
		if k.conn, err = connect(ctx, k.env, k.cfg); err != nil {
			return err
		}
	}
	if err := k.ensure(ctx); err != nil {
		return err
	}
	tx, err := k.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return explain("begin a transaction", err)
	}
	if _, err := k.conn.PgConn().Exec(ctx, settings).ReadAll(); err != nil {
		return explain("begin a transaction", err)
	}
	keep, err := f(tx)
	if err != nil {
		return err
	}
	if !keep {
		return explain("end a transaction", tx.Rollback(ctx))
	}
	k.at("end")
	if err := tx.Commit(ctx); err != nil {
		return explain("end the transaction", err)
	}
	k.at("ended")
	return nil
}

var _ dataflow.Claimer = (*committer)(nil)
