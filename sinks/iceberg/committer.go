package iceberg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/failpoint"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
)

// commitAttempts is how often one Commit tries before it leaves the waiting to
// the engine.
const commitAttempts = 20

// retryBase is the first wait between attempts; it doubles up to 64 times, with
// jitter. Tests shorten it.
var retryBase = 50 * time.Millisecond

// atStep is called at the steps of a commit: "loaded", "staged" (files are in
// manifests, the catalog was not asked) and "accepted" (it agreed). An error
// takes the place of that step's outcome. Only tests set it.
var atStep func(ctx context.Context, step string) error

func reach(ctx context.Context, step string) error {
	if atStep == nil {
		return nil
	}
	return atStep(ctx, step)
}

// Committer adds staged files to the table together with the positions they
// cover.
//
// Every attempt loads the table anew: from it alone follows whether the rows
// are there already, may be added, or whether somebody else moved the table.
// The transaction then asserts that the main branch has not moved since, so that
// what was compared still holds when the catalog accepts. Outcomes:
//
//   - accepted;
//   - refused by a conflict: load, compare, add the same files again;
//   - refused for good (access, no such table): permanent;
//   - anything else is unknown, maybe accepted: load and look, as after a
//     conflict. No file is ever removed.
type Committer struct {
	env  *dataflow.Env
	in   component.SinkIn
	cfg  Config
	lake *lake
	sink string // PIPELINE.SINK

	conflicts, unknown atomic.Int64
	newest             newest

	background sync.WaitGroup // at most one expiry
	expiring   atomic.Bool
	stop       context.CancelFunc
	bg         context.Context
	closed     bool
}

