package outbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// Cleanup says what becomes of rows that are committed in every target.
type Cleanup struct {
	// Mode is delete; mark: column is set to now(); or drop_partitions: partitions of the
	// table are dropped whose range is past and whose rows are all committed in every
	// target.
	Mode string `yaml:"mode,required" oneof:"delete,mark,drop_partitions"`
	// Column of type timestamptz or timestamp that mark sets; it is null before.
	Column string `yaml:"column"`
	// After is how long the range of a partition must be past before it is dropped: a row
	// that is written into it later is an error of the application. Default: 1h.
	After component.Duration `yaml:"after"`
	// Every is how long to wait when there was nothing to clean up. Default: 1s.
	Every component.Duration `yaml:"every"`
	// Batch is how many rows one transaction cleans up, 1 to 100000. Default: 1000.
	Batch int `yaml:"batch"`
	// LockTimeout bounds how long a transaction waits for a lock of the table; rows that
	// are locked are left for later. MySQL knows whole seconds, at least one. Default:
	// 100ms.
	LockTimeout component.Duration `yaml:"lock_timeout"`
}

// SetDefaults implements component.Defaulter.
func (c *Cleanup) SetDefaults() {
	*c = Cleanup{After: component.Duration(time.Hour), Every: component.Duration(time.Second), Batch: 1000, LockTimeout: component.Duration(100 * time.Millisecond)}
}

func (c *Cleanup) check(messages bool) (out component.Problems) {
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: "cleanup." + path, Msg: fmt.Sprintf(format, args...)})
	}
	switch {
	case messages:
		bad("mode", "messages leave nothing to clean up: remove cleanup")
	case c.Mode == "mark" && c.Column == "":
		bad("column", "mark needs the name of a column that is set to now()")
	case c.Mode != "mark" && c.Column != "":
		bad("column", "only with mode: mark")
	}
	if c.After.D() < 0 {
		bad("after", "%s: expected 0s or more", c.After.D())
	}
	if c.Every.D() < 10*time.Millisecond {
		bad("every", "%s: expected at least 10ms", c.Every.D())
	}
	if c.Batch < 1 || c.Batch > 100_000 {
		bad("batch", "%d: expected 1 to 100000", c.Batch)
	}
	if c.LockTimeout.D() < time.Millisecond {
		bad("lock_timeout", "%s: expected at least 1ms", c.LockTimeout.D())
	}
	return out
}

// cleaner cleans up what was relayed, on a connection of its own. It needs to remember
// nothing: it takes rows that are there, and then the place where reading will have come
// past their commits. When the targets hold all that is before that place, they hold those
// rows.
type cleaner struct {
	cfg Cleanup
	env *dataflow.Env
	// open connects to the table.
	open func(ctx context.Context) (cleanTable, error)
	// acked is the place before which the targets hold all, wanted the one that it waits
	// for; nudge asks for word of how far reading is.
	acked, wanted *atomic.Uint64
	nudge         func()
}

// cleanTable is the table that is cleaned up. One goroutine uses it.
type cleanTable interface {
	// look takes ids of rows that are there, at most a batch, and then a place behind all
	// their commits.
	look(ctx context.Context) (ids []string, at uint64, err error)
	// clean deletes or marks rows that nobody has locked, and says how many. It waits for
	// no lock longer than lock_timeout.
	clean(ctx context.Context, ids []string) (int, error)
	close()
}

// run works until ctx ends. An error is a reason to begin again in a while: rows that are
// not cleaned up cost room, and nothing else.
func (c *cleaner) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.work(ctx); err != nil && ctx.Err() == nil {
			c.env.Log.Warn("relayed rows are not cleaned up; it is tried again", "error", err)
			wait(ctx, 10*c.cfg.Every.D())
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (c *cleaner) work(ctx context.Context) error {
	table, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer table.close()
	for ctx.Err() == nil {
		ids, at, err := table.look(ctx)
		if err != nil {
			return err
		}
		c.wanted.Store(at)
		c.nudge()
		for len(ids) > 0 && c.acked.Load() < at && ctx.Err() == nil {
			wait(ctx, min(c.cfg.Every.D(), 50*time.Millisecond))
		}
		n := 0
		if len(ids) > 0 && ctx.Err() == nil {
			if n, err = table.clean(ctx, ids); err != nil {
				return err
			}
		}
		if n < c.cfg.Batch {
			wait(ctx, c.cfg.Every.D())
		}
	}
	return nil
}
