package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"

	"github.com/apache/arrow-go/v18/arrow"
)

// committer publishes staged files. One goroutine uses it.
type committer struct {
	to             folder
	cfg            Config
	pipeline, sink string
	now            func() time.Time
	schema         *arrow.Schema // the user's columns
	// id is the folder's identity once it is known.
	id string
	// newest is the number of the newest commit seen; 0: none seen or none there.
	newest int64
	// own is the newest commit of this pipeline and sink, nil if there is none.
	own *record
	// at is called by tests before each step that changes the folder.
	at func(step string)
}

func newCommitter(env *dataflow.Env, schema *arrow.Schema, cfg Config) *committer {
	now := env.Now
	if now == nil {
		now = time.Now
	}
	return &committer{
		to: folder{cfg.Path}, cfg: cfg, pipeline: env.Pipeline, sink: env.Step, now: now,
		schema: arrow.NewSchema(dataflow.UserFields(schema), nil), at: func(string) {},
	}
}

// Target implements dataflow.Committer.
func (c *committer) Target() dataflow.Target { return target(c.cfg) }

// Close implements dataflow.Committer.
func (c *committer) Close() error { return nil }

// Committed implements dataflow.Committer. It creates the folder, since its
// identity is part of the answer.
func (c *committer) Committed(context.Context) (dataflow.Committed, error) {
	if err := c.look(); err != nil {
		return dataflow.Committed{}, err
	}
	out := c.held()
	if c.own == nil {
		return out, nil
	}
	var err error
	out.Clock, out.ClockComplete, err = c.clock()
	return out, err
}

// held is what the folder holds, without the clock decisions.
func (c *committer) held() dataflow.Committed {
	out := dataflow.Committed{ID: c.id, ClockComplete: true, Claim: c.own.claim()}
	if r := c.own; r != nil && len(r.Positions) > 0 {
		out.Positions, out.Start, out.Plan, out.Watermarks, out.Commits = r.Positions, r.Start, r.Plan, r.Watermarks, r.Commits
	}
	return out
}

// clock collects the clock decisions of all own commits, oldest first, and
// whether none are missing.
func (c *committer) clock() ([]dataflow.ClockDecision, bool, error) {
	var back [][]dataflow.ClockDecision
	complete := true
	for r := c.own; ; {
		back = append(back, r.Clock)
		if r.ClockBefore == 0 {
			break
		}
		before, err := c.to.read(r.ClockBefore)
		if errors.Is(err, fs.ErrNotExist) {
			complete = false
			break
		}
		if err != nil {
			return nil, false, err
		}
		r = before
	}
	var out []dataflow.ClockDecision
	for i := len(back) - 1; i >= 0; i-- {
		out = append(out, back[i]...)
	}
	return out, complete, nil
}

// look brings id, newest and own up to date and finishes what a crash left of
// the newest commit.
func (c *committer) look() error {
	id, err := c.to.create()
	if err != nil {
		return err
	}
	if c.id != "" && c.id != id {
		return dataflow.Permanentf("folder %s was made anew while the pipeline ran: its identity was %s and is %s", c.to.path, c.id, id)
	}
	c.id = id
	if c.newest == 0 {
		return c.lookFirst()
	}
	if _, err := os.Stat(c.to.log(recordName(c.newest))); err != nil {
		return dataflow.Permanentf("commit %d of %s was there and is gone: %w", c.newest, c.to.path, err)
	}
	for {
		r, err := c.to.read(c.newest + 1)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.take(r); err != nil {
			return err
		}
	}
}

// lookFirst finds the newest commit and the newest own one.
func (c *committer) lookFirst() error {
	all, err := c.to.commits()
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		r, err := c.to.read(all[i])
		if err != nil {
			return err
		}
		if i == len(all)-1 {
			if err := c.take(r); err != nil {
				return err
			}
		}
		if c.mine(r) {
			c.own = r
			break
		}
	}
	return nil
}

func (c *committer) mine(r *record) bool { return r.Pipeline == c.pipeline && r.Sink == c.sink }

// take makes r, a commit that stands in the log, the newest one. Its rows are
// shown first: who goes on after r may rely on that.
func (c *committer) take(r *record) error {
	c.at("show")
	if err := c.to.show(r); err != nil {
		return err
	}
	c.newest = r.Seq
	if c.mine(r) {
		c.own = r
	}
	return nil
}

