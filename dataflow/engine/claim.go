package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/failpoint"
)

// errMoved ends an attempt whose targets were moved by another process before
// this one had claimed them: it starts again from what they hold.
var errMoved = errors.New("another process committed before this one had claimed the targets")

// claimers are the sinks whose targets take a claim, in the order in which every
// process claims them. With one there is nothing to claim, since its positions fence,
// unless the state is behind it: what is made again goes by what the target was found to
// hold, and only a claim is certain to see the newest.
func (c *coordinator) claimers() []string {
	var out []string
	for name, k := range c.committer {
		if _, ok := k.Committer.(dataflow.Claimer); ok {
			out = append(out, name)
		}
	}
	if len(out) < 2 && len(c.rec.Replays) == 0 {
		return nil
	}
	slices.Sort(out)
	return out
}

func (c *coordinator) claim() error {
	return c.persist(func() error { return c.claimTargets(c.ctx) })
}

// claimFor claims all targets before an epoch with rows for some is written, or one of a
// replay: had another process committed meanwhile, or a catalog told what a target held
// some time ago, a state that is already further could not be resumed on what the
// targets hold.
func (c *coordinator) claimFor(targets []string) error {
	if len(targets) == 0 && len(c.rec.Replays) == 0 {
		return nil
	}
	return c.claimed()
}

// claimTargets makes this process the only one that may commit. It runs once an
// attempt, before the first epoch that has something to commit or belongs to a replay,
// so that a run without changes nothing. What the targets held when the attempt began must still
// be what they hold once they are claimed; from then on only this process moves
// them.
func (c *coordinator) claimTargets(ctx context.Context) error {
	sinks := c.claimers()
	for tries := 0; len(sinks) > 0; tries++ {
		top := dataflow.Claim{}
		for _, name := range sinks {
			held, err := c.committer[name].Committed(ctx)
			if err != nil {
				return fmt.Errorf("sink %s: %w", name, err)
			}
			if held.Claim.Token > top.Token {
				top = held.Claim
			}
		}
		switch {
		case c.j.claim == (dataflow.Claim{}):
			c.j.claim = dataflow.Claim{Token: top.Token + 1, By: rand.Text()[:12]}
		case top.Token > c.j.claim.Token, top.Token == c.j.claim.Token && top.By != c.j.claim.By:
			return fmt.Errorf("claim %d: %w", c.j.claim.Token, dataflow.ErrFenced)
		}
		claimed, err := c.claimAll(ctx, sinks)
		if err == nil {
			break
		}
		if claimed > 0 || tries > 100 || !errors.Is(err, dataflow.ErrFenced) {
			return err
		}
		// Somebody else took this token for the first target: take a higher one.
		c.j.claim = dataflow.Claim{}
	}
	for _, name := range sinks {
		held, err := c.committer[name].Committed(ctx)
		if err != nil {
			return fmt.Errorf("sink %s: %w", name, err)
		}
		if !checkpoint.Same(held, c.found[name]) {
			return errMoved
		}
	}
	return nil
}

func (c *coordinator) claimAll(ctx context.Context, sinks []string) (claimed int, err error) {
	for i, name := range sinks {
		if err := failpoint.Hit(failpoint.BeforeClaim); err != nil {
			return i, err
		}
		if err := c.committer[name].Committer.(dataflow.Claimer).Claim(ctx, c.j.claim); err != nil {
			return i, fmt.Errorf("sink %s: %w", name, err)
		}
		if err := failpoint.Hit(failpoint.AfterClaim); err != nil {
			return i + 1, err
		}
	}
	return len(sinks), nil
}
