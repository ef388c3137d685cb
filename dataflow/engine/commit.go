package engine

import (
	"context"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"
)

// committer publishes one sink's commits, one at a time, in a goroutine of the
// coordinator.
type committer struct {
	sink *Sink
	dataflow.Committer
}

func (k *committer) close() error { return k.Committer.Close() }

// refused is how many rows the target refused, where it can.
func (k *committer) refused() (int64, bool) {
	r, ok := k.Committer.(dataflow.Refuser)
	if !ok {
		return 0, false
	}
	return r.Refused(), true
}

// startCommit publishes the head of a sink's queue.
func (c *coordinator) startCommit(sink string, e dataflow.Epoch) {
	t := c.targets[sink]
	if len(t.Pending) == 0 || t.Pending[0].Epoch != e {
		c.help(func() {
			c.post(committed{sink: sink, epoch: e, err: fmt.Errorf("commit %s of sink %s: it is not the next one (I4)", e, sink)})
		})
		return
	}
	commit := t.Pending[0]
	c.help(func() { c.post(committed{sink: sink, epoch: e, err: c.commit(sink, commit)}) })
}

// commit publishes one commit, once the targets are this process's.
func (c *coordinator) commit(sink string, commit dataflow.Commit) error {
	if err := c.claimed(); err != nil {
		return err
	}
	if _, ok := c.committer[sink].Committer.(dataflow.Claimer); ok {
		commit.Claim = c.j.claim
	}
	started := c.j.o.Now()
	ctx, traced := c.traceCommit(sink, commit)
	err := c.persist(func() error {
		if err := failpoint.Hit(failpoint.BeforeCommit); err != nil {
			return err
		}
		if err := c.committer[sink].Commit(ctx, commit); err != nil {
			err = fmt.Errorf("sink %s: commit %s to %s: %w", sink, commit.Epoch, commit.Target, err)
			c.j.note(func(s *Status) { s.commitFailed(sink, err) })
			return err
		}
		return nil
	})
	traced(err)
	if err == nil {
		if n, ok := c.committer[sink].refused(); ok {
			c.j.note(func(s *Status) { s.refusedBy(sink, n) })
		}
		c.j.durations.commit(sink).add(c.j.o.Now().Sub(started))
		return failpoint.Hit(failpoint.AfterCommit)
	}
	return err
}

// persist retries transient errors for ever, or as long as --max-retry says.
func (c *coordinator) persist(f func() error) error {
	retry := newBackoff(c.j.o)
	for {
		err := f()
		if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, errMoved) || final(err) {
			return err
		}
		if !retry.wait(c.ctx, nil, err) {
			return dataflow.Permanent(err)
		}
	}
}