// Commit implements dataflow.Committer. After an error the commit may be in the
// log or not; the next call looks.
func (c *committer) Commit(ctx context.Context, commit dataflow.Commit) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.look(); err != nil {
			return err
		}
		held := c.held()
		switch dataflow.DecideCommit(held, commit) {
		case dataflow.Done:
			return nil
		case dataflow.Fenced:
			return fmt.Errorf("commit %s to %s: it holds %s, expected %s: %w",
				commit.Epoch, c.to.path, held.Positions, commit.From, dataflow.ErrFenced)
		}
		r, err := c.record(commit, held)
		if err != nil {
			if _, moved := c.to.read(c.newest + 1); moved == nil {
				continue // Somebody else committed since, maybe these very rows, and has shown them.
			}
			return err
		}
		if done, err := c.publish(r); done || err != nil {
			return err
		}
	}
}

// Claim implements dataflow.Claimer. A claim is a commit without rows: whoever
// wanted its number looks again.
func (c *committer) Claim(ctx context.Context, claim dataflow.Claim) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.look(); err != nil {
			return err
		}
		held := c.held()
		switch dataflow.DecideClaim(held.Claim, claim) {
		case dataflow.Done:
			return nil
		case dataflow.Fenced:
			return fmt.Errorf("claim %d of %s: %w", claim.Token, c.to.path, dataflow.ErrFenced)
		}
		r, err := c.record(dataflow.Commit{Plan: held.Plan, Watermarks: held.Watermarks}, held)
		if err != nil {
			return err
		}
		if c.own != nil {
			r.Epoch, r.Watermark, r.Late = c.own.Epoch, c.own.Watermark, c.own.Late
		}
		r.Claim = &claim
		if done, err := c.publish(r); done || err != nil {
			return err
		}
	}
}

// publish puts r into the log under its number; not done: somebody else has the
// number.
func (c *committer) publish(r *record) (done bool, err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return false, fmt.Errorf("write commit %d: %w", r.Seq, err)
	}
	c.at("link")
	if err := failpoint.Hit(failpoint.FilesLink); err != nil {
		return false, err
	}
	err = c.to.publish(append(line, '\n'), c.to.log(recordName(r.Seq)))
	if errors.Is(err, fs.ErrExist) {
		return false, nil // The caller looks at what they committed.
	}
	if err != nil {
		return false, classify(fmt.Errorf("publish commit %d of %s: %w", r.Seq, c.to.path, err))
	}
	if err := failpoint.Hit(failpoint.FilesLinked); err != nil {
		return false, err
	}
	return true, c.take(r)
}

// record makes the next commit of the log.
func (c *committer) record(commit dataflow.Commit, held dataflow.Committed) (*record, error) {
	r := &record{
		V: version, Seq: c.newest + 1, Pipeline: c.pipeline, Sink: c.sink,
		Epoch: commit.Epoch, Time: c.now().UTC().Format(time.RFC3339Nano),
		Positions: dataflow.MergePositions(held.Positions, commit.At), Plan: commit.Plan,
		Start:      dataflow.MergePositions(held.Start, commit.Start),
		Watermarks: commit.Watermarks, Watermark: commit.Watermark, Late: commit.Late,
		Clock: commit.Clock, Rows: commit.Rows(), Commits: commit.After(held.Commits),
	}
	if c.own != nil {
		r.ClockBefore, r.Claim = c.own.ClockBefore, c.own.Claim
		if len(c.own.Clock) > 0 {
			r.ClockBefore = c.own.Seq
		}
	}
	for _, p := range commit.Parts {
		var x part
		if err := json.Unmarshal(p.Data, &x); err != nil {
			return nil, fmt.Errorf("read a part of %s: %w", commit.Epoch, err)
		}
		if x.ID != c.id {
			return nil, dataflow.Permanentf("the rows of %s were staged for another folder at %s, which has been replaced", commit.Epoch, c.to.path)
		}
		for _, f := range x.Files {
			st, err := os.Stat(c.to.stage(f.Staged))
			if errors.Is(err, fs.ErrNotExist) || err == nil && st.Size() != f.Bytes {
				return nil, dataflow.Permanentf("the staged rows %s are missing or damaged: expected %d bytes", c.to.stage(f.Staged), f.Bytes)
			}
			if err != nil {
				return nil, classify(fmt.Errorf("look at staged rows: %w", err))
			}
			f.Name = fmt.Sprintf("%020d-%04d.ndjson", r.Seq, len(r.Files))
			r.Files = append(r.Files, f)
		}
	}
	return r, nil
}

// location is the folder's place for people.
func (c *committer) location() string {
	if abs, err := filepath.Abs(c.to.path); err == nil {
		return abs
	}
	return c.to.path
}

var _ dataflow.Claimer = (*committer)(nil)
