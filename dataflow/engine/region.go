package engine

import (
	"slices"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state"
)

// regions numbers the parts of the graph that have no step in common, by step.
func (g *Graph) regions() map[string]int {
	root := map[string]string{}
	var find func(string) string
	find = func(step string) string {
		if up, ok := root[step]; ok && up != step {
			root[step] = find(up)
			return root[step]
		}
		return step
	}
	for _, op := range g.Operators {
		for _, in := range op.Inputs {
			root[find(op.Name)] = find(in.Step)
		}
	}
	for _, s := range g.Sinks {
		root[find(s.Name)] = find(s.Input.Step)
	}
	out, numbers := map[string]int{}, map[string]int{}
	number := func(step string) {
		r := find(step)
		if _, ok := numbers[r]; !ok {
			numbers[r] = len(numbers)
		}
		out[step] = numbers[r]
	}
	for _, s := range g.Sources {
		number(s.Name)
	}
	for _, op := range g.Operators {
		number(op.Name)
	}
	for _, s := range g.Sinks {
		number(s.Name)
	}
	return out
}

// region is what the coordinator keeps of one region.
type region struct {
	sources []*sourceRun
	sinks   []string
	// reports, parts and missing are of the barrier under way: what has come, and
	// the sinks whose parts have not.
	reports []report
	parts   map[string]dataflow.Part
	missing []string
	// began is when that barrier began; zero: none is under way.
	began time.Time
	// counts are those of the last epoch that had this region, in this attempt.
	counts checkpoint.Ledger
	// last is what the tasks had read at the last barrier.
	last activity
}

// newRegions sorts sources and sinks by region.
func (c *coordinator) newRegions() {
	of := c.plant.region
	n := 0
	for _, r := range of {
		n = max(n, r+1)
	}
	c.regions = make([]*region, n)
	for i := range c.regions {
		c.regions[i] = &region{counts: checkpoint.NewLedger()}
	}
	for _, s := range c.j.g.Sources {
		r := c.regions[of[s.Name]]
		r.sources = append(r.sources, c.sources[s.Name])
	}
	for _, s := range c.j.g.Sinks {
		r := c.regions[of[s.Name]]
		r.sinks = append(r.sinks, s.Name)
	}
}

// included returns the reports of the regions that an epoch has.
func (c *coordinator) included(regions []int) []report {
	var out []report
	for _, i := range regions {
		out = append(out, c.regions[i].reports...)
	}
	return out
}

// partOf is what the epoch under way has of a sink.
func (c *coordinator) partOf(sink string, regions []int) (dataflow.Part, bool) {
	r := c.plant.region[sink]
	if !slices.Contains(regions, r) {
		return dataflow.Part{}, false
	}
	p, ok := c.regions[r].parts[sink]
	return p, ok && p.Rows > 0
}

// count takes the counts of the regions that an epoch has and sums up all.
func (c *coordinator) count(regions []int) checkpoint.Ledger {
	for _, i := range regions {
		l := checkpoint.NewLedger()
		for _, r := range c.regions[i].reports {
			l = l.Plus(checkpoint.Ledger{Steps: r.counts, Sent: r.sent})
		}
		c.regions[i].counts = l
	}
	sum := c.base
	for _, r := range c.regions {
		sum = sum.Plus(r.counts)
	}
	return sum
}

// overdue: some region has been staged for Options.LeaveAfter.
type overdue struct{ epoch dataflow.Epoch }

// watchOthers lets the regions that are staged wait for the others no longer than
// that.
func (c *coordinator) watchOthers() {
	if c.waitsForOthers || c.state.Phase != checkpoint.Gathering || !c.state.SomeStaged() {
		return
	}
	c.waitsForOthers = true
	e := c.state.Epoch
	c.help(func() {
		t := time.NewTimer(c.j.o.LeaveAfter)
		defer t.Stop()
		select {
		case <-t.C:
			c.post(overdue{e})
		case <-c.ctx.Done():
		}
	})
}

// leaveBehind writes an epoch without the regions that keep the others waiting. A
// replay waits for all: its barriers unmute sinks together.
func (c *coordinator) leaveBehind(e dataflow.Epoch) error {
	if c.replay < len(c.rec.Replays) || c.attached.unmute != nil {
		return nil
	}
	return c.step(checkpoint.Overdue{Epoch: e})
}

// unstaged lists the sinks that have not staged their part of a barrier, with when
// that began.
func (c *coordinator) unstaged() map[string]time.Time {
	out := map[string]time.Time{}
	for _, r := range c.regions {
		for _, sink := range r.missing {
			out[sink] = r.began
		}
	}
	return out
}

// deltasOf are the changes of state that an epoch makes durable.
func deltasOf(reports []report) []*state.Delta {
	var out []*state.Delta
	for _, r := range reports {
		out = append(out, r.deltas...)
	}
	return out
}
