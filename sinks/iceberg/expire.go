package iceberg

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/iceberg-go/table"
)

// expire starts an expiry of old snapshots when there are enough of them, off
// the commit path. before is the table as it was before the commit. A failure is
// logged; the next commit tries again.
func (c *Committer) expire(before *table.Table) {
	if len(before.Metadata().Snapshots())+1 < retain(before)+expireEvery || !c.expiring.CompareAndSwap(false, true) {
		return
	}
	c.background.Go(func() {
		defer c.expiring.Store(false)
		if err := c.expireNow(c.bg); err != nil && c.bg.Err() == nil {
			c.log().Warn("expire snapshots: trying again at the next commit", "table", c.Target(), "cause", err)
		}
	})
}

// retain is how many snapshots of a branch stay: the table's own setting, or
// keepSnapshots.
func retain(t *table.Table) int {
	return t.Properties().GetInt(table.MinSnapshotsToKeepKey, keepSnapshots)
}

func (c *Committer) expireNow(ctx context.Context) error {
	var last error
	for attempt := range 3 {
		if attempt > 0 {
			if err := pause(ctx, attempt); err != nil {
				return err
			}
		}
		t, err := loadTable(ctx, c.lake, c.cfg)
		if err != nil {
			return err
		}
		opts := []table.ExpireSnapshotsOpt{table.WithRetainLast(retain(t))}
		if _, set := t.Properties()[table.MaxSnapshotAgeMsKey]; !set {
			opts = append(opts, table.WithOlderThan(time.Duration(0)))
		}
		tx := t.NewTransaction()
		if err := tx.ExpireSnapshots(opts...); err != nil {
			return fmt.Errorf("choose snapshots: %w", err)
		}
		if _, last = tx.Commit(ctx); last == nil || classify(last) != conflict {
			return last
		}
	}
	return last
}
