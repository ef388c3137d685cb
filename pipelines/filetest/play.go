package filetest

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"

	"frazil/dataflow/component"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/pipelines/rehearsal"

	"golang.org/x/sync/errgroup"
)

// Load plans the pipeline of the test anew.
type Load func() (*pipelines.Pipeline, error)

// Result is how a test ended.
type Result struct {
	Test pipelines.Test
	// Variants that were played, the failed one included.
	Variants int
	// Failed names the variant that failed, "" if none did. Err is set if the
	// pipeline or the engine failed, Diffs if rows or counters differ.
	Failed string
	Err    error
	Diffs  []Diff
	// Seen is what the straight variant gave, for Rewrite; nil if it failed to run.
	Seen *Seen
}

// OK says whether every variant gave what is expected.
func (r *Result) OK() bool { return r.Failed == "" }

// Text says what went wrong, for people.
func (r *Result) Text() string {
	var b strings.Builder
	if r.Err != nil {
		fmt.Fprintf(&b, "%v\n", r.Err)
	}
	for _, d := range r.Diffs {
		b.WriteString(d.String())
	}
	return b.String()
}

// Play plays t straight and in every variant until one fails. seed decides the
// random variants; those beside the straight one run at once. load must be safe
// for that. log may be nil.
func Play(ctx context.Context, t pipelines.Test, load Load, seed uint64, log *slog.Logger) *Result {
	r := &Result{Test: t}
	p, outs, err := piece(t, load)
	if err != nil {
		r.Failed, r.Err = "straight", err
		return r
	}
	ways := append([]rehearsal.Variant{p.Straight()}, p.Variants(rand.New(rand.NewPCG(seed, 1)))...)
	if !r.play(ctx, p, outs, ways[:1], log) {
		return r
	}
	r.play(ctx, p, outs, ways[1:], log)
	return r
}

// atOnce is how many variants are played beside one another: they wait for the
// disk most of the time.
const atOnce = 6

// play plays some ways and notes the first that fails; false: one did.
func (r *Result) play(ctx context.Context, p *rehearsal.Piece, outs []pipelines.TestOutput, ways []rehearsal.Variant, log *slog.Logger) bool {
	type end struct {
		got *rehearsal.Outcome
		err error
	}
	ends := make([]end, len(ways))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i, v := range ways {
		all.Go(func() error {
			ends[i].got, ends[i].err = p.Play(ctx, v, log)
			return nil
		})
	}
	_ = all.Wait() // The errors are in ends.
	for i, v := range ways {
		r.Variants++
		if err := ends[i].err; err != nil {
			r.Failed, r.Err = v.Name, err
			return false
		}
		seen := newSeen(r.Test, outs, ends[i].got)
		if r.Seen == nil {
			r.Seen = seen
		} else {
			seen.anyOrder = true
		}
		if r.Diffs = seen.compare(v.Comparable()); len(r.Diffs) > 0 {
			r.Failed = v.Name
			return false
		}
	}
	return true
}

// piece makes what is played of a test.
func piece(t pipelines.Test, load Load) (*rehearsal.Piece, []pipelines.TestOutput, error) {
	first, err := load()
	if err != nil {
		return nil, nil, err
	}
	outs := pipelines.TestOutputs(first.Graph)
	p, err := rehearsal.New(func(parallelism int) (*engine.Graph, error) {
		x, err := load()
		if err != nil {
			return nil, err
		}
		x.Graph.Parallelism = parallelism
		Watch(x.Graph)
		return x.Graph, nil
	})
	if err != nil {
		return nil, nil, err
	}
	p.Start = t.Start
	for _, s := range t.Steps {
		switch s.Kind {
		case rehearsal.Read:
			p.AddLane(s.Lane)
			if len(s.Records) > 0 {
				p.Add(s.Lane, s.Records...)
			}
		case rehearsal.Idle:
			p.AddLane(s.Lane)
			p.Steps = append(p.Steps, s.Step)
		default:
			p.Steps = append(p.Steps, s.Step)
		}
	}
	p.Finish()
	return p, outs, nil
}

// Watch puts a sink at every port of g that nobody reads, and lets records carry
// the time of their arrival where something depends on it. It returns what can
// be seen.
func Watch(g *engine.Graph) []pipelines.TestOutput {
	outs := pipelines.TestOutputs(g)
	for _, s := range g.Sources {
		s.Arrived = s.EventTime != nil && s.EventTime.MaxAhead > 0
	}
	for _, o := range outs {
		if o.Sink {
			continue
		}
		g.Sinks = append(g.Sinks, &engine.Sink{
			Name: o.Name, Component: "test", Input: o.Ref, Fingerprint: "test",
			In: component.SinkIn{Input: o.Stream, From: o.Name}, Plan: component.SinkPlan{Target: o.Name},
		})
	}
	return outs
}