// NewCommitter opens the catalog. It makes no table.
func NewCommitter(ctx context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (*Committer, error) {
	ccfg, err := catalogOf(in.PlanEnv, cfg.Catalog)
	if err != nil {
		return nil, dataflow.Permanent(err)
	}
	l, err := openLake(ctx, ccfg)
	if err != nil {
		return nil, err
	}
	c := &Committer{env: env, in: in, cfg: cfg, lake: l, sink: env.Pipeline + "." + env.Step}
	c.bg, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	return c, nil
}

// Target is CATALOG/NAMESPACE.NAME.
func (c *Committer) Target() dataflow.Target { return dataflow.Target(targetName(c.cfg)) }

func (c *Committer) log() *slog.Logger {
	if c.env.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.env.Log
}

// Committed reads the table, making it if it is missing and may be made. A
// table whose newest commit of this sink is not the one that its positions came
// with was rolled back: permanent.
func (c *Committer) Committed(ctx context.Context) (dataflow.Committed, error) {
	t, err := ensureTable(ctx, c.lake, c.in, c.cfg)
	if err != nil {
		return dataflow.Committed{}, err
	}
	meta := t.Metadata()
	if err := c.newest.check(c.Target(), meta); err != nil {
		return dataflow.Committed{}, err
	}
	doc, found, err := held(meta, c.sink)
	if err != nil {
		return dataflow.Committed{}, err
	}
	out := dataflow.Committed{ID: meta.TableUUID().String(), ClockComplete: true, Claim: doc.claim(), Commits: doc.Commits}
	if !found || len(doc.Sources) == 0 {
		return out, nil
	}
	clock, newest, err := history(meta, c.sink)
	if err != nil {
		return dataflow.Committed{}, err
	}
	if text := meta.Properties()[propPositions+c.sink]; newest != "" && newest != digest(text) {
		return dataflow.Committed{}, dataflow.Permanentf("table %s was rolled back, or its positions were changed by hand: its newest snapshot of %s does not belong to the table property %s%s; undo that, or remove the property and start with a new state directory",
			c.Target(), c.sink, propPositions, c.sink)
	}
	out.Positions, out.Start, out.Plan, out.Watermarks = doc.Sources, doc.Start, doc.Plan, doc.Watermarks
	out.Clock, out.ClockComplete = clock, int64(len(clock)) == doc.Clocks
	return out, nil
}

// Commit publishes cm's parts, see dataflow.Committer.
func (c *Committer) Commit(ctx context.Context, cm dataflow.Commit) error {
	parts, err := decodeParts(cm.Parts)
	if err != nil {
		return err
	}
	what := cm.Epoch.String()
	return c.change(ctx, "commit "+what,
		func() (*table.Table, bool, error) { return c.look(ctx, cm, parts) },
		func(t *table.Table) error { return c.publish(ctx, t, cm, parts) })
}

// change looks and publishes until the table has the change or can never get it.
func (c *Committer) change(ctx context.Context, what string, look func() (*table.Table, bool, error), publish func(*table.Table) error) error {
	var last error
	for attempt := range commitAttempts {
		if attempt > 0 {
			if err := pause(ctx, attempt-1); err != nil {
				return errors.Join(err, last)
			}
		}
		t, done, err := look()
		if err != nil {
			if errors.Is(err, dataflow.ErrPermanent) || errors.Is(err, dataflow.ErrFenced) || ctx.Err() != nil {
				return err
			}
			last = err
			continue
		}
		if done {
			return nil
		}
		err = publish(t)
		switch o := classify(err); o {
		case accepted:
			c.expire(t)
			return nil
		case refused:
			return dataflow.Permanentf("%s to %s: %w", what, c.Target(), err)
		case conflict:
			c.conflicts.Add(1)
			c.log().Info("table moved meanwhile: loading it again", "table", c.Target(), "change", what, "attempt", attempt+1, "cause", err)
		case unknown:
			c.unknown.Add(1)
			c.log().Warn("outcome is not known: looking at the table", "table", c.Target(), "change", what, "attempt", attempt+1, "cause", err)
		}
		if ctx.Err() != nil {
			return err
		}
		last = err
	}
	return fmt.Errorf("%s to %s: gave up after %d attempts: %w", what, c.Target(), commitAttempts, last)
}

// look loads the table and decides. done: the rows are there.
func (c *Committer) look(ctx context.Context, cm dataflow.Commit, parts []partDoc) (t *table.Table, done bool, err error) {
	if t, err = loadTable(ctx, c.lake, c.cfg); err != nil {
		if missing(err) {
			err = dataflow.Permanentf("%w: the files of %s were written for it, and it is gone", err, cm.Epoch)
		}
		return nil, false, err
	}
	meta := t.Metadata()
	if err := c.newest.check(c.Target(), meta); err != nil {
		return nil, false, err
	}
	for _, p := range parts {
		if id := meta.TableUUID().String(); p.Table != id {
			return nil, false, dataflow.Permanentf("table %s was recreated: the files of %s were written for the table with UUID %s, now it is %s; put the old table back, or start with a new state directory",
				c.Target(), cm.Epoch, p.Table, id)
		}
	}
	doc, _, err := held(meta, c.sink)
	if err != nil {
		return nil, false, err
	}
	switch dataflow.DecideCommit(dataflow.Committed{Positions: doc.Sources, Watermarks: doc.Watermarks, Claim: doc.claim(), Commits: doc.Commits}, cm) {
	case dataflow.Done:
		return t, true, nil
	case dataflow.Fenced:
		return nil, false, fmt.Errorf("commit %s to %s: %w", cm.Epoch, c.Target(), dataflow.ErrFenced)
	}
	if err := failpoint.Hit(failpoint.TableLooked); err != nil {
		return nil, false, err
	}
	return t, false, reach(ctx, "loaded")
}

// publish is one attempt on the table as loaded.
func (c *Committer) publish(ctx context.Context, t *table.Table, cm dataflow.Commit, parts []partDoc) error {
	doc, _, err := held(t.Metadata(), c.sink)
	if err != nil {
		return err
	}
	next := positionsDoc{
		Sources: dataflow.MergePositions(doc.Sources, cm.At), Plan: cm.Plan,
		Start:      dataflow.MergePositions(doc.Start, cm.Start),
		Watermarks: cm.Watermarks, Clocks: doc.Clocks + int64(len(cm.Clock)), Claim: doc.Claim,
		Commits: cm.After(doc.Commits),
	}
	positions, err := encodePositions(next)
	if err != nil {
		return err
	}
	props, err := summary(c.sink, cm, positions)
	if err != nil {
		return err
	}
	var files []icebergo.DataFile
	for _, p := range parts {
		f, err := p.files(t.Metadata())
		if err != nil {
			return err
		}
		files = append(files, f...)
	}
	return c.apply(ctx, t, files, props, positions)
}

// apply adds files and sets the positions, if main has not moved since t was
// loaded.
func (c *Committer) apply(ctx context.Context, t *table.Table, files []icebergo.DataFile, props icebergo.Properties, positions string) error {
	ctx, err := c.lake.patient(ctx)
	if err != nil {
		return err
	}
	t = repairingTable(t, c.lake)
	tx := t.NewTransaction()
	if err := tx.AssertRefSnapshotID(table.MainBranch); err != nil {
		return fmt.Errorf("fence the commit: %w", err)
	}
	if err := failpoint.Hit(failpoint.TableStaging); err != nil {
		return err
	}
	if err := addFiles(ctx, t, tx, files, props); err != nil {
		return err
	}
	if err := tx.SetProperties(icebergo.Properties{propPositions + c.sink: positions}); err != nil {
		return fmt.Errorf("set positions: %w", err)
	}
	if err := failpoint.Hit(failpoint.TableStaged); err != nil {
		return err
	}
	if err := reach(ctx, "staged"); err != nil {
		return err
	}
	done, err := tx.Commit(ctx)
	if err != nil {
		return err
	}
	_ = c.newest.check(c.Target(), done.Metadata()) // It may be another's by now.
	if err := failpoint.Hit(failpoint.TableAccepted); err != nil {
		return err
	}
	return reach(ctx, "accepted")
}

// addFiles stages an append of files.
func addFiles(ctx context.Context, t *table.Table, tx *table.Transaction, files []icebergo.DataFile, props icebergo.Properties) error {
	var err error
	switch {
	case len(files) == 0:
		err = addNothing(ctx, t, tx, props)
	case t.Metadata().Version() >= 3:
		// Row ids are inherited this way; AddDataFiles wants them from us.
		err = tx.NewRowDelta(props).AddRows(files...).Commit(ctx)
	default:
		err = tx.AddDataFiles(ctx, files, props, table.WithoutDuplicateCheck(), table.WithoutAutoNameMapping())
	}
	if err != nil {
		return fmt.Errorf("stage %d files: %w", len(files), err)
	}
	return nil
}

type outcome int

const (
	accepted outcome = iota
	conflict
	refused
	unknown
)

// classify reads the answer to a commit. What is not surely a refusal is
// unknown.
func classify(err error) outcome {
	switch {
	case err == nil:
		return accepted
	case errors.Is(err, table.ErrCommitFailed), strings.Contains(strings.ToLower(err.Error()), "requirement failed"):
		// SQL catalogs return a failed requirement as a plain error, before they
		// change anything.
		return conflict
	case errors.Is(err, dataflow.ErrPermanent), errors.Is(err, rest.ErrForbidden), errors.Is(err, catalog.ErrNoSuchTable):
		return refused
	}
	return unknown
}

// pause waits before attempt n+2.
func pause(ctx context.Context, n int) error {
	d := retryBase << min(n, 6)
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close waits for work in the background.
func (c *Committer) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	c.stop()
	c.background.Wait()
	return c.lake.release()
}

var (
	_ dataflow.Claimer     = (*Committer)(nil)
	_ dataflow.TableReader = (*Committer)(nil)
)
